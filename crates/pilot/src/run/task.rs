//! From an assignment to a process: the command with its fields filled in, the environment, the
//! work directory, the script file. And what has to be removed when it has ended.

use crate::logs::LogName;
use crate::machine::{AttemptKey, Start};
use crate::spawn::{Request, Ticket};
use shipway_model::expand::{substitute, task_variables};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc;

/// What a task gets of the pilot's own environment: enough to find programs and a home.
const INHERITED: &[&str] =
    &["PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LC_ALL", "TZ", "TMPDIR"];

#[derive(Debug, thiserror::Error)]
pub(super) enum PrepareError {
    #[error("cannot make the work directory {}: {source}", .path.display())]
    WorkDir { path: PathBuf, source: io::Error },
    #[error("cannot write the script {}: {source}", .path.display())]
    Script { path: PathBuf, source: io::Error },
}

#[derive(Debug)]
pub(super) struct Tasks {
    root: PathBuf,
    base: Vec<(String, OsString)>,
    has_nvidia: bool,
    has_amd: bool,
    /// Private folders of attempts that have one.
    private: BTreeMap<AttemptKey, PathBuf>,
    /// Where folders go that are to be removed.
    cleaner: Option<mpsc::Sender<PathBuf>>,
}

impl Tasks {
    pub(super) fn new(dir: &Path, has_nvidia: bool, has_amd: bool) -> Self {
        let inherited = INHERITED.iter();
        let base = inherited.filter_map(|name| Some(((*name).into(), std::env::var_os(name)?)));
        let root = dir.join("work");
        // Whatever an earlier pilot left there belongs to nobody.
        let _ = std::fs::remove_dir_all(&root);
        Tasks {
            root,
            base: base.collect(),
            has_nvidia,
            has_amd,
            private: BTreeMap::new(),
            cleaner: None,
        }
    }

    pub(super) fn prepare(
        &mut self,
        ticket: Ticket,
        start: &Start,
    ) -> Result<Request, PrepareError> {
        let template = &start.template;
        let cwd = match &template.workdir {
            Some(dir) => PathBuf::from(dir),
            None => self.private_dir(start.id, "work")?,
        };
        let mut argv: Vec<OsString> = Vec::new();
        if let Some(script) = &template.script {
            argv.extend(self.script(start.id, script)?);
        }
        argv.extend(template.command.iter().map(|word| substitute(word, &start.fields).into()));
        let env = self.environment(start, &cwd);
        let log = LogName { task: start.id.task, attempt: start.id.attempt };
        Ok(Request { ticket, argv, env, cwd, log, log_limit: template.log_limit })
    }

    /// The pilot's part, then the row's fields, then the job's own, then what we vouch for.
    fn environment(&self, start: &Start, cwd: &Path) -> Vec<(OsString, OsString)> {
        let mut env: BTreeMap<OsString, OsString> = BTreeMap::new();
        env.extend(self.base.iter().map(|(name, value)| (name.into(), value.clone())));
        let text = |(name, value): (&String, &String)| (name.into(), value.into());
        env.extend(start.fields.iter().map(text));
        env.extend(start.template.env.iter().map(text));
        let cwd = cwd.to_string_lossy();
        let own = task_variables(start.id.task, start.id.attempt, &cwd);
        env.extend(own.into_iter().map(|(name, value)| (name.into(), value.into())));
        let devices = start.devices.join(",");
        // Empty hides every device: a task that asked for none must not take one by accident.
        if self.has_nvidia {
            env.insert("CUDA_VISIBLE_DEVICES".into(), devices.clone().into());
        }
        if self.has_amd {
            env.insert("ROCR_VISIBLE_DEVICES".into(), devices.into());
        }
        env.into_iter().collect()
    }

    /// A folder of the attempt's own, removed when it has ended.
    fn private_dir(&mut self, id: AttemptKey, name: &str) -> Result<PathBuf, PrepareError> {
        let own = self.root.join(format!("{}.{}.{}", id.task.job, id.task.index, id.attempt));
        let path = own.join(name);
        self.private.insert(id, own);
        let made = std::fs::create_dir_all(&path);
        made.map_err(|source| PrepareError::WorkDir { path: path.clone(), source })?;
        Ok(path)
    }

    /// The script as a file; run by its own first line, or by `sh` when it has none.
    fn script(&mut self, id: AttemptKey, text: &str) -> Result<Vec<OsString>, PrepareError> {
        let path = self.private_dir(id, "script")?.join("run");
        let failed = |source| PrepareError::Script { path: path.clone(), source };
        std::fs::write(&path, text).map_err(failed)?;
        if !text.starts_with("#!") {
            return Ok(vec!["/bin/sh".into(), path.into()]);
        }
        let mode = std::fs::Permissions::from_mode(0o700);
        std::fs::set_permissions(&path, mode).map_err(failed)?;
        Ok(vec![path.into()])
    }

    pub(super) fn clean(&mut self, id: AttemptKey) {
        if let Some(dir) = self.private.remove(&id) {
            let _ = self.cleaner.get_or_insert_with(start_cleaner).send(dir);
        }
    }
}

/// A thread of its own removes folders: a task may leave a million files.
fn start_cleaner() -> mpsc::Sender<PathBuf> {
    let (send, dirs) = mpsc::channel::<PathBuf>();
    std::thread::spawn(move || {
        for dir in dirs {
            // What cannot be removed now is removed when the next pilot starts.
            let _ = std::fs::remove_dir_all(dir);
        }
    });
    send
}
