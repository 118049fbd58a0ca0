//! Files that travel with a job: what of the current directory does (`pick.rs`), how it gets to the
//! server (`upload.rs`), and how what the job has made comes back (`results.rs`).

mod pick;
mod results;
mod upload;

pub use pick::Picked;
pub use results::{Written, fetch};

use crate::args::files::FilesArgs;
use crate::commands::Context;
use crate::failure::Failure;
use crate::view::talk;
use shipway_model::limits::MAX_TRAVELLING;
use shipway_model::manifest::BadManifest;
use shipway_model::{Bytes, Digest, FileMap, JobSpec};
use std::io;
use std::path::{Path, PathBuf};

/// What travels without a question.
const WITHOUT_ASKING: Bytes = Bytes(1_000_000_000);

#[derive(Debug, thiserror::Error)]
pub enum TravelError {
    #[error("cannot read {}", .path.display())]
    Read {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("cannot look through {}", .dir.display())]
    Walk {
        dir: PathBuf,
        #[source]
        source: ignore::Error,
    },
    #[error("{} has a name that is not UTF-8, and cannot travel", .0.display())]
    NotText(PathBuf),
    #[error("the input {0} names a place with braces, which files that travel cannot have")]
    Braces(String),
    #[error("the input {0} is not there, or neither a file nor a folder")]
    NoInput(String),
    #[error("{} would travel, more than {most}", .bytes)]
    TooLarge { bytes: Bytes, most: Bytes },
    #[error("{0} files and folders would travel; at most {MAX_TRAVELLING}")]
    TooMany(usize),
    #[error("these files cannot travel")]
    Bad(#[from] BadManifest),
    #[error("{} was changed while it was uploaded", .0.display())]
    Changed(PathBuf),
    #[error("cannot write {}", .path.display())]
    Write {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("what came of {0} is not what the task has made")]
    Spoiled(String),
}

impl TravelError {
    pub fn hint(&self) -> Option<String> {
        Some(match self {
            TravelError::TooLarge { .. } => "leave something out (.shipwayignore, in the form of \
                 .gitignore), or allow it with --sandbox-size SIZE"
                .into(),
            TravelError::TooMany(_) => {
                "leave something out (.shipwayignore, in the form of .gitignore)".into()
            }
            TravelError::NotText(_) | TravelError::Read { .. } => {
                "rename it, make it readable, or leave it out (.shipwayignore)".into()
            }
            TravelError::Changed(_) => "run it again when nothing writes there".into(),
            _ => return None,
        })
    }
}

/// What a person wants to travel.
#[derive(Debug, Clone)]
pub struct Wanted {
    inputs: Vec<FileMap>,
    most: Bytes,
    /// Where results go, of those who wait for them.
    pub results_to: Option<PathBuf>,
}

impl Wanted {
    pub fn of(args: &FilesArgs) -> Option<Self> {
        args.sandbox.then(|| Wanted {
            inputs: args.inputs.clone(),
            most: args.sandbox_size.unwrap_or(WITHOUT_ASKING),
            results_to: args.output_dir.as_ref().map(PathBuf::from),
        })
    }

    /// Looks what travels, and says in the specification what that is.
    pub async fn pick(&self, spec: &mut JobSpec) -> Result<Picked, Failure> {
        let (wanted, is_array) = (self.clone(), spec.is_array());
        let dir = std::env::current_dir()
            .map_err(|source| TravelError::Read { path: ".".into(), source })?;
        let mut texts = self.inputs.iter().map(ToString::to_string);
        if is_array && let Some(input) = texts.find(|input| input.contains('{')) {
            return Err(TravelError::Braces(input).into());
        }
        let found = off_thread(move || pick::look(&dir, &wanted.inputs)).await?;
        if found.bytes() > self.most && !agreed(found.bytes()).await {
            return Err(TravelError::TooLarge { bytes: found.bytes(), most: self.most }.into());
        }
        for link in found.left_out() {
            talk::say(format_args!(
                "shipway: {link} is a link that leads out of here: it does not travel"
            ));
        }
        let picked = off_thread(move || found.read()).await?;
        spec.sandbox = Some(picked.digest);
        Ok(picked)
    }
}

/// Sends what the server does not have yet.
pub async fn upload(context: &Context, picked: &Picked) -> Result<(), Failure> {
    upload::upload(context, picked).await
}

async fn agreed(bytes: Bytes) -> bool {
    if !talk::somebody_is_there() {
        return false;
    }
    talk::ask(&format!("shipway: {bytes} would travel with the job. Go on? [y/N]"));
    let answer = off_thread(|| {
        let mut line = String::new();
        let read = io::stdin().read_line(&mut line);
        read.map(|_| line).map_err(|source| TravelError::Read { path: "-".into(), source })
    });
    answer.await.is_ok_and(|line| matches!(line.trim(), "y" | "Y" | "yes"))
}

async fn off_thread<T: Send + 'static>(
    act: impl FnOnce() -> Result<T, TravelError> + Send + 'static,
) -> Result<T, Failure> {
    let done = tokio::task::spawn_blocking(act).await;
    Ok(done.expect("it neither panics nor is cancelled")?)
}

/// Of a file, a piece at a time.
fn digest_of(path: &Path) -> io::Result<(Digest, u64)> {
    use sha2::Digest as _;
    use std::io::Read as _;
    let mut file = std::fs::File::open(path)?;
    let (mut hash, mut size) = (sha2::Sha256::new(), 0);
    let mut buffer = vec![0; 1 << 20];
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok((Digest(hash.finalize().into()), size)),
            count => {
                hash.update(&buffer[..count]);
                size += count as u64;
            }
        }
    }
}
