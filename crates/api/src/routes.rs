//! Where things are. Clients and the server take the paths from here, so that they cannot differ.

use shipway_model::{JobId, TaskIndex};

pub const API: &str = "/api/v1";
pub const JOBS: &str = "/api/v1/jobs";
pub const JOB: &str = "/api/v1/jobs/{job}";
pub const JOB_WAIT: &str = "/api/v1/jobs/{job}/wait";
pub const JOB_WHY: &str = "/api/v1/jobs/{job}/why";
pub const JOB_TASKS: &str = "/api/v1/jobs/{job}/tasks";
pub const TASK_LOG: &str = "/api/v1/jobs/{job}/tasks/{index}/log";
pub const CANCEL: &str = "/api/v1/cancel";
pub const RETRY: &str = "/api/v1/retry";
pub const DRY_RUN: &str = "/api/v1/dry-run";
pub const EVENTS: &str = "/api/v1/events";
pub const NODES: &str = "/api/v1/nodes";
pub const PILOTS: &str = "/api/v1/pilots";
pub const USERS: &str = "/api/v1/users";
pub const USER: &str = "/api/v1/users/{user}";
pub const USER_SHARE: &str = "/api/v1/users/{user}/share";
pub const TOKENS: &str = "/api/v1/tokens";
pub const TOKEN: &str = "/api/v1/tokens/{id}";
pub const REGISTRIES: &str = "/api/v1/registries";
pub const REGISTRY: &str = "/api/v1/registries/{host}";
pub const WHO_AM_I: &str = "/api/v1/whoami";
pub const HEALTHZ: &str = "/healthz";
pub const READYZ: &str = "/readyz";
pub const METRICS: &str = "/metrics";

/// All of them: what requests are counted by. Anything else is nobody's.
pub const ALL: &[&str] = &[
    JOBS, JOB, JOB_WAIT, JOB_WHY, JOB_TASKS, TASK_LOG, CANCEL, RETRY, DRY_RUN, EVENTS, NODES,
    PILOTS, USERS, USER, USER_SHARE, TOKENS, TOKEN, REGISTRIES, REGISTRY, WHO_AM_I, HEALTHZ,
    READYZ, METRICS,
];

/// The header by which a client's repeat of a submission is recognised.
pub const IDEMPOTENCY_KEY: &str = "idempotency-key";
pub const REQUEST_ID: &str = "x-request-id";

/// A host and its port may stand in a path as they are.
pub fn registry(host: &str) -> String {
    format!("{REGISTRIES}/{host}")
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
pub fn task_log(job: JobId, index: TaskIndex) -> String {
    format!("{JOBS}/{job}/tasks/{index}/log")
}
