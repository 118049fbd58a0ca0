//! A site as its operator describes it: a batch system, how it is reached, which kinds of pilots
//! may be asked of it, and how many. What may be there is checked by `check.rs`; what is asked, and
//! what became of it, is the core's affair.

mod check;
mod containers;
mod program;

pub use program::SiteProgram;

use crate::gpu::{GpuDevice, GpuSource, GpuVendor, Version};
use crate::ids::{DeviceId, NodeName, SiteName, UserName};
use crate::limits::MAX_TAGS;
use crate::node::{Capacity, MAX_ATTRIBUTES, NodeAd};
use crate::reading::{list, map};
use crate::relay::RelayAddress;
use crate::units::{Bytes, Cores, Millis, Price};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::num::NonZeroU32;

/// Kinds of pilots of one site.
pub const MAX_CLASSES: usize = 256;
/// GPUs of one pilot.
pub const MAX_CLASS_GPUS: u32 = 64;
/// Nodes of one allocation. The script that is handed in has the credentials of each one's pilot,
/// and every node reads all of it; larger machines are asked for in several allocations.
pub const MAX_CLASS_NODES: u32 = 256;
/// Users, shared paths or extra lines of one site, and bytes of one of them.
pub const MAX_LINES: usize = 1_000;
pub const MAX_LINE_BYTES: usize = 1_024;
pub const MAX_CERTIFICATE_BYTES: usize = 64 << 10;
/// The longest a pilot may be asked for.
pub const MAX_WALL: Millis = Millis(31 * 24 * 3_600_000);
/// The shortest that leaves time for anything.
pub const MIN_WALL: Millis = Millis(60_000);
/// So long before the end of its allocation a pilot takes nothing more: a task that began later
/// would be killed before most have done anything.
pub const LAST_MINUTE: Millis = Millis(60_000);
/// How long a pilot may take from its start to its first task.
const TO_COME: Millis = Millis(60_000);

/// Of Slurm 22.05; older ones have other words for what we ask.
const OLDEST_RESTD: u32 = 38;

const DEFAULT_WALL: Millis = Millis(12 * 3_600_000);
const DEFAULT_IDLE: Millis = Millis(5 * 60_000);
const DEFAULT_WARNING: Millis = Millis(60_000);
const DEFAULT_DISK: Bytes = Bytes(10_000_000_000);

/// Which batch system.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum BatchKind {
    Slurm,
    HtCondor,
}

impl fmt::Display for BatchKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            BatchKind::Slurm => "Slurm",
            BatchKind::HtCondor => "HTCondor",
        })
    }
}

/// How a submission asks for the GPUs of a class.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum GpuOption {
    /// Slurm: `--gres=gpu:KIND:COUNT`.
    Gres,
    /// Slurm: `--gpus=KIND:COUNT`.
    Gpus,
    /// By nothing of ours: by the site's own lines (`submit`), or because all get them there.
    None,
}

/// Where the batch system's commands are run, or what is asked instead of them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
pub enum Reach {
    /// On the server's machine.
    #[default]
    Local,
    /// On a login node, by the machine's own OpenSSH client and its configuration.
    Ssh {
        /// `[USER@]HOST`, as `ssh` takes it.
        host: String,
        /// Further options of `ssh`, a word each.
        #[serde(
            default,
            deserialize_with = "list::<MAX_LINES, _, _>",
            skip_serializing_if = "Vec::is_empty"
        )]
        options: Vec<String>,
    },
    /// Slurm: by no commands, but by its own daemon for HTTP.
    SlurmRestd {
        /// `http://HOST:PORT`, `https://HOST:PORT` or `unix:/PATH`.
        url: String,
        /// The account that jobs are of.
        user: String,
        /// A file on the server's machine with that account's token, which only its owner may read;
        /// read whenever something is asked. Not needed where the socket says who asks.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        token: Option<String>,
        /// The version of its interface, `v0.0.40`; the newest that both know unless given.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        version: Option<String>,
    },
}

