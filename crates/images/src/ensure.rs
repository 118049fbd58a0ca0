//! An image into the store, whatever its source: resolve, wait for others, fetch what is missing,
//! lay the layers over each other, publish.

use crate::layer::decode::Expected;
use crate::layer::index::{LayerIndex, LeftOut};
use crate::layer::stage::{Staging, open_dir};
use crate::layer::{LayerError, LayerJob, check, unpack};
use crate::limits::{ImageMeter, Limits};
use crate::progress::{Phase, Progress};
use crate::room::{DiskRoom, NoRoom};
use crate::sources::manifest::{ImagePlan, PlannedLayer};
use crate::sources::{Blob, Source, SourceError};
use crate::store::{Claim, Holder, ImageRecord, LayerRecord, NewLayer, StoreError};
use crate::store::{GC_CLAIM, LOOK_AGAIN, claim_name, layer_claim};
use crate::tree::merge::{Body, merge};
use crate::tree::{MergeError, build};
use rustix::fs::CWD;
use shipway_model::{Bytes, Digest, ImageRef, Timestamp};
use std::collections::BTreeMap;
use std::io::{self, Read};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

/// Layers fetched and unpacked at the same time. Registries serve a handful of connections well;
/// beyond that they slow down each other, and here the disk.
const AT_ONCE: usize = 4;

#[derive(Debug, thiserror::Error)]
pub enum ImageError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Source(#[from] SourceError),
    #[error("the layer {layer} is refused")]
    Layer {
        layer: Digest,
        #[source]
        source: LayerError,
    },
    #[error("the layer {layer} was not fetched")]
    NoLayer { layer: Digest },
    #[error("the layers do not fit together")]
    Merge(#[from] MergeError),
    #[error(transparent)]
    Build(#[from] build::BuildError),
    #[error("`{name}` is another image now: {found}")]
    Changed { name: Box<ImageRef>, found: Digest },
    #[error(transparent)]
    Room(#[from] NoRoom),
    #[error("nobody waits for it any more")]
    Unwanted,
    #[error("`{0}` is used where it lies and is not pulled")]
    NotPulled(Box<ImageRef>),
}

/// What a pull came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ensured {
    pub image: Digest,
    /// False when it was there already.
    pub fetched: bool,
}

/// What does not change from image to image.
pub struct Ensure<'a> {
    pub holder: &'a Holder,
    pub limits: Limits,
    pub progress: &'a dyn Progress,
    /// On the disk of the store.
    pub room: Arc<DiskRoom>,
    pub now: Timestamp,
    /// Whether it is for one of several users: then what is here already is theirs only when they
    /// could have fetched it.
    pub for_others: bool,
}

impl std::fmt::Debug for Ensure<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ensure").field("holder", self.holder).finish_non_exhaustive()
    }
}

/// Layers by their unpacked digest: new ones of this process, and those the store had.
type Layers = BTreeMap<Digest, LayerIndex>;

