//! Which files a task means.

use super::*;
use shipway_model::{Attempt, JobId, TaskIndex};

fn start(files: link::Files) -> Start {
    let task = JobId(12).task(TaskIndex(3));
    let fields = BTreeMap::from([
        ("line".to_string(), "/data/x.txt".to_string()),
        ("up".to_string(), "../../etc".to_string()),
    ]);
    Start {
        id: AttemptId { task, attempt: Attempt(1) },
        template: Arc::new(link::Template { files: Some(files), ..Default::default() }.into()),
        taken: None,
        devices: Vec::new(),
        fields: Arc::new(fields.into()),
    }
}

fn input(source: &str, target: Option<&str>) -> Result<(String, bool, String), BadFile> {
    let map = FileMap { source: source.into(), target: target.map(Into::into) };
    let files = link::Files { basedir: "/base".into(), inputs: vec![map], ..Default::default() };
    let start = start(files);
    let (names, named) = Names::of(&start).unwrap();
    let found = names.inputs(&named.inputs)?.remove(0);
    let text = |path: PathBuf| path.to_str().unwrap().to_owned();
    Ok((text(found.source), found.contents, text(found.target)))
}

#[test]
fn inputs_are_named_as_written() {
    for (source, target, expected) in [
        ("a.txt", None, ("/base/a.txt", false, "a.txt")),
        ("/d/a.txt", Some("b"), ("/d/a.txt", false, "b")),
        ("d/a.txt", Some("in/"), ("/base/d/a.txt", false, "in/a.txt")),
        ("d", None, ("/base/d", false, "d")),
        ("d/", None, ("/base/d/", true, "")),
        ("d/", Some("e"), ("/base/d/", true, "e")),
        // A field may be an absolute path.
        ("{line}", Some("{job}.{index}"), ("/data/x.txt", false, "12.3")),
    ] {
        let (from, contents, to) = expected;
        let expected = (from.to_owned(), contents, to.to_owned());
        assert_eq!(input(source, target), Ok(expected), "{source} {target:?}");
    }
}

#[test]
fn nothing_goes_outside() {
    for (source, target) in [("a", Some("{up}")), ("a", Some("{line}")), ("..", None), ("/", None)]
    {
        assert!(input(source, target).is_err(), "{source} {target:?}");
    }
}
