//! Whether containers start, and what the kernel gives them.

use super::super::facts::{ContainerFacts, Overlay};
use super::super::{About, Check};
use shipway_runtime::cgroup::Delegation;

pub(super) fn checks(facts: &ContainerFacts) -> Vec<Check> {
    let mut checks = vec![namespaces(facts)];
    checks.extend(facts.findings.iter().map(|finding| match &finding.problem {
        None => Check::ok("containers", "a container starts", &finding.found),
        Some(problem) => {
            let check = Check::ok("containers", &problem.wanted, &finding.found);
            check.failed(&problem.fix).about(About::Containers)
        }
    }));
    checks.extend([overlay(facts), limits(&facts.delegation), filters(facts)]);
    checks
}

pub(super) fn one_started(facts: &ContainerFacts) -> bool {
    facts.findings.iter().all(|finding| finding.problem.is_none())
}

fn namespaces(facts: &ContainerFacts) -> Check {
    let check = |found: String| Check::ok("user namespaces", "ordinary users may make them", found);
    let refusing = facts.switches.iter().find(|switch| switch.refuses);
    match refusing {
        Some(switch) => {
            let check = check(format!("{} is {}", switch.name, switch.value));
            let other = if switch.value == "0" { "1 or more" } else { "0" };
            let fix = format!("as root: set {} to {other} (`sysctl -w`)", switch.name);
            if one_started(facts) { check } else { check.failed(fix) }
        }
        None if one_started(facts) => check("a container started in one".into()),
        None => check("no switch refuses them, and no container starts".into())
            .warning("see what is said of containers"),
    }
}

fn overlay(facts: &ContainerFacts) -> Check {
    let wanted = "a user namespace may mount overlays";
    let check = |found: &str| Check::ok("overlay", wanted, found);
    match &facts.overlay {
        _ if !one_started(facts) => check("no container starts").not_applicable(),
        Overlay::Works => check("mounted in a user namespace"),
        Overlay::Refused(why) => check(&format!("refused: {why}")).warning(
            "a kernel from 5.11 on with overlayfs, and images on a file system that it takes; \
             until then tasks cannot write to the files of their image",
        ),
        Overlay::Unknown(why) => check(&format!("cannot be told: {why}")).not_applicable(),
    }
}

fn limits(delegation: &Delegation) -> Check {
    let check = |found: &str| Check::ok("cgroups", "delegated to this user", found);
    let fix = "as root: run shipway as a systemd service with `Delegate=yes`; until then memory is \
               watched by looking once a second";
    match delegation {
        Delegation::V2 { parent } => check(&format!("version 2, {}", parent.display())),
        Delegation::V1 { memory: Some(_), .. } => check("version 1, with memory"),
        Delegation::V1 { .. } => check("version 1, without memory").warning(fix),
        Delegation::Polled { why } => check(why).warning(fix),
    }
}

fn filters(facts: &ContainerFacts) -> Check {
    let check = |found: &str| Check::ok("seccomp", "the kernel filters system calls", found);
    match &facts.seccomp {
        Some(actions) if actions.split_whitespace().any(|action| action == "errno") => {
            check("filters can be set")
        }
        // Without its list the kernel may still have filters: a container that runs has one.
        _ if one_started(facts) => check("a container started with a filter"),
        _ => check("the kernel names no filters")
            .failed("a kernel with CONFIG_SECCOMP_FILTER; without it no container is started"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::{State, Switch};
    use super::*;
    use shipway_runtime::runtime::Finding;

    fn facts(starts: bool) -> ContainerFacts {
        let finding = if starts {
            Finding::good("native", "a container started")
        } else {
            Finding::bad("native", "EPERM", "one runs", "as root: allow it")
        };
        ContainerFacts {
            findings: vec![finding],
            overlay: Overlay::Works,
            switches: Vec::new(),
            delegation: Delegation::V2 { parent: "/sys/fs/cgroup/x".into() },
            seccomp: Some("kill_process errno allow".into()),
        }
    }

    fn states(facts: &ContainerFacts) -> Vec<(String, State)> {
        checks(facts).into_iter().map(|check| (check.name, check.state)).collect()
    }

    fn with(expected: [State; 5]) -> Vec<(String, State)> {
        let names = ["user namespaces", "containers", "overlay", "cgroups", "seccomp"];
        names.iter().map(ToString::to_string).zip(expected).collect()
    }

    #[test]
    fn a_good_node_and_a_bad_one() {
        use State::{Failed, NotApplicable, Ok, Warning};
        assert_eq!(states(&facts(true)), with([Ok; 5]));
        let mut bad = facts(false);
        bad.switches = vec![Switch { name: "user.max".into(), value: "0".into(), refuses: true }];
        bad.delegation = Delegation::Polled { why: "none".into() };
        bad.seccomp = None;
        assert_eq!(states(&bad), with([Failed, Failed, NotApplicable, Warning, Failed]));
        assert!(checks(&bad)[0].fix.as_ref().unwrap().contains("user.max to 1 or more"));
        bad.switches.clear();
        assert_eq!(checks(&bad)[0].state, Warning);
    }

    #[test]
    fn what_is_missing_and_what_is_broken_differ() {
        let mut node = facts(true);
        node.overlay = Overlay::Refused("no".into());
        node.delegation = Delegation::V1 { memory: None, pids: None, cpu: Some("/c".into()) };
        let expected = [State::Ok, State::Ok, State::Warning, State::Warning, State::Ok];
        assert_eq!(states(&node), with(expected));
        node.overlay = Overlay::Unknown("no shell".into());
        assert_eq!(checks(&node)[2].state, State::NotApplicable);
    }
}
