//! `shipway top`: the live view. What is queued, what runs where, which GPUs are free; and acting
//! on it.
//!
//! ```text
//! app, pages     the model: data, selection, mode         update/   (model, input) → what to ask
//! log_text       a task's output as harmless lines        draw/     model → a frame
//! events, fetch, follow, doer                             talk to the server, tell the loop
//! screen, run                                             the terminal, and the loop that waits
//! ```
//!
//! `update` and `draw` are pure: tests drive them without a terminal or a server.

pub mod app;
pub mod doer;
pub mod draw;
pub mod events;
pub mod fetch;
pub mod follow;
pub mod log_text;
pub mod news;
pub mod pages;
pub mod plain;
pub mod run;
pub mod screen;
pub mod update;

#[cfg(test)]
mod tests;
