//! Registries that the server has a login for; never a password.

use super::View;
use super::paper::Paper;
use super::table::{Cell, Table};
use serde::Serialize;
use shipway_api::types::RegistryList;

#[derive(Debug, Serialize)]
pub struct RegistryKept {
    pub host: String,
    pub user: String,
}

impl View for RegistryKept {
    fn text(&self, paper: &mut Paper) {
        let RegistryKept { host, user } = self;
        paper.line(&format!("the login of {user} at {host} is kept for your jobs"));
    }
}

#[derive(Debug, Serialize)]
pub struct RegistryForgotten {
    pub forgotten: String,
}

impl View for RegistryForgotten {
    fn text(&self, paper: &mut Paper) {
        paper.line(&format!("the login at {} is forgotten", self.forgotten));
    }
}

#[derive(Debug, Serialize)]
#[serde(transparent)]
pub struct RegistryTable {
    pub list: RegistryList,
}

impl View for RegistryTable {
    fn text(&self, paper: &mut Paper) {
        if self.list.registries.is_empty() {
            return paper.line("no logins for registries");
        }
        let mut table = Table::new(&["REGISTRY", "USER"]);
        for registry in &self.list.registries {
            table.row(vec![Cell::from(&registry.host), Cell::from(&registry.user)]);
        }
        table.write(paper);
    }
}
