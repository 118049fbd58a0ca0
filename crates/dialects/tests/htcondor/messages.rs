//! What is said of files that newcomers write: each with its line, and the way out.

use super::{refusal, submit};
use shipway_dialects::htcondor::{AtPath, SubmitError, missing};
use shipway_model::OutputFiles;

const EXECUTABLE: &str = "executable = /bin/true\n";

fn warnings(text: &str) -> Vec<String> {
    let submitted = submit(&format!("{EXECUTABLE}{text}")).expect("a good file");
    submitted.warnings.iter().map(ToString::to_string).collect()
}

#[test]
fn a_name_without_a_value_is_said_with_the_nearest_one() {
    for (text, expected) in [
        (
            "sample = a\narguments = $(smaple) $(sample)\nqueue\n",
            "x.sub, line 3: $(smaple) has no value and is left empty; did you mean $(sample)?",
        ),
        (
            "arguments = $(Proces)\nqueue 2\n",
            "x.sub, line 2: $(Proces) has no value and is left empty; did you mean $(Process)?",
        ),
        (
            "arguments = a$Fn(list) $(file)\nqueue file in (a b)\n",
            "x.sub, line 2: $(list) has no value and is left empty",
        ),
        (
            "arguments = $(x)\nx = $(file)$(nothing_like_it)\nqueue file in (a b)\n",
            "x.sub, line 2: $(nothing_like_it) has no value and is left empty",
        ),
        ("queue $(number)\n", "x.sub, line 2: $(number) has no value and is left empty"),
    ] {
        assert_eq!(warnings(text), [expected], "{text}");
    }
    for quiet in [
        "arguments = $(none:) $(other:x) $(DOLLAR)HOME\nqueue\n",
        "empty =\narguments = $(empty)$(Cluster)\nqueue\n",
        "if $(undefined)\nendif\nif defined other\nendif\nqueue\n",
    ] {
        assert_eq!(warnings(quiet), [""; 0], "{quiet}");
    }
}

#[test]
fn a_place_for_a_file_that_is_not_taken_is_said() {
    let text = "transfer_output_files = a, b\n\
        transfer_output_remaps = \"a = x; c = y\"\nqueue 3\n";
    let expected = "x.sub, line 3: transfer_output_remaps names `c`, which is not in \
         transfer_output_files";
    assert_eq!(warnings(text), [expected]);
    // Of all that is new, some may go elsewhere.
    let submitted = submit(&format!("{EXECUTABLE}transfer_output_remaps = \"a = d/x\"\nqueue\n"));
    let outputs = submitted.expect("good").jobs[0].outputs.clone().expect("outputs");
    assert_eq!(outputs.files, OutputFiles::New);
    let renamed: Vec<String> = outputs.renamed.iter().map(ToString::to_string).collect();
    assert_eq!(renamed, ["a:/home/ada/d/x"]);
}

#[test]
fn an_open_if_is_closed_by_queue_and_said() {
    let said = warnings("if true\narguments = a\nqueue\n");
    assert_eq!(said.len(), 1);
    assert!(said[0].starts_with("x.sub, line 4: an `if` has no `endif`"), "{said:?}");
}

#[test]
fn an_error_names_the_item_it_comes_from() {
    let text = "arguments = \"--title '$(t)'\"\nqueue t from (\nfine\nit's not\n)\n";
    let said = refusal(&format!("{EXECUTABLE}{text}"));
    assert!(said.starts_with("x.sub, line 2: arguments: a quote is not closed"), "{said}");
    assert!(said.ends_with("(in the item `it's not` of `queue`)"), "{said}");
    let said = refusal(&format!("{EXECUTABLE}arguments = \"'\"\nqueue t in (a b)\n"));
    assert!(!said.contains("item"), "every item has it: {said}");
}

#[test]
fn what_is_no_text_is_found_by_its_line() {
    let said = refusal(&format!("{EXECUTABLE}# one\n\narguments = a\0b\nqueue\n"));
    assert!(said.starts_with("x.sub, line 4: "), "{said}");
}

#[test]
fn a_queue_of_nothing_says_why() {
    for (text, expected) in [
        (
            "queue f matching *.none *.no\n",
            "x.sub, line 2: there is nothing to submit: nothing matches `*.none`, `*.no` from the \
             current directory",
        ),
        ("n = 0\nqueue $(n)\n", "x.sub, line 3: there is nothing to submit: its count is 0"),
        ("queue x in ()\n", "x.sub, line 2: there is nothing to submit: its list has no items"),
    ] {
        assert_eq!(refusal(&format!("{EXECUTABLE}{text}")), expected);
    }
}

#[test]
fn the_way_out_names_what_is_meant() {
    let error = submit(&format!("{EXECUTABLE}Hold = true\nqueue\n")).expect_err("refused");
    assert!(error.wrong.hint().expect("a hint").ends_with("--set Hold="));
}

