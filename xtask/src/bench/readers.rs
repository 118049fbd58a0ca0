//! Full dispatch beside live pages: 200 readers, each of whom asks ten times a second for a list of
//! jobs, the nodes, a job or its tasks, over a connection that is kept.
//!
//! The readers take processor time themselves, from the same machine. So the same readers ask as
//! often for something that neither the writer nor history knows of (one's own logins): what that
//! takes is the price of asking at all, and what the pages take beyond it is the price of the
//! answers. A server that answers late is asked less; how often it answered is a line of its own.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::json;

use super::http::{Client, Door};
use super::{Measure, Results};
use crate::instance::{self, Instance};

/// Readers, and how many people they are: some have several pages open.
const READERS: u32 = 200;
const PEOPLE: u32 = 20;
const PERIOD: Duration = Duration::from_millis(100);
/// All of them are looked after by one thread, this often: waiting costs next to nothing.
const SWEEP: Duration = Duration::from_millis(4);
/// What is in the list of each of them: jobs that no node can run.
const JOBS_EACH: u32 = 20;
const JOBS: &str = "/api/v1/jobs";
/// Requests a second, were none late.
pub(super) const WANTED: f64 = 2_000.0;

/// What readers ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ask {
    Pages,
    Control,
}

/// A server of its own with people who have jobs.
struct World {
    instance: Instance,
    door: Door,
    /// How each is let in, and a job of theirs. The first runs the array.
    people: Vec<(Door, u64)>,
}

/// One round: alone, beside the control and beside pages.
pub(super) fn measure(
    binary: &Path,
    place: &Path,
    tasks: u32,
    results: &mut Results,
) -> Result<()> {
    use Measure as M;
    let world = World::prepare(binary, place)?;
    // Once unmeasured, so that the pilot's start is not part of it.
    world.dispatch(tasks / 10, &AtomicU64::new(0))?;
    results.add(M::DispatchAlone, world.dispatch(tasks, &AtomicU64::new(0))?);
    let (rate, _) = world.beside(Ask::Control, tasks)?;
    results.add(M::DispatchBesideControl, rate);
    let (rate, read) = world.beside(Ask::Pages, tasks)?;
    results.add(M::DispatchBesidePages, rate);
    results.add(M::PagesRead, read);
    world.instance.stop()
}

impl World {
    fn prepare(binary: &Path, place: &Path) -> Result<World> {
        let instance = Instance::start_with(binary, place, &instance::PLAIN_TASKS)?;
        let door = Door::read(&instance.contact_text()?)?;
        let mut owner = door.open()?;
        let mut people = vec![(door.clone(), 0)];
        for number in 1..PEOPLE {
            let user = format!("reader{number}");
            owner.post("/api/v1/users", &json!({"user": user, "role": "user"}))?;
            let token = owner.post("/api/v1/tokens", &json!({"user": user}))?;
            let theirs = door.with_token(token["secret"].as_str().context("no token")?);
            let job = waiting_jobs(&mut theirs.open()?)?;
            people.push((theirs, job));
        }
        waiting_jobs(&mut owner)?;
        Ok(World { instance, door, people })
    }

    /// Tasks a second of one array of plain tasks, whose number is shown meanwhile.
    fn dispatch(&self, tasks: u32, shown: &AtomicU64) -> Result<f64> {
        let mut client = self.door.open()?;
        let array = format!("1-{tasks}");
        let spec = json!({"command": ["true"], "workdir": "/tmp", "array": array});
        let start = Instant::now();
        let id = client.post(JOBS, &json!({ "spec": spec }))?["id"].as_u64().context("no id")?;
        shown.store(id, Ordering::Relaxed);
        loop {
            let job = client.get(&format!("{JOBS}/{id}/wait"))?;
            match job["state"].as_str() {
                Some("succeeded") => break,
                Some("waiting" | "running") => {}
                _ => bail!("an array ended as {job}"),
            }
        }
        Ok(f64::from(tasks) / start.elapsed().as_secs_f64())
    }

    /// The same while they read, and the answers a second that they got.
    fn beside(&self, ask: Ask, tasks: u32) -> Result<(f64, f64)> {
        let (enough, shown) = (AtomicBool::new(false), AtomicU64::new(0));
        let readers = (0..READERS).map(|number| Reader::open(self, number));
        let mut readers = readers.collect::<Result<Vec<Reader<'_>>>>()?;
        std::thread::scope(|scope| {
            let readers = scope.spawn(|| read(&mut readers, ask, &shown, &enough));
            let rate = self.dispatch(tasks, &shown);
            enough.store(true, Ordering::Relaxed);
            let read = readers.join().expect("readers do not panic")?;
            Ok((rate?, read))
        })
    }
}

