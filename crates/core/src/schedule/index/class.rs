//! One class of nodes: what it is to the matcher, and who is of it.

use super::members::Members;
use crate::requirements::{class_ads, containers_fail, said};
use crate::schedule::classes::{ClassKey, GpuKind};
use crate::schedule::needs::{Groups, MAX_GROUPS, bit};
use shipway_classad::Ad;
use shipway_model::GpuDevice;
use std::sync::Arc;

#[derive(Debug, Clone)]
pub struct Class {
    pub key: ClassKey,
    pub(in crate::schedule) kinds: Vec<GpuKind>,
    /// A device of each kind, to be asked whether a request matches it, and how many there are.
    pub(in crate::schedule) examples: Vec<(GpuDevice, u32)>,
    /// What requirements are asked of: an ad for each kind, or one without devices.
    pub(crate) ads: Vec<Arc<Ad>>,
    /// What is in containers is not for its nodes.
    pub(crate) containers_fail: bool,
    pub members: Members,
    /// Which of the nodes that ever came was the last of its members, if it has none.
    pub(super) left: u64,
    /// How much its pilots say of it, in all its ads: what it takes of memory goes with that.
    pub(super) said: usize,
}

impl Class {
    pub(super) fn new(key: ClassKey) -> Class {
        let (kinds, counts): (Vec<_>, Vec<_>) = key.kinds().into_iter().unzip();
        let examples: Vec<_> = kinds.iter().map(GpuKind::example).zip(counts).collect();
        let ads = class_ads(&key, &examples);
        let (containers_fail, members) = (containers_fail(&ads), Members::new(key.gpus()));
        let said = said(&key) * ads.len();
        Class { key, kinds, examples, ads, containers_fail, members, left: 0, said }
    }

    /// How many devices of these kinds a node has.
    pub(in crate::schedule) fn count(&self, groups: Groups) -> u32 {
        let kinds = self.examples.iter().take(MAX_GROUPS).enumerate();
        let counted = kinds.filter(|(kind, _)| groups & bit(*kind) != 0);
        counted.fold(0, |sum: u32, (_, (_, count))| sum.saturating_add(*count))
    }

    /// The ads of these kinds of devices; all where a request is for none of them.
    pub(crate) fn ads_of(ads: &[Arc<Ad>], groups: Groups) -> impl Iterator<Item = &Arc<Ad>> {
        let ads = ads.iter().take(MAX_GROUPS).enumerate();
        ads.filter(move |(kind, _)| groups == 0 || groups & bit(*kind) != 0).map(|(_, ad)| ad)
    }
}
