//! Files that another process has a lease on (`F_SETLEASE`, and what file servers give to their
//! clients): whoever opens one without waiting is refused, and the holder is asked to give it back.
//! The kernel takes it away after `fs.lease-break-time`, so until then it is tried again.

use rustix::io::Errno;
use std::time::{Duration, Instant};

/// What the kernel gives a holder unless it was told otherwise.
const USUAL: Duration = Duration::from_secs(45);
/// Longest that it is believed to be: well below the time after which copying counts as hanging.
const LONGEST: Duration = Duration::from_mins(10);
/// Beyond it, for what the kernel does only now and then.
const MARGIN: Duration = Duration::from_secs(5);
/// Between the first two tries; it doubles up to the second number.
const FIRST_PAUSE: Duration = Duration::from_millis(10);
const LONGEST_PAUSE: Duration = Duration::from_millis(640);

/// Opens a file, again for as long as somebody has a lease on it. Only for processes of their own:
/// it waits.
pub(super) fn when_free<T>(mut open: impl FnMut() -> Result<T, Errno>) -> Result<T, Errno> {
    let mut pause = FIRST_PAUSE;
    // The clock is only asked when it is needed.
    let mut until = None;
    loop {
        match open() {
            Err(Errno::AGAIN)
                if Instant::now() < *until.get_or_insert_with(|| Instant::now() + break_time()) =>
            {
                std::thread::sleep(pause);
                pause = (pause * 2).min(LONGEST_PAUSE);
            }
            opened => return opened,
        }
    }
}

/// How long it can take until a file is free.
pub(crate) fn break_time() -> Duration {
    let told = std::fs::read_to_string("/proc/sys/fs/lease-break-time");
    of_kernel(told.ok().as_deref()) + MARGIN
}

/// 0 stands for ever, which is too long.
fn of_kernel(told: Option<&str>) -> Duration {
    let seconds = told.and_then(|text| text.trim().parse().ok()).filter(|seconds| *seconds > 0);
    seconds.map_or(USUAL, Duration::from_secs).min(LONGEST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_tried_again_while_somebody_has_it_and_for_nothing_else() {
        let mut tries = 0;
        let opened = when_free(|| {
            tries += 1;
            if tries < 4 { Err(Errno::AGAIN) } else { Ok(tries) }
        });
        assert_eq!(opened, Ok(4));
        let mut tries = 0;
        let refused = when_free(|| {
            tries += 1;
            Err::<(), _>(Errno::ACCESS)
        });
        assert_eq!((refused, tries), (Err(Errno::ACCESS), 1));
    }

    #[test]
    fn the_kernel_says_how_long_and_is_not_believed_everything() {
        assert_eq!(of_kernel(Some("10\n")), Duration::from_secs(10));
        assert_eq!(of_kernel(Some("2147483647\n")), LONGEST);
        for nothing in [None, Some("0\n"), Some(""), Some("-1")] {
            assert_eq!(of_kernel(nothing), USUAL, "{nothing:?}");
        }
    }
}
