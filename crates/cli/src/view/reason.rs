//! A reason as its reader sees it: the model's sentence, and where it names a time, that time by
//! the reader's clock. What a reason means is said in the model.

use super::time::{Reader, short};
use shipway_model::Reason;
use shipway_model::reason::SiteWait;

pub fn sentence(reason: &Reason, reader: &Reader) -> String {
    if let Reason::AtSite { wait: SiteWait::Trouble { until, .. }, .. } = reason {
        return format!("{reason}; tried again at {}", reader.moment(*until));
    }
    if let Reason::AtSite { wait: SiteWait::Differs { at, .. }, .. } = reason {
        return format!("{reason}; seen at {}", reader.moment(*at));
    }
    let Reason::BackOff { until, tasks } = reason else { return reason.to_string() };
    let first = if *tasks == 1 { "" } else { ", the first" };
    if *until <= reader.now {
        return format!("{reason}{first} at any moment");
    }
    let wait = short(until.since(reader.now));
    format!("{reason}{first} at {} (in {wait})", reader.moment(*until))
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::tz::TimeZone;
    use shipway_model::Timestamp;

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
