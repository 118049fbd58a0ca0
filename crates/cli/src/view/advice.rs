//! What would let a job start, in one list: what it could ask for instead, as the server found it,
//! and for reasons that waiting will not end, what else would help.

use super::paper::Paper;
use shipway_model::prospect::Change;
use shipway_model::reason::{KeptFrom, SiteWait};
use shipway_model::{EngineTrouble, Millis, Quantity, Reason};

/// The site of all nodes that no batch system gives.
const THIS_MACHINE: &str = "this-machine";

#[derive(Debug)]
pub(super) struct Advice {
    /// Nothing but a change will start it.
    is_hopeless: bool,
    lines: Vec<String>,
}

impl Advice {
    pub(super) fn of(reasons: &[Reason], changes: &[Change]) -> Self {
        // One node class that is too small does not matter while another one is merely busy.
        let is_hopeless = !reasons.is_empty() && reasons.iter().all(Reason::is_hopeless);
        let mut lines: Vec<String> = changes.iter().map(ToString::to_string).collect();
        let others = reasons.iter().filter(|_| is_hopeless);
        let at_sites = reasons.iter().filter(|it| is_alone(it, reasons)).filter_map(at_site);
        for advice in at_sites.chain(others.filter_map(|reason| beyond(reason, changes))) {
            if !lines.contains(&advice) {
                lines.push(advice);
            }
        }
        Advice { is_hopeless, lines }
    }

    pub(super) fn write(&self, paper: &mut Paper) {
        if self.lines.is_empty() {
            return;
        }
        paper.end_line();
        paper.line(if self.is_hopeless {
            "Waiting alone will not start it. What would:"
        } else {
            "What would let it start:"
        });
        for line in &self.lines {
            paper.line(&format!("  - {line}"));
        }
    }
}

/// Whether nothing else keeps the job from some kind of nodes of the same site, so that what is
/// said of this reason is enough.
fn is_alone(reason: &Reason, all: &[Reason]) -> bool {
    let Reason::AtSite { site, class, .. } = reason else { return false };
    let others = || all.iter().filter(|other| *other != reason && other.is_hopeless());
    let is_in_the_way = |other: &Reason, name: &str| match other {
        Reason::AtSite { site: at, class, wait } => {
            let of_all = matches!(wait, SiteWait::KeptFrom { .. });
            at == site && (of_all || class == name)
        }
        // Nodes of no site stand for themselves.
        _ => site.as_str() == THIS_MACHINE,
    };
    class.split(", ").any(|name| !others().any(|other| is_in_the_way(other, name)))
}

/// What would open a site to the job.
fn at_site(reason: &Reason) -> Option<String> {
    let Reason::AtSite { site, wait, .. } = reason else { return None };
    match wait {
        SiteWait::KeptFrom { why: KeptFrom::Path { .. } } => Some(format!(
            "name only paths that site {site} shares (`shipway site show {site}`), or none \
             (--sandbox, by which the directory travels, or --workdir private)"
        )),
        SiteWait::KeptFrom { why: KeptFrom::Tag { tag } } => Some(format!(
            "leave out --tag {tag}, or have it added to a site that has what it means"
        )),
        SiteWait::KeptFrom { why: KeptFrom::RequiredTag { tag } } => {
            Some(format!("ask for site {site} with --tag {tag}"))
        }
        SiteWait::TooShort { found: Millis(0), .. } => {
            Some(format!("an admin gives site {site} a longer `wall`"))
        }
        SiteWait::TooShort { found, .. } => Some(format!(
            "ask for less time: --time-limit and the time to end after it within {found}"
        )),
        SiteWait::Draining => {
            Some(format!("an admin opens it again: `shipway site resume {site}`"))
        }
        // Some trouble passes by itself; the rest says the same until somebody mends it.
        SiteWait::Trouble { what, .. } => {
            let passes = matches!(what, EngineTrouble::NotNow | EngineTrouble::NotReached);
            (!passes).then(|| {
                format!("an admin mends what is wrong there: `shipway site show {site}` has it")
            })
        }
        SiteWait::KeptFrom { why: KeptFrom::User { .. } | KeptFrom::UnknownPaths }
        | SiteWait::TooSmall { .. }
        | SiteWait::Requires { .. }
        | SiteWait::Pending { .. }
        | SiteWait::AtLimit { .. }
        | SiteWait::HasGpus
        | SiteWait::AsGuest { .. }
        | SiteWait::Asking
        | SiteWait::Differs { .. } => None,
    }
}

/// For a hopeless reason, what the changes do not say already.
fn beyond(reason: &Reason, changes: &[Change]) -> Option<String> {
    match reason {
        Reason::NoNodes => Some(
            "connect a node: `shipway up` without --no-pilot runs tasks on this machine, `shipway \
             pilot` on another, and `shipway site add` has a batch system supply some"
                .into(),
        ),
        // It looks again by itself.
        Reason::Unfit { node, .. } => {
            Some(format!("mend node {node} (`shipway doctor` there says how)"))
        }
        Reason::Withheld { node, why: Some(_), .. } => Some(format!(
            "mend the GPU of node {node} (`shipway doctor` there says how), then start its pilot \
             again"
        )),
        Reason::Requires { failed, .. } if failed.of_image => Some(
            "mend containers there (`shipway doctor` on the node says how), connect a node where \
             they start, or leave the image out"
                .into(),
        ),
        Reason::Requires { failed, .. } if failed.beyond.is_some() => {
            Some("make the requirements shorter: together they ask for too much work".into())
        }
        Reason::SetAside { .. } => Some(
            "ask for it in other words (--requirements, --gpus), and tell whoever runs the server: \
             its log says where it failed"
                .into(),
        ),
        Reason::Requires { failed, .. } => {
            let known = changes.iter().any(|change| change.without.as_ref() == Some(&failed.term));
            let nearest = failed.found.iter().find_map(|found| {
                Some(format!("write {} instead of {}", found.nearest.as_ref()?, found.name))
            });
            let term = &failed.term;
            let other = || {
                if known {
                    return format!("connect a node for which {term} holds");
                }
                format!("ask for less than {term}, or connect a node for which it holds")
            };
            Some(nearest.unwrap_or_else(other))
        }
        Reason::TooSmall { wanted, .. }
            if changes.iter().any(|change| change.instead_of.contains(wanted)) =>
        {
            Some(format!("connect a node that has {wanted}"))
        }
        Reason::TooSmall { wanted: Quantity::Time { .. }, .. } => Some(
            "ask for less time (--time-limit), or wait for a node that is lent for longer".into(),
        ),
        Reason::TooSmall { wanted, found, .. } => {
            let option = wanted.option();
            let less = match found.raw() {
                0 => format!("ask for none (no {option})"),
                _ => format!("ask for at most {} ({option})", found.amount()),
            };
            Some(format!("{less}, or connect a node that has {wanted}"))
        }
        _ => None,
    }
}
