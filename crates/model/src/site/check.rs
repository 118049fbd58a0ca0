//! Whether a site's description is one that can be used. All problems are found at once. Whether
//! the batch system is there and thinks the same is for whoever asks it.

use super::containers::check_containers;
use super::{
    BatchKind, GpuOption, MAX_CERTIFICATE_BYTES, MAX_CLASS_GPUS, MAX_CLASS_NODES, MAX_LINE_BYTES,
    MAX_WALL, MIN_WALL, Reach, SiteClass, SiteProgram, SiteSpec,
};
use crate::gpu::{SLICE_RULE, is_slice};
use crate::limits::MIN_MEMORY;
use crate::plain_text::steers;
use crate::units::Millis;
use crate::validate::{Problem, TAG_RULE, is_tag};
use std::collections::BTreeSet;

/// Sites of every server, which no file can describe.
const RESERVED: [&str; 2] = ["this-machine", "by-hand"];
/// The longest that guests may take to leave.
const MAX_GUESTS: Millis = Millis(3_600_000);
/// Names of allocations carry the site's nowhere, but ids of pilots and lists of people do.
const LONGEST_NAME: usize = 32;

impl SiteSpec {
    /// Every problem, each naming its key.
    pub fn check(&self) -> Result<(), Vec<Problem>> {
        let mut found = Vec::new();
        let mut check = |good: bool, field: &'static str, what: String| {
            if !good {
                found.push(Problem { field, what });
            }
        };
        check_name(self, &mut check);
        check_reach(&self.reach, &mut check);
        check_engine(self, &mut check);
        check_pilots(self, &mut check);
        check_times(self, &mut check);
        check_limits(self, &mut check);
        check_classes(&self.classes, &mut check);
        check_containers(self, &mut check);
        if found.is_empty() { Ok(()) } else { Err(found) }
    }
}

pub(super) type Check<'a> = dyn FnMut(bool, &'static str, String) + 'a;

fn check_name(site: &SiteSpec, check: &mut Check<'_>) {
    let name = site.name.as_str();
    check(!RESERVED.contains(&name), "name", format!("`{name}` is a site of every server"));
    let is_word = name.bytes().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'-');
    let is_good = is_word && name.len() <= LONGEST_NAME && !name.starts_with('-');
    check(
        is_good,
        "name",
        format!("`{name}` is not lower-case letters, digits and `-`, 32 at most"),
    );
}

fn check_reach(reach: &Reach, check: &mut Check<'_>) {
    match reach {
        Reach::Local => {}
        Reach::Ssh { host, options } => {
            let is_host = !host.is_empty() && !host.starts_with('-') && is_plain_word(host);
            check(is_host, "reach", format!("`{host}` is not a host ([USER@]HOST)"));
            check_lines("reach", options, check);
        }
        Reach::SlurmRestd { url, user, token, version } => {
            check_restd(url, user, check);
            let is_socket = url.starts_with("unix:");
            check(is_socket || token.is_some(), "reach", "slurmrestd needs a `token` here".into());
            let token = token.as_deref().unwrap_or("/none");
            check(is_path(token), "reach", format!("`token`: {}", needs_path(token)));
            let version = version.as_deref().unwrap_or("v0.0.40");
            let is_version = Reach::restd_version(version).is_some();
            let what = "is not a version of slurmrestd's interface (v0.0.38 or later)";
            check(is_version, "reach", format!("`{version}` {what}"));
        }
    }
}

fn check_restd(url: &str, user: &str, check: &mut Check<'_>) {
    let hosts = ["http://", "https://"].iter().filter_map(|scheme| url.strip_prefix(scheme));
    let mut hosts = hosts.map(|host| host.trim_end_matches('/'));
    // What stands before an `@` would be a secret in the wrong place.
    let is_host = |host: &str| !host.is_empty() && !host.contains(['/', '?', '#', '@']);
    let is_socket = url.strip_prefix("unix:").is_some_and(is_path);
    let is_url = is_plain_word(url) && (is_socket || hosts.any(is_host));
    let shown = if url.contains('@') { "the address" } else { url };
    let what = "is not where a slurmrestd is (http://HOST:PORT, https://HOST:PORT or unix:/PATH)";
    check(is_url, "reach", format!("`{shown}` {what}"));
    check(is_plain_word(user), "reach", format!("`{user}` is not the name of an account"));
}

