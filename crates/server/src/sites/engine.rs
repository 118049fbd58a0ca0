//! The batch system of a site, and the way to it.

use shipway_model::{BatchKind, Reach, SiteSpec};
use shipway_sites::batch::{
    BatchSystem, EngineError, EngineId, EngineNodes, EngineTrouble, Naming, Order, Seen,
};
use shipway_sites::htcondor::{HtCondor, Settings};
use shipway_sites::slurm::rest::{Address, Rest, Version};
use shipway_sites::slurm::{COMMAND_LIMIT, Slurm};
use shipway_sites::way::{Local, Ssh, Way};
use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// `folder` is for connections that are kept, and nobody else's.
pub(super) fn engine(spec: &SiteSpec, server: &str, folder: &Path) -> Arc<dyn BatchSystem> {
    usable(spec, server, folder).unwrap_or_else(|words| Arc::new(Unusable { words }))
}

/// Its file is wrong in a way that only this machine knows: it says so whatever it is asked.
#[derive(Debug)]
struct Unusable {
    words: String,
}

impl Unusable {
    fn refuse<A>(&self) -> Result<A, EngineError> {
        let (act, words) = ("reach the site".to_owned(), self.words.clone());
        Err(EngineError { act, words, kind: EngineTrouble::Refused })
    }
}

impl BatchSystem for Unusable {
    fn submit(&self, _: &Order) -> Result<EngineId, EngineError> {
        self.refuse()
    }
    fn look(&self) -> Result<Vec<Seen>, EngineError> {
        self.refuse()
    }
    fn nodes(&self) -> Result<Vec<EngineNodes>, EngineError> {
        self.refuse()
    }
    fn cancel(&self, _: &[EngineId]) -> Result<(), EngineError> {
        self.refuse()
    }
}

fn usable(spec: &SiteSpec, server: &str, folder: &Path) -> Result<Arc<dyn BatchSystem>, String> {
    let naming = Naming::at_site(server, &spec.name);
    let vars = spec.env.iter().map(|(name, value)| (name.clone(), value.clone()));
    let local = Local::new(vars.collect());
    let way: Box<dyn Way> = match &spec.reach {
        Reach::Local => Box::new(local),
        Reach::Ssh { host, options } => {
            let made = DirBuilder::new().recursive(true).mode(0o700).create(folder);
            made.map_err(|error| format!("cannot make {}: {error}", folder.display()))?;
            let ssh = Ssh::new(host, options.clone(), folder.to_owned(), local);
            Box::new(ssh.map_err(|error| error.to_string())?)
        }
        Reach::SlurmRestd { url, user, token, version } => {
            let version = version.as_deref().and_then(Reach::restd_version).map(Version);
            let (url, user, token) = (url.clone(), user.clone(), token.as_ref().map(PathBuf::from));
            let address = Address { url, token, user, version };
            return Ok(Arc::new(Rest::new(address, naming, COMMAND_LIMIT)));
        }
    };
    Ok(match spec.kind {
        BatchKind::Slurm => Arc::new(Slurm::new(way, naming, COMMAND_LIMIT)),
        BatchKind::HtCondor => {
            let (schedd, pool) = (spec.schedd.clone(), spec.pool.clone());
            let settings = Settings { schedd, pool, ce: spec.ce, ..Settings::default() };
            Arc::new(HtCondor::new(way, naming, settings))
        }
    })
}
