//! Job files of every wrong kind: exit code 2, the place and the trouble in plain words, a hint.

use super::check_message;
use super::common::World;
use std::fmt::Write as _;

/// A file, words of the message, words of the hint.
type Row = (&'static str, Vec<u8>, &'static str, &'static str);

fn row(name: &'static str, text: &str, words: &'static str, hint: &'static str) -> Row {
    (name, text.into(), words, hint)
}

const HELP: &str = "shipway submit --help";
const CHECK: &str = "--dry-run";
const QUOTES: &str = "in quotes";

fn a_bomb() -> String {
    let mut bomb = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x]\n");
    for level in 1..12 {
        let copies = vec![format!("*a{}", level - 1); 9].join(", ");
        writeln!(bomb, "a{level}: &a{level} [{copies}]").expect("a text grows");
    }
    bomb + "command: *a11\n"
}

fn not_text() -> Vec<Row> {
    let utf16: Vec<u8> = "command: a\n".encode_utf16().flat_map(u16::to_le_bytes).collect();
    vec![
        (
            "latin1.yaml",
            b"command: gr\xfc\xdfe\n".to_vec(),
            "line 1: this is not text: byte 11 of the file is not UTF-8",
            "UTF-8",
        ),
        (
            "overlong.yaml",
            b"command: \xc0\xaf\n".to_vec(),
            "byte 9 of the file is not UTF-8",
            "UTF-8",
        ),
        ("utf16.yaml", utf16, "is NUL", "UTF-8"),
        ("nul.yaml", b"command: a\0b\n".to_vec(), "byte 10 of the file is NUL", "UTF-8"),
        ("huge.yaml", vec![b'#'; 25 << 20], "larger than", "large data in files"),
    ]
}

