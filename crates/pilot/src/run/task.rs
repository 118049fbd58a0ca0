//! From an assignment to a process: the command with its fields filled in, the environment, the
//! work directory, the script file. And what has to be removed when it has ended.

use super::containers::{Command, Containers, DEFAULT_PATH};
use super::images::ReadyImage;
use super::mps::Mps;
use super::own_folder::{Folders, OwnFolder, changeable_by_others};
use super::removing::{Folder, Remover, With};
use super::theirs::Hands;
use crate::accounts::Whom;
use crate::left_files;
use crate::machine::Start;
use crate::spawn::{Before, Request, Ticket};
use shipway_model::expand::{Placeholders, task_variables};
use shipway_model::{AttemptId, DeviceId};
use shipway_runtime::native::Helper;
use shipway_runtime::plan::{Bind, Process, Root};
use shipway_runtime::reach::Reach;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What a task gets of the pilot's own environment: enough to find programs and a home.
const INHERITED: &[&str] =
    &["PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LC_ALL", "TZ", "TMPDIR"];

/// What of it makes sense in any image.
const WHO: &[&str] = &["USER", "LOGNAME", "LANG", "LC_ALL", "TZ"];

#[derive(Debug, thiserror::Error)]
pub(super) enum PrepareError {
    #[error("cannot make the work directory {}: {source}", .path.display())]
    WorkDir { path: PathBuf, source: io::Error },
    #[error("cannot write the script {}: {source}", .path.display())]
    Script { path: PathBuf, source: io::Error },
    #[error(
        "account {account} cannot reach {}: {} is closed to others; SHIPWAY_HOME must be in a \
         folder that everybody may enter, such as /var/lib", .path.display(), .closed.display()
    )]
    Closed { account: String, path: PathBuf, closed: PathBuf },
    #[error(
        "cannot keep the folders of account {account} in {}: users of this node can change {}; \
         SHIPWAY_HOME must be in folders that only root can write, such as /var/lib",
        .path.display(), .changeable.display()
    )]
    Changeable { account: String, path: PathBuf, changeable: PathBuf },
}

#[derive(Debug)]
pub(super) struct Tasks {
    folders: Folders,
    /// What is on the way to the folders that accounts may not enter.
    closed: Option<PathBuf>,
    /// What is on the way to them that others than root can change.
    changeable: Option<PathBuf>,
    base: Vec<(String, OsString)>,
    has_nvidia: bool,
    has_amd: bool,
    mps: Mps,
    /// Private folders of attempts that have one.
    private: BTreeMap<AttemptId, Folder>,
    remover: Remover,
}

/// An attempt, and whose it is.
#[derive(Debug, Clone, Copy)]
pub(super) struct Own<'a> {
    pub(super) id: AttemptId,
    pub(super) user: &'a str,
}

impl<'a> Own<'a> {
    pub(super) fn of(start: &'a Start) -> Self {
        Own { id: start.id, user: &start.template.user }
    }
}

impl Tasks {
    pub(super) fn new(dir: &Path, has_nvidia: bool, has_amd: bool, hands: &Arc<Hands>) -> Self {
        let inherited = INHERITED.iter();
        let base = inherited.filter_map(|name| Some(((*name).into(), std::env::var_os(name)?)));
        let root = dir.join("work");
        // Whatever an earlier pilot left there belongs to nobody.
        left_files::clear(dir, "work");
        let closed = dir.ancestors().find(|above| !others_may_enter(above)).map(Path::to_owned);
        let tasks = Tasks {
            closed,
            changeable: changeable_by_others(dir),
            folders: Folders::new(root),
            base: base.collect(),
            has_nvidia,
            has_amd,
            mps: Mps::default(),
            private: BTreeMap::new(),
            remover: Remover::start(hands),
        };
        let with = if hands.reach_further() { With::Keeper } else { With::Pilot };
        for (path, id) in left_files::aside(dir) {
            tasks.remover.remove(Folder::new(format!("id {id}"), path, with));
        }
        tasks
    }

    /// The service by which plain tasks share GPUs.
    pub(super) fn with(self, mps: Mps) -> Self {
        Tasks { mps, ..self }
    }

    /// Whether it shares a GPU by the service that containers have no part in.
    pub(super) fn shares(&self, start: &Start) -> bool {
        !self.mps.variables(start).is_empty()
    }

