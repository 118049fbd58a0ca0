//! Who asks: a user in a role, and what each role may do. Nothing else says what a role means:
//! roles have no order, so that nobody compares them.

use crate::ids::{GroupName, JobId, UserName};
use serde::{Deserialize, Serialize};
use std::str::FromStr;
use std::sync::Arc;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
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

/// What not everybody may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum May {
    /// Have jobs, tokens and logins, and change anything at all.
    Change,
    /// How much there is to do, and where: not for everybody on a machine that many share.
    ReadMetrics,
    /// See and touch everybody's jobs, and what watchers are told of them.
    TouchAllJobs,
    SeeAllUsers,
    /// Have more unfinished than other users; whoever keeps the server going has its tools there.
    HaveMore,
    AddUsers,
    RemoveUsers,
    SetShares,
    /// See and revoke everybody's tokens, those of pilots too.
    KeepTokens,
    IssueTokensForOthers,
    LetPilotsIn,
    /// Add, drain and remove sites: commands run there, and other people's jobs go there.
    KeepSites,
}

impl May {
    /// Who may what, as it reads after "only".
    pub fn words(self) -> &'static str {
        match self {
            May::Change => "a user, an operator or an admin may change anything",
            May::ReadMetrics => "a monitor or an operator may read the metrics",
            May::TouchAllJobs => "an operator may see the jobs of others",
            May::SeeAllUsers => "an operator may list all users",
            May::HaveMore => "an operator may have so much unfinished",
            May::AddUsers => "an admin may add users",
            May::RemoveUsers => "an admin may remove users",
            May::SetShares => "an admin may set users' shares",
            May::KeepTokens => "an admin may keep the tokens of others",
            May::IssueTokensForOthers => "an admin may issue tokens for others",
            May::LetPilotsIn => "an admin may let pilots in",
            May::KeepSites => "an admin may add, drain and remove sites",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Actor {
    pub user: UserName,
    pub role: Role,
    /// Whom they belong to; nobody belongs to any group yet.
    pub groups: Arc<[GroupName]>,
    /// What belonged to this name before was somebody's who was removed.
    pub since: JobId,
    /// The id of the token they came in with. None: that of whoever started the server, which no
    /// command ends.
    pub token: Option<Arc<str>>,
}

impl Actor {
    /// Whoever started the server, or somebody in a test.
    pub fn new(user: UserName, role: Role) -> Actor {
        Actor { user, role, groups: Arc::default(), since: JobId(0), token: None }
    }

    pub fn may(&self, act: May) -> bool {
        self.role.may(act)
    }

    pub fn may_touch(&self, job: &Owned) -> bool {
        self.may(May::TouchAllJobs) || self.owns(job)
    }

    pub fn owns(&self, job: &Owned) -> bool {
        self.user == *job.owner && self.since <= job.since
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
    /// The one place that says what a role may do.
    pub fn may(self, act: May) -> bool {
        match act {
            May::Change => self != Role::Monitor,
            May::ReadMetrics => self != Role::User,
            May::TouchAllJobs | May::SeeAllUsers | May::HaveMore => {
                matches!(self, Role::Operator | Role::Admin)
            }
            May::AddUsers
            | May::RemoveUsers
            | May::SetShares
            | May::KeepTokens
            | May::IssueTokensForOthers
            | May::LetPilotsIn
            | May::KeepSites => self == Role::Admin,
        }
    }

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_each_role_may() {
        let may = |act| {
            let all = [Role::Monitor, Role::User, Role::Operator, Role::Admin];
            all.map(|role| u8::from(role.may(act)))
        };
        assert_eq!(may(May::Change), [0, 1, 1, 1]);
        assert_eq!(may(May::ReadMetrics), [1, 0, 1, 1]);
        for operators in [May::TouchAllJobs, May::SeeAllUsers, May::HaveMore] {
            assert_eq!(may(operators), [0, 0, 1, 1], "{operators:?}");
        }
        for admins in [
            May::AddUsers,
            May::RemoveUsers,
            May::SetShares,
            May::KeepTokens,
            May::IssueTokensForOthers,
            May::LetPilotsIn,
            May::KeepSites,
        ] {
            assert_eq!(may(admins), [0, 0, 0, 1], "{admins:?}");
        }
    }
}
