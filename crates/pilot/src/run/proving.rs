//! The proof of the node, beside the first tasks: a thread of its own tries GPUs and containers,
//! and the server is told what came of it.
//!
//! Before it has ended nothing that needs a proof is offered; what needs none does not wait.

use crate::hanging;
use crate::probe::Probe;
use crate::proof::{self, Check, Watch};
use crate::usual::Usual;
use shipway_model::NodeAd;
use shipway_runtime::{Runtime, again};
use shipway_trees::disk::Disk;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// A folder or a clock may be mended while the pilot lives, and a disk may get full: so often it is
/// looked at again, which costs nothing, and a node that is out of work for so long is no great
/// loss.
const LOOK_AGAIN: Duration = Duration::from_secs(5);

/// Where there is no GPU to be offered nobody waits for the proof, and the first tasks go first.
const NO_HURRY: Duration = Duration::from_secs(2);

/// A node as the probe found it.
pub(super) struct Unproven {
    pub(super) probe: Probe,
    /// With everything in it, as if all were well.
    pub(super) ad: NodeAd,
    pub(super) dir: PathBuf,
    pub(super) images: PathBuf,
    pub(super) usual: Arc<Usual>,
}

impl Unproven {
    /// What may be said at once.
    pub(super) fn first_ad(&self) -> NodeAd {
        proof::withhold(self.ad.clone(), &self.look())
    }

    fn look(&self) -> Vec<Check> {
        let clock = Watch::start().read(None);
        proof::looked_at(&proof::look(&self.dir, &self.images, clock))
    }

    /// Proves the node and tells its new ad where that differs from the first one, which was told
    /// already; as often as it changes, until nobody listens.
    pub(super) fn prove(
        self,
        runtime: Arc<dyn Runtime>,
        first: NodeAd,
        tell: impl Fn(NodeAd) -> bool + Send + 'static,
    ) -> io::Result<()> {
        again::thread("proof", move || self.run(runtime, first, tell)).map(drop)
    }

    fn run(self, runtime: Arc<dyn Runtime>, mut told: NodeAd, tell: impl Fn(NodeAd) -> bool) {
        if told.withheld.is_empty() {
            std::thread::sleep(NO_HURRY);
        }
        let tried = proof::tried(&proof::try_out(&self.probe, &*runtime, true));
        drop(runtime);
        loop {
            let checks = [self.look(), tried.clone()].concat();
            let mut ad = proof::offer(proof::withhold(self.ad.clone(), &[]), &checks);
            ad.notes.extend(self.usual.why_plain().map(str::to_owned));
            if ad != told {
                for remark in ad.remarks() {
                    tracing::warn!("{remark}; `shipway doctor` says more");
                }
                told = ad;
                if !tell(told.clone()) {
                    return;
                }
            }
            self.wait(told.unfit.is_empty());
        }
    }

    /// Until it is worth looking again. Of a node that is fit only its disk changes its mind, and
    /// processes that hang come and go.
    fn wait(&self, is_fit: bool) {
        let hanging = hanging::still(&self.dir).len();
        loop {
            std::thread::sleep(LOOK_AGAIN);
            if !is_fit
                || Disk::of(&self.dir).is_some_and(|disk| disk.free < disk.least())
                || hanging::still(&self.dir).len() != hanging
            {
                return;
            }
        }
    }
}
