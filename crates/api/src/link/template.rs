//! What a pilot is given to run: what the tasks of a job have in common, and each task's own.

use super::BadMessage;
use super::files::Files;
use super::node::read_amounts;
use crate::wire;
use prost::Message as _;
use shipway_model::limits::MAX_BINDS;
use shipway_model::time_limit::Signal;
use shipway_model::{
    AttemptId, BindMount, Bytes, Capacity, DeviceId, GpuShare, ImageRef, JobId, JobSpec, Login,
    Millis, Network, TimeLimit, UserNumber,
};
use std::collections::BTreeMap;

/// What the tasks of a job have in common, as the pilot needs it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Template {
    pub command: Vec<String>,
    pub script: Option<String>,
    pub env: BTreeMap<String, String>,
    pub workdir: Option<String>,
    /// Of each stream.
    pub log_limit: Bytes,
    /// What one task may use, for the pilot's own admission.
    pub need: Capacity,
    pub time_limit: Option<TimeLimit>,
    pub image: Option<ImageRef>,
    pub binds: Vec<BindMount>,
    pub network: Network,
    /// Of the one GPU it is given. `None`: whole ones, or none.
    pub gpu_share: Option<GpuShare>,
    /// Whose job it is.
    pub user: String,
    /// `None` for tasks that name no files.
    pub files: Option<Files>,
    pub registry_login: Option<Login>,
    /// Whether it is the job of whoever started the server.
    pub is_owner: bool,
    pub user_number: Option<UserNumber>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Task {
    pub id: AttemptId,
    pub devices: Vec<DeviceId>,
    /// Of its row.
    pub fields: BTreeMap<String, String>,
}

/// Tasks with the templates of their jobs.
#[derive(Debug, Clone, Default)]
pub struct Assign {
    pub templates: BTreeMap<JobId, Template>,
    /// Jobs whose tasks this pilot cannot run, because it does not understand what they need. Those
    /// of others in the same message can be.
    pub unreadable: BTreeMap<JobId, BadMessage>,
    pub tasks: Vec<Task>,
}

/// A message of assignments as it grows.
#[derive(Debug, Default)]
pub struct Assigning {
    message: wire::Assign,
    bytes: usize,
}

impl Assigning {
    pub fn template(&mut self, job: JobId, template: Template) {
        let template = template.into_wire(job);
        self.bytes += template.encoded_len();
        self.message.templates.push(template);
    }

    pub fn task(&mut self, task: Task) {
        let task = wire::Task::from(task);
        self.bytes += task.encoded_len();
        self.message.tasks.push(task);
    }

    /// How large it is so far.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    pub fn done(self) -> wire::ToPilot {
        wire::ToPilot { body: Some(wire::to_pilot::Body::Assign(self.message)) }
    }
}

impl Assign {
    pub(super) fn read(assign: wire::Assign) -> Result<Self, BadMessage> {
        let mut read = Assign::default();
        for template in assign.templates {
            let job = JobId(template.job);
            match Template::read(template) {
                Ok(template) => drop(read.templates.insert(job, template)),
                Err(error) => drop(read.unreadable.insert(job, error)),
            }
        }
        read.tasks = assign.tasks.into_iter().map(Task::read).collect::<Result<_, _>>()?;
        Ok(read)
    }
}

impl From<Assign> for wire::Assign {
    fn from(assign: Assign) -> Self {
        let templates = assign.templates.into_iter();
        wire::Assign {
            templates: templates.map(|(job, template)| template.into_wire(job)).collect(),
            tasks: assign.tasks.into_iter().map(Into::into).collect(),
        }
    }
}

impl Template {
    /// Without what the server adds of its own: a login, and who the user is to it.
    pub fn of(owner: &str, spec: &JobSpec) -> Self {
        let need = &spec.resources;
        let share = need.gpu.as_ref().map(|gpu| gpu.share);
        Template {
            command: spec.command.clone(),
            script: spec.script.clone(),
            env: spec.env.clone(),
            workdir: spec.workdir.clone(),
            log_limit: spec.log_limit,
            need: Capacity { named: need.named.clone(), ..Capacity::of(need.amounts()) },
            time_limit: spec.time_limit.clone(),
            image: spec.image.clone(),
            binds: spec.binds.clone(),
            network: spec.network,
            gpu_share: share.filter(|share| *share != GpuShare::WHOLE),
            user: owner.to_string(),
            files: Files::of(spec),
            registry_login: None,
            is_owner: false,
            user_number: None,
        }
    }

