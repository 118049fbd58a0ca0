//! Why a command could not do its work: one type, with the exit code and the hint of each case.
//!
//! A task that failed is no failure of the command; see `exit`.

use crate::build_spec::BadArguments;
use crate::commands::classad::BadClassad;
use crate::input::InputError;
use crate::job_file::JobFileError;
use crate::settings::SettingsError;
use crate::site_file::SiteFileError;
use crate::travel::TravelError;
use shipway_api::client::ClientError;
use shipway_api::error::codes;
use shipway_dialects::htcondor::SubmitError;
use shipway_images::ImageError;
use shipway_images::pull::{CredentialsError, RegistryError};
use shipway_images::sources::SourceError;
use shipway_images::store::StoreError;
use shipway_model::ImageRef;
use shipway_relay::{AddError, RelayError};
use std::error::Error;
use std::io;

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Failure::Image(error.into())
    }
}

/// What the process ends with. `run` and `wait` may end with any code, the task's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exit(pub u8);

impl Exit {
    pub const DONE: Exit = Exit(0);
    pub const TASK_FAILED: Exit = Exit(1);
    /// For `doctor`: it did its work, and what it looked at did not pass, as with a task.
    pub const NOT_FIT: Exit = Exit(1);
    pub const WRONG_USAGE: Exit = Exit(2);
    pub const REFUSED: Exit = Exit(3);
    pub const NO_SERVER: Exit = Exit(4);
    /// As `timeout(1)` has it, for `wait --timeout`.
    pub const TIME_OVER: Exit = Exit(124);
    pub const INTERRUPTED: Exit = Exit(130);
}

