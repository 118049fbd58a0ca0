//! How much memory a job takes beyond a plain one, as an estimate: what the limit for one user is
//! held against. Not a measure of what the process takes.

use crate::job::Job;
use crate::shape::Shape;
use crate::task_table::TaskTable;

/// A range of indices, with how many lie before it.
const RANGE: u64 = 32;
/// A job that is waited for, and the entry that leads back from it.
const AFTER: u64 = 96;
/// A run of tasks that wait to be placed again.
const RUN: u64 = 24;
/// One of tasks that were tried, or are in a back-off.
const KNOWN_RUN: u64 = 48;
/// A range of exit codes.
const CODES: u64 = 8;
/// A shape as it is kept and as the scheduler keeps it.
const SHAPE: u64 = 512;
/// An expression that was read takes several times its text (measured: six).
const READ_EXPRESSION: u64 = 6;
/// A pattern of a regular expression that is kept, with what it learns about its texts.
const PATTERN: u64 = 64 << 10;
/// A text in a list or map.
const TEXT: u64 = 64;

/// Of what is the job's own.
pub(crate) fn of_job(job: &Job) -> u64 {
    let ranges = count(job.indices.range_count()).saturating_sub(1);
    let codes = count(job.terms.retries.on.code_ranges());
    let tags: usize = job.terms.tags.iter().map(|tag| tag.len() + size_of::<String>()).sum();
    let paths = count(job.terms.paths.bytes() + tags);
    let asked = ranges * RANGE + count(job.after.len()) * AFTER + codes * CODES + paths;
    asked + of_tasks(&job.tasks)
}

/// Of tasks that fare otherwise than those beside them; changes as they are placed, end, are
/// cancelled and run again.
pub(crate) fn of_tasks(tasks: &TaskTable) -> u64 {
    let (again, known) = tasks.kept_runs();
    count(again) * RUN + count(known) * KNOWN_RUN
}

/// Of what jobs with equal needs share.
pub(crate) fn of_shape(shape: &Shape) -> u64 {
    let gpu = shape.resources.gpu.iter();
    let models = gpu.flat_map(|gpu| gpu.models.iter().chain(&gpu.slice));
    let texts: u64 =
        models.chain(shape.resources.named.keys()).map(|text| count(text.len()) + TEXT).sum();
    let expressions = [&shape.expressions.requirements, &shape.expressions.rank];
    let read: u64 = expressions.into_iter().flatten().map(|text| count(text.len())).sum();
    let expressions = [&shape.expressions.requirements, &shape.expressions.rank];
    let patterns: u64 = expressions.into_iter().flatten().map(|text| patterns(text)).sum();
    SHAPE + texts + read * READ_EXPRESSION + patterns * PATTERN
}

/// At most: all functions that take one have this in their name.
fn patterns(text: &str) -> u64 {
    const NAME: &[u8] = b"regexp";
    count(text.as_bytes().windows(NAME.len()).filter(|at| at.eq_ignore_ascii_case(NAME)).count())
}

fn count(of: usize) -> u64 {
    of as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shape::Expressions;
    use shipway_model::Resources;

    #[test]
    fn patterns_weigh_more_than_their_text() {
        let of = |text: &str| {
            let requirements = Some(text.into());
            let expressions = Expressions { requirements, ..Expressions::default() };
            let gang = crate::shape::Gang::default();
            let (resources, kept_from) = (Resources::default(), Vec::new());
            let (at_most, is_guest) = (None, false);
            of_shape(&Shape { resources, at_most, expressions, gang, kept_from, is_guest })
        };
        let plain = of(r#"Name == "(a.{100}){100}z" || Name == "b""#);
        let patterns = of(r#"regexp("a.*", Name) || RegExpMember("b", Names)"#);
        assert!(plain < PATTERN && patterns > 2 * PATTERN, "{plain} {patterns}");
    }
}
