//! Real batch systems, each started once for all tests that run at a time. Those that stop parts
//! of one wait until they have it alone.

pub(crate) mod pool;
pub(crate) mod slurm;

use super::common::{World, wait_for};
use super::ground::allocations;
use super::journal::Journal;
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard, Weak};

/// What any of them says of the jobs it has.
pub(crate) trait Engine {
    /// What waits, runs or ends, by name.
    fn queue(&self) -> Vec<String>;
    /// What there was, by name and the engine's word for its end.
    fn history(&self) -> Vec<(String, String)>;
}

/// Nothing of ours is left at either side.
pub(crate) fn wait_until_empty(world: &World, site: &str, engine: &impl Engine) {
    wait_for("the site is empty", || {
        let journal = Journal::of(world);
        let ours = allocations(world, site).is_empty();
        ours && !engine.queue().iter().any(|name| journal.id_of(name).is_some())
    });
}

/// What the engine remembers of this world's allocations, by our ids.
pub(crate) fn remembered(world: &World, engine: &impl Engine) -> Vec<(String, String)> {
    let journal = Journal::of(world);
    let all = engine.history().into_iter();
    all.filter_map(|(name, end)| Some((journal.id_of(&name)?, end))).collect()
}

/// One engine, and whose turn it is with it.
#[derive(Debug)]
pub(crate) struct Shared<E> {
    running: Mutex<Weak<E>>,
    turn: RwLock<()>,
}

/// An engine for as long as this is kept.
#[derive(Debug)]
pub(crate) struct Held<E: 'static> {
    engine: Arc<E>,
    _turn: Turn,
}

#[derive(Debug)]
#[expect(dead_code, reason = "they are kept, not looked at")]
enum Turn {
    Among(RwLockReadGuard<'static, ()>),
    Alone(RwLockWriteGuard<'static, ()>),
}

impl<E> Shared<E> {
    pub(crate) const fn new() -> Shared<E> {
        Shared { running: Mutex::new(Weak::new()), turn: RwLock::new(()) }
    }

    fn engine(&self, start: impl FnOnce() -> Option<E>) -> Option<Arc<E>> {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(engine) = running.upgrade() {
            return Some(engine);
        }
        let engine = Arc::new(start()?);
        *running = Arc::downgrade(&engine);
        Some(engine)
    }

    /// With others that leave it as it is.
    fn among(&'static self, start: impl FnOnce() -> Option<E>) -> Option<Held<E>> {
        let engine = self.engine(start)?;
        let turn = self.turn.read().unwrap_or_else(PoisonError::into_inner);
        Some(Held { engine, _turn: Turn::Among(turn) })
    }

    /// With nobody else.
    fn alone(&'static self, start: impl FnOnce() -> Option<E>) -> Option<Held<E>> {
        let engine = self.engine(start)?;
        let turn = self.turn.write().unwrap_or_else(PoisonError::into_inner);
        Some(Held { engine, _turn: Turn::Alone(turn) })
    }
}

impl<E> std::ops::Deref for Held<E> {
    type Target = E;

    fn deref(&self) -> &E {
        &self.engine
    }
}

/// Whether it was asked for: it starts daemons as root. Who asks for it is told what is missing.
fn is_wanted(variable: &str) -> bool {
    let wanted = std::env::var_os(variable).is_some();
    if wanted {
        assert!(rustix::process::geteuid().is_root(), "its daemons are started by root only");
    } else {
        skipped(variable);
    }
    wanted
}

#[expect(clippy::print_stderr, reason = "a skipped test must be seen")]
fn skipped(variable: &str) {
    eprintln!("skipped: the real engine is started with {variable}=1 only");
}
