//! Whether a specification makes sense, and whether its expressions can be read: asked before it is
//! sent, so that the answer can name the place.

use shipway_classad::{rank_complaint, requirements_complaint};
use shipway_model::JobSpec;
use shipway_model::validate::{Problem, validate_with};

pub(crate) fn problems(spec: &JobSpec) -> Vec<Problem> {
    validate_with(spec, requirements_complaint, rank_complaint).err().unwrap_or_default()
}
