//! HTCondor's submit files at the edge: how one is recognised, and what it may see of this machine.
//! What they mean is said in `dialects`.

pub mod glob;

use crate::args::Pair;
use crate::args::jobs::{FileFormat, SubmitArgs};
use crate::build_spec::{BadArguments, OWN_VARIABLES};
use crate::failure::Failure;
use crate::input;
use crate::view::talk;
use rustix::fs::OFlags;
use shipway_dialects::htcondor::{self, AtPath, FoundFile, Matching, Outside, Setting, Submit};
use shipway_model::JobSpec;
use shipway_model::limits::MAX_SPEC_BYTES;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Endings that say what a file is.
const SUBMIT_ENDINGS: &[&str] = &["sub", "submit", "jdl", "condor"];
const JOB_ENDINGS: &[&str] = &["yaml", "yml", "json"];

/// Whether to read a file as a submit file: what was said, then its ending, then a line that is a
/// `queue` statement, which no job file has.
pub fn is_submit_file(name: &Path, text: &str, format: Option<FileFormat>) -> bool {
    let ending = name.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
    let among = |known: &[&str]| known.iter().any(|known| ending.eq_ignore_ascii_case(known));
    match format {
        Some(FileFormat::Htcondor) => true,
        Some(FileFormat::Job) => false,
        None if among(SUBMIT_ENDINGS) => true,
        None if among(JOB_ENDINGS) || text.trim_start().starts_with('{') => false,
        None => text.lines().any(is_queue),
    }
}

fn is_queue(line: &str) -> bool {
    let word = line.split_ascii_whitespace().next().unwrap_or_default();
    word.eq_ignore_ascii_case("queue")
}

/// The jobs of a submit file. Warnings are said here: they belong to the file.
pub fn jobs(args: &SubmitArgs, text: &str) -> Result<Vec<JobSpec>, Failure> {
    let directory = std::env::current_dir().map_err(BadArguments::CurrentDirectory)?;
    let setting = setting(&args.file, &directory, &args.set)?;
    let outside = Surroundings { directory, variables: own_variables() };
    let submit = htcondor::read(text, &setting, &outside)?;
    // Before anything else is said: a file that is not there explains most of it.
    let absent = htcondor::missing(&submit, &at_path)?;
    let Submit { jobs, warnings, .. } = submit;
    for warning in warnings.into_iter().chain(absent) {
        talk::say(format_args!("shipway: warning: {warning}"));
    }
    if jobs.len() > 1 {
        talk::say(format_args!(
            "shipway: the tasks differ in what they need or in how many words and files they have, \
             and become {} jobs, each with a $(Cluster) of its own",
            jobs.len()
        ));
    }
    Ok(jobs)
}

/// What is at a path; where that cannot be told, something is.
fn at_path(path: &str) -> Option<AtPath> {
    const ANYBODY_RUNS: u32 = 0o111;
    match std::fs::metadata(path) {
        Ok(found) if found.is_dir() => Some(AtPath::Folder),
        Ok(found) if found.is_file() => {
            Some(AtPath::File { runs: found.permissions().mode() & ANYBODY_RUNS != 0 })
        }
        Err(error)
            if [io::ErrorKind::NotFound, io::ErrorKind::NotADirectory].contains(&error.kind()) =>
        {
            None
        }
        Ok(_) | Err(_) => Some(AtPath::Other),
    }
}

fn setting(file: &Path, directory: &Path, set: &[Pair]) -> Result<Setting, Failure> {
    let not_text = || BadArguments::DirectoryNotText(directory.to_path_buf());
    let here = directory.to_str().ok_or_else(not_text)?;
    let mut seed = [0; 8];
    getrandom::fill(&mut seed).map_err(Failure::Random)?;
    let now = jiff::Zoned::now();
    let number = |value: i8| u8::try_from(value).unwrap_or(1);
    Ok(Setting {
        submit_file: file.display().to_string(),
        directory: here.to_string(),
        seconds: u64::try_from(now.timestamp().as_second()).unwrap_or(0),
        date: (now.year(), number(now.month()), number(now.day())),
        seed: u64::from_ne_bytes(seed),
        architecture: std::env::consts::ARCH.to_ascii_uppercase(),
        overrides: set.iter().map(|pair| (pair.key.clone(), pair.value.clone())).collect(),
        cluster: None,
    })
}

