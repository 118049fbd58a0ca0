//! What a pilot has, compared with what was asked for. A difference is noted at its site, where
//! people find it when the pilot is long gone: the site's file is wrong, or the batch system is.

use crate::event::Event;
use crate::state::State;
use shipway_model::{Cores, NodeAd, NodeName, PilotId, SiteClass};

/// Batch systems and kernels count a little differently: a sixteenth less is not less.
const SLACK_PARTS: u64 = 16;

/// When it says so for the first time, or says something else.
pub(super) fn decide(
    state: &State,
    pilot: &PilotId,
    ad: &NodeAd,
    node: &NodeName,
) -> Option<Event> {
    let known = state.pilots().get(pilot);
    let of_token = || Some(&state.pilot_tokens().get(pilot)?.allocation);
    let allocation = known.map(|known| &known.allocation).or_else(of_token)?;
    let asked = state.allocations().get(allocation)?;
    let batch = asked.batch.as_deref()?;
    let site = state.sites().get(&asked.site)?;
    // What was asked for before the file was changed was asked for by another file.
    let class = site.spec.class(&batch.class).filter(|_| batch.asked >= site.described)?;
    let words = difference(class, ad)?;
    let is_known = known.and_then(|known| difference(class, &known.ad)).as_ref() == Some(&words);
    (!is_known).then(|| Event::SiteDiffers {
        site: asked.site.clone(),
        class: batch.class.clone(),
        node: node.clone(),
        words,
    })
}

fn difference(class: &SiteClass, ad: &NodeAd) -> Option<String> {
    // Those that have yet to prove themselves are there too.
    let found = ad.gpus.len() + ad.withheld.len();
    let wanted = class.gpus.as_ref().map_or(0, |gpus| gpus.count as usize);
    let gpus_of = |count: usize| if count == 1 { "1 GPU".into() } else { format!("{count} GPUs") };
    let number = if found == 0 { "none".into() } else { found.to_string() };
    let (cpus, memory) = (ad.capacity.cpus, ad.capacity.memory);
    let differences = [
        (wanted != found).then(|| format!("asked for {}, found {number}", gpus_of(wanted))),
        other_slices(class, ad),
        is_less(cpus.milli, class.cpus.milli)
            .then(|| format!("asked for {}, found {cpus}", cores_of(class.cpus))),
        is_less(memory.0, class.memory.0)
            .then(|| format!("asked for {} of memory, found {memory}", class.memory)),
    ];
    let words: Vec<String> = differences.into_iter().flatten().collect();
    (!words.is_empty()).then(|| words.join("; "))
}

/// A task that wants a slice takes no other, and none a whole GPU: what came serves nobody who
/// waits for this class.
fn other_slices(class: &SiteClass, ad: &NodeAd) -> Option<String> {
    let wanted = class.gpus.as_ref()?.slice.as_deref();
    let all = ad.gpus.iter().chain(ad.withheld.iter().map(|one| &one.gpu));
    let mut slices = all.map(|gpu| gpu.slice.as_deref());
    let is_same = |found: Option<&str>| match (wanted, found) {
        (Some(wanted), Some(found)) => wanted.eq_ignore_ascii_case(found),
        (wanted, found) => wanted.is_none() && found.is_none(),
    };
    let other = slices.find(|found| !is_same(*found))?;
    let named = |slice: Option<&str>| match slice {
        Some(slice) => format!("a slice {slice}"),
        None => "a whole GPU".to_owned(),
    };
    Some(format!("asked for {}, found {}", named(wanted), named(other)))
}

fn cores_of(cpus: Cores) -> String {
    if cpus == Cores::whole(1) { "1 core".into() } else { format!("{cpus} cores") }
}

fn is_less(found: u64, wanted: u64) -> bool {
    wanted.saturating_sub(found) > wanted / SLACK_PARTS
}
