//! Whether a ticket was made by a pilot that may come in: asked by relays, of which the server
//! knows nothing. Whoever asks has to have the ticket; the answer tells nothing else.

use super::Site;
use super::caller::NoParameters;
use axum::Json;
use axum::extract::State;
use axum::http::HeaderMap;
use shipway_api::types::TicketJudged;
use shipway_api::{routes, ticket};

/// Judges the ticket in the heading `shipway-ticket`: whether a pilot whose token is good made it.
#[utoipa::path(get, path = routes::TICKET, responses((status = 200, body = TicketJudged)))]
pub async fn judge(
    _: NoParameters,
    State(site): State<Site>,
    asked: HeaderMap,
) -> Json<TicketJudged> {
    let shown = asked.get(ticket::HEADING).and_then(|shown| shown.to_str().ok());
    let shown = shown.and_then(ticket::read);
    let good = shown.is_some_and(|shown| site.auth.is_of_a_pilot(&shown, site.clock.now()));
    Json(TicketJudged { good })
}
