//! `cargo xtask openapi`: the committed contract, kept equal to the code.
//!
//! The document itself is made by `shipway openapi`; here it is only written or compared.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail};

use crate::{children, repo};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Change nothing; fail if the committed file differs
    #[arg(long)]
    check: bool,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    if args.check {
        return check(None);
    }
    let file = committed();
    let document = generate(None)?;
    let folder = file.parent().expect("the file lies in a folder");
    std::fs::create_dir_all(folder)
        .and_then(|()| std::fs::write(&file, document))
        .with_context(|| format!("could not write {}", file.display()))?;
    println!("wrote {}", file.display());
    Ok(())
}

/// Fails if the committed document is not what the code says, asking this binary or a fresh one.
pub(crate) fn check(binary: Option<&Path>) -> Result<()> {
    let file = committed();
    let old = std::fs::read_to_string(&file)
        .with_context(|| format!("could not read {}; run `cargo xtask openapi`", file.display()))?;
    let new = generate(binary)?;
    if let Some((line, was, is)) = first_difference(&old, &new) {
        bail!(
            "openapi/shipway.json:{line} is not what the code says; run `cargo xtask openapi` and \
             commit it\n  file: {was}\n  code: {is}"
        );
    }
    println!("openapi/shipway.json is what the code says");
    let missing = undocumented(&new, &read("docs/api.md")?)?;
    if !missing.is_empty() {
        bail!("docs/api.md does not have {}; add what each is for", missing.join(", "));
    }
    Ok(())
}

fn read(file: &str) -> Result<String> {
    let file = repo::root().join(file);
    std::fs::read_to_string(&file).with_context(|| format!("could not read {}", file.display()))
}

/// The addresses, and the kinds of reasons, that the page for people does not name.
fn undocumented(document: &str, page: &str) -> Result<Vec<String>> {
    let document: serde_json::Value = serde_json::from_str(document).context("no JSON")?;
    let paths = document["paths"].as_object().context("the document has no addresses")?;
    let kinds = document["components"]["schemas"]["Reason"]["oneOf"].as_array();
    let kinds = kinds.context("the document has no reasons")?.iter();
    let kinds = kinds.filter_map(|one| one["properties"]["kind"]["enum"][0].as_str());
    let names = paths.keys().map(String::as_str).chain(kinds);
    let names = names.map(|name| format!("`{name}`"));
    Ok(names.filter(|name| !page.contains(name.as_str())).collect())
}

fn committed() -> PathBuf {
    repo::root().join("openapi/shipway.json")
}

fn generate(binary: Option<&Path>) -> Result<String> {
    if let Some(binary) = binary {
        return children::stdout_of(Command::new(binary).arg("openapi"));
    }
    let mut cargo = repo::cargo();
    cargo.args(["run", "--quiet", "--package", "shipway-cli", "--bin", "shipway", "--", "openapi"]);
    children::stdout_of(&mut cargo)
}

/// The first line that differs, counted from 1, as it stands on either side.
fn first_difference<'a>(old: &'a str, new: &'a str) -> Option<(usize, &'a str, &'a str)> {
    let (mut olds, mut news) = (old.lines(), new.lines());
    for line in 1.. {
        let (was, is) = (olds.next(), news.next());
        if was.is_none() && is.is_none() {
            break;
        }
        if was != is {
            return Some((line, was.unwrap_or("(end)"), is.unwrap_or("(end)")));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_page_does_not_name_is_missing() {
        let document = r#"{"paths": {"/a": {}, "/b": {}}, "components": {"schemas": {"Reason":
            {"oneOf": [{"properties": {"kind": {"enum": ["busy"]}}}]}}}}"#;
        let missing = |page| undocumented(document, page).expect("a document");
        assert_eq!(missing("| `/a`, `/b` | `busy` |"), [""; 0]);
        assert_eq!(missing("| `/a` | /b busy |"), ["`/b`", "`busy`"]);
        undocumented("{}", "").expect_err("nothing to compare with");
    }

    #[test]
    fn drift_is_shown_at_its_first_line() {
        assert_eq!(first_difference("a\nb\n", "a\nb\n"), None);
        assert_eq!(first_difference("a\nb\n", "a\nc\n"), Some((2, "b", "c")));
        assert_eq!(first_difference("a\n", "a\nc\n"), Some((2, "(end)", "c")));
        assert_eq!(first_difference("a\nb\n", ""), Some((1, "a", "(end)")));
    }
}
