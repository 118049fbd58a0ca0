//! Whether a specification can run, its expressions included: they are ClassAds, which `model` does
//! not know.

use shipway_model::JobSpec;
use shipway_model::validate::{self, Problem};

/// Every problem at once, each naming its field; that of an expression names the place in it too.
pub fn validate(spec: &JobSpec) -> Result<(), Vec<Problem>> {
    let mut problems = validate::validate(spec).err().unwrap_or_default();
    for (field, text) in [("requirements", &spec.requirements), ("rank", &spec.rank)] {
        let known = problems.iter().any(|problem| problem.field == field);
        let what = text.as_deref().filter(|_| !known).and_then(shipway_classad::complaint);
        problems.extend(what.map(|what| Problem { field, what }));
    }
    if problems.is_empty() { Ok(()) } else { Err(problems) }
}
