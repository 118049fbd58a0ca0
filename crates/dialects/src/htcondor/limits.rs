//! Every limit of the submit language, by name and with its reason.

/// Bytes of one line with its continuations: longer than any argument that Linux would take.
pub const MAX_LINE_BYTES: usize = 1 << 20;
/// Lines of a file and of all it includes.
pub const MAX_LINES: usize = 2_000_000;
/// Files inside of files; HTCondor stops at 20 too.
pub const MAX_INCLUDE_DEPTH: usize = 20;
/// Files read in all, so that a file that includes two that include two ends soon.
pub const MAX_INCLUDES: usize = 1_000;
/// Names that a file may give values to; each `queue` statement may keep them all.
pub const MAX_MACROS: usize = 5_000;
/// `queue` statements of one file; more tasks belong into one statement.
pub const MAX_QUEUES: usize = 1_000;
/// `if` inside of `if`; HTCondor keeps them in 64 bits.
pub const MAX_IFS: usize = 63;
/// Tasks of one file: what one job may have in rows.
pub const MAX_TASKS: u64 = shipway_model::limits::MAX_EACH_ROWS as u64;
/// Variables of one `queue` statement.
pub const MAX_VARIABLES: usize = 1_000;
/// Jobs that one file may become: tasks of different needs are jobs of their own.
pub const MAX_JOBS: usize = 1_000;
/// Functions that look at values with functions in them; the stack holds them all.
pub const MAX_MACRO_DEPTH: usize = 32;
/// Bytes of a value after its macros are replaced: what one exec may have.
pub const MAX_VALUE_BYTES: usize = 1 << 20;
/// Bytes looked at and moved while macros of one value are replaced. A value that needs more
/// refers to itself, or doubles with each macro.
pub const MAX_VALUE_WORK: u64 = 32 << 20;
/// The same for all values of a file and all its tasks: some seconds.
pub const MAX_WORK: u64 = 1 << 30;
/// Width and precision of a number in `$INT(x,%…d)`: more is a slip of the hand.
pub const MAX_FORMAT_WIDTH: usize = 1_000;
/// Different paths of one command that are looked for before submission: a fraction of a second on
/// a disk, and seconds over a network. What comes after them is looked for when its task starts.
pub const MAX_LOOKED: usize = 20_000;
