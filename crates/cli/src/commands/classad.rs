//! `classad eval` and `classad match`: the language by itself, without a server.

use crate::args::classad::{ClassadCommand, EvalArgs, MatchArgs};
use crate::failure::{Exit, Failure};
use crate::input;
use crate::settings::{self, Output};
use crate::view;
use crate::view::classad::{EvalView, MatchView, TermView};
use shipway_classad::limits::MAX_STEPS;
use shipway_classad::{
    Ad, Context, Name, ParseError, Sides, Value, evaluate, is_true, matches, mistake, parse_ad,
    parse_expression, parse_old_ad, readable_value, terms, unparse_value,
};
use std::path::Path;
use std::sync::Arc;

/// A text that is no ClassAd.
#[derive(Debug, thiserror::Error)]
#[error("cannot read {what}: {error}")]
pub struct BadClassad {
    what: String,
    error: ParseError,
    /// The place, and under it a caret.
    pub shown: String,
}

impl BadClassad {
    fn new(what: impl Into<String>, error: ParseError, source: &str) -> BadClassad {
        let shown = error.show(source.as_bytes());
        BadClassad { what: what.into(), error, shown }
    }
}

pub fn run(command: ClassadCommand, output: Output) -> Result<Exit, Failure> {
    match command {
        ClassadCommand::Eval(args) => eval(&args, output),
        ClassadCommand::Match(args) => match_ads(&args, output),
    }
}

/// What expressions may ask of the world, as it is now.
fn context() -> Context {
    let now = settings::now().0 / 1_000;
    Context { now: i64::try_from(now).unwrap_or(0), zone: 0, seed: Some(now) }
}

fn eval(args: &EvalArgs, output: Output) -> Result<Exit, Failure> {
    let source = &args.expression;
    let expr = parse_expression(source)
        .map_err(|error| BadClassad::new("the expression", error, source))?;
    let my = args.ad.as_deref().map(read).transpose()?.unwrap_or_default();
    let sides = match args.target.as_deref().map(read).transpose()? {
        Some(target) => Sides::new(Arc::new(my), Arc::new(target)),
        None => Sides::alone(Arc::new(my)),
    };
    let found = evaluate(&expr, &sides, &context());
    let view = EvalView {
        value: unparse_value(&found.value),
        readable: readable_value(&found.value),
        kind: found.value.kind(),
        exceeded: found.exceeded.map(|limit| limit.to_string()),
        mistake: Some(&expr).filter(|_| found.value.is_error()).and_then(mistake),
    };
    view::show(&view, output)?;
    Ok(Exit::DONE)
}

/// One ad in brackets, or an attribute a line.
fn read(file: &Path) -> Result<Ad, Failure> {
    let text = input::read_text(file)?;
    let parsed = if text.trim_start().starts_with('[') {
        parse_ad(&text)
    } else {
        parse_old_ad(text.as_bytes())
    };
    let what = || format!("the ad in {}", file.display());
    Ok(parsed.map_err(|error| BadClassad::new(what(), error, &text))?)
}

fn match_ads(args: &MatchArgs, output: Output) -> Result<Exit, Failure> {
    let sides = Sides::new(Arc::new(read(&args.job)?), Arc::new(read(&args.node)?));
    let turned = sides.turned();
    let context = context();
    let (job, node) = (matches(&sides, &context), matches(&turned, &context));
    let view = MatchView {
        matches: job && node,
        job: failing(&sides, &context),
        node: failing(&turned, &context),
        rank: rank(&sides, &context),
    };
    view::show(&view, output)?;
    Ok(if view.matches { Exit::DONE } else { Exit::NOT_FIT })
}

/// The terms of one side's requirements that do not hold.
fn failing(sides: &Sides, context: &Context) -> Vec<TermView> {
    let Some(requirements) = sides.my().get(&Name::from("Requirements")) else {
        let missing =
            TermView { term: "Requirements".into(), value: "undefined", found: Vec::new() };
        return vec![missing];
    };
    let all = terms(requirements, sides, context, MAX_STEPS).into_iter();
    let failing = all.filter(|term| !is_true(&term.value)).map(|term| TermView {
        value: match term.value {
            Value::Undefined => "undefined",
            Value::Boolean(_) | Value::Integer(_) | Value::Real(_) => "false",
            _ => "error",
        },
        found: term
            .looked
            .iter()
            .map(|one| (one.name.clone(), readable_value(&one.value)))
            .collect(),
        term: term.text,
    });
    failing.collect()
}

fn rank(sides: &Sides, context: &Context) -> f64 {
    let rank = sides.my().get(&Name::from("Rank"));
    rank.map_or(0.0, |rank| shipway_classad::rank(rank, sides, context))
}
