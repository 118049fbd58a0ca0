//! What ended attempts have used, added up, and what was advised. Who used it is for reports: a
//! label is never anything that a user wrote.

use super::text::{Kind, Text, decimal};
use super::{add, read};
use shipway_core::event::AttemptEnded;
use shipway_model::Advice;
use shipway_model::usage::WHOLE;
use std::sync::atomic::AtomicU64;

#[derive(Debug, Default)]
pub(super) struct Used {
    gpu_given_ms: AtomicU64,
    gpu_busy_ms: AtomicU64,
    energy_mj: AtomicU64,
    cpu_ms: AtomicU64,
    advised: [AtomicU64; Advice::KINDS.len()],
}

impl Used {
    pub(super) fn ended(&self, ended: &AttemptEnded) {
        if let Some(usage) = &ended.usage {
            // Of a share it can be busier than its part: so it is of the devices, whole.
            let devices = usage.gpus.unwrap_or(0).saturating_mul(usage.wall_ms.unwrap_or(0));
            let busy = u128::from(devices) * u128::from(usage.gpu_busy.unwrap_or(0));
            let busy = busy / u128::from(WHOLE);
            add(&self.gpu_busy_ms, u64::try_from(busy).unwrap_or(0));
            add(&self.gpu_given_ms, usage.gpu_given_ms.unwrap_or(0));
            add(&self.energy_mj, usage.energy_mj.unwrap_or(0));
            add(&self.cpu_ms, usage.cpu_ms.unwrap_or(0));
        }
        let advised = ended.advice.as_ref().and_then(|advice| self.advised.get(advice.kind()));
        if let Some(advised) = advised {
            add(advised, 1);
        }
    }

    pub(super) fn write(&self, text: &mut Text) {
        for (name, help, sum) in [
            (
                "shipway_attempt_gpu_seconds_total",
                "GPU time that ended attempts were given: devices times share times time.",
                &self.gpu_given_ms,
            ),
            (
                "shipway_attempt_gpu_busy_seconds_total",
                "GPU time that they were busy, where that was measured.",
                &self.gpu_busy_ms,
            ),
            (
                "shipway_attempt_cpu_seconds_total",
                "Time on processors of ended attempts.",
                &self.cpu_ms,
            ),
            (
                "shipway_attempt_energy_joules_total",
                "Energy of the GPUs of ended attempts, where that was measured.",
                &self.energy_mj,
            ),
        ] {
            text.single(name, Kind::Counter, help, decimal(read(sum), 3));
        }
        let help = "Attempts that ended with a piece of advice, by its kind.";
        text.family("shipway_attempts_advised_total", Kind::Counter, help);
        for (kind, count) in Advice::KINDS.iter().zip(&self.advised) {
            text.sample(&[("kind", kind)], read(count));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use shipway_core::event::Verdict;
    use shipway_model::{
        Attempt, JobId, Millis, NodeName, Outcome, PilotId, TaskIndex, Timestamp, Usage,
    };

    #[test]
    fn what_was_used_is_added_up() {
        let usage = Usage {
            wall_ms: Some(10_000),
            cpu_ms: Some(2_500),
            gpu_given_ms: Some(20_000),
            gpus: Some(2),
            gpu_busy: Some(2_500),
            energy_mj: Some(7),
            ..Usage::default()
        };
        let ended = AttemptEnded {
            task: JobId(1).task(TaskIndex(0)),
            attempt: Attempt(1),
            pilot: PilotId::new("p").expect("good"),
            node: NodeName::new("n").expect("good"),
            placed: Timestamp(0),
            outcome: Outcome::Exit { code: 0 },
            started: Some(Timestamp(0)),
            ended: Timestamp(10_000),
            ran: Millis(10_000),
            verdict: Verdict::Succeeded,
            usage: Some(Box::new(usage)),
            advice: Some(Box::new(Advice::GpuErrors { errors: 1 })),
        };
        let used = Used::default();
        used.ended(&ended);
        used.ended(&AttemptEnded { advice: None, ..ended });
        let mut text = Text::default();
        used.write(&mut text);
        let page = text.finish();
        for line in [
            "shipway_attempt_gpu_seconds_total 40",
            "shipway_attempt_gpu_busy_seconds_total 10",
            "shipway_attempt_cpu_seconds_total 5",
            "shipway_attempt_energy_joules_total 0.014",
            "shipway_attempts_advised_total{kind=\"gpu_errors\"} 1",
            "shipway_attempts_advised_total{kind=\"waited\"} 0",
        ] {
            assert!(page.lines().any(|found| found == line), "no `{line}` in\n{page}");
        }
    }
}
