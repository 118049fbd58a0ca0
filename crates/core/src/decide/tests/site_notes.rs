//! What stays noted at a site: pilots that had other than was asked for, and what people did to it.

use super::sites::{admin, described, hpc, site};
use super::*;
use crate::batch::{Did, Finding};
use shipway_model::reason::SiteWait;

const LEASE: Option<Millis> = Some(Millis(600_000));

/// One pilot of class `a100` is asked for: eight cores, 16 GB and one GPU.
fn asked() -> (Told, JobId, String) {
    let mut told = Told::with_site();
    let job = told.submit(r#"{"array":"1-2","resources":{"gpu":1}}"#);
    let name = told.broker().remove(0);
    (told, job, name)
}

fn finding(told: &Told) -> Option<(String, String)> {
    let found = told.state.sites()[&hpc()].findings.get("a100");
    found.map(|Finding { node, words, .. }| (node.to_string(), words.clone()))
}

fn differs(told: &Told, job: JobId) -> Vec<(String, String)> {
    let found = told.why(job).into_iter().filter_map(|why| {
        let Reason::AtSite { class, wait: SiteWait::Differs { words, .. }, .. } = why else {
            return None;
        };
        Some((class, words))
    });
    found.collect()
}

#[test]
fn what_a_pilot_lacks_stays_known_when_it_is_gone() {
    let words = "asked for 1 GPU, found 2; asked for 8 cores, found 4";
    let (mut told, job, name) = asked();
    assert_eq!(finding(&told), None);
    told.comes(&name, 4, 2);
    assert_eq!(finding(&told), Some((name.clone(), words.into())));
    let seen = told.state.sites()[&hpc()].findings["a100"].at;
    assert_eq!(seen, Timestamp(told.now));
    told.apply(Command::PilotEnded { pilot: id(&name) });
    told.sees(&[]);
    assert!(told.state.allocations().len() <= 1 && told.state.pilots().is_empty());
    assert_eq!(finding(&told), Some((name, words.into())));
    assert_eq!(differs(&told, job), [("a100".to_owned(), words.to_owned())]);
    told.apply(site(r#","wall":"1h""#));
    assert_eq!((finding(&told), differs(&told, job)), (None, vec![]), "its file was changed");
}

#[test]
fn slices_and_whole_gpus_are_told_apart() {
    let finds = |wanted: Option<&str>, found: Option<&str>| {
        let mut told = Told::with_site();
        let mut spec = described("");
        spec.classes[0].gpus.as_mut().expect("some").slice = wanted.map(str::to_owned);
        told.apply(Command::AddSite { by: admin(), spec: Box::new(spec) });
        let gpu = wanted.unwrap_or("1");
        told.submit(&format!(r#"{{"resources":{{"gpu":"{gpu}"}}}}"#));
        let name = told.broker().remove(0);
        let mut joined = PilotJoined { lease: LEASE, ..pilot(&name, 8, 1) };
        joined.ad.gpus[0].slice = found.map(str::to_owned);
        told.apply(Command::PilotJoined(Box::new(joined)));
        finding(&told).map(|(_, words)| words)
    };
    let slice = Some("1g.10gb");
    for (wanted, found, words) in [
        (slice, slice, None),
        (slice, Some("1G.10GB"), None),
        (None, None, None),
        (slice, None, Some("asked for a slice 1g.10gb, found a whole GPU")),
        (slice, Some("2g.20gb"), Some("asked for a slice 1g.10gb, found a slice 2g.20gb")),
        (None, slice, Some("asked for a whole GPU, found a slice 1g.10gb")),
    ] {
        assert_eq!(finds(wanted, found).as_deref(), words, "{wanted:?} {found:?}");
    }
}

#[test]
fn what_is_as_asked_for_is_no_finding() {
    for (cpus, gpus, withheld) in [(8, 1, false), (16, 1, false), (8, 1, true)] {
        let (mut told, job, name) = asked();
        let mut joined = PilotJoined { lease: LEASE, ..pilot(&name, cpus, gpus) };
        // A sixteenth less is how some count.
        joined.ad.capacity.memory = Bytes(15_100_000_000);
        if withheld {
            let gpu = joined.ad.gpus.remove(0);
            let yet = shipway_model::Withheld { gpu, name: "GPU 0".into(), why: None };
            joined.ad.withheld.push(yet);
        }
        told.apply(Command::PilotJoined(Box::new(joined)));
        assert_eq!((finding(&told), differs(&told, job)), (None, vec![]), "{cpus} {withheld}");
    }
}

#[test]
fn what_was_asked_for_by_another_file_is_not_judged_by_this_one() {
    let (mut told, _, name) = asked();
    let mut spec = described("");
    spec.classes[0].cpus = Cores::whole(64);
    told.apply(Command::AddSite { by: admin(), spec: Box::new(spec) });
    told.comes(&name, 8, 1);
    assert_eq!(finding(&told), None);
}

#[test]
fn a_difference_is_written_down_once_and_again_when_it_is_another() {
    let (mut told, _, name) = asked();
    let mut joined = PilotJoined { lease: LEASE, ..pilot(&name, 8, 0) };
    let is_note = |event: &Event| matches!(event, Event::SiteDiffers { .. });
    let events = told.apply(Command::PilotJoined(Box::new(joined.clone())));
    assert_eq!(events.iter().filter(|event| is_note(event)).count(), 1);
    joined.connection = ConnectionNumber(2);
    let events = told.apply(Command::PilotJoined(Box::new(joined.clone())));
    assert_eq!(events.iter().filter(|event| is_note(event)).count(), 0, "known: {events:?}");
    let mut ad = joined.ad.clone();
    ad.capacity.memory = Bytes(8_000_000_000);
    let changed = Command::PilotChanged {
        pilot: id(&name),
        connection: ConnectionNumber(2),
        ad: Box::new(ad),
    };
    told.apply(changed);
    let words = "asked for 1 GPU, found none; asked for 16GB of memory, found 8GB";
    assert_eq!(finding(&told), Some((name, words.into())));
}

#[test]
fn who_did_what_to_a_site_stays_known() {
    let mut told = Told::with_site();
    let other = || actor("lin", Role::Admin);
    let drain = |by, draining| Command::DrainSite { by, site: hpc(), draining };
    told.apply(drain(other(), true));
    told.apply(drain(admin(), true));
    told.apply(drain(admin(), false));
    told.apply(Command::AddSite { by: other(), spec: Box::new(described(r#","wall":"1h""#)) });
    let seen: Vec<(String, Did)> = told.state.sites()[&hpc()]
        .changes
        .iter()
        .map(|change| (change.by.as_ref().map(ToString::to_string).expect("known"), change.what))
        .collect();
    let did = |name: &str, what| (name.to_owned(), what);
    let expected = [
        did("root", Did::Added),
        did("lin", Did::Drained),
        did("root", Did::Resumed),
        did("lin", Did::Changed),
    ];
    assert_eq!(seen, expected, "what was so already is no change");
    for round in 0..120 {
        told.apply(drain(other(), round % 2 == 0));
    }
    let changes = &told.state.sites()[&hpc()].changes;
    assert_eq!((changes.len(), changes[0].what), (100, Did::Added), "how it began is kept");
    let events = told.apply(Command::RemoveSite { by: other(), site: hpc() });
    assert_eq!(events, [Event::SiteRemoved { site: hpc(), by: Some(other().user) }]);
}
