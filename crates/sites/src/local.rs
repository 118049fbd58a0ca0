//! This machine as a site: one pilot, a process of its own that outlives the server.
//!
//! The pilot's folder has a lock that is held as long as the pilot, or the guard that ends its
//! processes, lives. The lock is how a later server finds the pilot again, and how its death is
//! known for sure: when the lock is free, no process of its tasks is left.

use crate::{Asked, Site, SiteError, Wanted};
use rustix::fs::FlockOperation;
use serde::{Deserialize, Serialize};
use shipway_model::{PilotCredentials, SiteName};
use shipway_trees::write_whole;
use std::collections::BTreeSet;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};

#[derive(Debug)]
pub struct LocalSite {
    name: SiteName,
    /// The shipway binary.
    program: PathBuf,
    /// The home of the server, where the pilot learns its address.
    home: PathBuf,
    node: NodeOptions,
    /// The process that was started last, until it is waited for.
    started: Mutex<Option<Child>>,
}

/// How the pilot of this machine is to be started.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NodeOptions {
    /// A file with devices and amounts that take the place of what the probe finds.
    pub declared: Option<PathBuf>,
    /// Options that mean something to the pilot only, each with its value.
    pub passed_on: Vec<(String, String)>,
}

/// What a pilot was started with, as far as a later server may want something else.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Options {
    /// The text of the file, not its name: it may be another one now.
    declared: Option<String>,
    #[serde(default)]
    passed_on: Vec<(String, String)>,
}

impl Options {
    /// All values of an option that is passed on.
    fn values(&self, option: &str) -> Vec<&str> {
        let pairs = self.passed_on.iter().filter(|(name, _)| name == option);
        pairs.map(|(_, value)| value.as_str()).collect()
    }
}

impl LocalSite {
    pub fn new(name: SiteName, program: PathBuf, home: PathBuf, node: NodeOptions) -> LocalSite {
        LocalSite { name, program, home, node, started: Mutex::default() }
    }

    /// The folder of the pilot: its lock, its credentials, the output of its tasks.
    pub fn dir(&self) -> PathBuf {
        self.home.join("pilot")
    }

    pub fn credentials_file(&self) -> PathBuf {
        self.dir().join("credentials.json")
    }

    fn options_file(&self) -> PathBuf {
        self.dir().join("options.json")
    }

    fn options(&self) -> Result<Options, SiteError> {
        let read = |path: &PathBuf| {
            let failed = |source| SiteError { act: "read", path: path.clone(), source };
            std::fs::read_to_string(path).map_err(failed)
        };
        let node = &self.node;
        let declared = node.declared.as_ref().map(read).transpose()?;
        Ok(Options { declared, passed_on: node.passed_on.clone() })
    }

    /// The options that would be different if the pilot that lives were started now.
    pub fn changed_options(&self) -> Result<Vec<String>, SiteError> {
        // Nothing that can be read says no more than nothing that is there.
        let text = std::fs::read_to_string(self.options_file()).unwrap_or_default();
        let started: Options = serde_json::from_str(&text).unwrap_or_default();
        let wanted = self.options()?;
        let mut changed = Vec::new();
        if started.declared != wanted.declared {
            changed.push("--declared".to_string());
        }
        let passed_on = started.passed_on.iter().chain(&wanted.passed_on);
        let names: BTreeSet<&String> = passed_on.map(|(name, _)| name).collect();
        let differs = |name: &&String| started.values(name) != wanted.values(name);
        changed.extend(names.into_iter().filter(differs).cloned());
        Ok(changed)
    }

    fn log_file(&self) -> PathBuf {
        self.dir().join("pilot.log")
    }

    /// What is started. Pure, so that it can be looked at.
    pub fn command_line(&self) -> Vec<String> {
        let text = |path: &Path| path.to_string_lossy().into_owned();
        let mut words = vec![
            text(&self.program),
            "pilot".into(),
            "--dir".into(),
            text(&self.dir()),
            "--home".into(),
            text(&self.home),
            "--token-file".into(),
            text(&self.credentials_file()),
            "--images".into(),
            text(&self.home.join("images")),
        ];
        if let Some(declared) = &self.node.declared {
            words.extend(["--declared".into(), text(declared)]);
        }
        for (option, value) in &self.node.passed_on {
            words.extend([option.clone(), value.clone()]);
        }
        words
    }

    /// The lock, or `None` when somebody holds it.
    fn lock(&self, how: FlockOperation) -> Result<Option<File>, SiteError> {
        let path = self.dir().join("lock");
        let failed = |act, source| SiteError { act, path: path.clone(), source };
        self.make_dir()?;
        let options = OpenOptions::new().create(true).truncate(false).write(true).open(&path);
        let file = options.map_err(|source| failed("open", source))?;
        match rustix::fs::flock(&file, how) {
            Ok(()) => Ok(Some(file)),
            Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
            Err(errno) => Err(failed("lock", errno.into())),
        }
    }

    fn make_dir(&self) -> Result<(), SiteError> {
        let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(self.dir());
        made.map_err(|source| SiteError { act: "make", path: self.dir(), source })
    }

    /// Tasks run under other accounts then, and have their folders below the home. What else is
    /// there is closed file by file.
    fn let_accounts_pass(&self) -> Result<(), SiteError> {
        const OTHERS_ENTER: u32 = 0o011;
        let failed = |source| SiteError { act: "open", path: self.home.clone(), source };
        let mut mode = std::fs::metadata(&self.home).map_err(failed)?.permissions();
        mode.set_mode(mode.mode() | OTHERS_ENTER);
        std::fs::set_permissions(&self.home, mode).map_err(failed)
    }

