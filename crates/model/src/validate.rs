//! Is a specification one that can run? Every problem is found at once, each naming its field.
//!
//! Checks what a specification says by itself; whether the jobs it waits for exist, or any node
//! could run it, needs the state and is asked in `core`.

use crate::files::{FileMap, OutputFiles, Outputs};
use crate::filled::Longest;
use crate::limits::{
    MAX_ARG_BYTES, MAX_ARGS, MAX_BINDS, MAX_DEPENDENCIES, MAX_EACH_ROWS, MAX_EACH_VALUES,
    MAX_EXEC_BYTES, MAX_EXPRESSION_BYTES, MAX_FILES, MAX_LABEL_BYTES, MAX_LABELS, MAX_LOG_LIMIT,
    MAX_NAME_BYTES, MAX_NAMED_RESOURCES, MAX_PATH_BYTES, MAX_RETRIES, MAX_ROW_BYTES,
    MAX_SCRIPT_BYTES, MAX_VARIABLES, MIN_MEMORY, PRIORITY_RANGE,
};
use crate::plain_text::steers;
use crate::spec::JobSpec;
use crate::units::GpuShare;
use std::collections::BTreeSet;
use std::fmt;

/// One thing wrong with one field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    pub field: &'static str,
    pub what: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.what)
    }
}

pub fn validate(spec: &JobSpec) -> Result<(), Vec<Problem>> {
    let mut found = Vec::new();
    let mut check = |good: bool, field: &'static str, what: String| {
        if !good {
            found.push(Problem { field, what });
        }
    };
    let longest = Longest::of(spec);
    check_program(spec, &mut check);
    check_exec(spec, &longest, &mut check);
    check_container(spec, &mut check);
    check_files(spec, &longest, &mut check);
    check_tasks(spec, &mut check);
    check_words(spec, &mut check);
    check_tags(spec, &mut check);
    check_resources(spec, &mut check);
    check_expressions(spec, &mut check);
    if found.is_empty() { Ok(()) } else { Err(found) }
}

/// The same, and what others have to say of the expressions in it, which are only text here. They
/// are not asked about one that is wrong already.
pub fn validate_with(
    spec: &JobSpec,
    of_requirements: impl Fn(&str) -> Option<String>,
    of_rank: impl Fn(&str) -> Option<String>,
) -> Result<(), Vec<Problem>> {
    let mut problems = validate(spec).err().unwrap_or_default();
    let is_fine = |field: &str| !problems.iter().any(|problem| problem.field == field);
    let requirements = spec.requirements.as_deref().filter(|_| is_fine("requirements"));
    let rank = spec.rank.as_deref().filter(|_| is_fine("rank"));
    let complaints = [
        ("requirements", requirements.and_then(of_requirements)),
        ("rank", rank.and_then(of_rank)),
    ];
    let found = complaints.into_iter();
    problems.extend(found.filter_map(|(field, what)| Some(Problem { field, what: what? })));
    if problems.is_empty() { Ok(()) } else { Err(problems) }
}

type Check<'a> = dyn FnMut(bool, &'static str, String) + 'a;

fn check_program(spec: &JobSpec, check: &mut Check<'_>) {
    let something = spec.script.is_some() || !spec.command.is_empty();
    check(something, "command", "a job needs a command or a script".into());
    let first_word = spec.script.is_some() || spec.command.first().is_none_or(|w| !w.is_empty());
    check(first_word, "command", "the program's name is empty".into());
    let script = spec.script.as_deref().unwrap_or_default();
    check(!script.contains('\0'), "script", "a script cannot contain a NUL byte".into());
    let script_fits = script.len() <= MAX_SCRIPT_BYTES;
    check(script_fits, "script", format!("{} bytes; at most {MAX_SCRIPT_BYTES}", script.len()));
    let args = spec.command.len();
    check(args <= MAX_ARGS, "command", format!("{args} arguments; at most {MAX_ARGS}"));
    let absolute = spec.workdir.as_deref().is_none_or(|dir| dir.starts_with('/'));
    check(absolute, "workdir", "must be an absolute path".into());
    let nul = spec.command.iter().chain(spec.env.values()).any(|text| text.contains('\0'));
    check(!nul, "command", "arguments and variables cannot contain a NUL byte".into());
    let variables = spec.env.len();
    let what = format!("{variables} variables; at most {MAX_VARIABLES}");
    check(variables <= MAX_VARIABLES, "env", what);
    for name in spec.env.keys() {
        let good = !name.is_empty() && !name.contains(['=', '\0']);
        check(good, "env", format!("`{name}` is not a name of a variable"));
    }
}

