//! A credential helper: the program `docker-credential-NAME`, which keeps passwords where the
//! user's desktop or site keeps them. It is told the registry on its standard input and answers
//! on its standard output; nothing secret is ever among its arguments.

use serde::Deserialize;
use shipway_model::Login;
use std::io::{self, Read, Write};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

/// It may ask its user something first.
const PATIENCE: Duration = Duration::from_mins(1);
/// After its answer it has little left to do.
const FAREWELL: Duration = Duration::from_secs(5);
const LOOK_AGAIN: Duration = Duration::from_millis(2);
/// A name and a password; tokens are a few kilobytes.
const ANSWER_LIMIT: u64 = 1 << 20;
/// With this name the secret is no password but a token of another kind, which we do not speak.
const TOKEN_USER: &str = "<token>";

#[derive(Debug, thiserror::Error)]
pub enum HelperError {
    #[error("`{0}` is not the name of a credential helper")]
    Name(String),
    #[error("cannot run {program}, which is said to keep the passwords")]
    Run {
        program: String,
        #[source]
        source: io::Error,
    },
    #[error("{program} does not answer")]
    Silent { program: String },
    #[error("{program} failed: {said}")]
    Failed { program: String, said: String },
    #[error("what {program} answers is not a name and a password")]
    Answer { program: String },
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Answer {
    username: String,
    secret: String,
}

/// What the helper of this name knows for a registry, if anything.
pub(super) fn ask(name: &str, registry: &str) -> Result<Option<Login>, HelperError> {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if name.is_empty() || !name.chars().all(plain) {
        return Err(HelperError::Name(name.chars().take(100).collect()));
    }
    ask_program(format!("docker-credential-{name}"), registry)
}

fn ask_program(program: String, registry: &str) -> Result<Option<Login>, HelperError> {
    let failed = |source| HelperError::Run { program: program.clone(), source };
    let mut command = Command::new(&program);
    command.arg("get").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().map_err(failed)?;
    // One that does not read it may know the answer all the same.
    let _ = child.stdin.take().map(|mut input| input.write_all(registry.as_bytes()));
    let answer = read(&mut child);
    let status = end(&mut child, matches!(answer, Ok(Some(_)))).map_err(failed)?;
    let bytes = answer.map_err(failed)?;
    let bytes = bytes.ok_or_else(|| HelperError::Silent { program: program.clone() })?;
    if !status.success() {
        let said = String::from_utf8_lossy(&bytes).trim().to_owned();
        // The one failure that is an answer, as every helper words it.
        if said.contains("credentials not found") {
            return Ok(None);
        }
        return Err(HelperError::Failed { program, said: harmless(&said) });
    }
    let answer: Answer =
        serde_json::from_slice(&bytes).map_err(|_| HelperError::Answer { program })?;
    let login = Login { user: answer.username, password: answer.secret };
    Ok((!login.user.is_empty() && login.user != TOKEN_USER).then_some(login))
}

/// How it ended; one that has answered is given a moment for it.
fn end(child: &mut Child, has_answered: bool) -> io::Result<ExitStatus> {
    let deadline = Instant::now() + if has_answered { FAREWELL } else { Duration::ZERO };
    while Instant::now() < deadline {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        thread::sleep(LOOK_AGAIN);
    }
    let _ = child.kill();
    child.wait()
}

/// What may be shown of it: where it gives a reason it gives text, where it gives a secret JSON.
fn harmless(said: &str) -> String {
    if said.contains(['{', '"']) {
        return "(what it said may hold a secret)".to_owned();
    }
    shipway_model::plain_text::clean(said).chars().take(200).collect()
}

/// All it says, or nothing when that takes too long.
fn read(child: &mut Child) -> io::Result<Option<Vec<u8>>> {
    let Some(output) = child.stdout.take() else { return Ok(None) };
    let (tell, told) = mpsc::channel();
    thread::Builder::new().spawn(move || {
        let mut bytes = Vec::new();
        let done = output.take(ANSWER_LIMIT).read_to_end(&mut bytes);
        let _ = tell.send(done.map(|_| bytes));
    })?;
    match told.recv_timeout(PATIENCE) {
        Ok(read) => read.map(Some),
        Err(_) => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    fn answers(script: &str) -> Result<Option<Login>, HelperError> {
        let dir = tempfile::tempdir().expect("directory");
        let (text, program) = (dir.path().join("text"), dir.path().join("docker-credential-x"));
        std::fs::write(&text, format!("#!/bin/sh\nread host\n{script}\n")).expect("written");
        let mode = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(&text, mode).expect("made a program");
        // By another program: a file that is open for writing somewhere does not run.
        let copied = Command::new("cp").arg("-p").arg(&text).arg(&program).status();
        assert!(copied.expect("cp").success());
        ask_program(program.to_str().expect("text").to_owned(), "a.example")
    }

    #[test]
    fn a_helper_is_asked_and_its_answers_are_judged() {
        let found = answers(r#"echo "{\"Username\": \"ada\", \"Secret\": \"$1 $host\"}""#);
        let login = found.expect("an answer").expect("a login");
        assert_eq!((&*login.user, &*login.password), ("ada", "get a.example"));
        let none = answers("echo credentials not found in native keychain; exit 1");
        assert_eq!(none.expect("an answer"), None);
        let token = answers(r#"echo '{"Username": "<token>", "Secret": "t"}'"#);
        assert_eq!(token.expect("an answer"), None);
        let said = |script| answers(script).expect_err("refused").to_string();
        let locked = said("printf 'locked\\033[2J'; exit 1");
        assert!(locked.contains("failed: locked") && !locked.contains('\u{1b}'), "{locked}");
        let secret = said(r#"echo '{"Username": "u", "Secret": "hunter2"}'; exit 1"#);
        assert!(secret.contains("failed") && !secret.contains("hunter2"), "{secret}");
        let slow = r#"echo '{"Username": "u", "Secret": "s"}'; exec >&-; sleep 0.2"#;
        assert!(answers(slow).expect("an answer").is_some());
        assert!(said("echo nonsense").contains("not a name and a password"));
        assert!(
            ask("../evil", "a").expect_err("refused").to_string().contains("is not the name of")
        );
        assert!(ask("none-such", "a").expect_err("refused").to_string().contains("cannot run"));
    }
}
