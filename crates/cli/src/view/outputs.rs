//! What tasks have sent back, and what of it was written where.

use super::View;
use super::paper::Paper;
use super::table::{Cell, Table};
use crate::travel::Written;
use serde::Serialize;
use shipway_api::types::TaskOutputs;
use shipway_model::Bytes;

/// Files of tasks, as they are kept.
#[derive(Debug, Serialize)]
pub struct Listed {
    pub tasks: Vec<TaskOutputs>,
    /// Whether it has to be said which task each is of.
    #[serde(skip)]
    pub many: bool,
}

impl View for Listed {
    fn text(&self, paper: &mut Paper) {
        if self.tasks.iter().all(|task| task.files.is_empty()) {
            return paper.line("Nothing is kept of it.");
        }
        let heading: &[&str] =
            if self.many { &["TASK", "SIZE", "NAME"] } else { &["SIZE", "NAME"] };
        let mut table = Table::new(heading);
        for task in &self.tasks {
            for file in &task.files {
                let of = self.many.then(|| Cell::from(task.task.to_string()));
                let cells = [Cell::from(Bytes(file.size).to_string()), Cell::from(&*file.path)];
                table.row(of.into_iter().chain(cells).collect());
            }
        }
        table.write(paper);
    }
}

/// Files that were written.
#[derive(Debug, Serialize)]
pub struct Fetched {
    pub files: Vec<Written>,
}

impl View for Fetched {
    fn text(&self, paper: &mut Paper) {
        if self.files.is_empty() {
            paper.line("Nothing is new.");
        }
        for file in &self.files {
            match &file.as_name {
                None => paper.line(&file.path),
                Some(name) => paper
                    .line(&format!("{} as {name}: there is another one of that name", file.path)),
            }
        }
    }
}
