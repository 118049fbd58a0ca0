//! What of a template is needed until its task has ended. All the rest is only for its start.

use shipway_api::link::counts;
use shipway_api::wire::Template;
use shipway_model::Counts;

#[derive(Debug, Default)]
pub(super) struct Need {
    pub(super) user: String,
    pub(super) counts: Counts,
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
        Need {
            user: template.user.clone(),
            counts: counts(template),
            time_limit_ms: template.time_limit_ms,
            warn_signal: template.warn_signal,
            grace_ms: template.grace_ms,
            has_files: template.files.is_some(),
        }
    }
}