/// What only one kind of batch system has.
fn check_engine(site: &SiteSpec, check: &mut Check<'_>) {
    let is_condor = site.kind == BatchKind::HtCondor;
    for (key, value) in [("schedd", &site.schedd), ("pool", &site.pool)] {
        let Some(value) = value else { continue };
        check(is_condor, key, "only HTCondor has one".into());
        let is_name = !value.is_empty() && !value.starts_with('-') && is_plain_word(value);
        check(is_name, key, format!("`{value}` is not the name of one"));
    }
    let is_restd = matches!(site.reach, Reach::SlurmRestd { .. });
    check(!is_condor || !is_restd, "reach", "only Slurm has a slurmrestd".into());
    check(is_condor || !site.ce, "ce", "only HTCondor has compute elements".into());
    let needs_schedd = !site.ce || site.schedd.is_some();
    check(needs_schedd, "ce", "name the compute element: `schedd: HOST`".into());
    check_requests(site, check);
    check_nodes(site, check);
    if is_condor && !site.ce {
        for class in site.classes.iter().filter(|class| class.partition.is_some()) {
            let what = "an HTCondor pool has no partitions; say which machines with `submit: \
                        [requirements = …]`";
            check(false, "classes", format!("{}: {what}", class.name));
        }
    }
}

/// How GPUs are asked for, in words that the batch system has.
fn check_requests(site: &SiteSpec, check: &mut Check<'_>) {
    for class in &site.classes {
        let request = class.gpus.as_ref().and_then(|gpus| gpus.request);
        let is_slurms = matches!(request, Some(GpuOption::Gres | GpuOption::Gpus));
        let what = "HTCondor is asked for GPUs by `request_gpus`; `request` may be `none` there";
        let is_known = site.kind == BatchKind::Slurm || !is_slurms;
        check(is_known, "classes", format!("{}: {what}", class.name));
    }
}

/// Several nodes in one allocation: Slurm gives them together, an HTCondor job is one machine's.
fn check_nodes(site: &SiteSpec, check: &mut Check<'_>) {
    for class in site.classes.iter().filter(|class| class.nodes.get() > 1) {
        let (name, nodes, pilots) = (&class.name, class.nodes, class.pilots);
        let is_slurm = site.kind == BatchKind::Slurm;
        let what = "`nodes` is for Slurm: a job of HTCondor is on one machine, and several that \
                    come together (its parallel universe) need a scheduler that pools set aside \
                    for that; leave it out, and `pilots` of them come one by one";
        check(is_slurm, "classes", format!("{name}: {what}"));
        let what = format!("{nodes} nodes; at most {MAX_CLASS_NODES} in one allocation");
        check(nodes.get() <= MAX_CLASS_NODES, "classes", format!("{name}: {what}"));
        let what = format!(
            "`pilots: {pilots}` is no multiple of `nodes: {nodes}`, and pilots come {nodes} at a \
             time"
        );
        check(pilots.is_multiple_of(nodes.get()), "classes", format!("{name}: {what}"));
    }
}

fn check_pilots(site: &SiteSpec, check: &mut Check<'_>) {
    let (SiteProgram::At(path) | SiteProgram::SentTo(path)) = site.program();
    check(is_path(path), "program", needs_path(path));
    let is_sent = matches!(site.program(), SiteProgram::SentTo(_));
    let has_commands = !matches!(site.reach, Reach::SlurmRestd { .. });
    let what = "slurmrestd takes no files: give the program by its path on the nodes";
    check(!is_sent || has_commands, "program", what.into());
    let is_address = ["http://", "https://"]
        .iter()
        .any(|scheme| site.server.strip_prefix(scheme).is_some_and(|rest| !rest.is_empty()));
    let is_address = is_address && is_plain_word(&site.server);
    check(is_address, "server", format!("`{}` is not an address (https://HOST:PORT)", site.server));
    let is_sealed = site.relay.is_none() || site.server.starts_with("https://");
    let what = "through a relay it is https://HOST:PORT: without TLS the relay could read tokens";
    check(is_sealed, "server", what.into());
    let certificate = site.certificate.as_deref().unwrap_or_default();
    let is_small = certificate.len() <= MAX_CERTIFICATE_BYTES;
    check(is_small, "certificate", format!("more than {MAX_CERTIFICATE_BYTES} bytes"));
    let is_pem = certificate.is_empty() || certificate.contains("-----BEGIN CERTIFICATE-----");
    check(is_pem, "certificate", "this is not a certificate in PEM".into());
    for path in &site.shared {
        check(is_path(path), "shared", needs_path(path));
    }
    if let Some(path) = &site.scratch {
        check(is_path(path), "scratch", needs_path(path));
    }
    check_lines("submit", &site.submit, check);
    for (key, tags) in [("tags", &site.tags), ("required_tags", &site.required_tags)] {
        for tag in tags {
            check(is_tag(tag), key, format!("`{tag}` is not a tag: {TAG_RULE}"));
        }
    }
    for (name, value) in &site.env {
        let is_name = !name.is_empty()
            && name.bytes().all(|c| c.is_ascii_alphanumeric() || c == b'_')
            && !name.starts_with(|c: char| c.is_ascii_digit());
        check(is_name, "env", format!("`{name}` is not the name of a variable"));
        check(is_line(value), "env", format!("the value of {name} is not one short line"));
    }
}