    /// A plain process of the node.
    pub(super) fn prepare(
        &mut self,
        ticket: Ticket,
        start: &Start,
        whom: &Whom,
        helper: &Arc<Helper>,
    ) -> Result<Request, PrepareError> {
        let template = &start.template;
        if template.workdir.is_none() || template.script.is_some() {
            self.let_pass(Own::of(start), whom)?;
        }
        let cwd = match &template.workdir {
            Some(dir) => PathBuf::from(Placeholders::of(start.id.task, &start.fields).fill(dir)),
            None => self.private_dir(Own::of(start), "work", whom)?,
        };
        let script = template.script.as_deref();
        let script = script.map(|text| self.script(Own::of(start), text, whom)).transpose()?;
        let argv = argv(start, script.map(|file| file.words(&file.path)));
        let argv = argv.into_iter().map(OsString::from).collect();
        let mut env = self.environment(start, &cwd, self.base_of(whom));
        let shared = self.mps.variables(start).into_iter();
        env.extend(shared.map(|(name, value)| (name.into(), value.into())));
        let mut request = request(ticket, start, argv, env, cwd);
        if let Whom::Account(account) = whom {
            let (cwd, user) = (request.cwd.clone(), Some(account.user.clone()));
            let process = Process { cwd, user, ..Process::default() };
            request.before = Some(Before { helper: Arc::clone(helper), process });
        }
        Ok(request)
    }

    /// The same for a container, which is still to be made around the command. Its own folders are
    /// seen at fixed places inside.
    pub(super) fn prepare_container(
        &mut self,
        ticket: Ticket,
        start: &Start,
        (whom, reach): (&Whom, Reach),
        containers: &Containers,
        image: &Arc<ReadyImage>,
    ) -> Result<(Request, Command), PrepareError> {
        let template = &start.template;
        if !containers.open_folders_first() {
            self.reach(whom)?;
            if template.workdir.is_none() || template.script.is_some() {
                self.let_pass(Own::of(start), whom)?;
            }
        }
        let mut own = Vec::new();
        let cwd = if let Some(dir) = &template.workdir {
            PathBuf::from(Placeholders::of(start.id.task, &start.fields).fill(dir))
        } else {
            let dir = self.private_dir(Own::of(start), "work", whom)?;
            own.push(Bind::writable(dir, Containers::inside("work")).made_for_it());
            Containers::inside("work")
        };
        let script = template.script.as_deref();
        let script = script.map(|text| self.script(Own::of(start), text, whom)).transpose()?;
        if let Some(script) = &script {
            own.push(Bind::read_only(&script.path, Containers::inside("script")).made_for_it());
        }
        let argv = argv(start, script.map(|file| file.words(&Containers::inside("script"))));
        let on_node = image.root == Root::Host;
        let mut home = vec![("HOME".to_owned(), cwd.clone().into_os_string())];
        let mut base = self.base_of(whom);
        if whom.person().is_some() {
            // They have no home on the node.
            base.push(home[0].clone());
        }
        home.extend(base.iter().filter(|(name, _)| WHO.contains(&name.as_str())).cloned());
        let env = self.environment(start, &cwd, if on_node { base } else { home });
        let text = |(name, value): &(OsString, OsString)| {
            Some((name.to_str()?.to_owned(), value.to_str()?.to_owned()))
        };
        // What is not text is the pilot's own and of no use inside.
        let env_text = env.iter().filter_map(text).collect();
        let command = Command {
            argv: argv.clone(),
            env: env_text,
            cwd: cwd.clone(),
            own,
            user: whom.inside(),
            person: whom.person().map(|somebody| somebody.person),
            reach,
        };
        let argv = argv.into_iter().map(OsString::from).collect();
        Ok((request(ticket, start, argv, env, cwd), command))
    }

