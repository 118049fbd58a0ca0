//! The OpenAPI document, generated from the table of endpoints, their handlers and the
//! contract's types. Committed as
//! `openapi/shipway.json`; the tests fail when the two differ.
#![warn(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unreachable,
    clippy::unwrap_used
)]

#[expect(clippy::indexing_slicing, reason = "no outside text, and every place is tested")]
mod written;

use crate::http;
use utoipa::OpenApi;
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme};

macro_rules! described {
    ($($name:ident $path:literal {
        $($method:ident $module:ident::$handler:ident $limits:tt;)+
    })+) => {
        #[derive(OpenApi)]
        #[openapi(
            info(
                title = "Shipway",
                description = "Jobs, arrays and their nodes.",
                license(name = "Apache-2.0")
            ),
            modifiers(&Bearer),
            security(("token" = [])),
            paths($($(http::$module::$handler),+),+)
        )]
        struct Api;
    };
}
shipway_api::endpoints!(described);

struct Bearer;

impl utoipa::Modify for Bearer {
    fn modify(&self, document: &mut utoipa::openapi::OpenApi) {
        let scheme = HttpBuilder::new().scheme(HttpAuthScheme::Bearer).build();
        let components = document.components.get_or_insert_default();
        components.add_security_scheme("token", SecurityScheme::Http(scheme));
    }
}

/// What the handlers and the types say.
#[expect(clippy::expect_used, reason = "types of ours, written when this is built and tested")]
fn generated() -> String {
    Api::openapi().to_json().expect("the document is plain data")
}

/// The document as pretty JSON with a line break at its end.
#[expect(clippy::expect_used, reason = "types of ours, written when this is built and tested")]
pub fn document() -> String {
    let mut document = serde_json::from_str(&generated()).expect("it was just written");
    written::apply(&mut document);
    let mut text = serde_json::to_string_pretty(&document).expect("the document is plain data");
    text.push('\n');
    text
}
