//! Every limit that is part of the contract, by name and with its reason.
//!
//! Limits of one component alone (a queue inside the pilot, say) live beside the code they bound.

use crate::units::{Bytes, Millis};

/// Tasks of one array. Ordinals are 32 bits wide and two bits of state each: 10 million tasks are
/// 2.5 MB once the first one has started.
pub const MAX_TASKS: u64 = 10_000_000;
/// Ranges in one `--array`: a list longer than this is a file (`--each`).
pub const MAX_RANGES: usize = 10_000;
/// Indices that stand in ranges across one another (`0-10:2,1-11:2`): they are sorted one by one,
/// while a request is read.
pub const MAX_INTERLEAVED: u64 = 10_000;
/// Rows of one `--each` file; each row travels in the job's specification.
pub const MAX_EACH_ROWS: usize = 1_000_000;
/// Rows of `--each` times fields: as many as a specification has room to name, so that only rows
/// that leave most of their fields out come near it.
pub const MAX_EACH_VALUES: usize = 4_000_000;
/// Fields of all rows together: each is a column of its own.
pub const MAX_EACH_FIELDS: usize = 10_000;
/// One row of `--each`, names included: all of it is variables of the task, and kept by the pilot
/// until the task has started.
pub const MAX_ROW_BYTES: usize = 256 << 10;
/// What rows of `--each` leave out, as bytes of the full form that is stored. A name of a megabyte
/// that stands in one row of a million would otherwise be written a million times.
pub const MAX_EACH_LEFT_OUT: usize = 4 << 20;
/// Bytes of one job specification as JSON, rows of `--each` included.
pub const MAX_SPEC_BYTES: usize = 24 << 20;
/// Arguments of one command, and bytes of all arguments and variables together: below Linux's own
/// limit for one exec, so that the refusal comes at submission and not on the node.
pub const MAX_ARGS: usize = 16_384;
pub const MAX_EXEC_BYTES: usize = 1 << 20;
/// Variables of one task; they are kept by name, which takes more memory than their text, and each
/// task that starts has its own copy.
pub const MAX_VARIABLES: usize = 4_096;
/// The same of what is read at all: jobs that were accepted before have as many.
pub const MAX_ARGS_READ: usize = 65_536;
pub const MAX_VARIABLES_READ: usize = 100_000;
/// One argument or variable: Linux refuses more than 128 KiB each (MAX_ARG_STRLEN).
pub const MAX_ARG_BYTES: usize = 128 << 10;
/// A script travels with each job; larger programs belong in files.
pub const MAX_SCRIPT_BYTES: usize = 1 << 20;
pub const MAX_NAME_BYTES: usize = 200;
pub const MAX_LABELS: usize = 64;
/// Tags that a job asks for, or a site has.
pub const MAX_TAGS: usize = 32;
pub const MAX_BINDS: usize = 64;
/// Inputs or outputs of one task: the list travels with each job; more of them belong in a folder.
pub const MAX_FILES: usize = 10_000;
/// Files, links and folders that travel with one job, or come back from one task: a large source
/// tree. More of them belong in an archive.
pub const MAX_TRAVELLING: usize = 100_000;
/// The list of them as JSON, which is read as a whole.
pub const MAX_MANIFEST_BYTES: usize = 32 << 20;
/// The longest path Linux takes, its end included (PATH_MAX).
pub const MAX_PATH_BYTES: usize = 4_095;
pub const MAX_LABEL_BYTES: usize = 200;
pub const MAX_DEPENDENCIES: usize = 1_000;
pub const MAX_RETRIES: u32 = 1_000;
pub const MAX_NAMED_RESOURCES: usize = 32;
/// Models of which a GPU may be any.
pub const MAX_GPU_MODELS: usize = 1_000;
/// Jobs, or tasks, that one request names to be cancelled or run again.
pub const MAX_SELECTED: usize = 100_000;
/// Runs of tasks, of jobs together, that one request cancels or runs again: each is written down,
/// in up to 18 bytes, and all of them in one commit. A fifth of the tasks of the largest array can
/// have failed, however they are scattered.
pub const MAX_RUNS_CHANGED: usize = 1_500_000;
/// Jobs that are told in one step how one ended that they wait for; the others are told in steps of
/// their own, between which others' wishes are decided.
pub const MAX_TOLD_AT_ONCE: usize = 1_000;
/// Priorities outside this range say nothing more.
pub const PRIORITY_RANGE: std::ops::RangeInclusive<i32> = -1_000_000..=1_000_000;
/// One step of priority goes before as much waiting as this.
pub const PRIORITY_IN_WAITING: Millis = Millis(3_600 * 1_000);
/// A user's part of the machines, against the parts of others; 100 unless somebody says otherwise.
pub const SHARE_RANGE: std::ops::RangeInclusive<u32> = 1..=1_000_000;
/// Memory that a task may ask for: whoever asks for less forgot the unit.
pub const MIN_MEMORY: Bytes = Bytes(1_000_000);
pub const MAX_KEY_BYTES: usize = 200;

