//! What of a folder travels: all that is in it, but for what `.gitignore` and `.shipwayignore`
//! leave out and git's own folder. Links to something in it travel as links; those that lead
//! elsewhere do not. Nothing is read before it is known how much there is.

use super::{TravelError, digest_of};
use ignore::WalkBuilder;
use sha2::Digest as _;
use shipway_model::limits::MAX_TRAVELLING;
use shipway_model::manifest::{TravellingLink, is_inside, leads_inside};
use shipway_model::{Bytes, Digest, FileMap, Manifest, TravellingFile};
use std::collections::BTreeMap;
use std::fs::Metadata;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Beside `.gitignore`, whose form it has; what it says goes before what that says.
const IGNORE_FILE: &str = ".shipwayignore";
/// Threads that read files; more would wait for the disk.
const MOST_READERS: usize = 8;

/// What would travel.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// By its place: where it is read, and what is known of it.
    files: BTreeMap<String, Source>,
    links: BTreeMap<String, String>,
    folders: Vec<String>,
    left_out: Vec<String>,
}

#[derive(Debug)]
struct Source {
    path: PathBuf,
    size: u64,
    executable: bool,
}

/// What travels.
#[derive(Debug)]
pub struct Picked {
    pub manifest: Manifest,
    /// Where each of its files is read.
    pub sources: Vec<PathBuf>,
    /// As it is uploaded.
    pub text: Vec<u8>,
    pub digest: Digest,
}

pub(super) fn look(dir: &Path, inputs: &[FileMap]) -> Result<Found, TravelError> {
    let mut found = Found::default();
    found.folder(dir, "", true)?;
    for input in inputs {
        found.input(dir, input)?;
    }
    let many = found.files.len() + found.links.len() + found.folders.len();
    if many > MAX_TRAVELLING { Err(TravelError::TooMany(many)) } else { Ok(found) }
}

impl Found {
    pub(super) fn bytes(&self) -> Bytes {
        Bytes(self.files.values().map(|file| file.size).sum())
    }

    pub(super) fn left_out(&self) -> &[String] {
        &self.left_out
    }

    /// All of a folder goes below `to`.
    fn folder(&mut self, dir: &Path, to: &str, obeys: bool) -> Result<(), TravelError> {
        let mut walk = WalkBuilder::new(dir);
        walk.standard_filters(false).follow_links(false).hidden(false);
        if obeys {
            walk.git_ignore(true).git_exclude(true).parents(true).require_git(false);
            walk.add_custom_ignore_filename(IGNORE_FILE);
        }
        walk.filter_entry(|entry| entry.depth() == 0 || entry.file_name() != ".git");
        for entry in walk.build() {
            let walked = |source| TravelError::Walk { dir: dir.to_owned(), source };
            let entry = entry.map_err(walked)?;
            let below = entry.path().strip_prefix(dir).unwrap_or(entry.path());
            if below.as_os_str().is_empty() {
                continue;
            }
            let below = below.to_str();
            let below = below.ok_or_else(|| TravelError::NotText(entry.path().to_owned()))?;
            let place = if to.is_empty() { below.to_owned() } else { format!("{to}/{below}") };
            let read = |source| TravelError::Read { path: entry.path().to_owned(), source };
            let known = std::fs::symlink_metadata(entry.path()).map_err(read)?;
            self.add(entry.path(), place, &known)?;
            if self.files.len() > 2 * MAX_TRAVELLING {
                return Err(TravelError::TooMany(self.files.len()));
            }
        }
        Ok(())
    }

    fn add(&mut self, path: &Path, place: String, known: &Metadata) -> Result<(), TravelError> {
        let read = |source| TravelError::Read { path: path.to_owned(), source };
        if known.is_dir() {
            let is_empty = std::fs::read_dir(path).map_err(read)?.next().is_none();
            self.folders.extend(is_empty.then_some(place));
        } else if known.is_file() {
            let (size, mode) = (known.len(), known.permissions().mode());
            let source = Source { path: path.to_owned(), size, executable: mode & 0o100 != 0 };
            self.files.insert(place, source);
        } else if known.is_symlink() {
            let to = std::fs::read_link(path).map_err(read)?;
            match to.to_str().filter(|to| leads_inside(&place, to)) {
                Some(to) => drop(self.links.insert(place, to.to_owned())),
                None => self.left_out.push(place),
            }
        }
        // Sockets, pipes and devices are nothing that could be elsewhere.
        Ok(())
    }

    /// Something of this machine that is asked for by name, whatever is left out otherwise.
    fn input(&mut self, dir: &Path, input: &FileMap) -> Result<(), TravelError> {
        let none = || TravelError::NoInput(input.to_string());
        let contents = input.source.ends_with('/');
        let path = dir.join(&input.source);
        let known = std::fs::metadata(&path).map_err(|_| none())?;
        let own = path.file_name().and_then(|name| name.to_str()).ok_or_else(none)?;
        let target = match input.target.as_deref() {
            None if contents => String::new(),
            None => own.to_owned(),
            Some(folder) if folder.ends_with('/') && !contents => format!("{folder}{own}"),
            Some(target) => target.to_owned(),
        };
        let target = target.trim_start_matches("./").trim_end_matches('/').to_owned();
        let is_all = target.is_empty() && contents;
        if !is_all && !is_inside(&target) {
            return Err(none());
        }
        if known.is_dir() {
            return self.folder(&path, &target, false);
        }
        if contents {
            return Err(none());
        }
        self.add(&path, target, &known)
    }

