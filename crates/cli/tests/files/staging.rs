//! Inputs, outputs and streams, end to end: as plain processes, in containers, and what goes wrong.

use crate::common::{World, cannot};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;

/// Where a container of root's server is nobody's, nobody writes to the folders of these tests
/// unless they are open. A pilot that is not root runs containers as itself.
fn open_to_all(dir: &Path) {
    let mode = |mode| std::fs::Permissions::from_mode(mode);
    std::fs::set_permissions(dir, mode(0o777)).expect("opened");
    std::fs::set_permissions(dir.parent().expect("a parent"), mode(0o755)).expect("opened");
}

fn read(world: &World, name: &str) -> String {
    let path = world.work().join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn write(world: &World, name: &str, text: &str) {
    let path = world.work().join(name);
    std::fs::create_dir_all(path.parent().expect("a parent")).expect("folders");
    std::fs::write(path, text).expect("written");
}

fn outcome(world: &World, job: &str) -> String {
    world.json(&["show", job])["job"]["outcome"].to_string()
}

const ARRAY: &str = "cat in.txt one deep/two; echo made-{index} > result; \
                     echo to-err-{index} >&2; echo last; test -x run.sh";

fn check_array(world: &World, more: &[&str]) {
    open_to_all(&world.work());
    write(world, "in.txt", "in\n");
    write(world, "run.sh", "#!/bin/sh\n");
    let mode = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(world.work().join("run.sh"), mode).expect("a mode");
    write(world, "tree/one", "one\n");
    write(world, "tree/deep/two", "two\n");
    let mut words = vec!["--array", "3-5", "--input", "in.txt", "--input", "run.sh"];
    words.extend(["--input", "tree/", "--output", "result:taken/r.{index}", "--output-on", "exit"]);
    words.extend(["--stdout", "out.{job}.{index}", "--stderr", "out.{job}.{index}"]);
    words.extend(more);
    words.extend(["--", "sh", "-c", ARRAY]);
    let job = world.submit(&words);
    let ended = world.cli(&["wait", &job]);
    assert_eq!(ended.code, 0, "{ended:?} {}", outcome(world, &job));
    for index in 3..=5 {
        assert_eq!(read(world, &format!("taken/r.{index}")), format!("made-{index}\n"));
        let printed = format!("in\none\ntwo\nto-err-{index}\nlast\n");
        assert_eq!(read(world, &format!("out.{job}.{index}")), printed, "in the order of printing");
    }
    assert_eq!(world.ok(&["logs", &format!("{job}/4")]), read(world, &format!("out.{job}.4")));
}

#[test]
fn output_is_followed_while_inputs_are_copied() {
    let world = World::started();
    write(&world, "in.txt", "in\n");
    for _ in 0..5 {
        let line = "cat in.txt; sleep 0.1; echo end; echo bad >&2";
        let ran = world.cli(&["run", "--input", "in.txt", "--", "sh", "-c", line]);
        assert_eq!((ran.code, &*ran.stdout), (0, "in\nend\n"), "{ran:?}");
        assert!(ran.stderr.contains("bad"), "{ran:?}");
    }
}

#[test]
fn an_array_with_files_as_plain_processes() {
    check_array(&World::started(), &[]);
}

#[test]
fn an_array_with_files_in_containers() {
    check_array(&World::started(), &["--image", "host"]);
}

#[test]
fn files_are_seen_inside_another_tree() {
    let world = World::started();
    open_to_all(&world.work());
    let tree = world.work().join("root");
    for folder in ["bin", "proc", "dev", "sys", "tmp", "etc"] {
        std::fs::create_dir_all(tree.join(folder)).expect("a tree");
    }
    let copied = Command::new("cp").arg("/bin/busybox").arg(tree.join("bin/sh")).status();
    assert!(copied.expect("cp").success(), "busybox-static is installed");
    write(&world, "in.txt", "inside\n");
    let image = format!("dir:{}", tree.display());
    let (input, output) = (["--input", "in.txt:sub/"], ["--output", "new", "--stdin", "in.txt"]);
    let line = "read a < sub/in.txt; read b; echo $a $b > got; echo x > sub/not-at-the-top";
    let words = ["--image", &image, "--output-dir", "to", "--", "sh", "-c", line];
    let job = world.submit(&[&input[..], &output[..], &words[..]].concat());
    assert_eq!(world.cli(&["wait", &job]).code, 0, "{}", outcome(&world, &job));
    assert_eq!(read(&world, "to/got"), "inside inside\n");
    let taken = std::fs::read_dir(world.work().join("to")).expect("a folder").count();
    assert_eq!(taken, 1, "folders are not taken");
}

#[test]
fn what_is_missing_is_named_and_not_tried_again() {
    let world = World::started();
    let job = world.submit(&["--retries", "3", "--input", "no/such.txt", "--", "true"]);
    assert_eq!(world.cli(&["wait", &job]).code, 127);
    let said = outcome(&world, &job);
    assert!(said.contains("not_started") && said.contains("no/such.txt"), "{said}");
    let job = world.submit(&["--retries", "3", "--output", "never-made", "--", "true"]);
    assert_eq!(world.cli(&["wait", &job]).code, 1);
    let said = outcome(&world, &job);
    assert!(said.contains("outputs_failed") && said.contains("never-made"), "{said}");
    for job in ["1/0", "2/0"] {
        assert_eq!(world.json(&["show", job])["task"]["attempt"], 1, "{job}");
    }
    // What a task says by its own failure counts more.
    let job = world.submit(&["--output", "never-made", "--", "sh", "-c", "exit 7"]);
    assert_eq!(world.cli(&["wait", &job]).code, 7);
    let refused = world.cli(&["run", "--workdir", ".", "--input", "x", "--", "true"]);
    assert!(refused.code == 2 && refused.stderr.contains("of the task's own"), "{refused:?}");
}

#[test]
fn planted_links_lead_nowhere() {
    let world = World::started();
    write(&world, "secret", "secret\n");
    let secret = world.work().join("secret");
    let line = format!("ln -s {} stolen; ln -s stolen again", secret.display());
    for name in ["stolen", "again"] {
        let output = format!("{name}:thief");
        let job = world.submit(&["--output", &output, "--", "sh", "-c", &line]);
        assert_eq!(world.cli(&["wait", &job]).code, 1);
        let said = outcome(&world, &job);
        assert!(said.contains("leads out of the work directory"), "{said}");
        assert!(!world.work().join("thief").exists());
    }
    // A target that is a link is replaced, not followed.
    symlink(&secret, world.work().join("target")).expect("a link");
    let words = ["--output", "x:target", "--", "sh", "-c", "echo mine > x"];
    let job = world.submit(&words);
    assert_eq!(world.cli(&["wait", &job]).code, 0, "{}", outcome(&world, &job));
    assert_eq!(
        (read(&world, "secret"), read(&world, "target")),
        ("secret\n".into(), "mine\n".into())
    );
}

/// An account that Debian has.
const GAMES: u32 = 5;

/// A pilot that is root reads and writes nothing for a task that its account could not.
#[test]
fn an_account_reads_and_writes_only_what_it_may() {
    use std::os::unix::fs::MetadataExt;
    if !rustix::process::geteuid().is_root() {
        return cannot("only root can change to other accounts");
    }
    let world = World::new();
    open_to_all(&world.work());
    std::fs::create_dir(world.home()).expect("a home that others may enter");
    world.up_with(&["--accounts", "root=root,games=games"], |_| {});
    for (name, mode) in [("secret", 0o600), ("public", 0o644)] {
        write(&world, name, name);
        let mode = std::fs::Permissions::from_mode(mode);
        std::fs::set_permissions(world.work().join(name), mode).expect("a mode");
    }
    write(&world, "closed/x", "");
    world.ok(&["user", "add", "games"]);
    let token = world.ok(&["token", "new", "--user", "games"]);
    let run = |words: &[&str]| {
        let mut command = world.command(&[&["run"], words].concat());
        command.env("SHIPWAY_TOKEN", token.trim()).env("SHIPWAY_URL", world.url());
        let ran = command.output().expect("it runs");
        (ran.status.code(), String::from_utf8_lossy(&ran.stderr).into_owned())
    };
    for words in [
        &["--input", "secret", "--", "cat", "secret"][..],
        &["--workdir", "private", "--stdin", "secret", "--", "cat"],
    ] {
        let (code, said) = run(words);
        assert!(code == Some(127) && said.contains("Permission denied"), "{code:?} {said}");
    }
    let (code, said) = run(&["--output", "made:closed/made", "--", "touch", "made"]);
    assert!(code == Some(1) && said.contains("Permission denied"), "{code:?} {said}");
    let files = ["--input", "public", "--stdin", "public", "--output", "made", "--stdout", "out"];
    let line = ["--", "sh", "-c", "cat; cat public > made"];
    assert_eq!(run(&[&files[..], &line[..]].concat()).0, Some(0));
    for name in ["made", "out"] {
        assert_eq!(read(&world, name), "public");
        let owner = std::fs::metadata(world.work().join(name)).expect("there").uid();
        assert_eq!(owner, GAMES, "{name}");
    }
}

/// Streams without a work directory of the task's own; more than the log keeps; nowhere.
#[test]
fn streams_are_whole_files() {
    let world = World::started();
    let words = ["--log-limit", "1kB", "--stdout", "big", "--stderr", "/dev/null"];
    let line = "i=0; while [ $i -lt 3000 ]; do echo line $i; i=$((i+1)); done; echo e >&2";
    let job = world.submit(&[&words[..], &["--", "sh", "-c", line]].concat());
    assert_eq!(world.cli(&["wait", &job]).code, 0, "{}", outcome(&world, &job));
    let big = read(&world, "big");
    assert!(big.starts_with("line 0\nline 1\n") && big.ends_with("line 2999\n"));
    assert_eq!(big.lines().count(), 3_000);
    let job = world.submit(&["--stdin", "/no/such", "--", "cat"]);
    assert_eq!(world.cli(&["wait", &job]).code, 127);
    assert!(outcome(&world, &job).contains("/no/such"));
    let job = world.submit(&["--stdout", "no\u{0301}/such/folder", "--", "echo", "made"]);
    assert_eq!(world.cli(&["wait", &job]).code, 0, "{}", outcome(&world, &job));
}
