//! What stands between a job and its start, below the reasons: its place in line, each class of
//! nodes with wanted and found, the smallest change, and when it may start.

use super::advice::Advice;
use super::paper::{Paper, Tone};
use super::table::{Cell, Table};
use super::time::{Reader, short};
use shipway_model::NodeName;
use shipway_model::prospect::{
    ClassProspect, Estimate, Fit, KeptNodes, Prospect, Requirement, count,
};

pub(super) fn write(paper: &mut Paper, prospect: &Prospect, advice: &Advice, reader: &Reader) {
    if let Some(place) = &prospect.place {
        paper.end_line();
        paper.line(&format!("In line: {place}."));
        if let Some(held) = &place.held {
            paper.line(&kept(held, reader));
        }
    }
    if !prospect.classes.is_empty() {
        paper.end_line();
        requirements(&prospect.classes).write(paper);
    }
    advice.write(paper);
    if let Some(estimate) = &prospect.estimate {
        paper.end_line();
        let has_room = prospect.classes.iter().any(|class| class.fit == Fit::Now);
        paper.line(&when(estimate, has_room, reader));
    }
}

fn kept(held: &KeptNodes, reader: &Reader) -> String {
    let until = held.latest.map_or_else(
        || {
            "nobody can say until when: something that runs there has no time limit, or one of \
             more than a week, or somebody who has used less went first; it is looked at again \
             within ten minutes"
                .into()
        },
        |at| {
            let at = reader.moment(at);
            let unless = if held.behind_own {
                "if no others come"
            } else {
                "users who have used less may go first"
            };
            format!("free by {at} at the latest, by time limits; {unless}")
        },
    );
    let from = if held.behind_own {
        ", from tasks of the same user only, as one of those is in the way"
    } else {
        ""
    };
    let names: Vec<&str> = held.nodes.iter().map(NodeName::as_str).collect();
    let nodes = if names.len() == 1 { "node" } else { "nodes" };
    format!("Kept for it: {nodes} {}{from} ({until}).", names.join(", "))
}

fn requirements(classes: &[ClassProspect]) -> Table {
    let mut table = Table::new(&["NODES", "EACH WITH", "WANTED", "HAS", "FREE NOW", "FIT"]);
    for class in classes {
        let tone = match class.fit {
            Fit::Now => Tone::Good,
            Fit::Busy | Fit::Kept => Tone::Plain,
            Fit::Never => Tone::Bad,
        };
        let first = [Cell::from(class.nodes), Cell::from(&class.class)];
        let fit = Cell::toned(class.fit_text(), tone);
        let mut requirements = class.requirements.iter().map(cells);
        let [wanted, has, free] =
            requirements.next().unwrap_or_else(|| [(); 3].map(|()| "".into()));
        table.row(first.into_iter().chain([wanted, has, free, fit]).collect());
        for [wanted, has, free] in requirements {
            let blank = || Cell::from("");
            table.row(vec![blank(), blank(), wanted, has, free, blank()]);
        }
    }
    table
}

fn cells(one: &Requirement) -> [Cell; 3] {
    let has = if one.can_be_met() { Tone::Plain } else { Tone::Bad };
    let free = if one.is_met() { Tone::Plain } else { Tone::Bad };
    let short = |met: bool, text: String| if met { text } else { format!("{text} !") };
    [
        Cell::from(&one.wanted),
        Cell::toned(short(one.can_be_met(), one.has.amount()), has),
        Cell::toned(short(one.is_met(), one.free.amount()), free),
    ]
}

fn when(estimate: &Estimate, has_room: bool, reader: &Reader) -> String {
    let Estimate { at, room_at, jobs_before, tasks_before, work_before, .. } = estimate;
    let Estimate { side_by_side, usual, known_of, .. } = estimate;
    if *at <= reader.now {
        return match (has_room, jobs_before) {
            (true, 0) => "It may start at any moment: there is room, and it is its turn.".into(),
            (true, _) => "There is room; it may start as soon as it is its turn.".into(),
            (false, _) => "It may start soon: what is in its way is due to end.".into(),
        };
    }
    let moment = |at| format!("{} (in {})", reader.moment(at), short(at.since(reader.now)));
    let mut parts = vec![format!("It may start at about {}.", moment(*at))];
    if *room_at > reader.now {
        parts.push(format!("By what runs now there is room at {}.", reader.moment(*room_at)));
    }
    if *jobs_before > 0 {
        let tasks = u32::try_from(*tasks_before).unwrap_or(u32::MAX);
        parts.push(format!(
            "Before it: {} with {}, which take about {}.",
            count(*jobs_before, "job"),
            count(tasks, "waiting task"),
            short(*work_before)
        ));
    }
    if *known_of > 0 {
        let usual = short(*usual);
        parts.push(format!(
            "Tasks like this run {usual} on average (known of {known_of}), {side_by_side} side by \
             side."
        ));
    }
    parts.join(" ")
}
