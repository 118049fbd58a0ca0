//! Bytes from a pilot to the server and back, as they come. What they mean is between those two:
//! they speak TLS.
//!
//! Memory is taken only while there is something to pass on, and what the one does not take the
//! other does not get to send: a connection that is idle or stuck costs next to nothing. One over
//! which nothing comes for long is closed; pilots say something every five seconds.

use rustix::net::{Shutdown, shutdown};
use std::io::{self, ErrorKind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::net::TcpStream;

/// Passed on at a time.
const PIECE: usize = 32 << 10;
/// Silence of both.
const IDLE: Duration = Duration::from_mins(2);
/// The same when one of them has said its last.
const IDLE_WHEN_HALF: Duration = Duration::from_secs(10);

/// Until both have ended, one broke, or nothing comes any more.
pub(crate) async fn pipe(pilot: &TcpStream, server: &TcpStream) {
    let heard = Heard::new();
    let both = async { tokio::try_join!(pass(pilot, server, &heard), pass(server, pilot, &heard)) };
    tokio::select! {
        _ = both => {}
        () = heard.nothing() => {}
    }
}

async fn pass(from: &TcpStream, to: &TcpStream, heard: &Heard) -> io::Result<()> {
    loop {
        from.readable().await?;
        let mut piece = vec![0; PIECE];
        match from.try_read(&mut piece) {
            Ok(0) => {
                heard.last_of_one();
                return Ok(shutdown(to, Shutdown::Write)?);
            }
            Ok(count) => {
                heard.something();
                piece.truncate(count);
                write_all(to, &piece).await?;
                heard.something();
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
}

async fn write_all(to: &TcpStream, mut rest: &[u8]) -> io::Result<()> {
    while !rest.is_empty() {
        to.writable().await?;
        match to.try_write(rest) {
            Ok(count) => rest = rest.get(count..).unwrap_or_default(),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// When something came last, either way.
#[derive(Debug)]
struct Heard {
    start: Instant,
    last: AtomicU64,
    patience: AtomicU64,
}

impl Heard {
    fn new() -> Self {
        let (last, patience) = (AtomicU64::new(0), AtomicU64::new(millis(IDLE)));
        Heard { start: Instant::now(), last, patience }
    }

    fn something(&self) {
        self.last.store(millis(self.start.elapsed()), Ordering::Relaxed);
    }

    fn last_of_one(&self) {
        self.something();
        self.patience.store(millis(IDLE_WHEN_HALF), Ordering::Relaxed);
    }

    /// Returns when there was silence for too long.
    async fn nothing(&self) {
        loop {
            let silent =
                millis(self.start.elapsed()).saturating_sub(self.last.load(Ordering::Relaxed));
            let left = self.patience.load(Ordering::Relaxed).saturating_sub(silent);
            if left == 0 {
                return;
            }
            // One may say its last while this sleeps.
            let left = Duration::from_millis(left).min(IDLE_WHEN_HALF);
            tokio::time::sleep(left).await;
        }
    }
}

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;

    /// Two ends that are connected.
    async fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let at = listener.local_addr().expect("bound");
        let (one, two) = tokio::join!(TcpStream::connect(at), listener.accept());
        (one.expect("connected"), two.expect("accepted").0)
    }

    #[tokio::test]
    async fn all_bytes_pass_both_ways_and_so_does_each_end() {
        let (mut pilot, a) = pair().await;
        let (b, mut server) = pair().await;
        let piping = tokio::spawn(async move { pipe(&a, &b).await });
        let sent: Vec<u8> =
            (0..3_000_000_u32).map(|at| at.to_le_bytes()[at as usize % 3]).collect();
        let expected = sent.clone();
        let serving = tokio::spawn(async move {
            let mut got = Vec::new();
            server.read_to_end(&mut got).await.expect("all of it");
            server.write_all(b"bye").await.expect("written");
            got
        });
        pilot.write_all(&sent).await.expect("written");
        pilot.shutdown().await.expect("half closed");
        let mut said = String::new();
        pilot.read_to_string(&mut said).await.expect("the answer");
        assert!(serving.await.expect("served") == expected);
        assert_eq!(said, "bye");
        piping.await.expect("it ends by itself");
    }

    #[tokio::test]
    async fn when_one_breaks_the_other_is_told() {
        let (pilot, a) = pair().await;
        let (b, mut server) = pair().await;
        let piping = tokio::spawn(async move { pipe(&a, &b).await });
        rustix::net::sockopt::set_socket_linger(&pilot, Some(Duration::ZERO)).expect("set");
        drop(pilot);
        assert_eq!(server.read(&mut [0; 8]).await.expect("an end"), 0);
        piping.await.expect("it ends by itself");
    }
}
