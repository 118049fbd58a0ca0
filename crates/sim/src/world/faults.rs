//! What goes wrong in a seed, and the workload's next burst: drawn while the world is rough.

use super::{Happening, World};
use crate::node::Node;
use crate::workload;
use shipway_core::Command;

/// Between two faults, and between two bursts of work.
const FAULT_PAUSE: (u64, u64) = (50, 1_500);
const BURST_PAUSE: (u64, u64) = (500, 12_000);
/// The wall clock is set by up to three hours, in either direction.
const CLOCK_JUMP: i64 = 3 * 3_600 * 1_000;
const SHORT_CUT: (u64, u64) = (50, 8_000);
const LONG_CUT: (u64, u64) = (10_000, 90_000);

impl World {
    /// Opens the world of a seed: work comes, and things break.
    pub fn get_rough(&mut self) {
        self.rough = true;
        self.after(1_000, Happening::Burst);
        self.after(3_000, Happening::Fault);
    }

    /// From now on nothing breaks any more; what is broken is mended.
    pub fn get_calm(&mut self) {
        self.rough = false;
        let settings = &mut self.settings;
        (settings.duplicate, settings.lose_reply) = (0, 0);
        (settings.crash, settings.disk_fails) = (0, 0);
        for node in 0..self.nodes.len() {
            self.nodes[node].cut_until = self.now;
            self.after(1_000, Happening::StartPilot { node });
        }
    }

    pub(super) fn burst(&mut self) {
        if self.rough {
            workload::burst(self);
            let pause = self.dice.between(BURST_PAUSE);
            self.after(pause, Happening::Burst);
        }
    }

    pub(super) fn fault(&mut self) {
        if !self.rough {
            return;
        }
        let node = self.victim();
        match self.dice.below(40) {
            0..=14 => {
                let long = self.dice.chance(400);
                let span = self.dice.between(if long { LONG_CUT } else { SHORT_CUT });
                let noticed = self.dice.chance(500);
                self.cut(node, span, noticed);
            }
            15..=24 => self.kill_and_replace(node),
            25..=26 => self.drain_pilot(node),
            27 => self.crash_server(),
            28..=29 => self.set_clock(),
            30 => self.prove(node),
            _ => workload::interfere(self),
        }
        let pause = self.dice.between(FAULT_PAUSE);
        self.after(pause, Happening::Fault);
    }

    /// Mostly a node that has something to lose.
    fn victim(&mut self) -> usize {
        let is_busy = |node: &Node| node.pilot.as_ref().is_some_and(|p| !p.processes.is_empty());
        let busy: Vec<usize> =
            (0..self.nodes.len()).filter(|node| is_busy(&self.nodes[*node])).collect();
        let any = usize::try_from(self.dice.below(self.nodes.len() as u64)).unwrap_or(0);
        if self.dice.chance(300) { any } else { self.dice.pick(&busy).copied().unwrap_or(any) }
    }

    /// A pilot dies. Somebody may see it and say so; another pilot may take the node over.
    fn kill_and_replace(&mut self, node: usize) {
        let Some(pilot) = self.nodes[node].pilot.as_ref().map(|pilot| pilot.id.clone()) else {
            return;
        };
        self.kill_pilot(node);
        if self.nodes[node].lease.is_none() && self.dice.chance(500) {
            let at = self.nodes[node].clean_at + self.dice.between((100, 3_000));
            self.at(at, Happening::Asked { command: Command::PilotEnded { pilot } });
        }
        // One with a lease may stay dead for good: its tasks come back when the lease has run out.
        if self.nodes[node].lease.is_none() || self.dice.chance(600) {
            let wait = self.dice.between((200, 20_000));
            self.after(wait, Happening::StartPilot { node });
        }
    }

    fn set_clock(&mut self) {
        self.totals.clock_jumps += 1;
        let by = self.dice.below(CLOCK_JUMP.unsigned_abs() * 2);
        self.set_wall(i64::try_from(by).unwrap_or(0) - CLOCK_JUMP);
    }

    /// Sets the wall clock this far off the true time; the steady one goes on as it did.
    pub fn set_wall(&mut self, offset: i64) {
        self.wall_offset = offset;
        self.note(|| format!("the wall clock is set {offset} ms off"));
    }
}
