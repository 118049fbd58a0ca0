//! What a simulated task does once it runs: written in its command, so that it travels like one.

use crate::dice::Dice;
use shipway_model::Attempt;
use shipway_pilot::machine::{HowEnded, OutOfMemory};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Behaviour {
    /// How long it runs, in milliseconds: anything between the two.
    pub run: (u64, u64),
    /// Exit codes by attempt; the last one repeats.
    pub exits: Vec<i32>,
    /// How many in a thousand fail all the same (with exit code 1).
    pub fail: u64,
    /// How many in a thousand die of a signal.
    pub crash: u64,
    /// How many in a thousand cannot be started at all.
    pub absent: u64,
    /// How many in a thousand are ended for their memory.
    pub oom: u64,
    /// Goes on after a polite signal.
    pub stubborn: bool,
}

impl Default for Behaviour {
    fn default() -> Self {
        let run = (1_000, 1_000);
        Behaviour { run, exits: vec![0], fail: 0, crash: 0, absent: 0, oom: 0, stubborn: false }
    }
}

/// How one run of it will go, unless somebody interferes.
#[derive(Debug, Clone, Copy)]
pub struct Fate {
    pub starts: bool,
    pub after: u64,
    pub how: HowEnded,
    pub out_of_memory: Option<OutOfMemory>,
}

impl Behaviour {
    pub fn command(&self) -> Vec<String> {
        let exits: Vec<String> = self.exits.iter().map(ToString::to_string).collect();
        let mut words = vec![
            "work".to_string(),
            format!("run={}..{}", self.run.0, self.run.1),
            format!("exits={}", exits.join(",")),
            format!("fail={}", self.fail),
            format!("crash={}", self.crash),
            format!("absent={}", self.absent),
            format!("oom={}", self.oom),
        ];
        words.extend(self.stubborn.then(|| "stubborn".to_string()));
        words
    }

    /// Reads what `command` wrote; a word it does not know is left out.
    pub fn read(command: &[String]) -> Behaviour {
        let mut read = Behaviour::default();
        for word in command {
            let (name, value) = word.split_once('=').unwrap_or((word, ""));
            let number = || value.parse().unwrap_or(0);
            match name {
                "run" => {
                    let (low, high) = value.split_once("..").unwrap_or((value, value));
                    read.run = (low.parse().unwrap_or(1_000), high.parse().unwrap_or(1_000));
                }
                "exits" => read.exits = value.split(',').filter_map(|v| v.parse().ok()).collect(),
                "fail" => read.fail = number(),
                "crash" => read.crash = number(),
                "absent" => read.absent = number(),
                "oom" => read.oom = number(),
                "stubborn" => read.stubborn = true,
                _ => {}
            }
        }
        read
    }

    pub fn fate(&self, dice: &mut Dice, attempt: Attempt) -> Fate {
        let nth = (attempt.0 as usize).saturating_sub(1).min(self.exits.len().saturating_sub(1));
        let code = self.exits.get(nth).copied().unwrap_or(0);
        let out_of_memory = dice.chance(self.oom).then_some(OutOfMemory::Kernel);
        let how = if out_of_memory.is_some() {
            HowEnded::Signal(9)
        } else if dice.chance(self.crash) {
            HowEnded::Signal(11)
        } else if dice.chance(self.fail) {
            HowEnded::Exit(1)
        } else {
            HowEnded::Exit(code)
        };
        let starts = !dice.chance(self.absent);
        Fate { starts, after: dice.between(self.run), how, out_of_memory }
    }
}