    /// What a task gets of the pilot's own environment, or what a login would set in its place.
    fn base_of(&self, whom: &Whom) -> Vec<(String, OsString)> {
        let mut base = self.base.clone();
        let name = match whom {
            Whom::Pilot | Whom::Guest => return base,
            Whom::Account(account) => OsString::from(&account.name),
            Whom::Person(somebody) => OsString::from(&somebody.name),
        };
        let of_login = ["PATH", "HOME", "USER", "LOGNAME", "SHELL", "TMPDIR"];
        base.retain(|(name, _)| !of_login.contains(&name.as_str()));
        // The pilot's own may lead to folders that are closed to others.
        base.push(("PATH".into(), DEFAULT_PATH.into()));
        if let Some(account) = whom.account() {
            base.push(("HOME".into(), account.home.clone().into()));
            base.push(("SHELL".into(), OsString::from(&account.shell)));
        }
        base.extend([("USER".into(), name.clone()), ("LOGNAME".into(), name)]);
        base
    }

    /// The pilot's part, then the row's fields, then the job's own, then what we vouch for.
    fn environment(
        &self,
        start: &Start,
        cwd: &Path,
        base: Vec<(String, OsString)>,
    ) -> Vec<(OsString, OsString)> {
        let mut env: BTreeMap<OsString, OsString> = BTreeMap::new();
        env.extend(base.into_iter().map(|(name, value)| (name.into(), value)));
        let text = |(name, value): (&String, &String)| (name.into(), value.into());
        env.extend(start.fields.iter().map(text));
        let cwd = cwd.to_string_lossy();
        let placeholders = Placeholders::of(start.id.task, &start.fields).inside(&cwd);
        let filled =
            |(name, value): (&String, &String)| (name.into(), placeholders.fill(value).into());
        env.extend(start.template.env.iter().map(filled));
        let own = task_variables(start.id.task, start.id.attempt, &cwd);
        env.extend(own.into_iter().map(|(name, value)| (name.into(), value.into())));
        let devices: Vec<&str> = start.devices.iter().map(DeviceId::as_str).collect();
        let devices = devices.join(",");
        // Empty hides every device: a task that asked for none must not take one by accident.
        if self.has_nvidia {
            env.insert("CUDA_VISIBLE_DEVICES".into(), devices.clone().into());
        }
        if self.has_amd {
            env.insert("ROCR_VISIBLE_DEVICES".into(), devices.into());
        }
        env.into_iter().collect()
    }

    /// Whether the task could enter the folders of its own that are made for it.
    fn reach(&self, whom: &Whom) -> Result<(), PrepareError> {
        let (Whom::Account(account), Some(closed)) = (whom, &self.closed) else { return Ok(()) };
        let (account, closed) = (account.name.clone(), closed.clone());
        Err(PrepareError::Closed { account, path: self.folders.path().to_owned(), closed })
    }

    /// Lets an account through to what is made for it, by its path.
    pub(super) fn let_pass(&mut self, own: Own<'_>, whom: &Whom) -> Result<(), PrepareError> {
        self.reach(whom)?;
        self.stays(whom)?;
        if whom.account().is_none() {
            return Ok(());
        }
        let opened = self.own_folder(own).and_then(|folder| folder.let_pass());
        opened.map_err(|source| PrepareError::WorkDir { path: self.own_path(own.id), source })
    }

    /// Whether what is made for an account stays what and where it is.
    fn stays(&self, whom: &Whom) -> Result<(), PrepareError> {
        let (Whom::Account(account), Some(changeable)) = (whom, &self.changeable) else {
            return Ok(());
        };
        let (account, changeable) = (account.name.clone(), changeable.clone());
        let path = self.folders.path().to_owned();
        Err(PrepareError::Changeable { account, path, changeable })
    }

    /// A folder of the attempt's own, removed when it has ended.
    pub(super) fn private_dir(
        &mut self,
        own: Own<'_>,
        name: &str,
        whom: &Whom,
    ) -> Result<PathBuf, PrepareError> {
        let made = self.handed(own, name, whom, |folder| folder.private(name, whom));
        if let Some(folder) = self.private.get_mut(&own.id).filter(|_| whom.person().is_some()) {
            folder.with = With::Keeper;
        }
        made
    }

    /// A file of the attempt's own that its account fills.
    pub(super) fn private_file(
        &mut self,
        own: Own<'_>,
        name: &str,
        whom: &Whom,
    ) -> Result<PathBuf, PrepareError> {
        self.handed(own, name, whom, |folder| folder.empty_file(name, whom))
    }

