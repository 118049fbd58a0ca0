//! The numbers of a pilot's connections: the high part names the process, the low part counts.
//!
//! A pilot that was started again with the same credentials is another process: whatever the
//! server had placed on the first one is gone, and the number says so.

/// Connections of one process before the count would run into the process's name.
const COUNT_BITS: u32 = 24;

/// The number before a process's first connection. `process` must grow from one process to the
/// next: the time of its start in seconds does.
pub fn before_first(process: u64) -> u64 {
    process << COUNT_BITS
}

/// Which process a connection belongs to.
pub fn process_of(session: u64) -> u64 {
    session >> COUNT_BITS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_later_process_has_larger_numbers_and_another_name() {
        let (first, second) = (before_first(1_700_000_000) + 5, before_first(1_700_000_001) + 1);
        assert!(second > first);
        assert_ne!(process_of(first), process_of(second));
        assert_eq!(process_of(first), process_of(first + 100));
    }
}
