//! What `sacct` says of jobs that the controller has forgotten, where the site keeps accounts.
//!
//! The controller remembers an ended job for minutes (MinJobAge), and `squeue` shows it so long.
//! The accounting database is slow, and its admins count who asks it; so it is asked when this
//! server has just started, and about jobs that went from the queue without a word.

use super::exits::of_status;
use super::queue::engine_id;
use super::rows::{BETWEEN, rows};
use super::states::phase;
use super::words::cut;
use crate::batch::{AllocationEnd, EngineId, Naming, Seen, SeenPhase};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// What it says where there is no accounting.
pub(super) const NO_ACCOUNTS: &str = "Slurm accounting storage is disabled";
/// How far back a server that has just started looks.
const WINDOW: &str = "now-2days";
/// Ids in one question. A command line has room for them.
const MAX_ASKED: usize = 500;
/// The database lags behind the controller; what it does not know in so many looks, it never will.
const MAX_TIMES: u32 = 5;
/// Ids that wait for an answer.
const MAX_MISSING: usize = 20_000;
/// Ended ones that are told of again in each look.
const MAX_KEPT: usize = 1_000;

/// What makes the question small: nothing that is decided depends on it.
#[derive(Debug, Default)]
pub(super) struct Past {
    /// The first question, about all of ours, has been answered.
    asked: bool,
    /// In the queue at the last look, and not ended then.
    alive: BTreeSet<EngineId>,
    /// Gone from the queue since, each with how often it was asked about in vain.
    missing: BTreeMap<EngineId, u32>,
    ended: VecDeque<Seen>,
}

impl Past {
    /// Takes a look at the queue; returns the question to ask, if there is one.
    pub(super) fn question(&mut self, queue: &[Seen], user: &str) -> Option<Vec<String>> {
        let listed: BTreeSet<&EngineId> = queue.iter().map(|seen| &seen.id).collect();
        let gone = std::mem::take(&mut self.alive).into_iter().filter(|id| !listed.contains(id));
        self.missing.extend(gone.map(|id| (id, 0)));
        self.missing.retain(|id, _| !listed.contains(id));
        // A database that is down for long loses the oldest ends, not the server's memory.
        while self.missing.len() > MAX_MISSING {
            self.missing.pop_first();
        }
        let living = queue.iter().filter(|seen| !matches!(seen.phase, SeenPhase::Ended(_)));
        self.alive = living.map(|seen| seen.id.clone()).collect();
        if self.asked && self.missing.is_empty() {
            return None;
        }
        let mut words = vec!["sacct".to_string(), "--noheader".into(), "--parsable2".into()];
        words.push(format!("--delimiter={BETWEEN}"));
        // Without steps; and of this account: an operator would be told of everybody's.
        words.extend(["--allocations".into(), format!("--user={user}")]);
        if self.asked {
            let ids: Vec<&str> =
                self.missing.keys().take(MAX_ASKED).map(|id| id.0.as_str()).collect();
            words.push(format!("--jobs={}", ids.join(",")));
        } else {
            words.push(format!("--starttime={WINDOW}"));
        }
        words.push("--format=JobID,JobName,State,ExitCode".into());
        Some(words)
    }

    /// Takes the answer to the last question.
    pub(super) fn answered(&mut self, answer: &str, naming: &Naming) {
        if self.asked {
            self.missing.values_mut().take(MAX_ASKED).for_each(|times| *times += 1);
        }
        self.asked = true;
        for seen in parse(answer, naming) {
            self.missing.remove(&seen.id);
            self.ended.retain(|known| known.id != seen.id);
            self.ended.push_back(seen);
        }
        self.missing.retain(|_, times| *times < MAX_TIMES);
        let over = self.ended.len().saturating_sub(MAX_KEPT);
        self.ended.drain(..over);
    }

    /// The ended ones that the queue does not list any more.
    pub(super) fn besides(&self, queue: &[Seen]) -> Vec<Seen> {
        let listed: BTreeSet<&EngineId> = queue.iter().map(|seen| &seen.id).collect();
        self.ended.iter().filter(|seen| !listed.contains(&seen.id)).cloned().collect()
    }
}

