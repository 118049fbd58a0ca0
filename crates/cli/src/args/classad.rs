//! The options of `classad`.

use clap::{Args, Subcommand};
use std::path::PathBuf;

#[derive(Debug, Subcommand)]
pub enum ClassadCommand {
    /// Evaluate a ClassAd expression, between two ads if they are given.
    #[command(after_long_help = super::examples::CLASSAD)]
    Eval(EvalArgs),
    /// Say whether a job's ad and a node's ad match, and if not, which term does not hold.
    #[command(after_long_help = super::examples::CLASSAD)]
    Match(MatchArgs),
}

#[derive(Debug, Args)]
pub struct EvalArgs {
    /// It may begin with a minus sign, but not with two: that would be an option.
    #[arg(value_name = "EXPR", allow_hyphen_values = true, value_parser = expression)]
    pub expression: String,
    /// The ad that it stands in, MY: one in brackets, or an attribute a line (`-`: standard input).
    #[arg(long, value_name = "FILE")]
    pub ad: Option<PathBuf>,
    /// The ad on the other side, TARGET.
    #[arg(long, value_name = "FILE")]
    pub target: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub struct MatchArgs {
    /// The job's ad (`-`: standard input).
    #[arg(value_name = "JOBAD")]
    pub job: PathBuf,
    /// The node's ad.
    #[arg(value_name = "NODEAD")]
    pub node: PathBuf,
}

/// A misspelt option is not taken for an expression, which it often is as well.
pub(super) fn expression(text: &str) -> Result<String, String> {
    if text.starts_with("--") {
        let shown: String = text.chars().take(80).collect();
        let hint = format!("an expression: ({shown})");
        return Err(format!("`{shown}` is not an option of this command ({hint})"));
    }
    Ok(text.into())
}
