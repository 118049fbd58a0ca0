//! The panel of sites: a line for each kind of pilots of each batch system.

use super::grid::{Cell, Grid};
use super::style::Tone;
use crate::top::app::{App, SiteAt};

pub(super) fn grid(app: &App) -> Grid {
    let columns = vec![
        ("SITE", 18),
        ("CLASS", 18),
        ("RUNNING", 7),
        ("PENDING", 7),
        ("AT MOST", 7),
        ("ANSWERED", 10),
        ("TROUBLE", 0),
    ];
    let rows = app.sites().iter().map(|at| row(app, *at)).collect();
    Grid { columns, rows, selected: Some(app.site), empty: "no sites" }
}

fn row(app: &App, SiteAt { site, class }: SiteAt<'_>) -> Vec<Cell> {
    let answered = site.heard.map_or_else(|| "-".into(), |at| app.reader.age(at) + " ago");
    let pending = if class.pending > 0 { Tone::Busy } else { Tone::Plain };
    let running = if class.running > 0 { Tone::Good } else { Tone::Plain };
    vec![
        Cell::from(&site.name),
        Cell::from(&class.name),
        Cell::toned(class.running, running),
        Cell::toned(class.pending, pending),
        class.most.into(),
        answered.into(),
        Cell::toned(trouble(SiteAt { site, class }), Tone::Bad),
    ]
}

/// What stands in the way of asking for one: that of the site, then that of the class.
fn trouble(SiteAt { site, class }: SiteAt<'_>) -> String {
    let draining = (site.state == "draining").then(|| "draining".to_owned());
    let of_it = site.troubles.iter().filter(|one| one.class.is_empty() || one.class == class.name);
    let troubles = of_it.map(|one| format!("{}: {}", one.kind, one.words));
    draining.into_iter().chain(troubles).collect::<Vec<_>>().join("; ")
}
