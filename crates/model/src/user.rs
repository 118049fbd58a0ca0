//! Who asks: a user in a role. What each role may do is decided in `core`.

use crate::ids::UserName;
use serde::{Deserialize, Serialize};
use std::str::FromStr;

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

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Actor {
    pub user: UserName,
    pub role: Role,
}

impl Actor {
    pub fn may_touch(&self, owner: &UserName) -> bool {
        self.role >= Role::Operator || self.user == *owner
    }

    /// How much there is to do, and where: not for everybody on a machine that many share.
    pub fn may_read_metrics(&self) -> bool {
        self.role == Role::Monitor || self.role >= Role::Operator
    }
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
