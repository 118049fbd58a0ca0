//! Every endpoint, listed once: where it is, who may ask, how much may be sent there, and which
//! handler of the server answers. Clients take their paths from here; the server makes its router,
//! its door and the OpenAPI document of it, and the tests walk it. Adding one is a row here and a
//! handler.

use crate::pack::MAX_UPLOAD_BYTES;
use shipway_model::limits::MAX_SPEC_BYTES;
use shipway_model::{Digest, JobId, May, SiteName, TaskIndex};

/// Hands the table to another macro, row by row: a name for the path, the path, and for each
/// method its handler (`module::function` below `http` in the server), who may ask, and the most
/// bytes of a body.
#[macro_export]
macro_rules! endpoints {
    ($with:ident) => {
        $with! {
            JOBS "/api/v1/jobs" {
                GET jobs::list (Who::SignedIn, NO_BODY);
                POST submit::submit (Who::May(May::Change), SPEC);
            }
            SUBMISSIONS "/api/v1/submissions" {
                POST submit::submit_together (Who::May(May::Change), SPEC);
            }
            DRY_RUN "/api/v1/dry-run" { POST submit::dry_run (Who::May(May::Change), SPEC); }
            JOB "/api/v1/jobs/{job}" { GET jobs::show (Who::SignedIn, NO_BODY); }
            JOB_WAIT "/api/v1/jobs/{job}/wait" { GET jobs::wait (Who::SignedIn, NO_BODY); }
            JOB_WHY "/api/v1/jobs/{job}/why" { GET jobs::why (Who::SignedIn, NO_BODY); }
            JOB_TASKS "/api/v1/jobs/{job}/tasks" { GET tasks::list (Who::SignedIn, NO_BODY); }
            TASK_LOG "/api/v1/jobs/{job}/tasks/{index}/log" {
                GET logs::read (Who::SignedIn, NO_BODY);
            }
            TASK_USAGE "/api/v1/jobs/{job}/tasks/{index}/usage" {
                GET usage::series (Who::SignedIn, NO_BODY);
            }
            JOB_OUTPUTS "/api/v1/jobs/{job}/outputs" {
                GET files::job_outputs (Who::SignedIn, NO_BODY);
            }
            TASK_OUTPUTS "/api/v1/jobs/{job}/tasks/{index}/outputs" {
                GET files::task_outputs (Who::SignedIn, NO_BODY);
            }
            TASK_OUTPUT "/api/v1/jobs/{job}/tasks/{index}/outputs/{digest}" {
                GET files::task_output (Who::SignedIn, NO_BODY);
            }
            FILES "/api/v1/files" { POST files::upload (Who::May(May::Change), UPLOAD); }
            FILES_MISSING "/api/v1/files/missing" {
                POST files::missing (Who::May(May::Change), SPEC);
            }
            CANCEL "/api/v1/cancel" { POST act::cancel (Who::May(May::Change), SELECTION); }
            RETRY "/api/v1/retry" { POST act::retry (Who::May(May::Change), SELECTION); }
            EVENTS "/api/v1/events" { GET events::watch (Who::SignedIn, NO_BODY); }
            NODES "/api/v1/nodes" { GET nodes::list (Who::SignedIn, NO_BODY); }
            GPUS "/api/v1/gpus" { GET gpus::list (Who::SignedIn, NO_BODY); }
            PILOTS "/api/v1/pilots" { POST nodes::issue (Who::May(May::LetPilotsIn), NO_BODY); }
            WHO_AM_I "/api/v1/whoami" { GET users::who_am_i (Who::SignedIn, NO_BODY); }
            USERS "/api/v1/users" {
                GET users::list (Who::SignedIn, NO_BODY);
                POST users::add (Who::May(May::AddUsers), NAMES);
            }
            USER "/api/v1/users/{user}" {
                DELETE users::remove (Who::May(May::RemoveUsers), NO_BODY);
            }
            USER_SHARE "/api/v1/users/{user}/share" {
                PUT users::set_share (Who::May(May::SetShares), NAMES);
            }
            TOKENS "/api/v1/tokens" {
                GET users::tokens (Who::SignedIn, NO_BODY);
                POST users::issue (Who::May(May::Change), NAMES);
            }
            TOKEN "/api/v1/tokens/{id}" { DELETE users::revoke (Who::May(May::Change), NO_BODY); }
            SITES "/api/v1/sites" {
                GET sites::list (Who::SignedIn, NO_BODY);
                POST sites::add (Who::May(May::KeepSites), SITE_FILE);
            }
            SITE "/api/v1/sites/{site}" {
                GET sites::show (Who::SignedIn, NO_BODY);
                DELETE sites::remove (Who::May(May::KeepSites), NO_BODY);
            }
            SITE_DRAINING "/api/v1/sites/{site}/draining" {
                PUT sites::drain (Who::May(May::KeepSites), NAMES);
            }
            REGISTRIES "/api/v1/registries" { GET registries::list (Who::SignedIn, NO_BODY); }
            REGISTRY "/api/v1/registries/{host}" {
                PUT registries::keep (Who::May(May::Change), NAMES);
                DELETE registries::forget (Who::May(May::Change), NO_BODY);
            }
            TICKET "/api/v1/ticket" { GET tickets::judge (Who::Anybody, NO_BODY); }
            HEALTHZ "/healthz" { GET health::healthz (Who::Anybody, NO_BODY); }
            READYZ "/readyz" { GET health::readyz (Who::Anybody, NO_BODY); }
            METRICS "/metrics" { GET metrics::scrape (Who::May(May::ReadMetrics), NO_BODY); }
        }
    };
}

