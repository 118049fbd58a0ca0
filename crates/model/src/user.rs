//! Who asks: a user in a role. What each role may do is decided in `core`.

use crate::ids::{JobId, UserName};
use serde::{Deserialize, Serialize};
use std::str::FromStr;
use std::sync::Arc;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Reads the metrics and sees nodes; changes nothing and has no jobs. For machines that watch.
    Monitor,
    /// Sees and touches their own jobs.
    User,
    /// Sees and touches everybody's jobs.
    Operator,
    /// An operator who also keeps users and tokens.
    Admin,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Actor {
    pub user: UserName,
    pub role: Role,
    /// What belonged to this name before was somebody's who was removed.
    pub since: JobId,
    /// The id of the token they came in with. None: that of whoever started the server, which no
    /// command ends.
    pub token: Option<Arc<str>>,
}

impl Actor {
    /// Whoever started the server, or somebody in a test.
    pub fn new(user: UserName, role: Role) -> Actor {
        Actor { user, role, since: JobId(0), token: None }
    }

    pub fn may_touch(&self, job: &Owned) -> bool {
        self.role >= Role::Operator || self.owns(job)
    }

    pub fn owns(&self, job: &Owned) -> bool {
        self.user == *job.owner && self.since <= job.since
    }

    /// How much there is to do, and where: not for everybody on a machine that many share.
    pub fn may_read_metrics(&self) -> bool {
        self.role == Role::Monitor || self.role >= Role::Operator
    }
}

/// Whose a job is. A name alone does not say: it may have been given to somebody else since.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Owned<'a> {
    pub owner: &'a UserName,
    /// The number of the job, or of those to come when it was given to this owner.
    pub since: JobId,
}

impl Role {
    pub fn as_str(self) -> &'static str {
        match self {
            Role::Monitor => "monitor",
            Role::User => "user",
            Role::Operator => "operator",
            Role::Admin => "admin",
        }
    }
}

impl FromStr for Role {
    type Err = crate::ids::BadId;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let all = [Role::Monitor, Role::User, Role::Operator, Role::Admin];
        all.into_iter().find(|role| role.as_str() == text).ok_or_else(|| crate::ids::BadId {
            text: text.into(),
            wanted: "role (user, operator, admin or monitor)",
        })
    }
}