impl Ensure<'_> {
    /// Sees to it that an image is in the store, under this name.
    pub fn run(&self, name: &ImageRef, source: &dyn Source) -> Result<Ensured, ImageError> {
        self.progress.phase(Phase::Resolving);
        let plan = source.plan()?;
        // A registry was asked for the digest itself; a file may have become another image.
        if let (Some(wanted), Some(_)) = (name.digest(), name.place())
            && wanted != plan.image
        {
            return Err(ImageError::Changed { name: name.clone().into(), found: plan.image });
        }
        let fetched = match self.wait_or_claim(&plan, source)? {
            Some(_claim) => self.fetch(name, &plan, source).map(|()| true)?,
            None => self.prove(&plan, source).map(|()| false)?,
        };
        self.holder.name(name, plan.image)?;
        self.holder.store().mark_used(&plan.image);
        Ok(Ensured { image: plan.image, fetched })
    }

    /// Of an image that is here: whether whoever asks could have fetched it. What cannot be told by
    /// asking is fetched, and dropped.
    fn prove(&self, plan: &ImagePlan, source: &dyn Source) -> Result<(), ImageError> {
        let record = self.holder.store().image(&plan.image)?;
        let is_free = record
            .is_some_and(|record| !record.needs_proof() || source.plan_is_proof(&record.source));
        if !self.for_others || is_free {
            return Ok(());
        }
        let meter = ImageMeter::new(self.limits);
        for layer in &plan.layers {
            if !self.may_reuse(layer, source) {
                let refused = |source| ImageError::Layer { layer: layer.diff_id, source };
                let blob = WhileWanted { blob: source.blob(layer)?, progress: self.progress };
                check(Box::new(blob), expected(layer), &meter).map_err(refused)?;
            }
        }
        Ok(())
    }

    /// Whether a layer that is here counts for whoever asks.
    fn may_reuse(&self, layer: &PlannedLayer, source: &dyn Source) -> bool {
        if !self.for_others {
            return true;
        }
        let origins = self.holder.store().origins(&layer.diff_id);
        origins.public || source.could_fetch(layer, &origins)
    }

    /// Remembers where layers came from that are about to be published, or were shown to be free.
    fn note_origins(
        &self,
        layers: &[&PlannedLayer],
        source: &dyn Source,
    ) -> Result<(), ImageError> {
        let Some(host) = source.registry() else { return Ok(()) };
        for layer in layers {
            let known = self.holder.store().origins(&layer.diff_id);
            let mut origins = known.clone();
            origins.add(host, layer.digest, source.is_private());
            if origins != known {
                self.holder.note_origins(&layer.diff_id, &origins)?;
            }
        }
        Ok(())
    }

    /// The claim to make it, or none when it is there, made by whomever.
    fn wait_or_claim(
        &self,
        plan: &ImagePlan,
        source: &dyn Source,
    ) -> Result<Option<Claim>, ImageError> {
        let name = claim_name(&plan.image, source.registry());
        let there = || self.holder.store().image(&plan.image).map(|found| found.is_some());
        let mut told = false;
        loop {
            if there()? {
                return Ok(None);
            }
            if let Some(claim) = self.holder.claim(&name)? {
                // Published between the look and the claim.
                return Ok(if there()? { None } else { Some(claim) });
            }
            if !told {
                self.progress.phase(Phase::Waiting);
                told = true;
            }
            if !self.progress.is_wanted() {
                return Err(ImageError::Unwanted);
            }
            thread::sleep(LOOK_AGAIN);
        }
    }

    fn fetch(
        &self,
        name: &ImageRef,
        plan: &ImagePlan,
        source: &dyn Source,
    ) -> Result<(), ImageError> {
        self.wait_for_clearing();
        let fetched = match self.fetch_once(name, plan, source) {
            // An index spoke of an object that is gone: without it the layer is fetched again.
            Err(ImageError::Build(error)) if is_missing(&error) => {
                self.holder.store().forget_layers(plan.layers.iter().map(|layer| &layer.diff_id));
                self.fetch_once(name, plan, source)
            }
            other => other,
        };
        fetched.map_err(|error| self.or_room(error, plan, source))
    }

    /// Why it failed in truth. Without room nothing is kept for another try either: it would take
    /// what is left.
    fn or_room(&self, error: ImageError, plan: &ImagePlan, source: &dyn Source) -> ImageError {
        let Some(short) = self.room.short() else { return error };
        plan.layers.iter().for_each(|layer| source.done(layer));
        short.clone().into()
    }

    fn fetch_once(
        &self,
        name: &ImageRef,
        plan: &ImagePlan,
        source: &dyn Source,
    ) -> Result<(), ImageError> {
        let scratch = self.holder.scratch_once()?;
        let stage = scratch.path.join("stage");
        let objects = self.holder.store().root().join("objects");
        let open = |path: &std::path::Path| {
            open_dir(CWD, path).map_err(|source| StoreError::Act {
                act: "open",
                path: path.to_path_buf(),
                source,
            })
        };
        std::fs::create_dir(&stage).map_err(|source| StoreError::Act {
            act: "make",
            path: stage.clone(),
            source,
        })?;
        let owners = self.holder.store().owners();
        let staging = Staging::new(open(&stage)?, open(&objects)?, owners, &self.room);
        let work = Fetch {
            ensure: self,
            source,
            staging: Arc::clone(&staging),
            meter: ImageMeter::new(self.limits),
        };
        let (layers, new, claims) = work.all(plan)?;
        self.progress.phase(Phase::Building);
        let indexes = plan.layers.iter().map(|layer| index_of(&layers, &layer.diff_id));
        let tree = merge(indexes.collect::<Result<Vec<_>, _>>()?)?;
        let dir = scratch.path.join("image");
        let root = dir.join("tree");
        std::fs::create_dir_all(&root).map_err(|source| StoreError::Act {
            act: "make",
            path: root.clone(),
            source,
        })?;
        build::build(&tree, std::os::fd::AsFd::as_fd(&open(&root)?), &staging)?;
        let record = self.record(name, plan, &layers, &tree, source.is_private());
        self.progress.phase(Phase::Publishing);
        // Before the sync: bytes of no more use need not go to disk.
        plan.layers.iter().for_each(|layer| source.done(layer));
        let new = new_layers(&layers, &new)?;
        self.holder.publish(&staging, &new, Some((&dir, &record)))?;
        // Without a login every layer was had from this registry, or confirmed by it.
        let all: Vec<&PlannedLayer> = plan.layers.iter().collect();
        let fetched = |layer: &&&PlannedLayer| new.iter().any(|one| one.diff_id == layer.diff_id);
        let from_here = if self.for_others && !source.is_private() {
            all
        } else {
            all.iter().filter(fetched).copied().collect()
        };
        self.note_origins(&from_here, source)?;
        drop(claims);
        Ok(())
    }

    /// Objects are not removed while anybody fetches; whoever comes during it waits.
    fn wait_for_clearing(&self) {
        while self.holder.is_claimed_by_others(GC_CLAIM) {
            thread::sleep(LOOK_AGAIN);
        }
    }

    fn record(
        &self,
        name: &ImageRef,
        plan: &ImagePlan,
        layers: &Layers,
        tree: &crate::tree::Tree,
        private: bool,
    ) -> ImageRecord {
        let mut left_out = LeftOut::default();
        let mut records = Vec::new();
        for layer in &plan.layers {
            let index = &layers[&layer.diff_id];
            left_out.add(index.left_out);
            records.push(LayerRecord {
                diff_id: layer.diff_id,
                digest: layer.digest,
                packed: Bytes(layer.size.unwrap_or(0)),
                unpacked: Bytes(index.unpacked),
            });
        }
        let sizes = tree.nodes.iter().filter_map(|node| match node.body {
            Body::File { size, .. } => Some(size),
            _ => None,
        });
        let (files, bytes) = sizes.fold((0, 0), |(files, bytes), size| (files + 1, bytes + size));
        ImageRecord {
            image: plan.image,
            source: name.clone(),
            platform: plan.platform.clone(),
            unpacked_at: self.now,
            layers: records,
            files,
            bytes: Bytes(bytes),
            left_out,
            config: plan.config.clone(),
            private,
        }
    }
}

