//! Ends containers from inside. A helper that is killed cannot say any more how its task ended; one
//! whose task is killed says so and goes by itself. So what runs inside is killed first, and the
//! helper only if it does not go.

use crate::below::kill;
use crate::procfs;
use rustix::io::Errno;
use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};
use std::time::{Duration, Instant};

/// How long a helper may take to go when all that ran inside is dead. Far longer than it does.
pub(crate) const GO_LIMIT: Duration = Duration::from_secs(2);
/// Between two looks: a helper that is just making its container has nothing inside yet.
const PAUSE: Duration = Duration::from_millis(1);

/// Kills what runs inside the containers of those of our children that are helpers, and waits until
/// these are dead. They are not reaped.
pub(crate) fn end(children: &[Pid]) {
    let mut helpers: Vec<Pid> =
        children.iter().copied().filter(|child| procfs::is_helper(*child)).collect();
    let deadline = Instant::now() + GO_LIMIT;
    loop {
        helpers.retain(|helper| !is_dead(*helper));
        if helpers.is_empty() || Instant::now() > deadline {
            return;
        }
        helpers.retain(|helper| kill_inside(*helper));
        std::thread::sleep(PAUSE);
    }
}

/// False where that is not ours to do: the helper has to be killed then.
fn kill_inside(helper: Pid) -> bool {
    let inits = procfs::children_of(helper).into_iter();
    let mut inside =
        inits.flat_map(|init| procfs::children_of(init).into_iter().map(move |task| (task, init)));
    inside.all(|(task, init)| kill(task, init) != Err(Errno::PERM))
}

fn is_dead(child: Pid) -> bool {
    let look = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    !matches!(waitid(WaitId::Pid(child), look), Ok(None))
}