/// What Linux takes for one exec, with the longest values for the fields that are named.
fn check_exec(spec: &JobSpec, longest: &Longest<'_>, check: &mut Check<'_>) {
    let words = spec.command.iter().map(|word| (0, word));
    let pairs = spec.env.iter().map(|(name, value)| (name.len() + 1, value));
    let (mut total, mut most) = (0, 0_usize);
    for (before, text) in words.chain(pairs) {
        let bytes = longest.filled(text).saturating_add(before);
        total = bytes.saturating_add(1).saturating_add(total);
        most = most.max(bytes);
    }
    let with = if spec.each.is_some() { " with the longest values of its fields" } else { "" };
    let what = format!("one argument or variable has {most} bytes{with}; at most {MAX_ARG_BYTES}");
    check(most <= MAX_ARG_BYTES, "command", what);
    let what =
        format!("arguments and variables have {total} bytes{with}; at most {MAX_EXEC_BYTES}");
    check(most > MAX_ARG_BYTES || total <= MAX_EXEC_BYTES, "env", what);
}

fn check_container(spec: &JobSpec, check: &mut Check<'_>) {
    let place = spec.image.as_ref().and_then(|image| image.place());
    check(place.is_none_or(|at| at.starts_with('/')), "image", "must be an absolute path".into());
    let binds = spec.binds.len();
    check(binds <= MAX_BINDS, "binds", format!("{binds} binds; at most {MAX_BINDS}"));
    let targets: BTreeSet<&str> = spec.binds.iter().map(|bind| bind.target.as_str()).collect();
    check(targets.len() == binds, "binds", "two binds have the same target".into());
}

fn check_files(spec: &JobSpec, longest: &Longest<'_>, check: &mut Check<'_>) {
    let folders = [("workdir", &spec.workdir), ("basedir", &spec.basedir)];
    for (key, folder) in folders.into_iter().filter_map(|(key, it)| Some((key, it.as_deref()?))) {
        check_path(key, folder, longest, check);
    }
    let log = spec.event_log.as_deref().map(|file| ("event_log", file));
    for (key, file) in spec.streams().chain(log) {
        check_path(key, file, longest, check);
        let folder = file.ends_with('/') || file.is_empty();
        check(!folder, key, "must be the path of a file".into());
    }
    let to = spec.outputs.as_ref().and_then(|outputs| outputs.to.as_deref());
    if let Some(to) = to {
        check_path("outputs", to, longest, check);
    }
    for (key, files) in [
        ("inputs", spec.inputs.as_slice()),
        ("outputs", spec.outputs.as_ref().map_or(&[], Outputs::names)),
    ] {
        let many = files.len();
        check(many <= MAX_FILES, key, format!("{many} files; at most {MAX_FILES}"));
        for file in files {
            check_path(key, &file.source, longest, check);
            check_path(key, file.target.as_deref().unwrap_or_default(), longest, check);
        }
    }
    for FileMap { source, target } in &spec.inputs {
        let url = source.contains("://");
        let no_file = || format!("`{source}` is not a file: nothing is fetched from elsewhere");
        check(!url, "inputs", no_file());
        let inside = target.as_deref().is_none_or(stays_inside);
        check(inside, "inputs", format!("the target of `{source}` leaves the work directory"));
    }
    for FileMap { source, .. } in spec.outputs.as_ref().map_or(&[][..], Outputs::names) {
        let what = format!("`{source}` is not a name inside the work directory");
        check(stays_inside(source), "outputs", what);
    }
    let renamed = spec.outputs.as_ref().filter(|outputs| outputs.files != OutputFiles::New);
    let alone = renamed.is_none_or(|outputs| outputs.renamed.is_empty());
    check(alone, "outputs", "`renamed` goes with `files: new`; a list says NAME:TARGET".into());
    let own = spec.workdir.is_none();
    let needs = "needs a work directory of the task's own; leave out `workdir`";
    check(own || spec.inputs.is_empty(), "inputs", needs.into());
    check(own || spec.outputs.is_none(), "outputs", needs.into());
    check_sandbox(spec, check);
    let base = spec.basedir.as_deref();
    check(base.is_none_or(|dir| dir.starts_with('/')), "basedir", "must be absolute".into());
    if let (None, Some(key)) = (base, first_relative(spec)) {
        let what = format!("`{key}` has a relative path, which needs a folder to begin in");
        check(false, "basedir", what);
    }
}

