//! The step after a task has ended: what it made and printed is taken to where its job wants it.
//! Which files these are is worked out here, by names alone.

use super::Work;
use super::stage_in::{BadFile, Names, stays_inside};
use super::staging::{Files, News, Staged, Step, Stopped, Wanted};
use crate::machine::Input;
use crate::seldom::{Seldom, in_short};
use crate::stage::{Collect, Output, Plan, StageOut};
use rustix::fs::{Gid, Uid};
use shipway_model::{AttemptId, FileMap, Outcome, OutputFiles, Outputs, TakenOn};
use std::path::{Path, PathBuf};

impl Names<'_> {
    /// The folder that outputs go to.
    fn taken_to(&self, outputs: &Outputs) -> PathBuf {
        self.path(outputs.to.as_deref().unwrap_or_default())
    }

    /// Of something that travels: as it stands in the list of what does.
    fn name_inside(&self, name: &str) -> Result<String, BadFile> {
        let text = self.fill(name);
        let inside: PathBuf = Path::new(&text).components().collect();
        let good = stays_inside(&inside) && inside.file_name().is_some();
        let plain = inside.to_str().map(|inside| inside.trim_start_matches("./").to_owned());
        plain.filter(|_| good).ok_or(BadFile::NoOutput(text))
    }

    fn output(&self, file: &FileMap, to: &Path) -> Result<Output, BadFile> {
        let text = self.fill(&file.source);
        let name = PathBuf::from(&text);
        let contents = text.ends_with('/');
        let Some(own) = name.file_name().filter(|_| stays_inside(&name)) else {
            return Err(BadFile::NoOutput(text));
        };
        let target = match file.target.as_deref().map(|target| self.fill(target)) {
            None if contents => to.to_owned(),
            None => to.join(own),
            Some(folder) if folder.ends_with('/') && !contents => to.join(folder).join(own),
            Some(target) => to.join(target),
        };
        Ok(Output { name, contents, target })
    }
}

/// What is to be taken after this end; `None`: nothing.
fn plan_out(files: &Files, outcome: &Outcome) -> Result<Option<StageOut>, BadFile> {
    let task = files.id.task;
    let mut plan = StageOut {
        reach: files.reach.clone(),
        rights: files.rights.clone(),
        streams: files.spools.iter().map(|(_, from, to)| (from.clone(), to.clone())).collect(),
        mark: format!("shipway-{}.{}", task.job, task.index),
        ..StageOut::default()
    };
    let wants = |it: &&Wanted| outcome.is_success() || it.taken.outputs.on == TakenOn::Exit;
    if let Some(wanted) = files.wanted.as_ref().filter(wants) {
        let outputs = &wanted.taken.outputs;
        if files.collects {
            let (all_new, names) = (outputs.files == OutputFiles::New, outputs.names());
            let fill = Names::new(task, &wanted.taken.basedir, &wanted.fields);
            let names = names.iter().map(|file| fill.name_inside(&file.source));
            plan.collect = Some(Collect { names: names.collect::<Result<_, _>>()?, all_new });
            plan.work.clone_from(&files.work);
            plan.before = files.remembered.as_deref().cloned().unwrap_or_default();
            return Ok(Some(plan));
        }
        let names = Names::new(task, &wanted.taken.basedir, &wanted.fields);
        let to = names.taken_to(outputs);
        plan.work.clone_from(&files.work);
        let named = outputs.names().iter().map(|file| names.output(file, &to));
        plan.outputs = named.collect::<Result<_, _>>()?;
        if outputs.files == OutputFiles::New {
            plan.new_to = Some(to);
            plan.before = files.remembered.as_deref().cloned().unwrap_or_default();
        }
    }
    let nothing = plan.streams.is_empty() && plan.work.is_none();
    Ok((!nothing).then_some(plan))
}

/// What it printed becomes its account's, which reads it to write it elsewhere. A person is given
/// it with the rest, by whoever copies for them.
fn hand_over(files: &Files) -> Result<(), String> {
    for (spool, _, target) in &files.spools {
        let failed = |what: &str| format!("cannot write {}: {what}", target.display());
        if let Some(problem) = spool.problem() {
            return Err(failed(&format!("its output could not be kept: {problem}")));
        }
        if let Some(user) = files.by.user() {
            let (uid, gid) = (Uid::from_raw(user.uid), Gid::from_raw(user.gid));
            let given = rustix::fs::fchown(spool.file(), Some(uid), Some(gid));
            given.map_err(|errno| failed(&errno.to_string()))?;
        }
    }
    Ok(())
}

impl Work {
    /// It has ended in this way; the machine waits until its files are taken.
    pub(super) fn stage_out(&mut self, id: AttemptId, outcome: &Outcome) {
        let Some(files) = self.staging.get(id) else { return self.taken(id, None) };
        let plan = hand_over(files)
            .and_then(|()| plan_out(files, outcome).map_err(|error| error.to_string()));
        match plan {
            Ok(None) => self.taken(id, None),
            Err(problem) => self.taken(id, Some(problem)),
            Ok(Some(plan)) => {
                files.step = Step::Taking;
                self.staging.order(id, Plan::Out(plan), None);
            }
        }
    }

    fn taken(&mut self, id: AttemptId, problem: Option<String>) {
        static LINES: Seldom = Seldom::new();
        if let Some(problem) = problem.as_ref().filter(|_| LINES.may()) {
            tracing::warn!(attempt = %id, "files were not taken: {}", in_short(problem));
        }
        self.forget_files(id);
        self.input(Input::Collected { id, problem });
    }

    /// A thread has copied something.
    pub(super) fn staged(&mut self, staged: Staged) {
        let Some(files) = self.staging.get(staged.id) else { return };
        let result = match staged.news {
            News::Done(result) => result,
            News::Coming(line) => return self.say_of_files(staged.id, &line),
        };
        match files.step {
            Step::BringingIn(..) => self.brought_in(staged.id, result),
            Step::Taking => {
                let problem = match result {
                    Ok(report) => report.problem,
                    Err(problem) => Some(problem),
                };
                self.taken(staged.id, problem);
            }
            Step::Running => {}
        }
    }

    /// Whatever is copied for a task is to end now.
    pub(super) fn stop_copying(&mut self, id: AttemptId) {
        if self.staging.stop(id) == Stopped::Withdrawn {
            let result = Err("it was stopped before its files were copied".into());
            self.staged(Staged { id, news: News::Done(result) });
        }
    }

    /// It is over for a task: unless its files are being taken, nothing of it is needed any more.
    pub(super) fn let_go_of_files(&mut self, id: AttemptId) {
        let is_taking = |files: &mut Files| matches!(files.step, Step::Taking);
        if !self.staging.is_empty() && !self.staging.get(id).is_some_and(is_taking) {
            self.forget_files(id);
        }
    }

    fn forget_files(&mut self, id: AttemptId) {
        if self.staging.remove(id).is_some() {
            self.tasks.clean(id);
        }
    }
}
