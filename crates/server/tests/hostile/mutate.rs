//! From what is good to what is not: bytes that are changed, values of another kind, lists and
//! texts that are too long, too deep, or both.

use crate::chance::Chance;

/// Values that stand where others belong.
const ODD: &[&str] = &[
    "null",
    "true",
    "-1",
    "0",
    "1e400",
    "1e-400",
    "18446744073709551616",
    "-0.0",
    "\"\"",
    "[]",
    "{}",
    "[[]]",
    "{\"\":1}",
    "\"\\u0000\"",
    "\"\\ud800\"",
    "\"\\u202e\"",
    "\"{job}\"",
    "\"0-9:0\"",
    "\"0-9999998:2,1-9999999:2\"",
    "\"1-18446744073709551615\"",
    "\"..\"",
    "\"/../../etc/passwd\"",
    "\"9999999999999999999999TB\"",
    "\"1:1:1:1\"",
    "\"a=b\"",
    "[null]",
    "[1,\"1\",[1]]",
    "\"regexp(strcat(\\\"a\\\",\\\"b\\\"),Machine)\"",
    "\"CUDACapability >= 8.0 && Machine == 1\"",
    "\"((((((((((((((((1))))))))))))))))\"",
    "\"1/0\"",
    "\"\\\"\"",
];
/// How often something is repeated, mostly; seldom it is as large as may be. Each of those takes as
/// long as a thousand others: a few in a short run, thousands in a long one.
const TIMES: &[usize] = &[2, 10, 100, 1_000];
pub(crate) const SELDOM: usize = 2_000;
const LARGEST: usize = 24 << 20;

/// A body or text with one to three changes.
pub(crate) fn text(good: &str, chance: &mut Chance) -> Vec<u8> {
    let mut bytes = good.as_bytes().to_vec();
    if chance.one_in(12) {
        return bytes;
    }
    for _ in 0..=chance.below(3) {
        bytes = match chance.below(8) {
            0 => flip(bytes, chance),
            1 => cut(bytes, chance),
            2 => insert(bytes, chance),
            3 | 4 => swap_value(&bytes, chance),
            5 => repeat_value(&bytes, chance),
            6 => deepen(&bytes, chance),
            _ => double_part(bytes, chance),
        };
    }
    bytes
}

/// The same for what is no text.
pub(crate) fn bytes(good: Vec<u8>, chance: &mut Chance) -> Vec<u8> {
    let mut bytes = good;
    for _ in 0..chance.below(4) {
        bytes = match chance.below(5) {
            0 | 1 => flip(bytes, chance),
            2 => cut(bytes, chance),
            3 => insert(bytes, chance),
            _ => double_part(bytes, chance),
        };
    }
    bytes
}

/// How often, so that the whole stays within what a body may be.
fn times(size: usize, chance: &mut Chance) -> usize {
    let most = (LARGEST / size.max(1)).max(1);
    if chance.one_in(SELDOM) { most } else { (*chance.pick(TIMES)).min(most) }
}

fn flip(mut bytes: Vec<u8>, chance: &mut Chance) -> Vec<u8> {
    if !bytes.is_empty() {
        let at = chance.below(bytes.len());
        bytes[at] ^= 1 << chance.below(8);
    }
    bytes
}

fn cut(mut bytes: Vec<u8>, chance: &mut Chance) -> Vec<u8> {
    let at = chance.below(bytes.len() + 1);
    if chance.one_in(2) {
        bytes.truncate(at);
    } else {
        let end = (at + chance.below(8)).min(bytes.len());
        bytes.drain(at..end);
    }
    bytes
}

fn insert(mut bytes: Vec<u8>, chance: &mut Chance) -> Vec<u8> {
    let at = chance.below(bytes.len() + 1);
    let byte = u8::try_from(chance.below(256)).unwrap_or_default();
    let many = if chance.one_in(20) { times(1, chance) } else { 1 + chance.below(4) };
    bytes.splice(at..at, std::iter::repeat_n(byte, many));
    bytes
}

fn double_part(mut bytes: Vec<u8>, chance: &mut Chance) -> Vec<u8> {
    let from = chance.below(bytes.len() + 1);
    let to = (from + chance.below(64)).min(bytes.len());
    let part = bytes[from..to].to_vec();
    let many = times(part.len(), chance).min(100_000);
    bytes.splice(from..from, part.repeat(many.min(LARGEST / part.len().max(1))));
    bytes
}

/// Where a value of the JSON begins and ends, one of them.
fn value(bytes: &[u8], chance: &mut Chance) -> Option<(usize, usize)> {
    let starts: Vec<usize> =
        (0..bytes.len().min(4_096)).filter(|at| matches!(bytes[*at], b':' | b'[' | b',')).collect();
    if starts.is_empty() {
        return None;
    }
    let from = *chance.pick(&starts) + 1;
    let (mut depth, mut in_text, mut at) = (0_usize, false, from);
    while at < bytes.len() {
        match bytes[at] {
            b'\\' if in_text => at += 1,
            b'"' => in_text = !in_text,
            b'[' | b'{' if !in_text => depth += 1,
            b']' | b'}' | b',' if !in_text && depth == 0 => break,
            b']' | b'}' if !in_text => depth -= 1,
            _ => {}
        }
        at += 1;
    }
    Some((from, at.min(bytes.len())))
}

fn swap_value(bytes: &[u8], chance: &mut Chance) -> Vec<u8> {
    let Some((from, to)) = value(bytes, chance) else { return bytes.to_vec() };
    [&bytes[..from], chance.pick(ODD).as_bytes(), &bytes[to..]].concat()
}

/// A list of the value, of something odd, or of names with it.
fn repeat_value(bytes: &[u8], chance: &mut Chance) -> Vec<u8> {
    let Some((from, to)) = value(bytes, chance) else { return bytes.to_vec() };
    let odd = chance.pick(ODD).as_bytes();
    let one = if chance.one_in(2) { odd } else { &bytes[from..to] };
    let mut many = Vec::new();
    if chance.one_in(4) {
        let mut names = b"{\"n\":1".to_vec();
        for number in 0..times(one.len() + 12, chance) {
            names.extend_from_slice(format!(",\"{number}\":").as_bytes());
            names.extend_from_slice(one);
        }
        names.push(b'}');
        many = names;
    } else {
        many.push(b'[');
        many.extend([one, b","].concat().repeat(times(one.len() + 1, chance)));
        many.extend_from_slice(one);
        many.push(b']');
    }
    [&bytes[..from], &many, &bytes[to..]].concat()
}

fn deepen(bytes: &[u8], chance: &mut Chance) -> Vec<u8> {
    let Some((from, to)) = value(bytes, chance) else { return bytes.to_vec() };
    let (open, close) = *chance.pick(&[("[", "]"), ("{\"a\":", "}")]);
    let many = times(8, chance);
    let inner = &bytes[from..to];
    [
        &bytes[..from],
        open.repeat(many).as_bytes(),
        inner,
        close.repeat(many).as_bytes(),
        &bytes[to..],
    ]
    .concat()
}