/// With files that travel, what is wanted back travels too, and so has no place on the node.
fn check_sandbox(spec: &JobSpec, check: &mut Check<'_>) {
    if spec.sandbox.is_none() {
        return;
    }
    let needs = "needs a work directory of the task's own; leave out `workdir`";
    check(spec.workdir.is_none(), "sandbox", needs.into());
    let Some(outputs) = &spec.outputs else { return };
    let named = outputs.to.is_some()
        || outputs.names().iter().any(|file| file.target.is_some())
        || !outputs.renamed.is_empty();
    let what = "with `sandbox` they are kept by the server under their own names: name no target";
    check(!named, "outputs", what.into());
}

fn check_path(key: &'static str, path: &str, longest: &Longest<'_>, check: &mut Check<'_>) {
    let size = longest.filled(path);
    let with = if size == path.len() { "" } else { " with the longest values of its fields" };
    check(size <= MAX_PATH_BYTES, key, format!("{size} bytes{with}; at most {MAX_PATH_BYTES}"));
    check(!path.contains('\0'), key, "a path cannot contain a NUL byte".into());
}

/// As it is written; where a placeholder leads is looked at on the node.
fn stays_inside(path: &str) -> bool {
    !path.starts_with('/') && path.split('/').all(|part| part != "..")
}

/// The key that needs a folder for relative paths.
fn first_relative(spec: &JobSpec) -> Option<&'static str> {
    let relative = |path: &str| !path.starts_with('/');
    let outputs = spec.outputs.as_ref();
    let outputs = outputs.filter(|_| spec.sandbox.is_none());
    let taken_there = outputs.is_some_and(|outputs| match (&outputs.to, &outputs.files) {
        (Some(to), _) => relative(to),
        (None, OutputFiles::New) => true,
        (None, OutputFiles::Listed(files)) => {
            files.iter().any(|file| file.target.as_deref().is_none_or(relative))
        }
    });
    let stream = spec.streams().find(|(_, file)| relative(file)).map(|(key, _)| key);
    stream
        .or_else(|| spec.event_log.as_deref().is_some_and(relative).then_some("event_log"))
        .or_else(|| spec.inputs.iter().any(|it| relative(&it.source)).then_some("inputs"))
        .or_else(|| taken_there.then_some("outputs"))
}

fn check_tasks(spec: &JobSpec, check: &mut Check<'_>) {
    let both = spec.array.is_some() && spec.each.is_some();
    check(!both, "array", "a job has an array or rows (each), not both".into());
    if let Some(each) = &spec.each {
        let rows = each.len();
        check(rows > 0, "each", "there are no rows".into());
        let values = rows.saturating_mul(each.fields().count());
        let few = values <= MAX_EACH_VALUES;
        check(few, "each", format!("{values} values in all rows; at most {MAX_EACH_VALUES}"));
        check(rows <= MAX_EACH_ROWS, "each", format!("{rows} rows; at most {MAX_EACH_ROWS}"));
        for field in each.fields() {
            let plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
            let good = !field.is_empty() && field.chars().all(plain);
            check(good, "each", format!("`{field}` cannot name a field (letters, digits, _)"));
        }
        let largest = each.largest_row();
        let what =
            format!("a row has {largest} bytes; at most {MAX_ROW_BYTES}, which programs take");
        check(largest <= MAX_ROW_BYTES, "each", what);
        check(!each.has_letter('\0'), "each", "values cannot contain a NUL byte".into());
    }
    let waits = spec.after.len();
    check(waits <= MAX_DEPENDENCIES, "after", format!("{waits} jobs; at most {MAX_DEPENDENCIES}"));
    let different = spec.after.iter().map(|after| after.job).collect::<BTreeSet<_>>().len();
    check(different == waits, "after", "the same job is named twice".into());
    let retries = spec.retries.limit;
    check(retries <= MAX_RETRIES, "retries", format!("{retries}; at most {MAX_RETRIES}"));
    check(spec.max_running != Some(0), "max_running", "0 would never run".into());
    let no_time = spec.time_limit.as_ref().is_some_and(|limit| limit.limit.0 == 0);
    check(!no_time, "time_limit", "0 would never run".into());
}

fn check_words(spec: &JobSpec, check: &mut Check<'_>) {
    let name = spec.name.len();
    check(name <= MAX_NAME_BYTES, "name", format!("{name} bytes; at most {MAX_NAME_BYTES}"));
    let printable = !spec.name.chars().any(steers);
    check(printable, "name", "cannot contain control or direction characters".into());
    let labels = spec.labels.len();
    check(labels <= MAX_LABELS, "labels", format!("{labels} labels; at most {MAX_LABELS}"));
    for (key, value) in spec.labels.iter().take(MAX_LABELS) {
        let size = key.len() + value.len();
        let what = format!("`{key}` has {size} bytes; at most {MAX_LABEL_BYTES}");
        check(size <= MAX_LABEL_BYTES, "labels", what);
        let printable = !key.chars().chain(value.chars()).any(steers);
        let good = !key.is_empty() && !key.contains('=') && printable;
        check(good, "labels", format!("`{key}` is not a label"));
    }
    let (low, high) = (PRIORITY_RANGE.start(), PRIORITY_RANGE.end());
    let inside = PRIORITY_RANGE.contains(&spec.priority);
    check(inside, "priority", format!("{} is not between {low} and {high}", spec.priority));
}

