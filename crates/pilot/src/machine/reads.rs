//! Readers who follow the output of a task that waits here: there is none before it is started, and
//! that is not its end.

use super::held::Phase;
use super::{Machine, Output};
use shipway_api::link::LogRequest;

impl Machine {
    pub(super) fn read_log(&mut self, request: LogRequest, out: &mut Vec<Output>) {
        if request.follow && self.waits(&request) {
            self.reads.push(request);
        } else {
            out.push(Output::ReadLog(request));
        }
    }

    pub(super) fn close_log(&mut self, id: u64, out: &mut Vec<Output>) {
        let before = self.reads.len();
        self.reads.retain(|request| request.id != id);
        if self.reads.len() == before {
            out.push(Output::CloseLog { id });
        }
    }

    /// Those whose task has been started, or will not be; call it after whatever may have done so.
    pub(super) fn let_readers_go(&mut self, out: &mut Vec<Output>) {
        if self.reads.is_empty() {
            return;
        }
        let reads = std::mem::take(&mut self.reads);
        let (wait, go): (Vec<_>, Vec<_>) = reads.into_iter().partition(|it| self.waits(it));
        self.reads = wait;
        out.extend(go.into_iter().map(Output::ReadLog));
    }

    fn waits(&self, request: &LogRequest) -> bool {
        let held = self.held.get(&request.attempt);
        held.is_some_and(|held| matches!(held.phase, Phase::Queued))
    }
}
