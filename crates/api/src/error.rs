//! The body of every error answer: a code to branch on, a message and a hint to read, an id to
//! find it in the server's log.

use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ErrorBody {
    pub code: String,
    pub message: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    pub request_id: String,
}

/// Codes of the edge itself; the core's refusals have their own (`Rejection::code`).
pub mod codes {
    pub const UNAUTHENTICATED: &str = "unauthenticated";
    pub const NOT_ALLOWED: &str = "not_allowed";
    pub const BAD_REQUEST: &str = "bad_request";
    pub const NOT_FOUND: &str = "not_found";
    pub const TOO_LARGE: &str = "too_large";
    pub const TOO_SLOW: &str = "too_slow";
    /// The journal cannot be written: nothing is accepted until it can.
    pub const NOT_DURABLE: &str = "not_durable";
    pub const NODE_AWAY: &str = "node_away";
    pub const INTERNAL: &str = "internal";
    pub const BUSY: &str = "busy";
    /// A limit for one user is reached; the message names it.
    pub const TOO_MANY: &str = "too_many";
    pub const BAD_METHOD: &str = "bad_method";
    /// Whoever started the server cannot be taken from it.
    pub const IS_OWNER: &str = "is_owner";
    /// Its registry does not have it, or does not let the user have it.
    pub const IMAGE_REFUSED: &str = "image_refused";
    /// A job names files that its owner has not uploaded.
    pub const FILES_MISSING: &str = "files_missing";
    /// The disk of the server is too full for more files.
    pub const NO_ROOM: &str = "no_room";
    pub const STOPPING: &str = "stopping";
}