fn check_tags(spec: &JobSpec, check: &mut Check<'_>) {
    for tag in &spec.tags {
        check(is_tag(tag), "tags", format!("`{tag}` is not a tag: {TAG_RULE}"));
    }
}

/// What a tag of a site is, and so what a job can ask for.
pub(crate) const TAG_RULE: &str = "1 to 32 letters, digits, `-`, `_` and `.`";

pub(crate) fn is_tag(text: &str) -> bool {
    let is_good = |c: u8| c.is_ascii_alphanumeric() || b"-_.".contains(&c);
    (1..=32).contains(&text.len()) && text.bytes().all(is_good)
}

fn check_resources(spec: &JobSpec, check: &mut Check<'_>) {
    check(spec.resources.cpus.milli > 0, "resources", "cpus: 0 cores; write 0.1 for little".into());
    let memory = spec.resources.memory;
    let enough = memory.0 == 0 || memory >= MIN_MEMORY;
    let what = format!("memory: {memory}; at least {MIN_MEMORY} (a bare number is bytes)");
    check(enough, "resources", what);
    let named = spec.resources.named.len();
    let what = format!("{named} named resources; at most {MAX_NAMED_RESOURCES}");
    check(named <= MAX_NAMED_RESOURCES, "resources", what);
    if let Some(gpu) = &spec.resources.gpu {
        check(gpu.count > 0, "resources", "a GPU request of 0 devices".into());
        let part = gpu.share < GpuShare::WHOLE;
        let what = "a share is a part of one GPU; its count is 1".to_string();
        check(!part || gpu.count == 1, "resources", what);
        let contradiction = gpu.contradiction();
        let what = format!("gpu: {}", contradiction.as_deref().unwrap_or_default());
        check(contradiction.is_none(), "resources", what);
    }
    let limit = spec.log_limit;
    check(limit <= MAX_LOG_LIMIT, "log_limit", format!("{limit}; at most {MAX_LOG_LIMIT}"));
}

