//! The terms of jobs, each kept once and counted: they leave with the last job that has them.

use crate::job::Terms;
use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::sync::Arc;

#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct SharedTerms {
    /// And how many jobs in memory have them.
    jobs: BTreeMap<Arc<Terms>, u32>,
}

impl SharedTerms {
    /// The one copy of these terms, which one job more has.
    pub(crate) fn share(&mut self, terms: impl Borrow<Terms> + Into<Arc<Terms>>) -> Arc<Terms> {
        let known = self.jobs.get_key_value(terms.borrow()).map(|(known, _)| Arc::clone(known));
        let terms = known.unwrap_or_else(|| terms.into());
        *self.jobs.entry(Arc::clone(&terms)).or_default() += 1;
        terms
    }

    /// One job fewer has them.
    pub(crate) fn release(&mut self, terms: &Terms) {
        let Some(jobs) = self.jobs.get_mut(terms) else { return };
        *jobs -= 1;
        if *jobs == 0 {
            self.jobs.remove(terms);
        }
    }

    /// In order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<Terms>> {
        self.jobs.keys()
    }
}
