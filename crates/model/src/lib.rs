//! The nouns of Shipway: typed ids, units, job specifications, states, nodes, reasons and limits.
//!
//! Everything here is plain data that can be parsed, checked, compared and printed. Nothing here
//! decides, waits, reads a clock or touches a file: deciding is `shipway-core`'s work, acting is
//! the work of the edges (`server`, `pilot`, `cli`).
#![warn(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::string_slice,
    clippy::unreachable,
    clippy::unwrap_used
)]

pub mod advice;
pub mod allocation;
pub mod amounts;
mod as_text;
pub mod attempt;
pub mod bind;
pub mod connection_number;
pub mod counts;
pub mod credentials;
pub mod each;
pub mod expand;
pub mod files;
mod filled;
pub mod gpu;
pub mod ids;
pub mod image_ref;
pub mod indices;
pub mod limits;
pub mod manifest;
pub mod node;
pub mod outcome;
pub mod people;
pub mod plain_text;
pub mod prospect;
pub mod reading;
pub mod reason;
pub mod relay;
pub mod resources;
pub mod retry;
pub mod series;

pub mod site;
pub mod spec;
pub mod states;
pub mod time_limit;
pub mod units;
pub mod usage;
pub mod user;
pub mod validate;

pub use advice::Advice;
pub use allocation::{AllocationEnd, EngineTrouble};
pub use amounts::{Amounts, Kind, Quantity};
pub use attempt::{AttemptId, Ended, Held, HeldPhase};
pub use bind::{BindMount, Network};
pub use connection_number::ConnectionNumber;
pub use counts::{Counted, Counts};
pub use credentials::{Login, PilotCredentials};
pub use each::{Each, EachBuilder, TextList};
pub use files::{FileMap, OutputFiles, Outputs, TakenOn};
pub use gpu::{GpuDevice, GpuRequest, GpuSource, GpuVendor};
pub use ids::{
    AllocationId, Attempt, DeviceId, GroupName, JobId, NodeName, Ordinal, PilotId, SiteName,
    TaskId, TaskIndex, UserName, UserNumber,
};
pub use image_ref::{BadImageRef, Digest, ImageRef, RegistryRef};
pub use indices::IndexSet;
pub use manifest::{Manifest, TravellingFile};
pub use node::{Capacity, NodeAd, Withheld};
pub use outcome::{Lost, Outcome};
pub use people::People;
pub use reason::Reason;
pub use relay::RelayAddress;
pub use resources::Resources;
pub use retry::RetryPolicy;
pub use series::Series;
pub use site::{
    BatchKind, ClassGpus, GpuOption, Reach, SiteClass, SiteLimits, SiteProgram, SiteSpec,
};
pub use spec::{After, AfterNamed, Condition, JobSpec};
pub use states::{JobCounts, JobState, TaskState};
pub use time_limit::TimeLimit;
pub use units::{Bytes, Cores, GpuShare, Millis, Timestamp};
pub use usage::Usage;
pub use user::{Actor, May, Owned, Role};
