//! A file system that does not answer: what comes near it waits, and not even a kill ends that.

use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
use std::ffi::CString;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

/// The least that the kernel wants to be asked with.
const REQUEST: usize = 64 << 10;
/// What a request and its answer begin with.
const REQUEST_HEAD: usize = 40;
const UNIQUE: std::ops::Range<usize> = 8..16;
/// The first answer: a head of 16 bytes and what the file system can do.
const ANSWER: usize = 80;

/// Mounted until dropped; whatever waits there then fails.
#[derive(Debug)]
pub struct Hanging {
    place: PathBuf,
}

impl Hanging {
    /// `None`: this needs root, and a kernel with `/dev/fuse`.
    pub fn mount(place: &Path) -> Option<Self> {
        let mut device = File::options().read(true).write(true).open("/dev/fuse").ok()?;
        std::fs::create_dir_all(place).expect("a folder");
        let said =
            format!("fd={},rootmode=40000,user_id=0,group_id=0,allow_other", device.as_raw_fd());
        let said = CString::new(said).expect("text");
        mount("hanging", place, "fuse", MountFlags::empty(), &*said).ok()?;
        let hanging = Self { place: place.to_owned() };
        let mut request = vec![0; REQUEST];
        let count = device.read(&mut request).expect("the kernel introduces itself");
        assert!(count > REQUEST_HEAD);
        device.write_all(&introduction(&request[UNIQUE])).expect("answered");
        // Everything else is taken, and stays without an answer. It ends when this is unmounted.
        std::thread::spawn(move || while device.read(&mut request).is_ok() {});
        Some(hanging)
    }
}

impl Drop for Hanging {
    fn drop(&mut self) {
        let _ = unmount(&self.place, UnmountFlags::FORCE | UnmountFlags::DETACH);
    }
}

/// Version 7.31 of the protocol, and nothing in particular.
fn introduction(unique: &[u8]) -> Vec<u8> {
    let mut answer = Vec::with_capacity(ANSWER);
    answer.extend(u32::try_from(ANSWER).expect("small").to_ne_bytes());
    answer.extend(0_i32.to_ne_bytes());
    answer.extend(unique);
    let [max_readahead, flags, background, max_write, time_gran] = [4096_u32, 0, 0, 4096, 1];
    for number in [7_u32, 31, max_readahead, flags, background, max_write, time_gran] {
        answer.extend(number.to_ne_bytes());
    }
    answer.resize(ANSWER, 0);
    answer
}
