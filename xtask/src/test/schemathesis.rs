//! The HTTP API fuzzed by schemathesis, a tool that nobody here wrote: requests made from
//! openapi/shipway.json, right and wrong ones, against a running server. No answer may be a server
//! error, and every answer must be one that the document promises.
//!
//! Once as the owner and once as a plain user. The server runs no tasks: what is submitted here is
//! noise. What is left alone, and why, is in schemathesis.toml.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail};
use serde_json::Value;

use super::{Context, Done, tools};
use crate::instance::{self, Instance};
use crate::{children, repo};

const VERSION: &str = "4.32.5";
const CONFIG: &str = include_str!("schemathesis.toml");
/// Cases made up for each operation, beside those that follow from the document: some 30 seconds
/// for each of the two callers.
const EXAMPLES: u32 = 40;
const EXAMPLES_QUICK: u32 = 5;
/// The same cases each time, so that a failure is one for everybody.
const SEED: u32 = 1;
/// Seconds for one answer; nothing that is asked for here waits on purpose.
const ANSWER_LIMIT: u32 = 30;

pub(super) fn check(context: &Context) -> Result<Done> {
    let folder = match tools::python(context, "schemathesis", VERSION)? {
        Ok(folder) => folder,
        Err(why) => return Ok(Done::Skipped(why)),
    };
    let program = folder.join("bin/schemathesis");
    let place = tempfile::tempdir().context("could not make a folder")?;
    let server = Instance::start_with(&instance::build(false)?, place.path(), &["--no-pilot"])?;
    children::stdout_of(&mut server.command(&["run", "-d", "--array", "1-3", "--", "true"]))?;
    let examples = if context.quick { EXAMPLES_QUICK } else { EXAMPLES };
    let run = Run { program: &program, place: place.path(), server: &server, examples };
    run.as_caller("the owner", &owners_token(&server)?, &[])?;
    let user = "alice";
    children::stdout_of(&mut server.command(&["user", "add", user]))?;
    let token = children::stdout_of(&mut server.command(&["token", "new", "--user", user]))?;
    // It would find its own token among those it may revoke, and be nobody from then on.
    run.as_caller("a user", token.trim(), &["--exclude-operation-id", "revoke_token"])?;
    server.stop()?;
    Ok(Done::Passed)
}

fn contact(server: &Instance) -> Result<Value> {
    let file = server.home().join("server.json");
    let text = std::fs::read_to_string(&file)
        .with_context(|| format!("could not read {}", file.display()))?;
    serde_json::from_str(&text).with_context(|| format!("{} is not JSON", file.display()))
}

fn owners_token(server: &Instance) -> Result<String> {
    let contact = contact(server)?;
    Ok(contact["token"].as_str().context("the server's file has no token")?.to_owned())
}

struct Run<'a> {
    program: &'a Path,
    place: &'a Path,
    server: &'a Instance,
    examples: u32,
}

impl Run<'_> {
    fn as_caller(&self, who: &str, token: &str, more: &[&str]) -> Result<()> {
        let config = self.place.join("schemathesis.toml");
        std::fs::write(&config, CONFIG).context("could not write the configuration")?;
        let contact = contact(self.server)?;
        let url = contact["url"].as_str().context("the server's file has no address")?;
        println!("as {who}");
        let mut command = Command::new(self.program);
        command.arg("--config-file").arg(config);
        command.arg("run").arg(document()).args(["--url", url]);
        command.args(["--phases", "examples,coverage,fuzzing", "--generation-database", "none"]);
        command.args(["--max-examples", &self.examples.to_string(), "--seed", &SEED.to_string()]);
        command.args(["--request-timeout", &ANSWER_LIMIT.to_string(), "--warnings", "off"]);
        command.args(more).current_dir(self.place);
        // Not in a message: `describe` would print the token.
        command.args(["--header", &format!("Authorization: Bearer {token}")]);
        let (status, said) = children::capture(&mut command)?;
        println!("{said}");
        if !status.success() {
            bail!(
                "schemathesis as {who} found failures; the server said:\n{}",
                self.server.log_tail()
            );
        }
        Ok(())
    }
}

fn document() -> PathBuf {
    repo::root().join("openapi/shipway.json")
}
