//! What the pilot and a process that copies files say to each other, where files travel: the pilot
//! has what came from the server, and the process may read and write what the task's account may.
//! Neither opens anything of the other's by its path: files go from hand to hand, open for reading.
//!
//! ```text
//! pilot → process   Plan, with the plan            always first
//! pilot → process   Files, open                    those that the plan lists, in order
//! process → pilot   List, with a list of files     what the task has made
//! pilot → process   Wanted, a number in that list
//! process → pilot   Files, one of them, or Problem
//! pilot → process   Done
//! ```

use rustix::fs::{MemfdFlags, memfd_create};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recvmsg, sendmsg, socketpair,
};
use std::fs::File;
use std::io::{self, IoSlice, IoSliceMut, Read, Seek, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

/// Files in one message: few enough that what is under way stays below every limit.
pub(crate) const FILES_AT_ONCE: usize = 16;
/// Of a problem's words.
const WORDS: usize = 8 << 10;
/// Between two tries to send files, where this user has as many under way as may be.
const AGAIN: Duration = Duration::from_millis(5);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Word {
    Plan,
    Files,
    List,
    Wanted,
    Problem,
    Done,
}

impl Word {
    const ALL: [(Word, u8); 6] = [
        (Word::Plan, b'p'),
        (Word::Files, b'f'),
        (Word::List, b'l'),
        (Word::Wanted, b'w'),
        (Word::Problem, b'e'),
        (Word::Done, b'd'),
    ];

    fn byte(self) -> u8 {
        Self::ALL.iter().find(|(word, _)| *word == self).map_or(0, |(_, byte)| *byte)
    }

    fn of(byte: u8) -> Option<Word> {
        Self::ALL.iter().find(|(_, known)| *known == byte).map(|(word, _)| *word)
    }
}

/// Something that was said.
#[derive(Debug)]
pub(crate) struct Said {
    pub(crate) word: Word,
    pub(crate) text: Vec<u8>,
    pub(crate) files: Vec<OwnedFd>,
}

/// One end.
#[derive(Debug)]
pub(crate) struct Talk(OwnedFd);

impl Talk {
    pub(crate) fn pair() -> io::Result<(Talk, OwnedFd)> {
        let kind = (AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC);
        let (ours, theirs) = socketpair(kind.0, kind.1, kind.2, None)?;
        Ok((Talk(ours), theirs))
    }

    /// The other end, if this is one.
    pub(crate) fn of(end: OwnedFd) -> Option<Talk> {
        let found = rustix::fs::fstat(&end).ok()?;
        let kind = rustix::fs::FileType::from_raw_mode(found.st_mode);
        (kind == rustix::fs::FileType::Socket).then_some(Talk(end))
    }

    /// Nothing more is said. What was said before is still heard.
    pub(crate) fn no_more(&self) {
        let _not_open = rustix::net::shutdown(&self.0, rustix::net::Shutdown::Write);
    }

    /// Nothing more is said or heard.
    pub(crate) fn close(&self) {
        let _not_open = rustix::net::shutdown(&self.0, rustix::net::Shutdown::Both);
    }

    /// Waits until there is room for it. Whoever is gone hears nothing, which is an error.
    pub(crate) fn say(&self, word: Word, text: &[u8], files: &[BorrowedFd<'_>]) -> io::Result<()> {
        let text = text.get(..WORDS).unwrap_or(text);
        loop {
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(16))];
            let mut control = SendAncillaryBuffer::new(&mut space);
            if !files.is_empty() && !control.push(SendAncillaryMessage::ScmRights(files)) {
                return Err(io::ErrorKind::InvalidInput.into());
            }
            let byte = [word.byte()];
            let parts = [IoSlice::new(&byte), IoSlice::new(text)];
            match sendmsg(&self.0, &parts, &mut control, SendFlags::NOSIGNAL) {
                Ok(_) => return Ok(()),
                Err(Errno::INTR) => {}
                Err(Errno::TOOMANYREFS) => std::thread::sleep(AGAIN),
                Err(errno) => return Err(errno.into()),
            }
        }
    }

    /// With a text of any length.
    pub(crate) fn say_long(&self, word: Word, text: &[u8]) -> io::Result<()> {
        let mut file = File::from(memfd_create("said", MemfdFlags::CLOEXEC)?);
        file.write_all(text)?;
        self.say(word, &[], &[file.as_fd()])
    }

    /// `None`: the other is gone.
    pub(crate) fn hear(&self) -> io::Result<Option<Said>> {
        let mut text = vec![0; WORDS + 1];
        loop {
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(16))];
            let mut control = RecvAncillaryBuffer::new(&mut space);
            let parts = &mut [IoSliceMut::new(&mut text)];
            let heard = match recvmsg(&self.0, parts, &mut control, RecvFlags::CMSG_CLOEXEC) {
                Err(Errno::INTR) => continue,
                Err(Errno::CONNRESET) => return Ok(None),
                heard => heard?,
            };
            let mut files = Vec::new();
            for message in control.drain() {
                if let RecvAncillaryMessage::ScmRights(sent) = message {
                    files.extend(sent);
                }
            }
            let Some((byte, said)) = text.get(..heard.bytes).and_then(<[u8]>::split_first) else {
                return Ok(None);
            };
            let word = Word::of(*byte).ok_or(io::ErrorKind::InvalidData)?;
            return Ok(Some(Said { word, text: said.to_vec(), files }));
        }
    }
}