impl Reach {
    pub fn is_local(&self) -> bool {
        *self == Reach::Local
    }

    /// The last number of `v0.0.40`.
    pub fn restd_version(text: &str) -> Option<u32> {
        let number = text.strip_prefix("v0.0.")?;
        let is_number = number.len() <= 4 && number.bytes().all(|byte| byte.is_ascii_digit());
        number.parse().ok().filter(|number| is_number && *number >= OLDEST_RESTD)
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct SiteSpec {
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub name: SiteName,
    pub kind: BatchKind,
    #[serde(default, skip_serializing_if = "Reach::is_local")]
    pub reach: Reach,
    /// HTCondor: the schedd that jobs are handed in to, by its name; the local one unless given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schedd: Option<String>,
    /// HTCondor: the pool's collector, `HOST[:PORT]`; the configured one unless given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pool: Option<String>,
    /// HTCondor: the schedd is a compute element (HTCondor-CE), which hands on to another batch
    /// system. `partition` of a class is the queue there.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub ce: bool,
    /// Variables for the batch system's commands: `SLURM_CONF`, `CONDOR_CONFIG`.
    #[serde(
        default,
        deserialize_with = "map::<MAX_LINES, _, _>",
        skip_serializing_if = "BTreeMap::is_empty"
    )]
    pub env: BTreeMap<String, String>,
    /// The `shipway` program, by its path on the site's nodes; or `send:FOLDER`, and the server's
    /// own is sent into that folder there and checked by its digest.
    pub program: String,
    /// The address of the server, as the site's nodes reach it.
    pub server: String,
    /// The relay that nodes without a way to the server go through: `HOST:PORT`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<String>))]
    pub relay: Option<RelayAddress>,
    /// The server's certificate (PEM), where the nodes do not trust it already.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub certificate: Option<String>,
    /// Kinds of pilots, the first that will do asked for first.
    #[serde(deserialize_with = "list::<MAX_CLASSES, _, _>")]
    pub classes: Vec<SiteClass>,
    #[serde(default)]
    pub limits: SiteLimits,
    /// How long a pilot is asked for.
    #[serde(default = "default_wall")]
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub wall: Millis,
    /// How long a pilot stays that has nothing to do.
    #[serde(default = "default_idle")]
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub idle: Millis,
    /// How long before its end a pilot is warned: its tasks have so long to end by themselves.
    #[serde(default = "default_warning")]
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub warning: Millis,
    /// Options of every submission, as the batch system reads them, one each.
    #[serde(
        default,
        deserialize_with = "list::<MAX_LINES, _, _>",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub submit: Vec<String>,
    /// Whose jobs may go there; everybody's where nobody is named.
    #[serde(
        default,
        deserialize_with = "list::<MAX_LINES, _, _>",
        skip_serializing_if = "Vec::is_empty"
    )]
    #[cfg_attr(feature = "schema", schema(value_type = Vec<String>))]
    pub users: Vec<UserName>,
    /// Folders that mean the same there as where jobs are submitted. A job that names a path
    /// outside of them does not go there.
    #[serde(
        default,
        deserialize_with = "list::<MAX_LINES, _, _>",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub shared: Vec<String>,
    /// Words that jobs can ask for.
    #[serde(
        default,
        deserialize_with = "list::<MAX_TAGS, _, _>",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub tags: Vec<String>,
    /// Tags too, and only jobs that ask for all of these go there.
    #[serde(
        default,
        deserialize_with = "list::<MAX_TAGS, _, _>",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub required_tags: Vec<String>,
    /// Where pilots have their folders; `$TMPDIR`, or `/tmp`, where nothing is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scratch: Option<String>,
    /// What containers are made with there: `native` unless given, `crun` or `apptainer`, as in
    /// `apptainer=/opt/bin/apptainer` where it is not in `PATH`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runtime: Option<String>,
    /// What tasks run on there that name no image: another image, `host` or `none`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
}

