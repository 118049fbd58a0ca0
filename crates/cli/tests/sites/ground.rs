//! A site's file, and what tasks write down of themselves.

use super::common::{World, pause};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// A site as a test describes it. All of them share this machine's files.
#[derive(Debug, Clone)]
pub(crate) struct SiteFile {
    pub(crate) name: &'static str,
    pub(crate) kind: &'static str,
    pub(crate) program: PathBuf,
    pub(crate) env: Vec<(&'static str, String)>,
    pub(crate) classes: Vec<Class>,
    pub(crate) limits: &'static str,
    pub(crate) wall: &'static str,
    /// Further keys, a line each.
    pub(crate) more: String,
}

/// A kind of pilots; those with GPUs have one each, which nobody looks for on the node.
#[derive(Debug, Clone)]
pub(crate) struct Class {
    pub(crate) name: &'static str,
    pub(crate) pilots: u32,
    pub(crate) cpus: u32,
    /// The engine's word for the GPU, and the driver's.
    pub(crate) gpu: Option<(&'static str, &'static str)>,
    pub(crate) more: &'static str,
}

impl Class {
    pub(crate) fn cpu(pilots: u32) -> Class {
        Class { name: "cpu", pilots, cpus: 2, gpu: None, more: "" }
    }
}

/// Of a site that few tasks bring few pilots to.
pub(crate) const FEW: &str = "pending: 8, running: 8, starts_per_hour: 1000";

impl SiteFile {
    fn text(&self, server: &str) -> String {
        let SiteFile { name, kind, program, env, classes, limits, wall, more } = self;
        let env: Vec<String> = env.iter().map(|(name, value)| format!("{name}: {value}")).collect();
        let mut text = format!(
            "name: {name}\nkind: {kind}\nprogram: {}\nserver: {server}\nenv: {{{}}}\n\
             shared: [/]\nwall: {wall}\nidle: 2s\nwarning: 5s\n\
             limits: {{{limits}}}\n{more}classes:\n",
            program.display(),
            env.join(", ")
        );
        for Class { name, pilots, cpus, gpu, more } in classes {
            let gpu = gpu.map(|(kind, model)| {
                let what = "count: 1, memory: 40GB, declared: true";
                format!(", gpus: {{{what}, kind: {kind}, model: {model}}}")
            });
            let (gpu, has) = (gpu.unwrap_or_default(), format!("cpus: {cpus}, memory: 400MB"));
            let _ = writeln!(text, "  - {{name: {name}, pilots: {pilots}, {has}{gpu}{more}}}");
        }
        text
    }

    /// Joins it, or describes it anew.
    pub(crate) fn add(&self, world: &World) {
        self.add_as(world, &self.text(&world.url()));
    }

    /// The same, as if it were another machine.
    pub(crate) fn add_sharing_nothing(&self, world: &World) {
        self.add_as(world, &self.text(&world.url()).replace("shared: [/]\n", ""));
    }

    fn add_as(&self, world: &World, text: &str) {
        let file = world.work().join(format!("{}.yaml", self.name));
        std::fs::write(&file, text).expect("written");
        world.ok(&["site", "add", file.to_str().expect("text")]);
    }
}

pub(crate) fn site(world: &World, name: &str) -> Value {
    world.json(&["site", "show", name])
}

/// What is asked for there and not over.
pub(crate) fn allocations(world: &World, name: &str) -> Vec<Value> {
    site(world, name)["allocations"].as_array().expect("a list").clone()
}

/// What a task of these tests runs: a line of its own in a file, and nothing else.
pub(crate) const WRITE: &str = "echo $SHIPWAY_TASK $CUDA_VISIBLE_DEVICES >> book";

pub(crate) const BOOK: &str = "book";

/// Each line of the book that tasks write in, and how often it is there.
pub(crate) fn book(world: &World) -> BTreeMap<String, u32> {
    let text = std::fs::read_to_string(world.work().join(BOOK)).unwrap_or_default();
    let mut lines = BTreeMap::new();
    for line in text.lines() {
        *lines.entry(line.to_owned()).or_default() += 1;
    }
    lines
}

pub(crate) fn why(world: &World, job: &str) -> String {
    world.cli(&["why", job]).stdout
}

/// Waits until `why` says so.
pub(crate) fn says(world: &World, job: &str, words: &str) {
    let deadline = Instant::now() + PATIENCE;
    while !why(world, job).contains(words) {
        let said = why(world, job);
        assert!(Instant::now() < deadline, "it never said `{words}`, but {said}");
        pause(Duration::from_millis(100));
    }
}

/// Of a job: batch systems think of the next one every few seconds, and some wait for several.
const PATIENCE: Duration = Duration::from_mins(3);

/// Waits for its end, which is to be a good one.
pub(crate) fn ends_well(world: &World, job: &str) {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let shown = world.json(&["show", job])["job"].clone();
        match shown["state"].as_str() {
            Some("succeeded") => return,
            Some("waiting" | "running") if Instant::now() < deadline => {}
            _ => panic!("{shown:#}\n{}", why(world, job)),
        }
        pause(Duration::from_millis(100));
    }
}

/// For a server that is to be found again where it was.
pub(crate) fn free_address() -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.local_addr().expect("bound").to_string()
}

/// So many tasks wrote a line each, all but those of `plain` with a device of such a name.
pub(crate) fn each_ran_once_with_what_it_asked_for(
    world: &World,
    count: usize,
    plain: &str,
    device: &str,
) {
    let book = book(world);
    let tasks: BTreeSet<&str> = book.keys().filter_map(|line| line.split(' ').next()).collect();
    assert_eq!((book.len(), tasks.len()), (count, count), "each task");
    assert!(book.values().all(|times| *times == 1), "and once");
    for line in book.keys() {
        let (task, devices) = line.split_once(' ').unwrap_or((line, ""));
        let needs_one = !task.starts_with(&format!("{plain}/"));
        assert_eq!(devices.starts_with(device), needs_one, "{line}");
    }
}