    /// Something in the folder of the attempt that is handed over to its account.
    fn handed(
        &mut self,
        own: Own<'_>,
        name: &str,
        whom: &Whom,
        make: impl FnOnce(OwnFolder) -> io::Result<PathBuf>,
    ) -> Result<PathBuf, PrepareError> {
        self.stays(whom)?;
        let path = self.own_path(own.id).join(name);
        let made = self.own_folder(own).and_then(make);
        made.map_err(|source| PrepareError::WorkDir { path, source })
    }

    /// Where all that it prints is kept until it has ended. The folder is the pilot's: nobody can
    /// put something else there.
    pub(super) fn spool(
        &mut self,
        own: Own<'_>,
        name: &str,
        for_account: bool,
    ) -> Result<(File, PathBuf), String> {
        let name = name.to_owned() + ".all";
        let path = self.own_path(own.id).join(&name);
        if let Some(closed) = self.closed.as_ref().filter(|_| for_account) {
            let account = "of the task".to_owned();
            return Err(PrepareError::Closed { account, path, closed: closed.clone() }.to_string());
        }
        let made = self.own_folder(own).and_then(|folder| {
            if for_account {
                folder.let_pass()?;
            }
            folder.file(&name)
        });
        let failed = |error| format!("cannot keep its output in {}: {error}", path.display());
        Ok((made.map_err(failed)?, path))
    }

    /// Removed when the attempt has ended.
    fn own_folder(&mut self, own: Own<'_>) -> io::Result<OwnFolder> {
        let path = self.own_path(own.id);
        let new = || Folder::new(own.user.to_owned(), path, With::Pilot);
        self.private.entry(own.id).or_insert_with(new);
        self.folders.of(&folder_name(own.id))
    }

    fn own_path(&self, id: AttemptId) -> PathBuf {
        self.folders.path().join(folder_name(id))
    }

    /// The script as a file; run by its own first line, or by `sh` when it has none.
    fn script(&mut self, own: Own<'_>, text: &str, whom: &Whom) -> Result<Script, PrepareError> {
        self.stays(whom)?;
        let path = self.own_path(own.id).join("script");
        let made = self.own_folder(own).and_then(|folder| folder.program("script", text, whom));
        let path = made.map_err(|source| PrepareError::Script { path, source })?;
        Ok(Script { path, by_shell: !text.starts_with("#!") })
    }

    pub(super) fn clean(&mut self, id: AttemptId) {
        if let Some(folder) = self.private.remove(&id) {
            self.remover.remove(folder);
        }
    }
}

fn others_may_enter(dir: &Path) -> bool {
    const OTHERS_ENTER: u32 = 0o001;
    // What is not there yet will be made by us.
    dir.metadata().map_or(true, |found| found.permissions().mode() & OTHERS_ENTER != 0)
}

fn folder_name(id: AttemptId) -> String {
    format!("{}.{}.{}", id.task.job, id.task.index, id.attempt)
}

struct Script {
    path: PathBuf,
    by_shell: bool,
}

impl Script {
    /// The words that run it where it is seen at `path`.
    fn words(&self, path: &Path) -> Vec<String> {
        let shell = self.by_shell.then(|| "/bin/sh".to_owned());
        shell.into_iter().chain([path.to_string_lossy().into_owned()]).collect()
    }
}

/// The command with its fields filled in.
fn argv(start: &Start, script: Option<Vec<String>>) -> Vec<String> {
    let placeholders = Placeholders::of(start.id.task, &start.fields);
    let words = start.template.command.iter().map(|word| placeholders.fill(word));
    script.into_iter().flatten().chain(words).collect()
}

fn request(
    ticket: Ticket,
    start: &Start,
    argv: Vec<OsString>,
    env: Vec<(OsString, OsString)>,
    cwd: PathBuf,
) -> Request {
    let log_limit = start.template.log_limit.0;
    let words = env.iter().flat_map(|(name, value)| [name, value]).chain(&argv);
    let weight = start.fields.more(words.map(|word| word.as_encoded_bytes()));
    Request {
        ticket,
        argv,
        env,
        cwd,
        log: start.id,
        log_limit,
        user: start.template.user.clone(),
        container: None,
        before: None,
        stdin: None,
        one_stream: false,
        slot: None,
        ends_with_exit: start.template.files.is_none(),
        weight: Some(Arc::new(weight)),
    }
}

#[cfg(test)]
mod tests;