/// Those that are over. A job the database believes to run and the queue does not list was lost
/// with its end: that is not known to be over here.
fn parse(answer: &str, naming: &Naming) -> Vec<Seen> {
    let ended = |[id, name, state, exit]: [&str; 4]| {
        let allocation = naming.allocation(name)?;
        let id = engine_id(id)?;
        let phase = phase(state, "");
        let exit = of_status(exit).filter(|_| phase == SeenPhase::Ended(AllocationEnd::Failed));
        let words = match exit {
            Some(exit) => cut(&format!("{state} ({exit})")),
            None => cut(state),
        };
        let over = matches!(phase, SeenPhase::Ended(_));
        over.then_some(Seen { id, allocation, phase, words, nodes: Vec::new(), expected: None })
    };
    rows::<4>(answer).filter_map(ended).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use shipway_model::AllocationId;

    fn naming() -> Naming {
        Naming { whose: "s1".into() }
    }

    fn seen(id: &str, phase: SeenPhase) -> Seen {
        let allocation = AllocationId::new("a").expect("good");
        let (words, nodes) = ("X".to_string(), Vec::new());
        Seen { id: EngineId(id.into()), allocation, phase, words, nodes, expected: None }
    }

    fn asks(past: &mut Past, queue: &[Seen]) -> Option<String> {
        past.question(queue, "ada").map(|words| words.join(" "))
    }

    #[test]
    fn the_database_is_asked_at_the_start_and_about_what_went_missing() {
        let mut past = Past::default();
        let (one, two) = (seen("1", SeenPhase::Running), seen("2", SeenPhase::Queued));
        let first = asks(&mut past, &[one.clone(), two.clone()]).expect("a question");
        assert!(first.contains("--starttime=now-2days") && first.contains("--user=ada"), "{first}");
        past.answered("9\u{1f}shipway-s1-old\u{1f}TIMEOUT\u{1f}0:0\n", &naming());
        assert_eq!(asks(&mut past, &[one.clone(), two.clone()]), None);
        let ended = seen("2", SeenPhase::Ended(AllocationEnd::Completed));
        assert_eq!(asks(&mut past, std::slice::from_ref(&ended)), Some(question_about("1")));
        // The database did not answer: it is asked again.
        assert_eq!(asks(&mut past, std::slice::from_ref(&ended)), Some(question_about("1")));
        past.answered("1\u{1f}shipway-s1-a\u{1f}CANCELLED by 7\u{1f}0:15\n", &naming());
        assert_eq!(asks(&mut past, &[]), None, "that 2 has ended is known");
        let told: Vec<(String, SeenPhase)> =
            past.besides(&[]).into_iter().map(|seen| (seen.words, seen.phase)).collect();
        let phases = [AllocationEnd::TimeLimit, AllocationEnd::Cancelled].map(SeenPhase::Ended);
        assert_eq!(told, [("TIMEOUT".into(), phases[0]), ("CANCELLED by 7".into(), phases[1])]);
        assert_eq!(past.besides(&[one]).len(), 1, "the queue knows it better");
    }

    fn question_about(id: &str) -> String {
        format!(
            "sacct --noheader --parsable2 --delimiter=\u{1f} --allocations --user=ada \
             --jobs={id} --format=JobID,JobName,State,ExitCode"
        )
    }

    #[test]
    fn what_nobody_knows_is_asked_a_few_times() {
        let mut past = Past::default();
        assert!(asks(&mut past, &[seen("1", SeenPhase::Running)]).is_some());
        past.answered("", &naming());
        for _ in 0..MAX_TIMES {
            assert_eq!(asks(&mut past, &[]), Some(question_about("1")));
            past.answered("1\u{1f}shipway-s1-a\u{1f}RUNNING\u{1f}0:0\n", &naming());
        }
        assert_eq!(asks(&mut past, &[]), None);
        assert_eq!(past.besides(&[]), []);
    }

    #[test]
    fn only_what_is_over_and_ours_is_told() {
        let answer = [
            "1|shipway-s1-a|RUNNING|0:0",
            "2|shipway-s2-a|FAILED|1:0",
            "3_4|shipway-s1-b|OUT_OF_MEMORY|0:125",
            "x|shipway-s1-c|FAILED|1:0",
        ];
        let answer = answer.join("\n").replace('|', "\u{1f}");
        let told: Vec<String> = parse(&answer, &naming()).into_iter().map(|it| it.id.0).collect();
        assert_eq!(told, ["3_4"]);
    }

    #[test]
    fn what_is_kept_has_its_bound() {
        let mut past = Past::default();
        let rows = (0..3000).map(|id| format!("{id}\u{1f}shipway-s1-a\u{1f}FAILED\u{1f}1:0\n"));
        past.answered(&rows.collect::<String>(), &naming());
        let kept = past.besides(&[]);
        assert_eq!((kept.len(), kept[0].id.0.as_str()), (MAX_KEPT, "2000"));
    }
}
