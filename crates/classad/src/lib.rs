//! The ClassAd language: read, print, evaluate and match the expressions and ads of HTCondor.
//!
//! What an expression gives is what HTCondor's own engine gives; docs/internals/classads.md says
//! how that is checked, and lists where it is not so, and why. Nothing here reads a clock, the
//! host or a random source: what functions such as `time()` need is given in a `Context`.
//!
//! - `lexer.rs`, `parser.rs`  text to tokens (`token.rs`) to expressions
//! - `old.rs`                 ads of one attribute a line
//! - `expr.rs`, `ad.rs`       expressions and ads; `name.rs`, attribute names without case
//! - `value.rs`               what an expression gives; `convert.rs`, one kind from another
//! - `byte_set.rs`            separators
//! - `eval/`                  evaluation: operators, attributes and their scopes, limits
//! - `functions/`             the built-in functions
//! - `unparse.rs`             expressions to text
//! - `matching.rs`            two ads against each other
//! - `terms.rs`               why an ad does not match, term by term
//! - `references.rs`          which attributes an expression looks at; `circles.rs`, in a circle
//! - `complaints.rs`          what is wrong with an expression, before it is asked; `nearest.rs`
//!
//! Everything here is written by somebody else: nothing may panic, whatever it says.

#![warn(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::string_slice,
    clippy::unreachable,
    clippy::unwrap_used
)]

mod ad;
mod byte_set;
mod circles;
mod complaints;
mod convert;
mod error;
mod eval;
mod expr;
mod functions;
mod lexer;
pub mod limits;
mod matching;
mod name;
mod nearest;
mod old;
mod parser;
mod references;
mod terms;
mod times;
mod token;
mod unparse;
mod value;

pub use ad::Ad;
pub use circles::circle;
pub use complaints::{complaint, may_be_rank, mistake, rank_complaint, requirements_complaint};
pub use error::ParseError;
pub use eval::{
    Context, Evaluation, Exceeded, Sides, evaluate, evaluate_attribute, evaluate_within,
};
pub use expr::Expr;
pub use functions::{function_names, prepare};
pub use matching::{is_true, match_ads, matches, rank, rank_in_thousandths};
pub use name::Name;
pub use nearest::{nearest_name, nearest_within};
pub use old::parse_old_ad;
pub use parser::{parse_ad, parse_ad_bytes, parse_expression, parse_expression_bytes};
pub use references::references;
pub use terms::{Looked, Term, holds, terms, without};
pub use unparse::{
    pretty, readable, readable_value, unparse, unparse_ad, unparse_old_ad, unparse_value,
};
pub use value::{List, Text, Value};
