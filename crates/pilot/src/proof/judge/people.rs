//! Whether tasks of different people run as different users.

use super::super::Check;
use shipway_model::People;

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
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::State;
    use super::*;

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
