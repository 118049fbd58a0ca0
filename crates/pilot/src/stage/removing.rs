//! Removes folders of attempts, each for so many steps and no more: somebody may still hold one of
//! them and fill it as fast as it is emptied. No link is followed, and nothing is removed but with
//! the rights of whose it is: what is in there was made by tasks.

use super::{Progress, Report};
use serde::{Deserialize, Serialize};
use shipway_api::causes::causes;
use shipway_trees::{Progress as Step, Removal};
use std::path::PathBuf;

/// Steps after which it is said that something moves: some tens of milliseconds.
const PIECE: u32 = 2_000;

/// A folder, and how many files and folders in it are looked at before the rest is left.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tree {
    pub path: PathBuf,
    pub pieces: u64,
}

impl Tree {
    /// As many pieces as these steps take.
    pub(crate) const fn within(path: PathBuf, steps: u64) -> Self {
        Self { path, pieces: steps.div_ceil(PIECE as u64) }
    }
}

/// In this order. What is left, for which reason ever, is in the report.
pub(crate) fn remove(trees: &[Tree], progress: &Progress) -> Report {
    let mut report = Report::default();
    for tree in trees {
        let Err(problem) = remove_one(tree, progress) else { continue };
        report.left.push(tree.path.clone());
        report.problem.get_or_insert(problem);
    }
    report
}

fn remove_one(tree: &Tree, progress: &Progress) -> Result<(), String> {
    let mut removal = Removal::of_others(&tree.path);
    for _ in 0..tree.pieces {
        progress.at(&tree.path);
        match removal.go_on(PIECE) {
            Step::More => {}
            Step::Over(result) => return result.map_err(|error| causes(&error)),
        }
    }
    Err(format!("{} is very large, or somebody goes on filling it", tree.path.display()))
}