    pub(super) fn into_wire(self, job: JobId) -> wire::Template {
        wire::Template {
            job: job.0,
            command: self.command,
            script: self.script,
            env: self.env,
            workdir: self.workdir,
            log_limit: self.log_limit.0,
            need: Some(self.need.into()),
            time_limit: self.time_limit.map(Into::into),
            image: self.image.as_ref().map(ToString::to_string),
            binds: self.binds.into_iter().map(Into::into).collect(),
            network: wire::Network::from(self.network).into(),
            gpu_share: self.gpu_share.map_or(0, |share| share.0),
            user: self.user,
            files: self.files.map(Into::into),
            registry_login: self.registry_login.map(Into::into),
            is_owner: self.is_owner,
            user_number: self.user_number.map_or(0, |number| number.0),
        }
    }

    fn read(template: wire::Template) -> Result<Self, BadMessage> {
        if template.binds.len() > MAX_BINDS {
            return Err(BadMessage::TooLong("list of binds"));
        }
        Ok(Template {
            command: template.command,
            script: template.script,
            env: template.env,
            workdir: template.workdir,
            log_limit: Bytes(template.log_limit),
            need: read_amounts(template.need.ok_or(BadMessage::Missing("need"))?)?,
            time_limit: template.time_limit.map(read_time_limit).transpose()?,
            image: template.image.as_deref().map(str::parse).transpose()?,
            binds: template.binds.into_iter().map(read_bind).collect::<Result<_, _>>()?,
            network: read_network(template.network)?,
            gpu_share: read_share(template.gpu_share)?,
            user: template.user,
            files: template.files.map(Files::read).transpose()?,
            registry_login: template.registry_login.map(Into::into),
            is_owner: template.is_owner,
            user_number: (template.user_number > 0).then_some(UserNumber(template.user_number)),
        })
    }
}

impl From<TimeLimit> for wire::TimeLimit {
    fn from(TimeLimit { limit, warn, grace }: TimeLimit) -> Self {
        wire::TimeLimit { limit_ms: limit.0, warn_signal: warn.number(), grace_ms: grace.0 }
    }
}

fn read_time_limit(limit: wire::TimeLimit) -> Result<TimeLimit, BadMessage> {
    let warn = Signal::from_number(limit.warn_signal);
    let warn = warn.ok_or(BadMessage::Unknown("warning signal"))?;
    Ok(TimeLimit { limit: Millis(limit.limit_ms), warn, grace: Millis(limit.grace_ms) })
}

impl From<BindMount> for wire::Bind {
    fn from(BindMount { source, target, writable }: BindMount) -> Self {
        wire::Bind { source, target, writable }
    }
}

fn read_bind(wire::Bind { source, target, writable }: wire::Bind) -> Result<BindMount, BadMessage> {
    Ok(BindMount::new(source, target, writable)?)
}

impl From<Network> for wire::Network {
    fn from(network: Network) -> Self {
        match network {
            Network::Host => wire::Network::Host,
            Network::None => wire::Network::None,
            Network::Private => wire::Network::Private,
        }
    }
}

fn read_network(network: i32) -> Result<Network, BadMessage> {
    match wire::Network::try_from(network) {
        Ok(wire::Network::Host) => Ok(Network::Host),
        Ok(wire::Network::None) => Ok(Network::None),
        Ok(wire::Network::Private) => Ok(Network::Private),
        Ok(wire::Network::Unsaid) | Err(_) => Err(BadMessage::Unknown("network")),
    }
}

fn read_share(share: u32) -> Result<Option<GpuShare>, BadMessage> {
    if share >= GpuShare::WHOLE.0 {
        return Err(BadMessage::Unknown("share of a GPU"));
    }
    Ok((share > 0).then_some(GpuShare(share)))
}

impl std::fmt::Debug for wire::RegistryLogin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RegistryLogin").field("user", &self.user).finish_non_exhaustive()
    }
}

impl From<Login> for wire::RegistryLogin {
    fn from(Login { user, password }: Login) -> Self {
        wire::RegistryLogin { user, password }
    }
}

impl From<wire::RegistryLogin> for Login {
    fn from(wire::RegistryLogin { user, password }: wire::RegistryLogin) -> Self {
        Login { user, password }
    }
}

impl From<Task> for wire::Task {
    fn from(Task { id, devices, fields }: Task) -> Self {
        let devices = devices.iter().map(ToString::to_string).collect();
        wire::Task { id: Some(id.into()), devices, fields }
    }
}

impl Task {
    fn read(wire::Task { id, devices, fields }: wire::Task) -> Result<Self, BadMessage> {
        let id = id.ok_or(BadMessage::Missing("attempt"))?.into();
        let devices = devices.iter().map(|id| DeviceId::new(id)).collect::<Result<_, _>>()?;
        Ok(Task { id, devices, fields })
    }
}
