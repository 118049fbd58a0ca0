//! Tokens: a new one (the only time its secret is seen), the list, a revoked one.

use super::View;
use super::paper::Paper;
use super::table::{Cell, Table};
use super::time::Reader;
use serde::Serialize;
use shipway_api::types::{IssuedPilot, IssuedToken, TokenList};

/// The secret alone, so that a script can take it; who and until when is talk.
#[derive(Debug, Serialize)]
#[serde(transparent)]
pub struct NewTokenView {
    pub token: IssuedToken,
}

impl View for NewTokenView {
    fn text(&self, paper: &mut Paper) {
        paper.line(&self.token.secret);
    }
}

/// The file that `shipway pilot` reads, as text and as JSON alike.
#[derive(Debug, Serialize)]
#[serde(transparent)]
pub struct NewPilotView {
    pub issued: IssuedPilot,
}

impl View for NewPilotView {
    fn text(&self, paper: &mut Paper) {
        paper.line(&serde_json::to_string(&self.issued).expect("plain data"));
    }
}

#[derive(Debug, Serialize)]
#[serde(transparent)]
pub struct TokenTable {
    pub list: TokenList,
    #[serde(skip)]
    pub reader: Reader,
}

impl View for TokenTable {
    fn text(&self, paper: &mut Paper) {
        if self.list.tokens.is_empty() && self.list.pilots.is_empty() {
            return paper.line("no tokens");
        }
        let reader = &self.reader;
        let mut table = Table::new(&["ID", "USER", "EXPIRES", "NOTE"]);
        for token in &self.list.tokens {
            let expires = reader.moment(token.expires);
            let expired = if token.expires <= reader.now { " (over)" } else { "" };
            table.row(vec![
                Cell::from(&token.id),
                Cell::from(&token.user),
                format!("{expires}{expired}").into(),
                Cell::from(&token.note),
            ]);
        }
        for token in &self.list.pilots {
            let expires = token.expires.map(|at| reader.moment(at));
            let (place, node) =
                (if token.this_machine { "of this machine" } else { "" }, &token.node);
            let place = match node {
                _ if token.this_machine => place.to_owned(),
                Some(node) => format!("on {node}"),
                None if token.used => "gone".to_owned(),
                None => "not used yet".to_owned(),
            };
            table.row(vec![
                Cell::from(&token.pilot),
                Cell::from("(pilot)"),
                expires.unwrap_or_else(|| "with its pilot".to_owned()).into(),
                place.into(),
            ]);
        }
        table.write(paper);
    }
}

#[derive(Debug, Serialize)]
pub struct TokenRevoked {
    pub revoked: String,
}

impl View for TokenRevoked {
    fn text(&self, paper: &mut Paper) {
        paper.line(&format!("token {} is revoked", self.revoked));
    }
}
