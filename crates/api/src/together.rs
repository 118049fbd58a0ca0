//! Jobs of one request that wait for each other, by name: which comes first. Pure; the server asks
//! it of every such request, and the command line before it sends one.

use crate::job_form::nearest;
use shipway_model::validate::Problem;
use shipway_model::{AfterNamed, Condition};
use std::collections::{BTreeMap, BTreeSet};

/// Jobs of one request.
pub const MAX_TOGETHER: usize = 1_000;
/// Of a circle that goes on and on the rest says nothing more.
const NAMED_IN_A_CIRCLE: usize = 8;

/// One of the jobs, as far as the others have to do with it.
#[derive(Debug, Clone, Copy)]
pub struct Named<'a> {
    /// Empty: nobody can wait for it.
    pub name: &'a str,
    pub after: &'a [AfterNamed],
}

/// A job in its turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Turn {
    /// Which one it is, counted as they were given.
    pub job: usize,
    /// The turns of those it waits for, all of them earlier.
    pub after: Vec<(usize, Condition)>,
}

/// Each after those it waits for, and otherwise as they were given.
pub fn in_turn(jobs: &[Named<'_>]) -> Result<Vec<Turn>, Problem> {
    let awaited = awaited(jobs)?;
    let mut left: Vec<usize> = awaited.iter().map(Vec::len).collect();
    let mut waiting: Vec<Vec<usize>> = vec![Vec::new(); jobs.len()];
    for (job, awaited) in awaited.iter().enumerate() {
        for (other, _) in awaited {
            waiting.get_mut(*other).into_iter().for_each(|waiting| waiting.push(job));
        }
    }
    let free = left.iter().enumerate().filter(|(_, left)| **left == 0).map(|(job, _)| job);
    let mut free: BTreeSet<usize> = free.collect();
    let mut turns: Vec<Option<usize>> = vec![None; jobs.len()];
    let mut order = Vec::with_capacity(jobs.len());
    while let Some(job) = free.pop_first() {
        turns.get_mut(job).into_iter().for_each(|turn| *turn = Some(order.len()));
        order.push(job);
        for other in waiting.get(job).into_iter().flatten() {
            let Some(left) = left.get_mut(*other) else { continue };
            *left = left.saturating_sub(1);
            if *left == 0 {
                free.insert(*other);
            }
        }
    }
    if order.len() < jobs.len() {
        return Err(circle(jobs, &awaited, &turns));
    }
    let turn = |(job, condition): &(usize, Condition)| {
        turns.get(*job).copied().flatten().map(|turn| (turn, *condition))
    };
    let one = |job: usize| {
        let after = awaited.get(job).into_iter().flatten().filter_map(turn).collect();
        Turn { job, after }
    };
    Ok(order.into_iter().map(one).collect())
}

/// For each job those it waits for, as they were given.
fn awaited(jobs: &[Named<'_>]) -> Result<Vec<Vec<(usize, Condition)>>, Problem> {
    let mut known: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (at, job) in jobs.iter().enumerate().filter(|(_, job)| !job.name.is_empty()) {
        known.entry(job.name).or_default().push(at);
    }
    let find = |after: &AfterNamed| match known.get(after.name.as_str()).map(Vec::as_slice) {
        Some([one]) => Ok((*one, after.condition)),
        Some(several) => {
            let (count, name) = (several.len(), &after.name);
            Err(problem(format!("{count} jobs that come together are called `{name}`")))
        }
        None => Err(problem(nobody(&after.name, &known))),
    };
    jobs.iter().map(|job| job.after.iter().map(find).collect()).collect()
}

fn nobody(name: &str, known: &BTreeMap<&str, Vec<usize>>) -> String {
    let names: Vec<&str> = known.keys().copied().collect();
    let near = nearest(name, &names).map(|near| format!("; did you mean `{near}`?"));
    let near = near.unwrap_or_default();
    format!("`{name}` is neither a job's id nor the name of a job that comes with it{near}")
}

/// Among those that never have their turn each waits for another one of them: who follows that
/// comes round.
fn circle(
    jobs: &[Named<'_>],
    awaited: &[Vec<(usize, Condition)>],
    turns: &[Option<usize>],
) -> Problem {
    let is_stuck = |job: usize| turns.get(job).is_some_and(Option::is_none);
    let next = |job: usize| {
        let others = awaited.get(job).into_iter().flatten();
        others.map(|(other, _)| *other).find(|other| is_stuck(*other))
    };
    let mut way: Vec<usize> = (0..jobs.len()).find(|job| is_stuck(*job)).into_iter().collect();
    let mut seen: BTreeSet<usize> = way.iter().copied().collect();
    while let Some(job) = way.last().and_then(|last| next(*last)) {
        way.push(job);
        if !seen.insert(job) {
            break;
        }
    }
    let last = way.last().copied();
    let round = way.iter().skip_while(|job| Some(**job) != last);
    let names = round.filter_map(|job| jobs.get(*job)).map(|job| format!("`{}`", job.name));
    let mut names: Vec<String> = names.collect();
    if names.len() > NAMED_IN_A_CIRCLE {
        names.truncate(NAMED_IN_A_CIRCLE);
        names.push("…".into());
    }
    problem(format!("these jobs wait for each other: {}", names.join(" after ")))
}

fn problem(what: String) -> Problem {
    Problem { field: "after", what }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(texts: &[&str]) -> Vec<AfterNamed> {
        texts.iter().map(|text| text.parse().expect(text)).collect()
    }

    fn turns(jobs: &[(&str, &[&str])]) -> Result<Vec<Turn>, String> {
        let jobs: Vec<_> = jobs.iter().map(|(name, texts)| (*name, after(texts))).collect();
        let named: Vec<Named<'_>> =
            jobs.iter().map(|(name, after)| Named { name, after }).collect();
        in_turn(&named).map_err(|problem| problem.what)
    }

    #[test]
    fn each_comes_after_those_it_waits_for_and_otherwise_as_given() {
        let found = turns(&[
            ("last", &["left", "right:any"]),
            ("left", &["first"]),
            ("right", &["first:failed"]),
            ("", &[]),
            ("first", &[]),
        ]);
        let found = found.expect("no circle");
        let order: Vec<usize> = found.iter().map(|turn| turn.job).collect();
        assert_eq!(order, [3, 4, 1, 2, 0]);
        assert_eq!(found[4].after, [(2, Condition::Ok), (3, Condition::Any)]);
        assert_eq!(found[3].after, [(1, Condition::Failed)]);
    }

    #[test]
    fn what_cannot_be_put_in_turn_is_named() {
        let circle = turns(&[("a", &["c"]), ("b", &["a"]), ("c", &["b"]), ("d", &["a"])]);
        assert_eq!(
            circle.expect_err("a circle"),
            "these jobs wait for each other: `a` after `c` after `b` after `a`"
        );
        let own = turns(&[("a", &["a"])]).expect_err("a circle");
        assert_eq!(own, "these jobs wait for each other: `a` after `a`");
        let tail = turns(&[("t", &["a"]), ("a", &["b"]), ("b", &["a"])]).expect_err("a circle");
        assert_eq!(tail, "these jobs wait for each other: `a` after `b` after `a`");
        let twice = turns(&[("a", &[]), ("a", &[]), ("b", &["a"])]).expect_err("two");
        assert_eq!(twice, "2 jobs that come together are called `a`");
        let unknown = turns(&[("prepare", &[]), ("b", &["prepar"])]).expect_err("nobody");
        assert!(unknown.ends_with("did you mean `prepare`?"), "{unknown}");
        assert!(turns(&[("a", &[]), ("a", &[])]).is_ok(), "nobody asks which");
    }
}