impl SiteSpec {
    /// How long before its end a pilot begins to leave: its tasks have so long to end.
    pub fn last(&self) -> Millis {
        Millis(self.warning.0.max(LAST_MINUTE.0))
    }

    /// How many pilots of one class may wait there: of what all may together, one place is kept for
    /// each of the other classes, so that a full queue of one keeps no other out.
    pub fn most_waiting(&self) -> u32 {
        let others = u32::try_from(self.classes.len().saturating_sub(1)).unwrap_or(u32::MAX);
        self.limits.pending.saturating_sub(others).max(1)
    }

    /// The longest task, with the time to end after its limit, that a pilot has time for: it comes
    /// and proves its node first.
    pub fn longest_task(&self) -> Millis {
        let away = self.last().0.saturating_add(TO_COME.0);
        Millis(self.wall.0.saturating_sub(away))
    }
}

fn default_wall() -> Millis {
    DEFAULT_WALL
}
fn default_idle() -> Millis {
    DEFAULT_IDLE
}
fn default_warning() -> Millis {
    DEFAULT_WARNING
}
fn one_node() -> NonZeroU32 {
    NonZeroU32::MIN
}
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands over references")]
fn is_one_node(nodes: &NonZeroU32) -> bool {
    *nodes == NonZeroU32::MIN
}
fn default_disk() -> Bytes {
    DEFAULT_DISK
}

/// How much may be asked of a site.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields, default)]
pub struct SiteLimits {
    /// Allocations that wait at the batch system at a time.
    pub pending: u32,
    /// Allocations altogether.
    pub running: u32,
    /// Submissions in any hour.
    pub starts_per_hour: u32,
}

impl Default for SiteLimits {
    fn default() -> Self {
        SiteLimits { pending: 10, running: 100, starts_per_hour: 200 }
    }
}

/// One kind of pilots: what each of them gets of a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct SiteClass {
    pub name: String,
    /// The partition or queue; the batch system's own choice where nothing is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partition: Option<String>,
    /// As many of them may be there at once.
    pub pilots: u32,
    /// Nodes of one allocation, with a pilot on each: they come together, and the batch system ends
    /// them together. What else is said here is of one of them.
    #[serde(default = "one_node", skip_serializing_if = "is_one_node")]
    #[cfg_attr(feature = "schema", schema(value_type = u32, minimum = 1, default = 1))]
    pub nodes: NonZeroU32,
    #[cfg_attr(feature = "schema", schema(value_type = f64))]
    pub cpus: Cores,
    pub memory: Bytes,
    /// Known only when a pilot has come; until then it is thought to have this.
    #[serde(default = "default_disk")]
    pub disk: Bytes,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpus: Option<ClassGpus>,
    /// What an hour of one of its GPUs costs; of a kind without GPUs, of one of its cores. All
    /// sites of a server in one currency: where several would do, the cheap are asked first.
    #[serde(default, skip_serializing_if = "Price::is_nothing")]
    #[cfg_attr(feature = "schema", schema(value_type = f64))]
    pub cost: Price,
    /// For tasks that need no GPU, on its nodes with GPUs: they may be there while nobody wants the
    /// GPUs, and have so long to leave when somebody does. Nothing: they are not let in, unless no
    /// kind without GPUs could run them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<String>))]
    pub guests: Option<Millis>,
    /// What else its nodes have, as ClassAd expressions by name.
    #[serde(
        default,
        deserialize_with = "map::<MAX_ATTRIBUTES, _, _>",
        skip_serializing_if = "BTreeMap::is_empty"
    )]
    pub attributes: BTreeMap<String, String>,
    /// Options of a submission of this kind, after those of the site.
    #[serde(
        default,
        deserialize_with = "list::<MAX_LINES, _, _>",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub submit: Vec<String>,
    /// The site's `runtime` and `image`, where those of this kind are others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runtime: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct ClassGpus {
    pub count: u32,
    /// The name that the driver gives it: `NVIDIA A100-SXM4-40GB`.
    pub model: String,
    pub memory: Bytes,
    /// The batch system's own word for the kind, where its submissions need one: `a100`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<String>))]
    pub capability: Option<Version>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<String>))]
    pub driver: Option<Version>,
    /// The profile, where it is a hardware slice: `1g.10gb`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slice: Option<String>,
    /// How they are asked for; as the batch system's manual says, unless given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<GpuOption>,
    /// Nobody looks for them on the node: for tests, on nodes that only say that they have some.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub declared: bool,
}

