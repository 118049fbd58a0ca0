//! The OpenAPI document, generated from the handlers and the contract's types. Committed as
//! `openapi/shipway.json`; the tests fail when the two differ.

mod written;

use crate::http;
use utoipa::OpenApi;
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme};

#[derive(OpenApi)]
#[openapi(
    info(
        title = "Shipway",
        description = "Jobs, arrays and their nodes.",
        license(name = "Apache-2.0")
    ),
    modifiers(&Bearer),
    security(("token" = [])),
    paths(
        http::submit::submit,
        http::submit::dry_run,
        http::jobs::list,
        http::jobs::show,
        http::jobs::wait,
        http::jobs::why,
        http::tasks::list,
        http::logs::read,
        http::act::cancel,
        http::act::retry,
        http::events::watch,
        http::nodes::list,
        http::nodes::issue,
        http::users::who_am_i,
        http::users::list,
        http::users::add,
        http::users::remove,
        http::users::set_share,
        http::users::tokens,
        http::users::issue,
        http::users::revoke,
        http::registries::list,
        http::registries::keep,
        http::registries::forget,
        http::health::healthz,
        http::health::readyz,
        http::metrics::scrape,
    )
)]
struct Api;

struct Bearer;

impl utoipa::Modify for Bearer {
    fn modify(&self, document: &mut utoipa::openapi::OpenApi) {
        let scheme = HttpBuilder::new().scheme(HttpAuthScheme::Bearer).build();
        let components = document.components.get_or_insert_default();
        components.add_security_scheme("token", SecurityScheme::Http(scheme));
    }
}

/// What the handlers and the types say.
fn generated() -> String {
    Api::openapi().to_json().expect("the document is plain data")
}

/// The document as pretty JSON with a line break at its end.
pub fn document() -> String {
    let mut document = serde_json::from_str(&generated()).expect("it was just written");
    written::apply(&mut document);
    let mut text = serde_json::to_string_pretty(&document).expect("the document is plain data");
    text.push('\n');
    text
}