fn is_missing(error: &build::BuildError) -> bool {
    error.source.kind() == std::io::ErrorKind::NotFound
}

fn index_of<'a>(layers: &'a Layers, id: &Digest) -> Result<&'a LayerIndex, ImageError> {
    layers.get(id).ok_or(ImageError::NoLayer { layer: *id })
}

fn new_layers<'a>(layers: &'a Layers, new: &[Digest]) -> Result<Vec<NewLayer<'a>>, ImageError> {
    let one = |id: &Digest| Ok(NewLayer { diff_id: *id, index: index_of(layers, id)? });
    new.iter().map(one).collect()
}

/// The layers of one image on their way in.
struct Fetch<'a> {
    ensure: &'a Ensure<'a>,
    source: &'a dyn Source,
    staging: Arc<Staging>,
    meter: Arc<ImageMeter>,
}

impl Fetch<'_> {
    /// All layers of the plan; those that are new, with the claims on them.
    fn all(&self, plan: &ImagePlan) -> Result<(Layers, Vec<Digest>, Vec<Claim>), ImageError> {
        let holder = self.ensure.holder;
        let mut layers = Layers::new();
        let mut missing: BTreeMap<Digest, &PlannedLayer> = BTreeMap::new();
        for layer in &plan.layers {
            match self.here(layer) {
                Some(index) => _ = layers.insert(layer.diff_id, index),
                None => _ = missing.insert(layer.diff_id, layer),
            }
        }
        let bytes = packed(missing.values().copied());
        let (count, reused) = (missing.len(), layers.len());
        self.ensure.progress.phase(Phase::Fetching { layers: count, reused, bytes });
        // Unpacked a layer is hardly ever smaller.
        self.ensure.room.begin(bytes.unwrap_or(0))?;
        let mut claims = Vec::new();
        let mut mine = Vec::new();
        let mut others = Vec::new();
        for layer in missing.into_values() {
            match holder.claim(&self.claim_on(layer))? {
                Some(claim) => {
                    claims.push(claim);
                    mine.push(layer);
                }
                None => others.push(layer),
            }
        }
        // The largest first: it decides when all is done.
        mine.sort_by_key(|layer| std::cmp::Reverse(layer.size));
        layers.extend(self.parallel(&mine)?);
        let mut new: Vec<Digest> = mine.iter().map(|layer| layer.diff_id).collect();
        if !others.is_empty() && !new.is_empty() {
            // Nobody waits while others wait for him: what is done is handed over first.
            holder.publish(&self.staging, &new_layers(&layers, &new)?, None)?;
            self.ensure.note_origins(&mine, self.source)?;
            self.staging.all_stored();
            claims.clear();
            new.clear();
            self.ensure.progress.phase(Phase::Waiting);
        }
        for layer in others {
            let (index, claim) = self.wait_for(layer)?;
            layers.insert(layer.diff_id, index);
            if let Some(claim) = claim {
                new.push(layer.diff_id);
                claims.push(claim);
            }
        }
        Ok((layers, new, claims))
    }

    fn claim_on(&self, layer: &PlannedLayer) -> String {
        layer_claim(&layer.diff_id, self.source.registry())
    }

    /// A layer of the store, if it counts for whoever asks.
    fn here(&self, layer: &PlannedLayer) -> Option<LayerIndex> {
        let index = self.ensure.holder.store().layer(&layer.diff_id)?;
        self.ensure.may_reuse(layer, self.source).then_some(index)
    }

    /// A layer somebody else fetches; ours to fetch when they give up.
    fn wait_for(&self, layer: &PlannedLayer) -> Result<(LayerIndex, Option<Claim>), ImageError> {
        let holder = self.ensure.holder;
        loop {
            if let Some(index) = self.here(layer) {
                return Ok((index, None));
            }
            if let Some(claim) = holder.claim(&self.claim_on(layer))? {
                if let Some(index) = self.here(layer) {
                    return Ok((index, None));
                }
                return Ok((self.one(layer)?, Some(claim)));
            }
            if !self.ensure.progress.is_wanted() {
                return Err(ImageError::Unwanted);
            }
            thread::sleep(LOOK_AGAIN);
        }
    }

    fn parallel(&self, layers: &[&PlannedLayer]) -> Result<Layers, ImageError> {
        let next = AtomicUsize::new(0);
        let done = Mutex::new(Ok(Layers::new()));
        let work = || {
            while let Some(layer) = layers.get(next.fetch_add(1, Ordering::Relaxed)) {
                let index = self.one(layer);
                let mut done = done.lock().unwrap_or_else(PoisonError::into_inner);
                match (index, done.as_mut()) {
                    (Ok(index), Ok(all)) => _ = all.insert(layer.diff_id, index),
                    (Err(error), Ok(_)) => *done = Err(error),
                    (_, Err(_)) => {}
                }
                // One that fails fails the image: the rest need not begin.
                if done.is_err() {
                    next.store(layers.len(), Ordering::Relaxed);
                }
            }
        };
        thread::scope(|scope| {
            for _ in 1..layers.len().min(AT_ONCE) {
                // Without room for more threads there are fewer.
                let _ = thread::Builder::new().spawn_scoped(scope, work);
            }
            work();
        });
        done.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    fn one(&self, layer: &PlannedLayer) -> Result<LayerIndex, ImageError> {
        let first = self.attempt(layer, layer.number);
        match first {
            // What could not be written will not be by another try.
            Err(ImageError::Layer { source: LayerError::Write { .. }, .. }) => first,
            Err(ImageError::Layer { .. }) if self.source.discard(layer) => {
                self.attempt(layer, usize::MAX - layer.number)
            }
            other => other,
        }
    }

    fn attempt(&self, layer: &PlannedLayer, stage: usize) -> Result<LayerIndex, ImageError> {
        let refused = |source| ImageError::Layer { layer: layer.diff_id, source };
        let stage = self.staging.layer(stage).map_err(|source| {
            refused(LayerError::Write { path: "(its directory)".to_owned(), source })
        })?;
        let progress = self.ensure.progress;
        let number = layer.number;
        let job = LayerJob {
            blob: Box::new(WhileWanted { blob: self.source.blob(layer)?, progress }),
            expected: expected(layer),
            image: Arc::clone(&self.meter),
            stage: &stage,
            heard: Box::new(move |count| progress.bytes(number, count)),
        };
        let index = unpack(job).map_err(refused)?;
        progress.layer_done(number);
        Ok(index)
    }
}

/// Bytes of a layer, as long as somebody waits for the image.
struct WhileWanted<'a> {
    blob: Blob<'a>,
    progress: &'a dyn Progress,
}

impl Read for WhileWanted<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if !self.progress.is_wanted() {
            return Err(io::Error::other(ImageError::Unwanted));
        }
        self.blob.read(buffer)
    }
}

/// What layers take as they come, where their source says it of all of them. Whoever wrote it may
/// have written anything.
fn packed<'a>(layers: impl Iterator<Item = &'a PlannedLayer>) -> Option<u64> {
    let mut sizes = layers.map(|layer| layer.size);
    sizes.try_fold(0, |sum: u64, size| size.map(|size| sum.saturating_add(size)))
}

fn expected(layer: &PlannedLayer) -> Expected {
    let diff_id = (!layer.is_checked).then_some(layer.diff_id);
    Expected { digest: layer.digest, size: layer.size, diff_id }
}
