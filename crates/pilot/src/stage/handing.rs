//! What a process that copies files is handed by descriptor: folders and files of the pilot's that
//! it could not reach by their paths, because the person it works for may not enter those above.

use super::Plan;
use shipway_runtime::native::handed;
use std::path::PathBuf;

impl Plan {
    /// The same plan for a process that is handed these, in this order.
    pub fn handed(mut self) -> (Self, Vec<PathBuf>) {
        let mut given = Vec::new();
        let mut hand = |path: &mut PathBuf, is_folder| {
            let place = handed(given.len(), is_folder);
            given.push(std::mem::replace(path, place));
        };
        match &mut self {
            Self::In(plan) => plan.work.iter_mut().for_each(|work| hand(work, true)),
            Self::Out(plan) => {
                plan.work.iter_mut().for_each(|work| hand(work, true));
                plan.streams.iter_mut().for_each(|(from, _)| hand(from, false));
            }
            Self::Remove(_) => {}
        }
        (self, given)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{StageIn, StageOut};
    use super::*;

    #[test]
    fn what_is_the_pilots_is_handed_and_the_rest_is_left_as_it_is() {
        let plan = StageOut {
            work: Some("/home/pilot/work/1.0.1/work".into()),
            streams: vec![("/home/pilot/work/1.0.1/stdout.all".into(), "/data/out".into())],
            new_to: Some("/data".into()),
            ..StageOut::default()
        };
        let (Plan::Out(plan), given) = Plan::Out(plan).handed() else { panic!("another plan") };
        assert_eq!(plan.work, Some(handed(0, true)));
        assert_eq!(plan.streams, [(handed(1, false), "/data/out".into())]);
        assert_eq!(plan.new_to, Some("/data".into()));
        let names: Vec<_> = given.iter().filter_map(|path| path.file_name()).collect();
        assert_eq!(names, ["work", "stdout.all"]);
        let plan = StageIn::default();
        assert_eq!(Plan::In(plan.clone()).handed(), (Plan::In(plan), Vec::new()));
    }
}
