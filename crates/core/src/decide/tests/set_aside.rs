//! Mistakes over one job: the others are placed and explained, and that one says so.

use super::*;
use crate::explain::{explain_need, prospect, prospect_of_new};
use crate::job::Terms;
use shipway_model::reason::During;

/// A node with what each of the struck jobs asks for, so that it is looked at as far as that.
fn world() -> Told {
    let mut told = Told::default();
    let mut joined = pilot("p", 8, 0);
    for place in ["panics_in_need", "panics_in_put", "panics_in_look"] {
        joined.ad.capacity.named.insert(place.into(), 9);
    }
    told.apply(Command::PilotJoined(Box::new(joined)));
    told
}

fn struck(place: &str) -> String {
    format!(r#"{{"priority":5,"resources":{{"named":{{"{place}":1}}}}}}"#)
}

#[test]
fn a_job_over_which_planning_fails_is_set_aside_and_the_others_go_on() {
    for place in ["panics_in_need", "panics_in_put"] {
        let mut told = world();
        let bad = told.submit(&struck(place));
        let good = told.submit("{}");
        let placed: Vec<JobId> = told.place().iter().map(|placed| placed.task.job).collect();
        assert_eq!(placed, [good], "{place}");
        assert_eq!(told.why(bad), [Reason::SetAside { during: During::Planning }], "{place}");
        assert!(told.why(bad).iter().all(Reason::is_hopeless));
        // Not tried again, and not in the way of those behind it.
        let next = told.submit("{}");
        assert_eq!(told.why(next), [Reason::Next], "{place}");
        assert_eq!(told.place().len(), 1, "{place}");
        // Cancelling it is as ever.
        told.cancel(bad, Pick::All);
        assert_eq!(told.why(bad), [], "{place}");
    }
}

#[test]
fn a_job_that_cannot_be_explained_costs_only_its_own_answer() {
    let mut told = world();
    let bad = told.submit(&struck("panics_in_look"));
    let good = told.submit("{}");
    let now = Timestamp(told.now);
    let mut explainer = crate::explain::Explainer::new(&told.state, now);
    let reasons = [bad, good, bad].map(|job| explainer.reasons(job));
    let not_explained = Reason::SetAside { during: During::Explaining };
    assert!(reasons[0].contains(&not_explained), "{reasons:?}");
    assert!(!reasons[1].contains(&not_explained), "{reasons:?}");
    assert_eq!(reasons[0], reasons[2]);
    let shape = told.state.shapes().get(told.state.job(bad).expect("known").shape).clone();
    assert_eq!(
        explain_need(&told.state, &shape, (&ada().user, &Terms::default()), now),
        [not_explained]
    );
    prospect_of_new(&told.state, &shape, &ada().user, now);
    assert!(prospect(&told.state, good, now).is_some());
    // It may start all the same.
    assert_eq!(told.place().len(), 2);
}

#[test]
fn pilots_are_asked_for_whatever_is_wrong_with_the_shape_of_another_job() {
    let mut told = Told::with_site();
    told.submit(r#"{"priority":5,"resources":{"gpu":1,"named":{"panics_in_need":1}}}"#);
    assert_eq!(told.asks(), []);
    told.submit(r#"{"array":"1-3","resources":{"gpu":1}}"#);
    assert_eq!(told.asks(), [("a100".into(), 3)]);
}