/// `/there` is a folder with `file` and `program` in it.
fn at_path(path: &str) -> Option<AtPath> {
    match path {
        "/there" | "/home/ada" => Some(AtPath::Folder),
        "/there/file" => Some(AtPath::File { runs: false }),
        "/there/program" => Some(AtPath::File { runs: true }),
        _ => None,
    }
}

fn looked_for(text: &str) -> Result<Vec<String>, SubmitError> {
    let submitted = submit(text).expect("a good file");
    let warnings = missing(&submitted, &at_path)?;
    Ok(warnings.iter().map(ToString::to_string).collect())
}

#[test]
fn what_is_not_there_is_said_with_its_line() {
    let with = |rest: &str| format!("executable = /there/program\n{rest}\nqueue\n");
    for (text, expected) in [
        ("executable = /none\nqueue\n".into(), "line 1: executable: there is no file `/none`"),
        (
            "executable = /none\ncontainer_image = docker://debian:12\n\
             transfer_executable = true\nqueue\n"
                .into(),
            "line 1: executable: there is no file `/none`",
        ),
        ("executable = /there\nqueue\n".into(), "line 1: executable: `/there` is a folder"),
        (
            "executable = /there/file\nqueue\n".into(),
            "line 1: executable: `/there/file` is a file that nobody may run",
        ),
        (
            with("transfer_input_files = /there/file, /none"),
            "line 2: transfer_input_files: there is no file or folder `/none`",
        ),
        (with("input = none"), "line 2: input: there is no file `/home/ada/none`"),
        (with("initialdir = none"), "line 2: initialdir: there is no folder `/home/ada/none`"),
        (with("log = none/$(Process)"), "line 2: log: there is no folder `/home/ada/none`"),
        (with("output = /there/file/x"), "line 2: output: `/there/file` is not a folder"),
    ] {
        let error = looked_for(&text).expect_err(&text);
        assert_eq!(error.to_string(), format!("x.sub, {expected}"));
        assert!(error.wrong.hint().is_some());
    }
}

#[test]
fn every_task_is_looked_at_and_what_is_elsewhere_is_not() {
    let list = |items: &str| {
        let text = "executable = /there/program\ntransfer_input_files = /there/$(f)\n";
        looked_for(&format!("{text}queue f in ({items})\n"))
    };
    assert_eq!(list("file program"), Ok(Vec::new()));
    let error = list("file none program").expect_err("one is missing").to_string();
    assert!(error.ends_with("there is no file or folder `/there/none`"), "{error}");
    for fine in [
        "executable = /none\ntransfer_executable = false\nqueue\n",
        "shell = echo a\nqueue\n",
        // A program of the image.
        "executable = /none\ncontainer_image = docker://debian:12\nqueue\n",
        "executable = /there/program\nlog = /there/l\noutput = /there/$(Cluster)/o\nqueue\n",
        "executable = /there/program\nlog = $(Cluster)/l\nqueue\n",
    ] {
        assert_eq!(looked_for(fine), Ok(Vec::new()), "{fine}");
    }
    let made = "executable = /there/program\noutput = new/$(Process).out\nqueue 3\n";
    let expected =
        "x.sub, line 2: output: the folder `/home/ada/new` is not there and will be made";
    assert_eq!(looked_for(made), Ok(vec![expected.to_string()]));
}

#[test]
fn tasks_know_their_own_folder() {
    let job = &submit(&format!("{EXECUTABLE}queue\n")).expect("good").jobs[0];
    assert_eq!(job.env["_CONDOR_SCRATCH_DIR"], "{workdir}");
    let own =
        format!("{EXECUTABLE}environment = \"_CONDOR_SCRATCH_DIR=/x A={{workdir}}\"\nqueue\n");
    let job = &submit(&own).expect("good").jobs[0];
    assert_eq!((&*job.env["_CONDOR_SCRATCH_DIR"], &*job.env["A"]), ("/x", "{brace}workdir}"));
}

#[test]
fn images_are_also_named_as_they_are_here() {
    let images = |line: &str| {
        let text = format!("{EXECUTABLE}container_image = {line}\nqueue\n");
        let submitted = submit(&text).expect("a good file");
        let warnings = missing(&submitted, &|path| {
            let image = ["/srv", "/home/ada/tree"].iter().any(|place| path.starts_with(place));
            (!image).then_some(AtPath::Other)
        });
        let warnings: Vec<String> =
            warnings.expect("nothing worse").iter().map(ToString::to_string).collect();
        (submitted.jobs[0].image.as_ref().expect("an image").to_string(), warnings)
    };
    for name in ["oci:/srv/a", "dir:/srv/tree", "sif:/srv/a.sif", "docker-archive:/srv/a.tar"] {
        let (image, warnings) = images(name);
        assert_eq!(image, name);
        assert!(warnings[0].contains("is not on this machine; nodes need it"), "{warnings:?}");
    }
    assert_eq!(images("tree").0, "dir:/home/ada/tree");
    assert_eq!(images("docker://example.org/a/b:1").1, [""; 0]);
}
