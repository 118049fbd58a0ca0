//! Switches the loopback device of a new network on.

use super::error::{Doing, SetupError};
use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send};

/// The loopback device is the first of every network.
const LOOPBACK: u32 = 1;
/// `RTM_NEWLINK`: change a device.
const NEW_LINK: u16 = 16;
/// `NLM_F_REQUEST | NLM_F_ACK`: do it, and say whether it worked.
const REQUEST_AND_ANSWER: u16 = 1 | 4;
/// `NLMSG_ERROR`: an answer; number 0 in it means it worked.
const ANSWER: u16 = 2;
/// `IFF_UP`.
const UP: u32 = 1;
const HEADER_BYTES: usize = 16;
const REQUEST_BYTES: usize = HEADER_BYTES + 16;

pub(super) fn loopback_up() -> Result<(), SetupError> {
    ask().doing("switch on", "the loopback device")
}

fn ask() -> Result<(), Errno> {
    let socket = rustix::net::socket_with(
        AddressFamily::NETLINK,
        SocketType::RAW,
        SocketFlags::CLOEXEC,
        // The first protocol: devices and routes.
        None,
    )?;
    send(&socket, &request(), SendFlags::empty())?;
    let mut answer = [0; 256];
    let (length, _) = recv(&socket, &mut answer, RecvFlags::empty())?;
    verdict(&answer[..length])
}

/// A message to the kernel: header, then which device, its new flags, and which flags change.
fn request() -> Vec<u8> {
    let length = u32::try_from(REQUEST_BYTES).expect("a small number");
    let mut message = Vec::with_capacity(REQUEST_BYTES);
    message.extend(length.to_ne_bytes());
    message.extend(NEW_LINK.to_ne_bytes());
    message.extend(REQUEST_AND_ANSWER.to_ne_bytes());
    // Sequence number and our own port: there is one question and one answer.
    message.extend([0; 8]);
    // Family and type of the device: any.
    message.extend([0; 4]);
    message.extend(LOOPBACK.to_ne_bytes());
    message.extend(UP.to_ne_bytes());
    message.extend(UP.to_ne_bytes());
    message
}

fn verdict(answer: &[u8]) -> Result<(), Errno> {
    let kind = answer.get(4..6).and_then(|bytes| bytes.try_into().ok()).map(u16::from_ne_bytes);
    let number = answer.get(HEADER_BYTES..HEADER_BYTES + 4);
    let number = number.and_then(|bytes| bytes.try_into().ok()).map(i32::from_ne_bytes);
    match (kind, number) {
        (Some(ANSWER), Some(0)) => Ok(()),
        (Some(ANSWER), Some(number)) => Err(Errno::from_raw_os_error(number.saturating_neg())),
        _ => Err(Errno::PROTO),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_read_within_its_bounds() {
        assert_eq!(request().len(), REQUEST_BYTES);
        assert_eq!(verdict(&[]), Err(Errno::PROTO));
        let mut answer = vec![0; 20];
        answer[4..6].copy_from_slice(&ANSWER.to_ne_bytes());
        assert_eq!(verdict(&answer), Ok(()));
        answer[16..20].copy_from_slice(&(-1_i32).to_ne_bytes());
        assert_eq!(verdict(&answer), Err(Errno::PERM));
        assert_eq!(verdict(&answer[..18]), Err(Errno::PROTO));
    }
}
