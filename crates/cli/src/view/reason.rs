//! A reason as its reader sees it: the model's sentence, and where it names a time, that time by
//! the reader's clock. What a reason means is said in the model.

use super::time::{Reader, short};
use shipway_model::Reason;
use shipway_model::reason::{ExpectedStart, SiteWait};

pub fn sentence(reason: &Reason, reader: &Reader) -> String {
    if let Reason::AtSite { wait: SiteWait::Trouble { until, .. }, .. } = reason {
        return format!("{reason}; tried again at {}", reader.moment(*until));
    }
    if let Reason::AtSite { wait: SiteWait::Differs { at, .. }, .. } = reason {
        return format!("{reason}; seen at {}", reader.moment(*at));
    }
    if let Reason::AtSite { wait: SiteWait::Pending { pilots, start: Some(start), .. }, .. } =
        reason
    {
        return format!("{reason}; {}", expected(start, *pilots, reader));
    }
    let Reason::BackOff { until, tasks } = reason else { return reason.to_string() };
    let first = if *tasks == 1 { "" } else { ", the first" };
    if *until <= reader.now {
        return format!("{reason}{first} at any moment");
    }
    let wait = short(until.since(reader.now));
    format!("{reason}{first} at {} (in {wait})", reader.moment(*until))
}

/// What is thought of the start of pilots, by whom, and when that was said. Nobody promises it.
fn expected(start: &ExpectedStart, pilots: u32, reader: &Reader) -> String {
    match start {
        ExpectedStart::Engine { by, at, said } => {
            let first = if pilots == 1 { "it" } else { "the first of them" };
            let (at, said) = (reader.moment(*at), reader.age(*said));
            format!("{by} expects {first} to start at {at} (said {said} ago)")
        }
        ExpectedStart::Others { pilots: 1, shortest, newest, .. } => {
            let (waited, age) = (short(*shortest), reader.age(*newest));
            format!("the last pilot there waited {waited} (it started {age} ago)")
        }
        ExpectedStart::Others { pilots, shortest, longest, newest } => {
            let (shortest, longest) = (short(*shortest), short(*longest));
            let waited =
                if shortest == longest { shortest } else { format!("{shortest} to {longest}") };
            let age = reader.age(*newest);
            format!("the last {pilots} pilots there waited {waited} (the newest started {age} ago)")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::tz::TimeZone;
    use shipway_model::Timestamp;

    #[test]
    fn what_is_expected_of_a_pilot_says_by_whom_and_when() {
        let reader = Reader { now: Timestamp(300_000), zone: TimeZone::UTC };
        let said = |pilots: u32, start: serde_json::Value| {
            let wait = serde_json::json!({"kind": "pending", "pilots": pilots, "words": "PENDING",
                "start": start});
            let reason = serde_json::json!({"kind": "at_site", "site": "hpc", "class": "a100",
                "wait": wait});
            let said = sentence(&serde_json::from_value(reason).expect("good"), &reader);
            said.split_once("PENDING; ").expect(&said).1.to_owned()
        };
        let slurm = serde_json::json!({"basis": "engine", "by": "slurm", "at": 360_000,
            "said": 280_000});
        assert_eq!(
            said(1, slurm.clone()),
            "Slurm expects it to start at 1970-01-01 00:06:00 (said 20s ago)"
        );
        assert_eq!(
            said(3, slurm),
            "Slurm expects the first of them to start at 1970-01-01 00:06:00 (said 20s ago)"
        );
        let others = |pilots: u32, longest: &str| {
            serde_json::json!({"basis": "others", "pilots": pilots, "shortest": "40s",
                "longest": longest, "newest": 240_000})
        };
        assert_eq!(
            said(1, others(5, "3m")),
            "the last 5 pilots there waited 40s to 3m (the newest started 1m ago)"
        );
        assert_eq!(
            said(1, others(2, "40s")),
            "the last 2 pilots there waited 40s (the newest started 1m ago)"
        );
        assert_eq!(
            said(1, others(1, "40s")),
            "the last pilot there waited 40s (it started 1m ago)"
        );
    }

    #[test]
    fn a_retry_says_when() {
        let reader = Reader { now: Timestamp(60_000), zone: TimeZone::UTC };
        let said =
            |until, tasks| sentence(&Reason::BackOff { until: Timestamp(until), tasks }, &reader);
        assert_eq!(
            said(90_000, 1),
            "1 failed task will be tried again at 1970-01-01 00:01:30 (in 30s)"
        );
        assert_eq!(
            said(90_000, 3),
            "3 failed tasks will be tried again, the first at 1970-01-01 00:01:30 (in 30s)"
        );
        assert_eq!(said(60_000, 1), "1 failed task will be tried again at any moment");
        assert_eq!(sentence(&Reason::NoNodes, &reader), Reason::NoNodes.to_string());
    }
}
