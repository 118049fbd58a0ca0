//! Users: the list, and what became of one.

use super::View;
use super::paper::Paper;
use super::table::{Cell, Table};
use serde::Serialize;
use shipway_api::types::{AddedUser, NodeList, NodeView, RemovedUser, UserList};
use shipway_model::prospect::core_hours;
use shipway_model::{NodeName, People, UserName};
use std::collections::BTreeMap;

#[derive(Debug, Serialize)]
#[serde(transparent)]
pub struct UserTable {
    pub list: UserList,
}

impl View for UserTable {
    fn text(&self, paper: &mut Paper) {
        let mut table = Table::new(&["USER", "ROLE", "SHARE", "USED LATELY"]);
        for user in &self.list.users {
            let used = user.used_core_seconds.map(core_hours);
            let share = user.share.map(|share| share.to_string());
            table.row(vec![
                Cell::from(&user.user),
                user.role.as_str().into(),
                share.unwrap_or_default().into(),
                used.unwrap_or_default().into(),
            ]);
        }
        table.write(paper);
    }
}

#[derive(Debug, Serialize)]
#[serde(transparent)]
pub struct UserAdded {
    pub user: AddedUser,
}

impl View for UserAdded {
    fn text(&self, paper: &mut Paper) {
        let AddedUser { user, role, existed } = &self.user;
        let became = if *existed { "was there already" } else { "is added" };
        paper.line(&format!("user {user} {became}, with the role {}", role.as_str()));
    }
}

/// Most nodes that are named in a warning about several.
const NAMED: usize = 3;

/// What whoever adds a user should know of nodes that do not keep people apart.
pub fn not_apart(list: &NodeList) -> Vec<String> {
    let mut alike: BTreeMap<&People, Vec<&str>> = BTreeMap::new();
    for node in &list.nodes {
        if let Some(people @ (People::No { .. } | People::Refused { .. })) = &node.ad.people {
            alike.entry(people).or_default().push(node.name.as_str());
        }
    }
    let lines = alike.iter().map(|(people, nodes)| {
        let mut names = nodes[..nodes.len().min(NAMED)].join(", ");
        if nodes.len() > NAMED {
            names = format!("{names} and {} more", nodes.len() - NAMED);
        }
        let (user, why, fix) = match people {
            People::No { user, why, fix } => (user, why, fix),
            People::Refused { why, fix } => {
                return format!(
                    "warning: jobs of others are refused on {names}, where people cannot be kept \
                     apart now: {why}. What helps: {fix}"
                );
            }
            People::ByAccount | People::BySubordinateId => return String::new(),
        };
        format!(
            "warning: people are not kept apart on {names}: {why}. Their tasks run there as \
             {user}, as guests: only containers stand between them, and of the node's files they \
             have what `up --binds` offers. What helps: {fix}; then start `shipway up` again"
        )
    });
    lines.collect()
}

/// What whoever adds a user should know who has no account here, where accounts are what counts. Of
/// the accounts of other nodes nothing is known.
pub fn no_account(list: &NodeList, user: &UserName, here: &NodeName) -> Option<String> {
    let by_account = |node: &&NodeView| node.ad.people == Some(People::ByAccount);
    list.nodes.iter().filter(by_account).find(|node| node.ad.node == *here)?;
    Some(format!(
        "warning: there is no account {user} on {here}, where tasks run under the account of their \
         user's name: jobs of {user} are refused there. What helps: as root: useradd --create-home \
         {user}; or start `shipway up` with --accounts {user}=ACCOUNT, if it was not"
    ))
}

#[derive(Debug, Serialize)]
pub struct UserRemoved {
    #[serde(flatten)]
    pub user: RemovedUser,
    pub given_to: Option<UserName>,
}

impl View for UserRemoved {
    fn text(&self, paper: &mut Paper) {
        let RemovedUser { removed, cancelled_jobs, given_jobs, .. } = &self.user;
        let jobs = |count: &u64| if *count == 1 { "1 job".into() } else { format!("{count} jobs") };
        let became = match &self.given_to {
            Some(heir) => format!("; {} now {heir}'s", jobs_are(*given_jobs)),
            None if *cancelled_jobs > 0 => format!("; {} cancelled", jobs(cancelled_jobs)),
            None => String::new(),
        };
        paper.line(&format!("user {removed} is removed{became}"));
    }
}

fn jobs_are(count: u64) -> String {
    match count {
        1 => "1 job is".into(),
        count => format!("{count} jobs are"),
    }
}

#[derive(Debug, Serialize)]
pub struct UserShare {
    pub user: UserName,
    pub share: u32,
}

impl View for UserShare {
    fn text(&self, paper: &mut Paper) {
        paper.line(&format!("user {} has share {}", self.user, self.share));
    }
}