/// Whether they can be read is asked where the language is known.
fn check_expressions(spec: &JobSpec, check: &mut Check<'_>) {
    for (field, text) in [("requirements", &spec.requirements), ("rank", &spec.rank)] {
        let Some(text) = text else { continue };
        let what = format!("{} bytes; at most {MAX_EXPRESSION_BYTES}", text.len());
        check(text.len() <= MAX_EXPRESSION_BYTES, field, what);
        check(!text.trim().is_empty(), field, "the expression is empty".into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_and_arguments_are_few_enough_to_copy() {
        let fields = |variables: usize, words: usize| -> Vec<&str> {
            let env: serde_json::Map<String, serde_json::Value> =
                (0..variables).map(|at| (format!("v{at}"), "x".into())).collect();
            let json = serde_json::json!({"command": vec!["w"; words], "env": env});
            let spec: JobSpec = serde_json::from_value(json).expect("it is read");
            let problems = validate(&spec).err().into_iter().flatten();
            problems.map(|problem| problem.field).collect()
        };
        assert!(fields(MAX_VARIABLES, MAX_ARGS).is_empty());
        assert_eq!(fields(MAX_VARIABLES + 1, 1), ["env"]);
        assert_eq!(fields(0, MAX_ARGS + 1), ["command"]);
    }

    fn sandbox(more: &str) -> String {
        let digest = "00".repeat(32);
        format!(r#"{{"command":["true"],"sandbox":"sha256:{digest}"{more}}}"#)
    }

    /// Each bad specification names its field; the good one passes.
    #[test]
    fn every_problem_names_its_field() {
        let cases = [
            (r#"{"command":["true"]}"#, ""),
            ("{}", "command"),
            (r#"{"command":[""]}"#, "command"),
            (r#"{"command":["a\u0000b"]}"#, "command"),
            (r#"{"command":["true"],"env":{"A=B":"1"}}"#, "env"),
            (r#"{"command":["true"],"workdir":"here"}"#, "workdir"),
            (r#"{"command":["true"],"array":"1-3","each":["a"]}"#, "array"),
            (r#"{"command":["true"],"each":[]}"#, "each"),
            (r#"{"command":["true"],"each":[{"a-b":1}]}"#, "each"),
            (r#"{"command":["true"],"after":[1,"1:any"]}"#, "after"),
            (r#"{"command":["true"],"max_running":0}"#, "max_running"),
            (r#"{"command":["true"],"time_limit":0}"#, "time_limit"),
            (r#"{"command":["true"],"name":"a\nb"}"#, "name"),
            (r#"{"command":["true"],"name":"a\u202eb"}"#, "name"),
            (r#"{"command":["true"],"labels":{"a":"\u2066b"}}"#, "labels"),
            (r#"{"command":["true"],"resources":{"cpus":0}}"#, "resources"),
            (r#"{"command":["true"],"resources":{"memory":1}}"#, "resources"),
            (r#"{"command":["true"],"resources":{"memory":"1MB"}}"#, ""),
            (r#"{"command":["true"],"resources":{"gpu":"40GB..20GB"}}"#, "resources"),
            (r#"{"command":["true"],"resources":{"gpu":{"driver":"9.0..8.0"}}}"#, "resources"),
            (r#"{"command":["true"],"labels":{"":"x"}}"#, "labels"),
            (r#"{"command":["true"],"priority":2000000}"#, "priority"),
            (r#"{"command":["true"],"retries":5000}"#, "retries"),
            (r#"{"command":["true"],"log_limit":"100TB"}"#, "log_limit"),
            (r#"{"command":["true"],"stdout":"/o.{job}","stderr":"/dev/null"}"#, ""),
            (r#"{"command":["true"],"stdout":"out"}"#, "basedir"),
            (r#"{"command":["true"],"stdout":"out","basedir":"/b"}"#, ""),
            (r#"{"command":["true"],"basedir":"b"}"#, "basedir"),
            (r#"{"command":["true"],"stdin":"/in/"}"#, "stdin"),
            (r#"{"command":["true"],"event_log":"/a\u0000"}"#, "event_log"),
            (r#"{"command":["true"],"inputs":["/a","/b/:c/"]}"#, ""),
            (r#"{"command":["true"],"inputs":["a"]}"#, "basedir"),
            (r#"{"command":["true"],"inputs":["/a:../b"]}"#, "inputs"),
            (r#"{"command":["true"],"inputs":["/a:/b"]}"#, "inputs"),
            (r#"{"command":["true"],"inputs":["/a"],"workdir":"/w"}"#, "inputs"),
            (r#"{"command":["true"],"basedir":"/b","inputs":["http\\://x/y"]}"#, "inputs"),
            (r#"{"command":["true"],"outputs":["a:/b"]}"#, ""),
            (r#"{"command":["true"],"outputs":["a"]}"#, "basedir"),
            (r#"{"command":["true"],"outputs":{"files":"new","to":"/t"}}"#, ""),
            (r#"{"command":["true"],"outputs":["/etc/x:/b"]}"#, "outputs"),
            (
                r#"{"command":["true"],"outputs":{"files":["b"],"to":"/","renamed":["a:b"]}}"#,
                "outputs",
            ),
            (
                r#"{"command":["true"],"outputs":{"files":"new","to":"/","renamed":["../a:b"]}}"#,
                "outputs",
            ),
            (r#"{"command":["true"],"outputs":{"files":"new","to":"/","renamed":["a:b"]}}"#, ""),
            (r#"{"command":["true"],"outputs":["a/../../x:/b"]}"#, "outputs"),
            (&sandbox(""), ""),
            (&sandbox(r#","workdir":"/w""#), "sandbox"),
            (&sandbox(r#","outputs":"new""#), ""),
            (&sandbox(r#","outputs":["out/*.txt"]"#), ""),
            (&sandbox(r#","outputs":["out:/etc/x"]"#), "outputs"),
            (&sandbox(r#","outputs":{"files":"new","to":"/t"}"#), "outputs"),
            (&sandbox(r#","outputs":["../x"]"#), "outputs"),
            (r#"{"command":["true"],"requirements":" "}"#, "requirements"),
            (r#"{"command":["true"],"rank":""}"#, "rank"),
        ];
        for (json, field) in cases {
            let spec: JobSpec = serde_json::from_str(json).expect(json);
            let found = validate(&spec).err().unwrap_or_default();
            let fields: Vec<_> = found.iter().map(|problem| problem.field).collect();
            let expected: Vec<&str> = if field.is_empty() { vec![] } else { vec![field] };
            assert_eq!(fields, expected, "{json}");
        }
    }
}