    /// Starts a pilot with credentials of its own. It leaves the server's terminal and group by
    /// itself: a Ctrl-C meant for the server does not reach it.
    fn start(&self, credentials: &PilotCredentials) -> Result<Child, SiteError> {
        self.make_dir()?;
        if rustix::process::geteuid().is_root() {
            self.let_accounts_pass()?;
        }
        let file = self.credentials_file();
        let failed = |act, path: PathBuf| move |source| SiteError { act, path, source };
        let unwritten = |file: &Path| {
            let failed = failed("write", file.to_owned());
            move |error: serde_json::Error| failed(error.into())
        };
        let text = serde_json::to_string(credentials).map_err(unwritten(&file))?;
        write_whole(&file, text.as_bytes()).map_err(failed("write", file.clone()))?;
        let file = self.options_file();
        let options = serde_json::to_string(&self.options()?).map_err(unwritten(&file))?;
        write_whole(&file, options.as_bytes()).map_err(failed("write", file.clone()))?;
        let log = OpenOptions::new().create(true).append(true).mode(0o600).open(self.log_file());
        let log = log.map_err(failed("open", self.log_file()))?;
        let mut words = self.command_line().into_iter();
        Command::new(words.next().unwrap_or_default())
            .args(words)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .map_err(failed("start", self.program.clone()))
    }
}

impl Site for LocalSite {
    fn name(&self) -> SiteName {
        self.name.clone()
    }

    fn ask(&self, wanted: &Wanted) -> Result<Asked, SiteError> {
        // There is one at a time: whoever holds the lock is it.
        if self.is_there()? {
            return Ok(Asked::Before);
        }
        let child = self.start(&wanted.credentials)?;
        *self.started.lock().unwrap_or_else(PoisonError::into_inner) = Some(child);
        Ok(Asked::Now)
    }

    fn is_there(&self) -> Result<bool, SiteError> {
        match self.lock(FlockOperation::NonBlockingLockExclusive)? {
            Some(_free) => Ok(false),
            None => Ok(true),
        }
    }

    /// Of the process that was started, which may not have the lock yet; then of whatever still
    /// holds it, because the guard may have been killed alone.
    fn wait_for_end(&self) -> Result<(), SiteError> {
        let started = self.started.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(mut child) = started {
            let _ = child.wait();
        }
        self.lock(FlockOperation::LockExclusive).map(drop)
    }

    /// Its guard ends whatever it runs.
    fn end(&self) {
        // Whoever holds the lock wrote its process id into it.
        let pid = std::fs::read_to_string(self.dir().join("lock")).ok();
        let pid = pid.and_then(|text| text.trim().parse().ok());
        let pid = pid.and_then(rustix::process::Pid::from_raw);
        if let (Some(pid), Ok(true)) = (pid, self.is_there()) {
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use shipway_model::{AllocationId, PilotId};

    fn site(home: &Path) -> LocalSite {
        let name = SiteName::new("this-machine").expect("good");
        LocalSite::new(name, "/bin/shipway".into(), home.into(), NodeOptions::default())
    }

    #[test]
    fn options_that_are_other_than_at_the_start_are_named() {
        let home = tempfile::tempdir().expect("a folder");
        let file = home.path().join("declared.json");
        std::fs::write(&file, "{}").expect("written");
        let mut site = LocalSite { program: "/bin/true".into(), ..site(home.path()) };
        let changed = |site: &LocalSite| site.changed_options().expect("readable");
        assert_eq!(changed(&site), [""; 0], "nothing is known, and nothing wanted");
        site.node.declared = Some(file.clone());
        assert_eq!(changed(&site), ["--declared"]);
        let pilot = PilotId::new("p").expect("good");
        let credentials = PilotCredentials { pilot, token: "t".into() };
        let allocation = AllocationId::new("a").expect("good");
        let asked = site.ask(&Wanted { allocation, credentials }).expect("it starts");
        assert_eq!(asked, Asked::Now);
        site.wait_for_end().expect("it has ended");
        assert_eq!(changed(&site), [""; 0]);
        std::fs::write(&file, r#"{"cpus_milli": 1}"#).expect("written");
        assert_eq!(changed(&site), ["--declared"], "it is the content that counts");
        site.node.declared = None;
        let passed_on = [("--keep-output", "1h"), ("--runtime", "crun")];
        site.node.passed_on = passed_on.map(|(name, it)| (name.into(), it.into())).to_vec();
        assert_eq!(changed(&site), ["--declared", "--keep-output", "--runtime"]);
        let words = ["--keep-output", "1h", "--runtime", "crun"].map(String::from);
        assert!(site.command_line().ends_with(&words));
    }

    #[test]
    fn the_command_line_names_everything_a_pilot_needs() {
        let words = site(Path::new("/home/x")).command_line().join(" ");
        assert_eq!(
            words,
            "/bin/shipway pilot --dir /home/x/pilot --home /home/x \
             --token-file /home/x/pilot/credentials.json --images /home/x/images"
        );
    }

    #[test]
    fn a_held_lock_is_a_living_pilot() {
        let home = tempfile::tempdir().expect("a folder");
        let site = site(home.path());
        assert!(!site.is_there().expect("readable"));
        let held = site.lock(FlockOperation::NonBlockingLockExclusive).expect("lock");
        assert!(held.is_some() && site.is_there().expect("readable"));
        let pilot = PilotId::new("p").expect("good");
        let credentials = PilotCredentials { pilot, token: "t".into() };
        let wanted = Wanted { allocation: AllocationId::new("a").expect("good"), credentials };
        assert_eq!(site.ask(&wanted).expect("looked"), Asked::Before, "one at a time");
        drop(held);
        assert!(!site.is_there().expect("readable"));
    }
}
