//! Who asks: a user in a role. What each role may do is decided in `core`.

use crate::ids::UserName;
use serde::{Deserialize, Serialize};
use std::str::FromStr;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum Role {
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
}

impl Role {
    pub fn as_str(self) -> &'static str {
        match self {
            Role::User => "user",
            Role::Operator => "operator",
            Role::Admin => "admin",
        }
    }
}

impl FromStr for Role {
    type Err = crate::ids::BadId;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let all = [Role::User, Role::Operator, Role::Admin];
        all.into_iter().find(|role| role.as_str() == text).ok_or_else(|| crate::ids::BadId {
            text: text.into(),
            wanted: "role (user, operator or admin)",
        })
    }
}