/// One row of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Endpoint {
    pub method: &'static str,
    /// A template: `/api/v1/jobs/{job}`.
    pub path: &'static str,
    pub who: Who,
    /// Of a body; larger ones are refused.
    pub most_bytes: usize,
}

/// Who may ask.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Who {
    /// Without a token.
    Anybody,
    /// With a token, whatever their role; what they see is what is theirs.
    SignedIn,
    /// Those whose role may do this.
    May(May),
}

/// The most bytes of a body: none, what says a name or two or a password, a hundred thousand names
/// of tasks, a site, a job, contents of files, which are never in memory.
const NO_BODY: usize = 0;
const NAMES: usize = 64 << 10;
const SITE_FILE: usize = 1 << 20;
const SELECTION: usize = 8 << 20;
const SPEC: usize = MAX_SPEC_BYTES;
const UPLOAD: usize = MAX_UPLOAD_BYTES;

macro_rules! listed {
    ($($name:ident $path:literal {
        $($method:ident $module:ident::$handler:ident ($who:expr, $most:ident);)+
    })+) => {
        $(pub const $name: &str = $path;)+

        /// All of them, in the order of the table.
        pub const ENDPOINTS: &[Endpoint] = &[$($(Endpoint {
            method: stringify!($method),
            path: $path,
            who: $who,
            most_bytes: $most,
        },)+)+];
    };
}
endpoints!(listed);

/// The header by which a client's repeat of a submission is recognised.
pub const IDEMPOTENCY_KEY: &str = "idempotency-key";
pub const REQUEST_ID: &str = "x-request-id";

/// A host and its port may stand in a path as they are.
pub fn registry(host: &str) -> String {
    format!("{REGISTRIES}/{host}")
}
pub fn site(site: &SiteName) -> String {
    format!("{SITES}/{site}")
}
pub fn site_draining(site: &SiteName) -> String {
    format!("{SITES}/{site}/draining")
}
pub fn job(job: JobId) -> String {
    format!("{JOBS}/{job}")
}
pub fn job_wait(job: JobId) -> String {
    format!("{JOBS}/{job}/wait")
}
pub fn job_why(job: JobId) -> String {
    format!("{JOBS}/{job}/why")
}
pub fn job_tasks(job: JobId) -> String {
    format!("{JOBS}/{job}/tasks")
}
pub fn job_outputs(job: JobId) -> String {
    format!("{JOBS}/{job}/outputs")
}
pub fn task_outputs(job: JobId, index: TaskIndex) -> String {
    format!("{JOBS}/{job}/tasks/{index}/outputs")
}
pub fn task_output(job: JobId, index: TaskIndex, content: &Digest) -> String {
    format!("{JOBS}/{job}/tasks/{index}/outputs/{content}")
}
pub fn task_log(job: JobId, index: TaskIndex) -> String {
    format!("{JOBS}/{job}/tasks/{index}/log")
}
pub fn task_usage(job: JobId, index: TaskIndex) -> String {
    format!("{JOBS}/{job}/tasks/{index}/usage")
}
