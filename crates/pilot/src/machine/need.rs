//! What of a template is needed until its task has ended. All the rest is only for its start.

use shipway_api::wire::Template;
use std::collections::BTreeMap;

#[derive(Debug, Default)]
pub(super) struct Need {
    pub(super) user: String,
    pub(super) cpus_milli: u64,
    pub(super) memory: u64,
    pub(super) disk: u64,
    pub(super) named: BTreeMap<String, u64>,
    /// 0: none.
    pub(super) time_limit_ms: u64,
    /// 0: the usual one.
    pub(super) warn_signal: u32,
    pub(super) grace_ms: u64,
    /// Whether something may have to be taken when it has ended.
    pub(super) has_files: bool,
}

impl Need {
    pub(super) fn of(template: &Template) -> Self {
        // None of something is had everywhere.
        let named = template.named.iter().filter(|(_, amount)| **amount > 0);
        Need {
            user: template.user.clone(),
            cpus_milli: template.cpus_milli,
            memory: template.memory,
            disk: template.disk,
            named: named.map(|(name, amount)| (name.clone(), *amount)).collect(),
            time_limit_ms: template.time_limit_ms,
            warn_signal: template.warn_signal,
            grace_ms: template.grace_ms,
            has_files: template.files.is_some(),
        }
    }
}
