//! What a run was made of, so that "no violations" can be weighed.

use std::fmt;
use std::ops::AddAssign;

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Totals {
    pub happenings: u64,
    pub events: u64,
    pub steps: u64,
    pub pilots: u64,
    pub jobs: u64,
    pub attempts: u64,
    pub crashes: u64,
    pub disk_faults: u64,
    pub cuts: u64,
    pub kills: u64,
    pub clock_jumps: u64,
    pub leases_run_out: u64,
    pub lost_attempts: u64,
    /// Virtual time.
    pub seconds: u64,
}

impl AddAssign for Totals {
    fn add_assign(&mut self, other: Totals) {
        self.happenings += other.happenings;
        self.events += other.events;
        self.steps += other.steps;
        self.pilots += other.pilots;
        self.jobs += other.jobs;
        self.attempts += other.attempts;
        self.crashes += other.crashes;
        self.disk_faults += other.disk_faults;
        self.cuts += other.cuts;
        self.kills += other.kills;
        self.clock_jumps += other.clock_jumps;
        self.leases_run_out += other.leases_run_out;
        self.lost_attempts += other.lost_attempts;
        self.seconds += other.seconds;
    }
}

impl fmt::Display for Totals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:>12} pilots, {} jobs, {} attempts", self.pilots, self.jobs, self.attempts)?;
        writeln!(f, "{:>12} journaled events of {} commands", self.events, self.steps)?;
        writeln!(f, "{:>12} server crashes, {} failed commits", self.crashes, self.disk_faults)?;
        let (cuts, jumps) = (self.cuts, self.clock_jumps);
        writeln!(f, "{:>12} killed pilots, {cuts} cut links, {jumps} clock jumps", self.kills)?;
        let lost = self.lost_attempts;
        writeln!(f, "{:>12} leases run out, {lost} attempts lost", self.leases_run_out)?;
        write!(f, "{:>12} happenings in {} virtual seconds", self.happenings, self.seconds)
    }
}
