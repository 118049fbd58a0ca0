//! Who may read, write and enter what was copied: whoever could do it with the original. Nothing is
//! ever open to more people than that, also while it is copied. What runs a program with somebody
//! else's rights (the set-user-id and set-group-id bits) is not copied.

use rustix::fs::Mode;

/// A file while it is copied. Whoever opened it then would read on when it is closed to them.
pub(super) const PRIVATE_FILE: Mode = Mode::RUSR.union(Mode::WUSR);

/// What has no original gets these, as far as the mask of this process lets it.
pub(super) const USUAL_FILE: Mode = Mode::from_raw_mode(0o666);
pub(super) const USUAL_FOLDER: Mode = Mode::from_raw_mode(0o777);

/// Of a file that is complete, by its original.
pub(super) const fn of_file(original: u32) -> Mode {
    Mode::from_raw_mode(original).intersection(USUAL_FOLDER)
}

/// Of a folder that is made, by its original, from the start: what comes into it is closed until it
/// is complete. Its owner may do everything there, or could neither fill nor replace it.
pub(super) const fn of_folder(original: u32) -> Mode {
    let kept = USUAL_FOLDER.union(Mode::SVTX);
    Mode::from_raw_mode(original).intersection(kept).union(Mode::RWXU)
}