fn not_a_job() -> Vec<Row> {
    let documents = "command: a\n---\n".repeat(1_001);
    let deep = "[".repeat(20_000);
    vec![
        row("empty.yaml", "", "no job in it", HELP),
        row("comment.yaml", "# nothing\n", "no job in it", HELP),
        row("list.yaml", "- command: a\n", "this is a list", HELP),
        row("words.yaml", "just words\n", "a single value", HELP),
        row("list.json", "[]", "this is a list", HELP),
        row("many.yaml", &documents, "at most 1000", "array"),
        row("bomb.yaml", &a_bomb(), "too many values", HELP),
        row("self.yaml", "command: &a [*a]\n", "inside of what it names", HELP),
        row("alias.yaml", "command: *nope\n", "names nothing", HELP),
        row("deep.yaml", &format!("command: {deep}"), "nested too deep", HELP),
        row("deep.json", &format!("{{\"command\": {deep}"), "nested too deep", HELP),
        row("twice.yaml", "command: a\ncommand: b\n", "line 2: this YAML", HELP),
        row("twice.yml", "command: a\ncommand: b\n", "the key `command` is given twice", HELP),
        row("twice.json", r#"{"command": ["a"], "command": ["b"]}"#, "written twice", HELP),
        row("open.yaml", "command: [a\n", "this YAML cannot be read", HELP),
        row("tab.yaml", "command:\n\t- a\n", "tab", HELP),
        row("cut.json", r#"{"command": ["a""#, "ends inside", HELP),
        row("more.json", r#"{"command": ["a"]} x"#, "follows its end", HELP),
        row("quotes.json", "{'command': 'a'}", "double quotes", HELP),
        row("binary.yaml", "command: !!binary zzzz\n", "!!binary", HELP),
        row("oddkey.yaml", "command: a\n? [b]\n: c\n", "a text is wanted", HELP),
        row("unknown.yaml", "comand: [a]\n", "`comand` is not a key", "did you mean `command`"),
        row("number.yaml", "command: a\n5: x\n", "`5` is not a key", "known keys"),
        row("escape.yaml", "\"\\e[2J\\u202E\": x\n", "is not a key", "known keys"),
    ]
}

fn wrong_values() -> Vec<Row> {
    vec![
        row("c1.yaml", "command: true\n", "`command` must be a list of words", QUOTES),
        row("c2.yaml", "command: 5\n", "not the number 5", QUOTES),
        row("c3.yaml", "command: {a: b}\n", "not such keys and values", HELP),
        row("c4.yaml", "command: [a, [b]]\n", "not such a list", HELP),
        row("c5.yaml", "command: []\n", "a job needs a command", CHECK),
        row("c6.yaml", "command: \"a\\0b\"\n", "NUL", CHECK),
        row("n1.yaml", "command: a\nname: [x]\n", "`name` must be a text", HELP),
        row("n2.yaml", "command: a\nname: \"a\\u202Eb\"\n", "direction characters", CHECK),
        row("p1.yaml", "command: a\npriority: high\n", "line 2: `priority` must be", HELP),
        row("p2.yaml", "command: a\npriority: .inf\n", ".inf cannot", HELP),
        row("p3.yaml", "command: a\npriority: 1e30\n", "must be a whole number", HELP),
        row("a1.yaml", "command: a\narray: 0-9223372036854775807\n", "one job may have", HELP),
        row("a2.yaml", "command: a\narray: 9-1\n", "backwards: 9-1 (write 1-9)", HELP),
        row("a3.yaml", "command: a\narray: -5\n", "not the number -5", HELP),
        row("a4.yaml", "command: a\narray: 1-3\neach: [x]\n", "not both", CHECK),
        row("e1.yaml", "command: a\neach: 5\n", "`each` must be a list", HELP),
        row("e2.yaml", "command: a\neach: []\n", "no rows", CHECK),
        row("v1.yaml", "command: a\nenv: [A=b]\n", "`env` must be names with texts", HELP),
        row("v2.yaml", "command: a\nenv: {A: }\n", "`env.A` must be a text", HELP),
        row("v3.json", r#"{"command": ["a"], "env": {"A": 1}}"#, "`env.A` must be", QUOTES),
        row("v4.yaml", "command: a\nenv: {\"A=B\": c}\n", "not a name of a variable", CHECK),
        row("w1.yaml", "command: a\nafter: 12\n", "`after` must be a list of jobs", HELP),
        row("w2.yaml", "command: a\nafter: [x]\n", "`x` is neither a job's id nor", CHECK),
        row("w4.yaml", "name: x\ncommand: a\nafter: [x]\n", "wait for each other", CHECK),
        row("w3.yaml", "command: a\nafter: [1, 1]\n", "named twice", CHECK),
        row("r1.yaml", "command: a\nresources: {cpus: 0}\n", "0 cores", CHECK),
        row("r2.yaml", "command: a\nresources: {cpus: -1}\n", "not a number of cores", HELP),
        row("r3.yaml", "command: a\nresources: {cpus: .nan}\n", ".nan", HELP),
        row("r4.yaml", "command: a\nresources: {memory: 1}\n", "at least 1MB", CHECK),
        row("r5.yaml", "command: a\nresources: {memory: lots}\n", "not a size", HELP),
        row("r6.yaml", "command: a\nresources: {gpu: {count: 0}}\n", "0 devices", CHECK),
        row("r7.yaml", "command: a\nresources: {named: {x: y}}\n", "whole numbers", HELP),
        row("r8.yaml", "command: a\nresources: 5\n", "`resources` must be", HELP),
        row("t1.yaml", "command: a\ntime_limit: soon\n", "`soon` is not a time span", HELP),
        row("t2.yaml", "command: a\ntime_limit: {limit: 1h, warn: X}\n", "not a warning", HELP),
        row("y1.yaml", "command: a\nretries: many\n", "`retries` must be", HELP),
        row("y2.yaml", "command: a\nretries: 99999\n", "at most 1000", CHECK),
        row("m1.yaml", "command: a\nmax_running: -1\n", "whole number from 0", HELP),
        row("m2.yaml", "command: a\nmax_running: 0\n", "would never run", CHECK),
        row("l1.yaml", "command: a\nlog_limit: 100TB\n", "at most", CHECK),
    ]
}

#[test]
fn every_wrong_file_is_refused_with_the_way_out() {
    let world = World::new();
    world.up_with(&["--no-pilot"], |_| {});
    for (name, bytes, words, hint) in [not_text(), not_a_job(), wrong_values()].concat() {
        std::fs::write(world.work().join(name), bytes).expect("a file");
        let ran = world.cli(&["submit", name]);
        let what = format!("{name}: exit {}: {}", ran.code, ran.stderr);
        assert_eq!(ran.code, 2, "{what}");
        assert!(ran.stdout.is_empty() && ran.stderr.starts_with("error: "), "{what}");
        assert!(ran.stderr.contains(name) && ran.stderr.contains(words), "no `{words}`: {what}");
        let said = ran.stderr.split_once("\nhint: ").map_or("", |(_, hint)| hint);
        assert!(said.contains(hint), "no `{hint}`: {what}");
        check_message(name, &ran.stderr);
    }
    std::fs::create_dir(world.work().join("folder")).expect("a folder");
    for (file, words) in [("folder", "name a file in it"), ("missing", "name a file")] {
        let ran = world.cli(&["submit", file]);
        assert!(ran.code == 2 && ran.stderr.contains(words), "{file}: {}", ran.stderr);
    }
    assert!(world.json(&["jobs"])["jobs"].as_array().expect("jobs").is_empty(), "none was taken");
}

/// What only looks odd is taken.
#[test]
fn files_of_other_editors_are_taken() {
    let world = World::new();
    world.up_with(&["--no-pilot"], |_| {});
    for (name, text) in [
        ("bom.yaml", "\u{feff}command: [a]\n"),
        ("bom.json", "\u{feff}{\"command\": [\"a\"]}"),
        ("crlf.yaml", "command: [a]\r\nname: x\r\n"),
        ("crlf.json", "{\r\n\"command\": [\"a\"]\r\n}\r\n"),
        ("plain.yaml", "command: [sleep, 5, true]\nname: 7\nenv: {A: 1, B: true}\n"),
        ("anchors.yaml", "env: &e {A: b}\nlabels: *e\ncommand: a\n"),
    ] {
        std::fs::write(world.work().join(name), text).expect("a file");
        let ran = world.cli(&["submit", name]);
        assert_eq!(ran.code, 0, "{name}: {}", ran.stderr);
    }
}
