//! Whether a specification makes sense, and whether its expressions can be read: asked before it is
//! sent, so that the answer can name the place.

use shipway_model::JobSpec;
use shipway_model::validate::{Problem, validate};

pub(crate) fn problems(spec: &JobSpec) -> Vec<Problem> {
    let mut problems = validate(spec).err().unwrap_or_default();
    let fields: [(_, _, fn(&str) -> Option<String>); 2] = [
        ("requirements", &spec.requirements, shipway_classad::requirements_complaint),
        ("rank", &spec.rank, shipway_classad::rank_complaint),
    ];
    for (field, text, complaint) in fields {
        let known = problems.iter().any(|problem| problem.field == field);
        let what = text.as_deref().filter(|_| !known).and_then(complaint);
        problems.extend(what.map(|what| Problem { field, what }));
    }
    problems
}