/// They read until it is enough: answers a second.
fn read(
    readers: &mut [Reader<'_>],
    ask: Ask,
    shown: &AtomicU64,
    enough: &AtomicBool,
) -> Result<f64> {
    let start = Instant::now();
    let mut buffer = vec![0; 64 << 10];
    while !enough.load(Ordering::Relaxed) {
        for reader in &mut *readers {
            reader.listen(&mut buffer)?;
            // There is nothing to look at before the array is submitted.
            let job = shown.load(Ordering::Relaxed);
            if job > 0 && reader.is_due() {
                reader.ask(ask, job)?;
            }
        }
        std::thread::sleep(SWEEP);
    }
    let answers: u32 = readers.iter().map(|reader| reader.answers).sum();
    ensure!(answers > 0, "no reader was answered");
    Ok(f64::from(answers) / start.elapsed().as_secs_f64())
}

/// Jobs of one person that wait for ever; the number of the last.
fn waiting_jobs(client: &mut Client) -> Result<u64> {
    let mut last = None;
    for number in 0..JOBS_EACH {
        let name = format!("waits-{number}");
        let resources = json!({"cpus": 1000});
        let spec = json!({"command": ["true"], "name": name, "resources": resources});
        last = client.post(JOBS, &json!({ "spec": spec }))?["id"].as_u64();
    }
    last.context("no id")
}

/// One page that somebody has open.
struct Reader<'a> {
    stream: TcpStream,
    door: &'a Door,
    /// None: the array that runs.
    job: Option<u64>,
    due: Instant,
    phase: Phase,
    /// What is asked for next.
    turn: u32,
    answers: u32,
}

/// What of an answer is still to come.
#[derive(Debug)]
enum Phase {
    Nothing,
    Head(Vec<u8>),
    Body(usize),
}

impl<'a> Reader<'a> {
    fn open(world: &'a World, number: u32) -> Result<Reader<'a>> {
        let at = usize::try_from(number % PEOPLE).expect("few people");
        let (door, job) = &world.people[at];
        let stream = door.connect()?;
        stream.set_nonblocking(true).context("could not set up a connection")?;
        let due = Instant::now() + PERIOD * number / READERS;
        let job = Some(*job).filter(|job| *job > 0);
        Ok(Reader { stream, door, job, due, phase: Phase::Nothing, turn: number, answers: 0 })
    }

    fn is_due(&self) -> bool {
        matches!(self.phase, Phase::Nothing) && Instant::now() >= self.due
    }

    fn ask(&mut self, ask: Ask, shown: u64) -> Result<()> {
        let job = self.job.unwrap_or(shown);
        let path = match (ask, self.turn % 4) {
            (Ask::Control, _) => "/api/v1/registries".to_owned(),
            (Ask::Pages, 0) => JOBS.to_owned(),
            (Ask::Pages, 1) => "/api/v1/nodes".to_owned(),
            (Ask::Pages, 2) => format!("{JOBS}/{job}"),
            (Ask::Pages, _) => format!("{JOBS}/{job}/tasks"),
        };
        self.turn = self.turn.wrapping_add(1);
        // Who is late leaves out what was due meanwhile, as a page would.
        self.due = (self.due + PERIOD).max(Instant::now());
        let request = self.door.request("GET", &path, "");
        self.stream.write_all(request.as_bytes()).context("could not send a request")?;
        self.phase = Phase::Head(Vec::new());
        Ok(())
    }

    /// Takes what has come.
    fn listen(&mut self, buffer: &mut [u8]) -> Result<()> {
        while !matches!(self.phase, Phase::Nothing) {
            match self.stream.read(buffer) {
                Ok(0) => bail!("the server hung up on a reader"),
                Ok(count) => self.take(&buffer[..count])?,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error).context("could not read an answer"),
            }
        }
        Ok(())
    }

    fn take(&mut self, bytes: &[u8]) -> Result<()> {
        match &mut self.phase {
            Phase::Nothing => bail!("an answer to nothing"),
            Phase::Head(head) => {
                head.extend_from_slice(bytes);
                if let Some((length, there)) = head_of(head)? {
                    self.rest(length.checked_sub(there).context("more than an answer")?);
                }
            }
            Phase::Body(left) => {
                let left = left.checked_sub(bytes.len()).context("more than an answer")?;
                self.rest(left);
            }
        }
        Ok(())
    }

    fn rest(&mut self, left: usize) {
        self.phase = if left == 0 { Phase::Nothing } else { Phase::Body(left) };
        self.answers += u32::from(left == 0);
    }
}

/// How long the body is and how much of it is there, once the head is.
fn head_of(bytes: &[u8]) -> Result<Option<(usize, usize)>> {
    let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") else { return Ok(None) };
    let head = String::from_utf8_lossy(&bytes[..end]);
    ensure!(head.split(' ').nth(1) == Some("200"), "the server said `{head}` to a reader");
    let lengths = head.lines().filter_map(|line| line.split_once(':'));
    let mut lengths = lengths.filter(|(name, _)| name.eq_ignore_ascii_case("content-length"));
    let (_, length) = lengths.next().context("an answer without a length")?;
    Ok(Some((length.trim().parse().context("not a length")?, bytes.len() - end - 4)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_says_how_much_is_to_come() {
        assert_eq!(head_of(b"HTTP/1.1 200 OK\r\ncontent-len").expect("so far"), None);
        let whole = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n{}";
        assert_eq!(head_of(whole).expect("good"), Some((5, 2)));
        assert!(head_of(b"HTTP/1.1 429 No\r\ncontent-length: 0\r\n\r\n").is_err());
        assert!(head_of(b"HTTP/1.1 200 OK\r\n\r\n").is_err());
    }
}
