//! The two bits of each task, and the one that tells cancelled from failed; four and eight to a
//! byte, set one at a time or in ranges.
#![expect(
    clippy::indexing_slicing,
    reason = "places that this module gives out itself, asked for very often"
)]

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Bits {
    Waiting = 0,
    Active = 1,
    Succeeded = 2,
    Over = 3,
}

pub(super) fn state(bytes: &[u8], at: u32) -> Bits {
    let byte = bytes.get(at as usize / 4).copied().unwrap_or(0);
    match byte >> (at % 4 * 2) & 3 {
        0 => Bits::Waiting,
        1 => Bits::Active,
        2 => Bits::Succeeded,
        _ => Bits::Over,
    }
}

/// The bytes must be there.
pub(super) fn set_states(bytes: &mut [u8], first: u32, last: u32, bits: Bits) {
    // The same two bits four times over.
    let whole = bits as u8 * 0b0101_0101;
    fill(bytes, 2, (first, last), whole);
}

pub(super) fn flag(bytes: &[u8], at: u32) -> bool {
    bytes.get(at as usize / 8).is_some_and(|byte| byte >> (at % 8) & 1 == 1)
}

/// Allocated with the first flag that is set.
pub(super) fn set_flags(bytes: &mut Vec<u8>, (first, last): (u32, u32), len: u32, value: bool) {
    if bytes.is_empty() {
        if !value {
            return;
        }
        *bytes = vec![0; (len as usize).div_ceil(8)];
    }
    fill(bytes, 1, (first, last), if value { 0xff } else { 0 });
}

/// Sets the fields of `width` bits from `first` to `last` to the pattern of a whole byte.
fn fill(bytes: &mut [u8], width: u32, (first, last): (u32, u32), whole: u8) {
    let per_byte = 8 / width;
    let (from, to) = (first as usize / per_byte as usize, last as usize / per_byte as usize);
    let head = 0xffu8 << (first % per_byte * width);
    let tail = 0xffu8 >> ((per_byte - 1 - last % per_byte) * width);
    let mut put = |at: usize, mask: u8| bytes[at] = bytes[at] & !mask | whole & mask;
    if from == to {
        return put(from, head & tail);
    }
    put(from, head);
    put(to, tail);
    bytes[from + 1..to].fill(whole);
}