/// What is text: the rest cannot travel in JSON, and nobody named it.
fn own_variables() -> Vec<(String, String)> {
    let texts = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    texts.filter(|(name, _)| !name.starts_with(OWN_VARIABLES)).collect()
}

/// What a submit file may see: variables, and files that its user may read.
#[derive(Debug)]
pub struct Surroundings {
    pub directory: PathBuf,
    pub variables: Vec<(String, String)>,
}

impl Outside for Surroundings {
    fn variable(&self, name: &str) -> Option<String> {
        let found = self.variables.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.clone())
    }

    fn variables(&self) -> Vec<(String, String)> {
        self.variables.clone()
    }

    /// Where HTCondor looks, which is from the current directory; then beside the file that
    /// names it.
    fn read(&self, name: &str, from: &str) -> Result<Option<FoundFile>, String> {
        let beside = Path::new(from).parent().map(|folder| folder.join(name));
        for path in [Some(PathBuf::from(name)), beside].into_iter().flatten() {
            match read_plain(&self.directory.join(&path)) {
                Ok(text) => {
                    return Ok(Some(FoundFile { name: path.display().to_string(), text }));
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error.to_string()),
            }
        }
        Ok(None)
    }

    fn matching(&self, pattern: &str, kind: Matching) -> Result<Vec<String>, String> {
        glob::matching(&self.directory, pattern, kind).map_err(|error| error.to_string())
    }
}

/// A file of somebody's choosing: nothing that waits for a writer, nothing without end.
fn read_plain(path: &Path) -> io::Result<String> {
    let waits_for_nobody = i32::try_from(OFlags::NONBLOCK.bits()).expect("a small flag");
    let file = File::options().read(true).custom_flags(waits_for_nobody).open(path)?;
    let bad = |what: String| io::Error::new(io::ErrorKind::InvalidData, what);
    if !file.metadata()?.is_file() {
        return Err(bad("it is not a plain file".into()));
    }
    let mut bytes = Vec::new();
    file.take(MAX_SPEC_BYTES as u64 + 1).read_to_end(&mut bytes)?;
    if bytes.len() > MAX_SPEC_BYTES {
        return Err(bad(format!("it is larger than {MAX_SPEC_BYTES} bytes")));
    }
    let text = String::from_utf8(bytes).map_err(|error| {
        let line = input::line_at(error.as_bytes(), error.utf8_error().valid_up_to());
        bad(format!("line {line} is not UTF-8"))
    })?;
    Ok(text.strip_prefix(input::BYTE_ORDER_MARK).map(str::to_string).unwrap_or(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_submit_file_is_recognised() {
        let is = |name: &str, text: &str| is_submit_file(Path::new(name), text, None);
        assert!(is("a.sub", "") && is("a.JDL", "") && is("-", "executable = x\n  Queue 3\n"));
        assert!(!is("a.yaml", "queue\n") && !is("-", "command: [queue]\n") && !is("x", "{}"));
        let said = Some(FileFormat::Htcondor);
        assert!(is_submit_file(Path::new("a.yaml"), "", said));
        assert!(!is_submit_file(Path::new("a.sub"), "queue", Some(FileFormat::Job)));
    }

    #[test]
    fn nothing_but_plain_files_is_read() {
        let home = tempfile::tempdir().expect("a folder");
        let pipe = home.path().join("pipe");
        rustix::fs::mknodat(
            rustix::fs::CWD,
            &pipe,
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::RUSR,
            0,
        )
        .expect("a pipe");
        std::os::unix::fs::symlink("/dev/zero", home.path().join("zero")).expect("a link");
        std::fs::write(home.path().join("bytes"), b"a\xff").expect("a file");
        let outside = Surroundings { directory: home.path().to_path_buf(), variables: Vec::new() };
        for (name, said) in
            [("pipe", "plain"), ("zero", "plain"), (".", "plain"), ("bytes", "UTF-8")]
        {
            let error = outside.read(name, "x.sub").expect_err(name);
            assert!(error.contains(said), "{name}: {error}");
        }
        assert_eq!(outside.read("none", "x.sub"), Ok(None));
    }
}