fn check_times(site: &SiteSpec, check: &mut Check<'_>) {
    let is_wall = (MIN_WALL..=MAX_WALL).contains(&site.wall);
    check(is_wall, "wall", format!("{} is not between {MIN_WALL} and {MAX_WALL}", site.wall));
    let leaves_time = site.warning.0 <= site.wall.0 / 2;
    check(leaves_time, "warning", format!("{} is more than half of `wall`", site.warning));
    let is_idle = site.idle <= site.wall;
    check(is_idle, "idle", format!("{} is more than `wall`", site.idle));
}

fn check_limits(site: &SiteSpec, check: &mut Check<'_>) {
    let limits = &site.limits;
    let all = [limits.pending, limits.running, limits.starts_per_hour];
    check(all.iter().all(|limit| *limit > 0), "limits", "with 0 nothing would ever start".into());
}

fn check_classes(classes: &[SiteClass], check: &mut Check<'_>) {
    check(!classes.is_empty(), "classes", "a site needs at least one kind of pilots".into());
    let mut names = BTreeSet::new();
    for class in classes {
        let name = &class.name;
        let is_name = is_plain_word(name) && name.len() <= LONGEST_NAME;
        check(is_name, "classes", format!("`{name}` is not one word of 32 letters at most"));
        check(names.insert(name), "classes", format!("`{name}` is there twice"));
        let of = |what: &str| format!("{name}: {what}");
        check(class.pilots > 0, "classes", of("with `pilots: 0` none would ever come"));
        check(class.cpus.milli >= 1_000, "classes", of("a pilot needs one core at least"));
        let is_enough = class.memory >= MIN_MEMORY;
        check(is_enough, "classes", of(&format!("a pilot needs {MIN_MEMORY} of memory at least")));
        let partition = class.partition.as_deref().unwrap_or("one");
        check(is_plain_word(partition), "classes", of("`partition` is one word"));
        check_gpus(class, check);
        let guests = class.guests.unwrap_or(MAX_GUESTS);
        check(guests <= MAX_GUESTS, "classes", of("`guests` have an hour at most to leave"));
        let are_beside = class.guests.is_none() || class.gpus.is_some();
        check(are_beside, "classes", of("`guests` are for a kind with `gpus`: others let all in"));
        check_lines("classes", &class.submit, check);
        for (key, value) in &class.attributes {
            check(is_plain_word(key), "classes", of(&format!("attribute `{key}` is one word")));
            check(is_line(value), "classes", of(&format!("attribute `{key}` is one short line")));
        }
    }
}

fn check_gpus(class: &SiteClass, check: &mut Check<'_>) {
    let Some(gpus) = &class.gpus else { return };
    let of = |what: String| format!("{}: {what}", class.name);
    let is_count = (1..=MAX_CLASS_GPUS).contains(&gpus.count);
    let what = format!("{} GPUs; between 1 and {MAX_CLASS_GPUS} (no `gpus` for none)", gpus.count);
    check(is_count, "classes", of(what));
    let is_model = !gpus.model.is_empty() && is_line(&gpus.model);
    check(is_model, "classes", of("`model` of its GPUs is one short line".into()));
    check(gpus.memory.0 > 0, "classes", of("its GPUs have no memory".into()));
    let slice = gpus.slice.as_deref().filter(|slice| !is_slice(slice));
    let what = format!("`slice: {}` is no profile ({SLICE_RULE})", slice.unwrap_or_default());
    check(slice.is_none(), "classes", of(what));
    let kind = gpus.kind.as_deref().unwrap_or("any");
    check(is_line(kind) && !kind.is_empty(), "classes", of("`kind` is one short line".into()));
}

fn check_lines(field: &'static str, lines: &[String], check: &mut Check<'_>) {
    for line in lines {
        let shown: String = line.chars().take(60).collect();
        check(is_line(line), field, format!("`{shown}` is not one short line of plain text"));
    }
}

pub(super) fn is_line(text: &str) -> bool {
    text.len() <= MAX_LINE_BYTES && !text.chars().any(|c| c.is_control() || steers(c))
}

fn is_plain_word(text: &str) -> bool {
    !text.is_empty() && is_line(text) && !text.contains(char::is_whitespace)
}

fn is_path(path: &str) -> bool {
    path.starts_with('/') && is_line(path) && !path.split('/').any(|name| name == "..")
}

fn needs_path(path: &str) -> String {
    format!("`{path}` is not a path from the root without `..`")
}

#[cfg(test)]
mod tests;