impl SiteSpec {
    pub fn class(&self, name: &str) -> Option<&SiteClass> {
        self.classes.iter().find(|class| class.name == name)
    }

    /// What containers of a class are made with.
    pub fn runtime_of<'a>(&'a self, class: &'a SiteClass) -> Option<&'a str> {
        class.runtime.as_deref().or(self.runtime.as_deref())
    }

    /// What tasks run on at a class that name no image.
    pub fn image_of<'a>(&'a self, class: &'a SiteClass) -> Option<&'a str> {
        class.image.as_deref().or(self.image.as_deref())
    }

    pub fn lets(&self, user: &UserName) -> bool {
        self.users.is_empty() || self.users.contains(user)
    }

    pub fn has_tag(&self, tag: &String) -> bool {
        self.tags.contains(tag) || self.required_tags.contains(tag)
    }

    /// Whether a path means the same there.
    pub fn shares(&self, path: &str) -> bool {
        self.shared.iter().any(|folder| is_below(path, folder))
    }
}

/// By whole names: `/data2` is not below `/data`. What goes up again is below nothing.
fn is_below(path: &str, folder: &str) -> bool {
    let goes_up = path.split('/').any(|name| name == "..");
    let folder = folder.trim_end_matches('/');
    let rest = path.strip_prefix(folder);
    path.starts_with('/') && !goes_up && rest.is_some_and(|it| it.is_empty() || it.starts_with('/'))
}

impl SiteClass {
    /// What a pilot of this kind will say of its node, as far as it is known before it has come.
    pub fn expected(&self) -> NodeAd {
        let (cpus, memory, disk) = (self.cpus, self.memory, self.disk);
        let capacity = Capacity { cpus, memory, disk, ..Capacity::default() };
        let count = self.gpus.as_ref().map_or(0, |gpus| gpus.count.min(MAX_CLASS_GPUS));
        let gpus = self.gpus.iter();
        let gpus = gpus.flat_map(|gpus| (0..count).filter_map(|at| gpus.expected(at))).collect();
        NodeAd {
            node: expected_node(),
            capacity,
            gpus,
            attributes: self.attributes.clone(),
            notes: Vec::new(),
            unfit: Vec::new(),
            withheld: Vec::new(),
            people: None,
        }
    }
}

#[expect(clippy::expect_used, reason = "a plain word is a good name")]
fn expected_node() -> NodeName {
    NodeName::new("expected").expect("a plain word")
}

impl ClassGpus {
    fn expected(&self, at: u32) -> Option<GpuDevice> {
        Some(GpuDevice {
            id: DeviceId::new(&format!("expected-{at}")).ok()?,
            model: self.model.clone(),
            memory: self.memory,
            vendor: GpuVendor::Nvidia,
            source: GpuSource::Declared,
            capability: self.capability.clone(),
            driver: self.driver.clone(),
            slice: self.slice.clone(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_shared_by_whole_names() {
        let is_shared = |path, folder| is_below(path, folder);
        for (path, folder) in
            [("/data", "/data"), ("/data/x", "/data/"), ("/x", "/"), ("/data/a/b", "/data/a")]
        {
            assert!(is_shared(path, folder), "{path} {folder}");
        }
        for (path, folder) in
            [("/data2", "/data"), ("data/x", "/data"), ("/data/../etc", "/data"), ("/", "/data")]
        {
            assert!(!is_shared(path, folder), "{path} {folder}");
        }
    }
}