#[derive(Debug, thiserror::Error)]
pub enum Failure {
    #[error(transparent)]
    Settings(#[from] SettingsError),
    #[error(transparent)]
    Client(#[from] ClientError),
    #[error(transparent)]
    Input(#[from] InputError),
    #[error(transparent)]
    JobFile(#[from] JobFileError),
    #[error(transparent)]
    SiteFile(#[from] SiteFileError),
    #[error(transparent)]
    SubmitFile(#[from] SubmitError),
    #[error(transparent)]
    Arguments(#[from] BadArguments),
    #[error(transparent)]
    Travel(#[from] TravelError),
    #[error(transparent)]
    Classad(#[from] BadClassad),
    #[error(transparent)]
    Image(#[from] ImageError),
    #[error("cannot tell which image {image} is now")]
    Pin {
        image: Box<ImageRef>,
        #[source]
        source: SourceError,
    },
    #[error("{host} does not accept this login")]
    WrongLogin {
        host: String,
        #[source]
        source: Box<RegistryError>,
    },
    #[error(transparent)]
    Credentials(#[from] CredentialsError),
    #[error("job {job} has no task {index}")]
    NoSuchTask { job: shipway_model::JobId, index: shipway_model::TaskIndex },
    #[error("job {job} has many tasks; the output of one can be followed")]
    FollowMany { job: shipway_model::JobId },
    #[error("a pilot does not go to {server} through a relay: tokens could be read on the way")]
    PlainRelay { server: String },
    #[error(transparent)]
    RelayAdd(#[from] AddError),
    #[error("the relay cannot run")]
    Relay(#[from] RelayError),
    #[error("`top` draws on a terminal, and standard output is not one")]
    NotATerminal,
    #[error("cannot write the output")]
    Output(#[source] io::Error),
    #[error("cannot start the runtime")]
    Runtime(#[source] io::Error),
    #[error("cannot keep what this program was started with to itself")]
    Clean(#[source] io::Error),
    #[error("cannot find this program's own file")]
    OwnProgram(#[source] io::Error),
    #[error("cannot make a random key for the submission")]
    Random(#[source] getrandom::Error),
    #[error("{what} cannot run")]
    Service {
        what: &'static str,
        hint: Option<String>,
        #[source]
        source: Box<dyn Error + Send + Sync>,
    },
}

impl Failure {
    /// The reader of a pipe that left early wants no more; that is no error.
    pub fn is_broken_pipe(&self) -> bool {
        matches!(self, Failure::Output(source) if source.kind() == io::ErrorKind::BrokenPipe)
    }

    pub fn exit(&self) -> Exit {
        use SettingsError::{LocalServer, NoLocalServer};
        match self {
            Failure::Client(ClientError::BadUrl(_))
            | Failure::Input(_)
            | Failure::JobFile(_)
            | Failure::SiteFile(_)
            | Failure::SubmitFile(_)
            | Failure::Arguments(_)
            | Failure::Travel(
                TravelError::TooLarge { .. }
                | TravelError::TooMany(_)
                | TravelError::NotText(_)
                | TravelError::Braces(_)
                | TravelError::NoInput(_)
                | TravelError::Bad(_),
            )
            | Failure::Classad(_)
            | Failure::Credentials(_)
            | Failure::PlainRelay { .. }
            | Failure::RelayAdd(AddError::NotOfARegistry(_))
            | Failure::Relay(RelayError::Plain(_) | RelayError::Server(_))
            | Failure::NotATerminal
            | Failure::FollowMany { .. } => Exit::WRONG_USAGE,
            Failure::Settings(error) => match error {
                NoLocalServer { .. } | LocalServer { .. } => Exit::NO_SERVER,
                _ => Exit::WRONG_USAGE,
            },
            Failure::Client(
                ClientError::Refused { .. }
                | ClientError::NotTheServer { .. }
                | ClientError::Elsewhere { .. },
            )
            | Failure::NoSuchTask { .. }
            | Failure::Pin { .. }
            | Failure::WrongLogin { .. } => Exit::REFUSED,
            Failure::Client(_) => Exit::NO_SERVER,
            Failure::Image(error) => image_exit(error),
            Failure::Output(_)
            | Failure::Travel(_)
            | Failure::Runtime(_)
            | Failure::Clean(_)
            | Failure::OwnProgram(_)
            | Failure::Random(_)
            | Failure::RelayAdd(_)
            | Failure::Relay(_)
            | Failure::Service { .. } => Exit::TASK_FAILED,
        }
    }

    /// A word for programs to branch on; the server's own where it refused.
    pub fn code(&self) -> &str {
        match self {
            Failure::Client(ClientError::Refused { body, .. }) => &body.code,
            Failure::Client(ClientError::NotTheServer { .. } | ClientError::Elsewhere { .. }) => {
                codes::UNAUTHENTICATED
            }
            _ => match self.exit() {
                Exit::WRONG_USAGE => "wrong_usage",
                Exit::NO_SERVER => "no_server",
                Exit::REFUSED
                    if matches!(
                        self,
                        Failure::Image(_) | Failure::Pin { .. } | Failure::WrongLogin { .. }
                    ) =>
                {
                    image_code(self)
                }
                Exit::REFUSED => codes::NOT_FOUND,
                _ => codes::INTERNAL,
            },
        }
    }

    pub fn hint(&self) -> Option<String> {
        match self {
            Failure::Settings(SettingsError::NoLocalServer { .. }) => Some(
                "start one with `shipway up`, or set SHIPWAY_URL and SHIPWAY_TOKEN to reach another"
                    .into(),
            ),
            Failure::Settings(SettingsError::LocalServer { .. }) => {
                Some("`shipway up` writes it anew; only its owner may read it".into())
            }
            Failure::Client(ClientError::Refused { body, .. }) => refused_hint(body),
            Failure::Client(ClientError::Unreachable { .. }) => Some(
                "is it running? start it with `shipway up`; SHIPWAY_URL names another address"
                    .into(),
            ),
            Failure::Client(ClientError::Silent { .. }) => Some(
                "the token was not sent. Try again; if it happens again, find out which program \
                 listens there (`ss -ltnp`)"
                    .into(),
            ),
            Failure::Client(ClientError::NotTheServer { .. }) => Some(
                "the token was not sent. If it was revoked or has expired, ask an admin for a new \
                 one (`shipway token new`); otherwise another program listens there (`ss -ltnp`)"
                    .into(),
            ),
            Failure::Client(ClientError::Elsewhere { at, .. }) => Some(format!(
                "the token was not sent. If that is a tunnel of yours, say so: \
                 {}={at}; otherwise ask where the server is now",
                shipway_api::proof::TUNNEL
            )),
            Failure::Client(ClientError::Broken { .. }) => {
                Some("the server may have been restarted; ask again".into())
            }
            Failure::Image(error) => image_hint(error),
            Failure::Pin { image, source } => Some(pin_hint(image, source).into()),
            Failure::WrongLogin { .. } => Some(
                "try again; some registries want a token in place of the password".into(),
            ),
            Failure::JobFile(error) => error.hint(),
            Failure::SiteFile(error) => error.hint(),
            Failure::SubmitFile(error) => error.wrong.hint(),
            Failure::Input(error) => Some(error.hint().into()),
            Failure::Service { hint, .. } => hint.clone(),
            Failure::Arguments(error) => error.hint(),
            Failure::Travel(error) => error.hint(),
            Failure::Classad(_) => Some("docs/classads.md has the language in short".into()),
            Failure::PlainRelay { .. } | Failure::Relay(RelayError::Plain(_)) => Some(
                "serve it with TLS (`shipway up --tls`, or --cert and --key), and write \
                 https://HOST:PORT"
                    .into(),
            ),
            Failure::Relay(RelayError::Listen { .. }) => Some(
                "--listen is an address of this machine that nodes reach, with a free port".into(),
            ),
            Failure::NotATerminal => Some(
                "`shipway top --once` prints one frame, `shipway top --json` its data".into(),
            ),
            Failure::FollowMany { job } => Some(format!("name one: shipway logs -f {job}/INDEX")),
            _ => None,
        }
    }

    /// To find it in the server's log.
    pub fn request_id(&self) -> Option<&str> {
        match self {
            Failure::Client(ClientError::Refused { body, .. }) => Some(&body.request_id),
            _ => None,
        }
    }
}

/// What could not be read, written or reached may go well another time; the rest was judged.
fn image_exit(error: &ImageError) -> Exit {
    match error {
        ImageError::Store(StoreError::Act { .. })
        | ImageError::Build(_)
        | ImageError::Room(_)
        | ImageError::Source(SourceError::Registry(
            RegistryError::Request { .. } | RegistryError::NoCertificates { .. },
        )) => Exit::TASK_FAILED,
        ImageError::NotPulled(_) => Exit::WRONG_USAGE,
        _ => Exit::REFUSED,
    }
}

fn image_code(failure: &Failure) -> &'static str {
    match failure {
        Failure::Image(ImageError::Store(StoreError::NoImage { .. })) => codes::NOT_FOUND,
        Failure::Image(ImageError::Store(StoreError::InUse { .. })) => "in_use",
        _ => "image_refused",
    }
}

fn image_hint(error: &ImageError) -> Option<String> {
    let text = match error {
        ImageError::Store(StoreError::NoImage { .. } | StoreError::NoStore { .. }) => {
            "`shipway image list` shows what is there, `shipway image pull` fetches"
        }
        ImageError::Store(StoreError::InUse { .. }) => {
            "a running task has it, or it is being fetched"
        }
        ImageError::Store(StoreError::Foreign { .. }) => {
            "name a store of your own with --store, or act as its owner"
        }
        ImageError::Changed { .. } => {
            "submit again to run what is there now, or put the file back that it was"
        }
        ImageError::NotPulled(_) => "name it in a job as it is; there is nothing to fetch",
        ImageError::Source(SourceError::Registry(RegistryError::Denied { had_login, .. })) => {
            denied_hint(*had_login)
        }
        ImageError::Source(SourceError::Registry(RegistryError::Realm { .. })) => {
            "a registry may name any host to take the password; only hosts of its own domain get it"
        }
        _ => return None,
    };
    Some(text.to_owned())
}

/// A job is submitted with the digest of its image; who names one need ask nobody.
fn pin_hint(image: &ImageRef, error: &SourceError) -> &'static str {
    match (image, error) {
        (_, SourceError::Registry(RegistryError::Denied { had_login, .. })) => {
            denied_hint(*had_login)
        }
        (ImageRef::Registry(_), _) => {
            "name an image of this machine by its digest to do without the registry: \
             NAME@sha256:… (`shipway image list`)"
        }
        _ => "see that the file is there and whole; the node reads it under the same path",
    }
}

fn denied_hint(had_login: bool) -> &'static str {
    if had_login {
        "the name and password of your logins were not taken (docs/images.md)"
    } else {
        "log in with `docker login`, or name a file of logins (docs/images.md)"
    }
}

fn refused_hint(body: &shipway_api::error::ErrorBody) -> Option<String> {
    let own = (body.code == codes::UNAUTHENTICATED)
        .then(|| "set SHIPWAY_TOKEN to a token made with `shipway token new`".to_string());
    body.hint.clone().or(own)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exit_codes_say_who_is_to_act() {
        let home = "/x".into();
        let no_server = Failure::from(SettingsError::NoLocalServer { home });
        assert_eq!(no_server.exit(), Exit::NO_SERVER);
        assert!(no_server.hint().expect("hint").contains("shipway up"));
        let usage = Failure::from(ClientError::BadUrl("x".into()));
        assert_eq!((usage.exit(), usage.code()), (Exit::WRONG_USAGE, "wrong_usage"));
        assert!(Failure::Output(io::ErrorKind::BrokenPipe.into()).is_broken_pipe());
        assert!(!Failure::Output(io::ErrorKind::StorageFull.into()).is_broken_pipe());
    }
}