    /// With what is in the files.
    pub(super) fn read(self) -> Result<Picked, TravelError> {
        let all: Vec<(String, Source)> = self.files.into_iter().collect();
        let digests = digests(&all)?;
        let mut manifest = Manifest { folders: self.folders, ..Manifest::default() };
        let mut sources = Vec::new();
        for ((path, source), (sha256, size)) in all.into_iter().zip(digests) {
            let executable = source.executable;
            manifest.files.push(TravellingFile { path, size, sha256, executable });
            sources.push(source.path);
        }
        let link = |(path, to)| TravellingLink { path, to };
        manifest.links = self.links.into_iter().map(link).collect();
        let manifest = manifest.checked()?;
        let text = serde_json::to_vec(&manifest).expect("plain data");
        let digest = Digest(sha2::Sha256::digest(&text).into());
        Ok(Picked { manifest, sources, text, digest })
    }
}

/// What is in each of these, read by several threads.
fn digests(all: &[(String, Source)]) -> Result<Vec<(Digest, u64)>, TravelError> {
    let next = AtomicUsize::new(0);
    let readers = std::thread::available_parallelism().map_or(1, usize::from).min(MOST_READERS);
    let read = || {
        let mut found = Vec::new();
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some((_, source)) = all.get(at) else { return Ok::<_, TravelError>(found) };
            let path = &source.path;
            let digest = digest_of(path);
            let failed = |source| TravelError::Read { path: path.clone(), source };
            found.push((at, digest.map_err(failed)?));
        }
    };
    let mut found = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..readers).map(|_| scope.spawn(read)).collect();
        let mut found = Vec::with_capacity(all.len());
        for thread in threads {
            found.extend(thread.join().expect("it does not panic")?);
        }
        Ok::<_, TravelError>(found)
    })?;
    found.sort_unstable_by_key(|(at, _)| *at);
    Ok(found.into_iter().map(|(_, digest)| digest).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    fn write(dir: &Path, name: &str, text: &str) {
        let path = dir.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    fn names(picked: &Picked) -> Vec<&str> {
        picked.manifest.files.iter().map(|file| &*file.path).collect()
    }

    #[test]
    fn what_is_ignored_stays_and_links_stay_inside() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path();
        for (name, text) in [
            ("main.c", "int main;"),
            (".gitignore", "*.o\n/big/\n"),
            (".shipwayignore", "notes.txt\n!keep.o\n"),
            ("a.o", "x"),
            ("keep.o", "x"),
            ("big/data", "x"),
            ("notes.txt", "x"),
            ("sub/.hidden", "x"),
            (".git/config", "x"),
        ] {
            write(dir, name, text);
        }
        std::fs::create_dir(dir.join("empty")).unwrap();
        symlink("main.c", dir.join("inside")).unwrap();
        symlink("/etc/passwd", dir.join("outside")).unwrap();
        symlink("../..", dir.join("sub/above")).unwrap();
        let found = look(dir, &[]).unwrap();
        let mut left_out = found.left_out().to_vec();
        left_out.sort();
        assert_eq!(left_out, ["outside", "sub/above"]);
        let picked = found.read().unwrap();
        let all = [".gitignore", ".shipwayignore", "keep.o", "main.c", "sub/.hidden"];
        assert_eq!(names(&picked), all);
        assert_eq!(picked.manifest.links[0].path, "inside");
        assert_eq!(picked.manifest.folders, ["empty"]);
        // The same folder is the same list, whenever it is looked at.
        assert_eq!(look(dir, &[]).unwrap().read().unwrap().digest, picked.digest);
    }

    #[test]
    fn inputs_travel_though_they_are_ignored() {
        let dir = tempfile::tempdir().unwrap();
        let (here, there) = (dir.path().join("here"), dir.path().join("there"));
        write(&here, ".gitignore", "*.bin\n");
        write(&here, "model.bin", "m");
        write(&there, "x/y", "y");
        write(&there, "run.sh", "r");
        let mode = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(there.join("run.sh"), mode).unwrap();
        let place = |name: &str| there.join(name).to_str().unwrap().to_owned();
        let inputs = [
            FileMap::plain("model.bin"),
            FileMap::to(place("x"), "in/"),
            FileMap::plain(place("run.sh")),
        ];
        let picked = look(&here, &inputs).unwrap().read().unwrap();
        assert_eq!(names(&picked), [".gitignore", "in/x/y", "model.bin", "run.sh"]);
        assert!(picked.manifest.files[3].executable && !picked.manifest.files[2].executable);
        for wrong in ["/no/such/file", "model.bin:../x", "model.bin/"] {
            assert!(look(&here, &[wrong.parse().unwrap()]).is_err(), "{wrong}");
        }
    }
}
