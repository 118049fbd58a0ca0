//! What of a template is needed until its task has ended. All the rest is only for its start.

use shipway_api::link::Template;
use shipway_model::{Counts, Millis, TimeLimit};

#[derive(Debug, Default)]
pub(super) struct Need {
    pub(super) user: String,
    pub(super) counts: Counts,
    pub(super) time_limit: Option<TimeLimit>,
    /// Whether something may have to be taken when it has ended.
    pub(super) has_files: bool,
}

impl Need {
    pub(super) fn of(template: &Template) -> Self {
        Need {
            user: template.user.clone(),
            counts: template.need.clone().into(),
            time_limit: template.time_limit.clone(),
            has_files: template.files.is_some(),
        }
    }

    /// How long it may run.
    pub(super) fn limit(&self) -> Option<Millis> {
        self.time_limit.as_ref().map(|limit| limit.limit)
    }
}