impl Said {
    /// A text of any length, at most so long.
    pub(crate) fn long(self, most: usize) -> io::Result<Vec<u8>> {
        let file = self.files.into_iter().next().ok_or(io::ErrorKind::InvalidData)?;
        let mut file = File::from(file);
        file.rewind()?;
        let mut text = Vec::new();
        file.take(most as u64 + 1).read_to_end(&mut text)?;
        if text.len() > most {
            return Err(io::Error::other("it is too long"));
        }
        Ok(text)
    }

    /// The one file that was handed over.
    pub(crate) fn file(self) -> io::Result<File> {
        let file = self.files.into_iter().next().ok_or(io::ErrorKind::InvalidData)?;
        Ok(file.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_is_heard_with_its_files_in_order() {
        let (ours, theirs) = Talk::pair().unwrap();
        let theirs = Talk::of(theirs).expect("an end");
        let files: Vec<File> = (0..FILES_AT_ONCE)
            .map(|at| {
                let mut file = tempfile::tempfile().unwrap();
                write!(file, "{at}").unwrap();
                file.rewind().unwrap();
                file
            })
            .collect();
        let handed: Vec<_> = files.iter().map(AsFd::as_fd).collect();
        ours.say(Word::Files, b"x", &handed).unwrap();
        ours.say_long(Word::List, &vec![7; 100_000]).unwrap();
        let heard = theirs.hear().unwrap().expect("files");
        assert_eq!((heard.word, &heard.text[..], heard.files.len()), (Word::Files, &b"x"[..], 16));
        for (at, file) in heard.files.into_iter().enumerate() {
            let mut text = String::new();
            File::from(file).read_to_string(&mut text).unwrap();
            assert_eq!(text, at.to_string());
        }
        let long = theirs.hear().unwrap().expect("a list");
        assert_eq!((long.word, long.long(100_000).unwrap()), (Word::List, vec![7; 100_000]));
        ours.say_long(Word::List, &vec![7; 100_000]).unwrap();
        assert!(theirs.hear().unwrap().expect("a list").long(99_999).is_err());
        ours.say(Word::Done, &[], &[]).unwrap();
        ours.no_more();
        assert_eq!(theirs.hear().unwrap().expect("said before").word, Word::Done);
        assert!(theirs.hear().unwrap().is_none());
        drop(ours);
        assert!(theirs.say(Word::Done, &[], &[]).is_err());
        assert!(Talk::of(tempfile::tempfile().unwrap().into()).is_none());
    }
}
