//! Whether a specification makes sense, and whether its expressions can be read: asked before it is
//! sent, so that the answer can name the place.

use shipway_model::JobSpec;
use shipway_model::validate::{Problem, validate};

pub(crate) fn problems(spec: &JobSpec) -> Vec<Problem> {
    let mut problems = validate(spec).err().unwrap_or_default();
    let is_fine = |field: &str| !problems.iter().any(|problem| problem.field == field);
    let requirements = spec.requirements.as_deref().filter(|_| is_fine("requirements"));
    let rank = spec.rank.as_deref().filter(|_| is_fine("rank"));
    let complaints = [
        ("requirements", requirements.and_then(shipway_classad::requirements_complaint)),
        ("rank", rank.and_then(shipway_classad::rank_complaint)),
    ];
    let found = complaints.into_iter();
    problems.extend(found.filter_map(|(field, what)| Some(Problem { field, what: what? })));
    problems
}
