//! The step before a task is started: its inputs are copied into its work directory, and its
//! streams are prepared. Which files these are is worked out here, by names alone.

use super::Work;
use super::images::ReadyImage;
use super::staging::{Files, Step, Waiting, Wanted};
use super::task::Own;
use super::theirs::As;
use crate::accounts::{Whom, Whose};
use crate::machine::Start;
use crate::spawn::{Request, StdinFile, Streams};
use crate::stage::{Input, Plan, StageIn};
use shipway_api::link;
use shipway_model::expand::Placeholders;
use shipway_model::{AttemptId, FileMap, OutputFiles, TaskId};
use shipway_runtime::plan::Reads;
use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

/// Read or written by nobody: nothing has to be copied for it.
pub(super) const NOWHERE: &str = "/dev/null";

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum BadFile {
    #[error("the input `{0}` names no file")]
    NoInput(String),
    #[error("`{target}`, where the input {source_path} should go, is not in the work directory")]
    Outside { source_path: String, target: String },
    #[error("the output `{0}` is not in the work directory")]
    NoOutput(String),
}

/// The texts of one task, filled in.
pub(super) struct Names<'a> {
    basedir: &'a str,
    placeholders: Placeholders<'a>,
}

impl<'a> Names<'a> {
    /// Before its start, with the files that are needed for it.
    pub(super) fn of(start: &'a Start) -> Option<(Self, &'a link::Files)> {
        let files = start.template.files.as_ref()?;
        Some((Names::new(start.id.task, &files.basedir, &start.fields), files))
    }

    pub(super) fn new(task: TaskId, basedir: &'a str, row: &'a BTreeMap<String, String>) -> Self {
        Names { basedir, placeholders: Placeholders::of(task, row) }
    }

    pub(super) fn fill(&self, text: &str) -> String {
        self.placeholders.fill(text)
    }

    /// A path on the node: a relative one begins in the job's own folder.
    pub(super) fn path(&self, text: &str) -> PathBuf {
        Path::new(&self.fill(self.basedir)).join(self.fill(text))
    }

    /// What a stream leads to, unless that is nowhere.
    pub(super) fn stream(&self, name: Option<&String>) -> Option<PathBuf> {
        name.map(|name| self.path(name)).filter(|path| path != Path::new(NOWHERE))
    }

    fn inputs(&self, files: &[FileMap]) -> Result<Vec<Input>, BadFile> {
        files.iter().map(|file| self.input(file)).collect()
    }

    fn input(&self, file: &FileMap) -> Result<Input, BadFile> {
        let text = self.fill(&file.source);
        let source = self.path(&file.source);
        let contents = text.ends_with('/');
        let Some(own) = source.file_name().filter(|_| !text.is_empty()) else {
            return Err(BadFile::NoInput(text));
        };
        let target = match file.target.as_deref().map(|target| self.fill(target)) {
            None if contents => PathBuf::new(),
            None => own.into(),
            Some(folder) if folder.ends_with('/') && !contents => Path::new(&folder).join(own),
            Some(target) => target.into(),
        };
        if !stays_inside(&target) || (target.as_os_str().is_empty() && !contents) {
            let target = target.display().to_string();
            return Err(BadFile::Outside { source_path: source.display().to_string(), target });
        }
        Ok(Input { source, contents, target })
    }
}

pub(super) fn stays_inside(path: &Path) -> bool {
    path.components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir))
}

impl Work {
    /// Called instead of a launch; that follows when all is there.
    pub(super) fn stage_in(
        &mut self,
        start: &Start,
        image: Option<&Arc<ReadyImage>>,
        streams: Option<Streams>,
    ) {
        match self.plan_in(start, image.is_some()) {
            Err(message) => self.refuse(start.id, message),
            Ok((mut files, None)) => {
                files.step = Step::Running;
                self.staging.insert(files);
                self.launch(start, image, streams);
            }
            Ok((mut files, Some(plan))) => {
                let image = image.cloned();
                // Whoever follows the output finds it from now on, and waits for its end.
                let log = start.id;
                let open = || self.pool.open_log(log, start.keep());
                let streams = Some(streams.unwrap_or_else(open));
                files.step =
                    Step::BringingIn(Box::new(Waiting { start: start.clone(), image, streams }));
                self.staging.insert(files);
                let came_with = start.template.files.as_ref().and_then(|files| files.sandbox);
                self.staging.order(start.id, Plan::In(plan), came_with);
            }
        }
    }

