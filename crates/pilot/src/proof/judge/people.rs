//! Whether tasks of different people run as different users.

use super::super::Check;
use shipway_model::People;
use std::mem::discriminant;

pub(super) fn people(people: &People) -> Check {
    let wanted = "tasks of different people run as different users";
    let check = |found: &str| Check::ok("people", wanted, found);
    match people {
        People::ByAccount => check("kept apart by account, as root runs the pilot"),
        People::BySubordinateId => check("kept apart by subordinate id: a container ran as one"),
        People::No { user, why, fix } => {
            let found = format!("people are not kept apart on this node: {why}");
            let fix = format!(
                "{fix}; until then all tasks run as {user}, so let only people submit whom you \
                 would give a shell as {user}"
            );
            check(&found).warning(fix)
        }
        People::Refused { why, fix } => {
            check(&format!("people cannot be kept apart now, so others' tasks are refused: {why}"))
                .warning(fix.clone())
        }
    }
}

/// A pilot keeps what it found when it started: what was mended since is not its yet.
pub(super) fn pilot(found: &People, now: Option<&People>) -> Check {
    let wanted = "the pilot that runs here keeps people apart as this node could";
    let check = |found: &str| Check::ok("pilot", wanted, found);
    match now {
        None => check("none that runs here is in reach").not_applicable(),
        Some(now) if discriminant(now) == discriminant(found) => check("it does what was found"),
        Some(now) => check(&format!("of the pilot that runs here: {now}")).warning(
            "start `shipway up` again, as this user; where it is started with --accounts or \
             --runtime, those are the reason",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::State;
    use super::*;

    #[test]
    fn a_pilot_that_was_started_before_is_to_be_started_again() {
        let why = "svc has no subordinate ids";
        let no = People::No { user: "svc".into(), why: why.into(), fix: "usermod".into() };
        assert_eq!(pilot(&no, None).state, State::NotApplicable);
        assert_eq!(pilot(&no, Some(&no)).state, State::Ok);
        for (found, now) in [(&People::BySubordinateId, &no), (&no, &People::BySubordinateId)] {
            let check = pilot(found, Some(now));
            assert_eq!(check.state, State::Warning, "{check:?}");
            assert!(check.found.contains(&now.to_string()), "{check:?}");
            assert!(check.fix.unwrap().contains("start `shipway up` again"));
        }
    }

    #[test]
    fn people_together_is_a_warning_that_says_what_it_means() {
        assert_eq!(people(&People::ByAccount).state, State::Ok);
        assert_eq!(people(&People::BySubordinateId).state, State::Ok);
        let (why, fix) = ("svc has no subordinate ids".into(), "usermod".into());
        let check = people(&People::No { user: "svc".into(), why, fix });
        assert_eq!(check.state, State::Warning);
        assert!(check.found.contains("not kept apart on this node: svc has no"), "{check:?}");
        let fix = check.fix.unwrap();
        assert!(fix.contains("usermod") && fix.contains("all tasks run as svc"), "{fix}");
    }
}