/// Tokens of one user that are good at the same time: one for each machine and script of a person,
/// and few enough to look through.
pub const MAX_TOKENS: usize = 100;
/// Jobs of one user that have not ended. A waiting job takes some 200 bytes of memory; whoever has
/// more work than this has an array.
pub const MAX_UNFINISHED_JOBS: u64 = 200_000;
/// The same for operators and admins, who submit for services and whole groups.
pub const MAX_UNFINISHED_JOBS_OF_OPERATORS: u64 = 2_000_000;
/// Tasks of all those jobs together: fifty arrays of the largest size, 125 MB once they have begun.
pub const MAX_UNFINISHED_TASKS: u64 = 50 * MAX_TASKS;

/// Memory that one user's jobs that have not ended take beyond plain ones (`core/src/weight.rs`):
/// requirements that differ from job to job, lists of indices, jobs that are waited for, and tasks
/// that fare otherwise than those beside them. Room for thousands of different requirements, a
/// million dependencies, or an array of which every second task was cancelled.
pub const MAX_UNFINISHED_BYTES: u64 = 128 << 20;
/// The same for operators and admins, as for the number of jobs.
pub const MAX_UNFINISHED_BYTES_OF_OPERATORS: u64 = 10 * MAX_UNFINISHED_BYTES;

/// Output kept per stream and task unless the job says otherwise.
pub const DEFAULT_LOG_LIMIT: Bytes = Bytes(64 << 20);
pub const MAX_LOG_LIMIT: Bytes = Bytes(64 << 30);

/// A task lost with its pilot is not the task's fault and does not use up its retries; but a task
/// that takes its node down each time must stop somewhere.
pub const MAX_LOST_ATTEMPTS: u32 = 10;
/// Why an attempt was not started, or its outputs not taken: what is longer is cut off.
pub const MAX_WHY_BYTES: usize = 8 << 10;
/// First wait before a retry, doubled each time up to the last.
pub const DEFAULT_RETRY_DELAY: Millis = Millis(1_000);
pub const MAX_RETRY_DELAY: Millis = Millis(10 * 60 * 1_000);
/// From the warning signal to the kill.
pub const DEFAULT_GRACE: Millis = Millis(30_000);
/// From the request to stop a cancelled task to the kill.
pub const CANCEL_GRACE: Millis = Millis(10_000);

/// A pilot that has not been heard of for this long is shown as lost.
pub const PILOT_LOST_AFTER: Millis = Millis(15_000);
/// A pilot says it is alive this often, so that a silent one is noticed in `PILOT_LOST_AFTER`.
pub const PILOT_HEARTBEAT: Millis = Millis(5_000);
/// Work waiting at a pilot beyond what it can run at once, in time: long enough to hide a round
/// trip and a commit, short enough that nobody waits behind it.
pub const BACKLOG_TARGET: Millis = Millis(50);
pub const MAX_BACKLOG: u32 = 256;
/// Tasks that a pilot was given and has not started, however much room it says it has: more than
/// any node starts while the next ones are on their way.
pub const MAX_UNSTARTED: u32 = 1_024;

/// How long a client's repeat of a submission is recognised.
pub const IDEMPOTENCY_KEPT: Millis = Millis(24 * 3_600 * 1_000);
pub const MAX_PAGE: usize = 1_000;
pub const DEFAULT_PAGE: usize = 50;

/// Of `requirements` and of `rank`: pages of terms, and read again for every shape.
pub const MAX_EXPRESSION_BYTES: usize = 16 << 10;
