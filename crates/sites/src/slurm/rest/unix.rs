//! HTTP by a Unix socket, for the client that speaks it. Whoever reaches the socket is known to
//! the daemon by that alone.

use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use ureq::config::Config;
use ureq::http::Uri;
use ureq::unversioned::resolver::{ResolvedSocketAddrs, Resolver};
use ureq::unversioned::transport::{
    Buffers, ConnectionDetails, Connector, LazyBuffers, NextTimeout, Transport,
};

/// Leads every connection to one socket, whatever the address says.
#[derive(Debug)]
pub(super) struct UnixSocket {
    path: PathBuf,
}

impl UnixSocket {
    pub(super) fn at(path: PathBuf) -> UnixSocket {
        UnixSocket { path }
    }
}

impl Connector for UnixSocket {
    type Out = Stream;

    /// A daemon of this machine takes it at once or, with a full queue, when it comes to it.
    fn connect(
        &self,
        details: &ConnectionDetails<'_>,
        _: Option<()>,
    ) -> Result<Option<Stream>, ureq::Error> {
        let socket = UnixStream::connect(&self.path)?;
        let config = details.config;
        let buffers = LazyBuffers::new(config.input_buffer_size(), config.output_buffer_size());
        Ok(Some(Stream { socket, buffers }))
    }
}

impl Resolver for UnixSocket {
    /// The client wants one, and nobody looks at it.
    fn resolve(
        &self,
        _: &Uri,
        _: &Config,
        _: NextTimeout,
    ) -> Result<ResolvedSocketAddrs, ureq::Error> {
        let mut none = self.empty();
        none.push(SocketAddr::from(([127, 0, 0, 1], 0)));
        Ok(none)
    }
}

pub(super) struct Stream {
    socket: UnixStream,
    buffers: LazyBuffers,
}

impl std::fmt::Debug for Stream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.socket.fmt(f)
    }
}

impl Transport for Stream {
    fn buffers(&mut self) -> &mut dyn Buffers {
        &mut self.buffers
    }

    fn transmit_output(&mut self, amount: usize, timeout: NextTimeout) -> Result<(), ureq::Error> {
        self.socket.set_write_timeout(timeout.not_zero().map(|left| *left))?;
        let output = self.buffers.output().get(..amount).unwrap_or_default();
        self.socket.write_all(output).map_err(|error| told(error, &timeout))
    }

    fn await_input(&mut self, timeout: NextTimeout) -> Result<bool, ureq::Error> {
        self.socket.set_read_timeout(timeout.not_zero().map(|left| *left))?;
        let room = self.buffers.input_append_buf();
        let count = loop {
            match self.socket.read(room) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                other => break other.map_err(|error| told(error, &timeout))?,
            }
        };
        self.buffers.input_appended(count);
        Ok(count > 0)
    }

    /// No connection is used twice.
    fn is_open(&mut self) -> bool {
        false
    }
}

/// A socket whose time is over says that it would have to wait.
fn told(error: io::Error, timeout: &NextTimeout) -> ureq::Error {
    match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => ureq::Error::Timeout(timeout.reason),
        _ => error.into(),
    }
}