    /// What has to be copied, if anything has to.
    fn plan_in(
        &mut self,
        start: &Start,
        in_container: bool,
    ) -> Result<(Files, Option<StageIn>), String> {
        let (names, named) = Names::of(start).ok_or("it has no files")?;
        let whom = self.accounts.find(Whose::of(&start.template), in_container);
        let whom = whom.map_err(|error| error.to_string())?;
        let inputs = names.inputs(&named.inputs).map_err(|error| error.to_string())?;
        let outputs = start.taken.as_ref().map(|taken| &taken.outputs);
        let (mut work, own) = (None, Own::of(start));
        if !inputs.is_empty() || outputs.is_some() || named.sandbox.is_some() {
            // Who copies for an account finds it by its path.
            let made = self.tasks.let_pass(own, &whom);
            let made = made.and_then(|()| self.tasks.private_dir(own, "work", &whom));
            work = Some(made.map_err(|error| error.to_string())?);
        }
        // Where the pilot may read more than the task, the task's account reads it first.
        let mut stdin = None;
        if let (Whom::Account(_), Some(source)) = (&whom, names.stream(named.stdin.as_ref())) {
            let made = self.tasks.let_pass(own, &whom);
            let made = made.and_then(|()| self.tasks.private_file(own, "stdin", &whom));
            stdin = Some((source, made.map_err(|error| error.to_string())?));
        }
        let remember = outputs.is_some_and(|outputs| outputs.files == OutputFiles::New);
        let reach = self.reaches.of(&whom);
        let rights = self.accounts.rights(&whom);
        let plan = StageIn {
            reach: reach.clone(),
            rights: rights.clone(),
            work: work.clone(),
            given: None,
            inputs,
            stdin: stdin.clone(),
            remember,
        };
        let needed = !plan.inputs.is_empty() || plan.stdin.is_some() || named.sandbox.is_some();
        let files = Files {
            id: start.id,
            user: start.template.user.clone(),
            wanted: Wanted::of(start),
            by: As::of(&whom),
            rights,
            reach,
            step: Step::Running,
            work,
            collects: named.sandbox.is_some(),
            stdin: stdin.map(|(_, copy)| copy),
            remembered: None,
            spools: Vec::new(),
            stop: Arc::default(),
        };
        Ok((files, needed.then_some(plan)))
    }

    /// Gives a task that is about to be launched its streams.
    pub(super) fn add_streams(
        &mut self,
        start: &Start,
        request: &mut Request,
        streams: &mut Option<Streams>,
    ) -> Result<(), String> {
        let Some((names, named)) = Names::of(start) else { return Ok(()) };
        let Some(files) = self.staging.get(start.id) else { return Ok(()) };
        let of = files.by.user().map(|user| user.uid);
        let stdin = names.stream(named.stdin.as_ref());
        let reach = files.stdin.is_none().then(|| files.reach.clone());
        let stdin = files.stdin.clone().or(stdin);
        match (&files.by, &mut request.container) {
            // Opened with the person's rights, which only the container's helper can have.
            (As::Within(_), Some(contained)) => {
                contained.container.reads = stdin.map(|path| Reads { path, resolved: false });
            }
            _ => request.stdin = stdin.map(|path| StdinFile { path, of, reach }),
        }
        let out = names.stream(named.stdout.as_ref());
        let err = names.stream(named.stderr.as_ref());
        request.one_stream = out.is_some() && out == err;
        let err = err.filter(|_| !request.one_stream);
        if out.is_none() && err.is_none() {
            return Ok(());
        }
        let open = || self.pool.open_log(request.log, request.keep());
        let (out_log, err_log) = streams.get_or_insert_with(open);
        for (target, log, name) in [(out, out_log, "stdout"), (err, err_log, "stderr")] {
            let Some(target) = target else { continue };
            let (file, path) = self.tasks.spool(Own::of(start), name, of.is_some())?;
            files.spools.push((log.also_to(file), path, target));
        }
        Ok(())
    }

    /// Says something to whoever follows a task that waits for its files.
    pub(super) fn say_of_files(&mut self, id: AttemptId, line: &str) {
        if let Some(Step::BringingIn(waiting)) = self.staging.get(id).map(|files| &mut files.step)
            && let Some((_, errors)) = &mut waiting.streams
        {
            errors.append(format!("shipway: {line}\n").as_bytes());
        }
    }

    /// The files of a task are there, or will not come.
    pub(super) fn brought_in(
        &mut self,
        id: AttemptId,
        result: Result<crate::stage::Report, String>,
    ) {
        let Some(files) = self.staging.get(id) else { return };
        let Step::BringingIn(waiting) = std::mem::replace(&mut files.step, Step::Running) else {
            return;
        };
        let problem = match result {
            Ok(report) => {
                let weigh = |wanted: &Wanted| wanted.remember(report.remembered);
                files.remembered = files.wanted.as_ref().map(weigh);
                report.problem
            }
            Err(problem) => Some(problem),
        };
        match problem {
            None => self.launch(&waiting.start, waiting.image.as_ref(), waiting.streams),
            Some(problem) => self.refuse(id, problem),
        }
    }
}

#[cfg(test)]
mod tests;
