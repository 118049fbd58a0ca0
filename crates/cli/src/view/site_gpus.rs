//! The GPUs that batch systems would give, below those of the nodes that are there: of each kind of
//! pilots what there is of it, what waits there, and whether a request would have one come.

use super::paper::{Paper, Tone};
use super::table::{Cell, Table};
use super::time::Reader;
use shipway_api::types::{GpusThere, PendingPilots, SiteGpus};
use shipway_model::prospect::count;
use shipway_model::reason::SiteWait;

pub(super) fn write(paper: &mut Paper, classes: &[SiteGpus], reader: &Reader) {
    let Some(first) = classes.first() else { return };
    paper.end_line();
    let is_asked = first.would_do.is_some() || !first.waits.is_empty();
    let mut heading =
        vec!["SITE", "CLASS", "EACH PILOT", "RUNNING", "PENDING", "MORE", "THE SITE HAS"];
    heading.extend(is_asked.then_some("MATCH"));
    let mut table = Table::new(&heading);
    for class in classes {
        let pending: u32 = class.pending.iter().map(|alike| alike.pilots).sum();
        let mut cells = vec![
            Cell::from(&class.site),
            Cell::from(&class.class),
            each(class).into(),
            class.running.into(),
            pending.into(),
            class.room.into(),
            class.there.as_ref().map_or_else(|| "-".into(), |there| has(there, reader)).into(),
        ];
        cells.extend(is_asked.then(|| matched(class)));
        table.row(cells);
    }
    table.write(paper);
    for class in classes {
        for alike in &class.pending {
            paper.line(&format!(
                "  site {} ({}): {}",
                class.site,
                class.class,
                waits(class, alike, reader)
            ));
        }
    }
    for class in classes {
        for wait in &class.waits {
            let (site, name) = (&class.site, &class.class);
            let said = if wait.is_hopeless() { "kept out: " } else { "" };
            // How many wait there stands above.
            if !matches!(wait, SiteWait::Asking | SiteWait::Pending { .. }) {
                paper.line(&format!("  site {site} ({name}): {said}{wait}"));
            }
        }
    }
}

/// `2 × NVIDIA A100 (40GB)`
fn each(class: &SiteGpus) -> String {
    let gpus = &class.gpus;
    let slice = gpus.slice.as_ref().map(|slice| format!(" {slice}")).unwrap_or_default();
    format!("{} × {}{slice} ({})", gpus.count, gpus.model, gpus.memory)
}

/// `8 on 2 nodes, 4 on idle ones (12s ago)`
fn has(there: &GpusThere, reader: &Reader) -> String {
    let GpusThere { seen, nodes, up, gpus, gpus_idle, .. } = there;
    let down = nodes.saturating_sub(*up);
    let down = if down > 0 { format!(" ({down} not up)") } else { String::new() };
    let age = reader.age(*seen);
    format!("{gpus} on {}{down}, {gpus_idle} on idle ones ({age} ago)", count(*nodes, "node"))
}

/// `2 pilots wait, the first for 3m; Slurm said 10s ago: PENDING (Resources)`
fn waits(class: &SiteGpus, alike: &PendingPilots, reader: &Reader) -> String {
    let PendingPilots { pilots, since, words } = alike;
    let age = reader.age(*since);
    let waiting = match pilots {
        1 => format!("1 pilot has waited {age}"),
        _ => format!("{pilots} pilots wait, the first for {age}"),
    };
    let when = class.heard.map(|heard| format!(" {} ago", reader.age(heard)));
    match words.as_str() {
        "" => format!("{waiting}; {} has not said how it stands with that", class.kind),
        words => format!("{waiting}; {} said{}: {words}", class.kind, when.unwrap_or_default()),
    }
}

/// What a request would find of it.
fn matched(class: &SiteGpus) -> Cell {
    match class.would_do {
        None => Cell::toned("not known", Tone::Plain),
        Some(false) => Cell::toned("no", Tone::Faint),
        Some(true) if class.room > 0 => Cell::toned("can be asked for", Tone::Good),
        Some(true) => Cell::toned("later", Tone::Plain),
    }
}

/// How many classes would do for a request, and of how many a pilot can be asked for now.
pub(super) fn sentence(classes: &[SiteGpus]) -> Option<String> {
    let would = || classes.iter().filter(|class| class.would_do == Some(true));
    let could = u32::try_from(would().count()).unwrap_or(u32::MAX);
    let now = would().filter(|class| class.room > 0).count();
    let classes_of =
        |number| if number == 1 { "1 class".into() } else { format!("{number} classes") };
    (!classes.is_empty()).then(|| match (could, now) {
        (0, _) => "at sites no class could".to_owned(),
        (could, 0) => format!("at sites {} could, none now", classes_of(could)),
        (could, now) => format!("at sites {} could, {now} now", classes_of(could)),
    })
}
