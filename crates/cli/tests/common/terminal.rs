//! A real terminal, made by `script`: a test types into it and reads from it.

use super::{World, wait_for, wait_some};
use std::io::{Read, Write};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};

#[derive(Debug)]
pub struct Terminal {
    child: Child,
    seen: Arc<Mutex<String>>,
}

impl Terminal {
    /// Runs the binary with these words. `None`: there is no `script` here.
    pub fn run(world: &World, line: &str) -> Option<Terminal> {
        Terminal::shell(world, &format!("{} {line}", env!("CARGO_BIN_EXE_shipway")))
    }

    /// Runs a line of the shell.
    pub fn shell(world: &World, line: &str) -> Option<Terminal> {
        let mut command = Command::new("script");
        command.args(["--quiet", "--return", "--command", line, "/dev/null"]);
        command.current_dir(world.work()).env("SHIPWAY_HOME", world.home()).env("TERM", "xterm");
        command.env_remove("SHIPWAY_URL").env_remove("SHIPWAY_TOKEN");
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().ok()?;
        let mut from = child.stdout.take().expect("piped");
        let seen = Arc::new(Mutex::new(String::new()));
        let shared = Arc::clone(&seen);
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(count @ 1..) = from.read(&mut buffer) {
                let text = String::from_utf8_lossy(&buffer[..count]);
                shared.lock().expect("no holder panics").push_str(&text);
            }
        });
        Some(Terminal { child, seen })
    }

    pub fn seen(&self) -> String {
        self.seen.lock().expect("no holder panics").clone()
    }

    pub fn wait_for_text(&self, text: &str) {
        wait_for(text, || self.seen().contains(text));
    }

    pub fn type_in(&mut self, text: &str) {
        let to = self.child.stdin.as_mut().expect("piped");
        to.write_all(text.as_bytes()).and_then(|()| to.flush()).expect("a terminal");
    }

    pub fn exit_code(&mut self) -> Option<i32> {
        wait_some("the command ends", || self.child.try_wait().expect("a child")).code()
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
