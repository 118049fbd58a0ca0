//! The files in which helpers of containers tell how their tasks ended, for the case that neither
//! this pilot nor its guard lives to hear it. Each goes when its end is written down elsewhere.

use crate::ends::{TOLD, name_of};
use crate::spawn::Request;
use shipway_model::AttemptId;
use std::collections::HashSet;
use std::path::{Path, PathBuf};

pub(super) struct Told {
    dir: PathBuf,
    expected: HashSet<AttemptId>,
}

impl Told {
    pub(super) fn new(dir: &Path) -> Self {
        Told { dir: dir.join(TOLD), expected: HashSet::new() }
    }

    /// Has the helper tell, if it can and nothing is to be done after the end.
    pub(super) fn expect(&mut self, id: AttemptId, request: &mut Request) {
        let Some(contained) = &mut request.container else { return };
        if request.ends_with_exit && contained.runtime.tells() {
            contained.container.told = Some(self.path(id));
            self.expected.insert(id);
        }
    }

    pub(super) fn remove(&mut self, id: AttemptId) {
        if self.expected.remove(&id) {
            // One that was never started has none.
            let _ = std::fs::remove_file(self.path(id));
        }
    }

    fn path(&self, id: AttemptId) -> PathBuf {
        self.dir.join(name_of(id))
    }
}
