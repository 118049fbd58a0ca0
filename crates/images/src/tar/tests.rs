//! Archives as tools write them, and archives as nobody should.

use super::*;
use std::io::Cursor;

fn header(name: &str, kind: u8, size: u64) -> Vec<u8> {
    let mut block = vec![0u8; 512];
    block[..name.len()].copy_from_slice(name.as_bytes());
    block[100..108].copy_from_slice(b"0000644\0");
    block[108..116].copy_from_slice(b"0000001\0");
    block[116..124].copy_from_slice(b"0000002\0");
    block[124..136].copy_from_slice(format!("{size:011o}\0").as_bytes());
    block[136..148].copy_from_slice(b"00000000007\0");
    block[156] = kind;
    block[257..265].copy_from_slice(b"ustar\x0000");
    sealed(block)
}

fn sealed(mut block: Vec<u8>) -> Vec<u8> {
    block[148..156].fill(b' ');
    let sum: u32 = block.iter().map(|b| u32::from(*b)).sum();
    block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    block
}

fn body(bytes: &[u8]) -> Vec<u8> {
    let mut out = bytes.to_vec();
    out.resize(bytes.len().div_ceil(512) * 512, 0);
    out
}

fn record(key: &str, value: &str) -> String {
    let rest = key.len() + value.len() + 3;
    let mut length = rest + 1;
    while length.to_string().len() + rest != length {
        length += 1;
    }
    format!("{length} {key}={value}\n")
}

fn pax(records: &str) -> Vec<u8> {
    [header("pax", b'x', records.len() as u64), body(records.as_bytes())].concat()
}

fn read(parts: &[Vec<u8>]) -> Result<Vec<(Member, Vec<u8>)>, TarError> {
    let mut tar = TarReader::new(Cursor::new(parts.concat()));
    let mut out = Vec::new();
    while let Some(member) = tar.next_member()? {
        let mut content = Vec::new();
        loop {
            let piece = tar.content()?;
            if piece.is_empty() {
                break;
            }
            content.extend_from_slice(piece);
            let count = piece.len();
            tar.consume(count);
        }
        out.push((member, content));
    }
    Ok(out)
}

#[test]
fn plain_members_are_read_and_the_end_may_be_missing() {
    let parts = [header("a/b", b'0', 3), body(b"abc"), header("d/", b'0', 0)];
    let found = read(&parts).expect("read");
    let (member, content) = &found[0];
    assert_eq!((member.path.as_slice(), content.as_slice()), (&b"a/b"[..], &b"abc"[..]));
    assert_eq!((member.mode, member.uid, member.gid, member.mtime.seconds), (0o644, 1, 2, 7));
    assert_eq!(found[1].0.kind, Kind::Dir);
    let ended = [parts.concat(), vec![0; 1024], b"what is after the end".to_vec()];
    assert_eq!(read(&ended).expect("read").len(), 2);
    assert!(read(&[vec![0; 1024]]).expect("an empty layer").is_empty());
}

#[test]
fn pax_overrides_and_gnu_long_names_count() {
    let long = "x".repeat(300);
    let records = [
        record("path", &long),
        record("size", "4"),
        record("mtime", "12.5"),
        record("uid", "3000000"),
        record("SCHILY.xattr.user.k", "v=1"),
    ];
    let found = read(&[pax(&records.concat()), header("short", b'0', 1), body(b"abcd")]);
    let (member, content) = &found.expect("read")[0];
    assert_eq!((member.path.len(), content.as_slice(), member.uid), (300, &b"abcd"[..], 3_000_000));
    assert_eq!(member.mtime, Time { seconds: 12, nanos: 500_000_000 });
    assert_eq!(member.xattrs, [(b"user.k".to_vec(), b"v=1".to_vec())]);
    let name = format!("{long}\0");
    let gnu = [header("L", b'L', 301), body(name.as_bytes()), header("s", b'2', 0)];
    assert_eq!(read(&gnu).expect("read")[0].0.path.len(), 300);
}

#[test]
fn every_form_of_holes_gives_the_same_map() {
    let map = |found: Result<Vec<(Member, Vec<u8>)>, TarError>| {
        let (member, content) = found.expect("read").remove(0);
        assert_eq!(content, b"abcd");
        let map = member.sparse.expect("a map");
        (map.segments().to_vec(), map.size(), map.holes(), member.path)
    };
    let wanted = (vec![Segment { offset: 1024, length: 4 }], 4096, 4092, b"f".to_vec());
    let pax00 = record("GNU.sparse.size", "4096")
        + &record("GNU.sparse.offset", "1024")
        + &record("GNU.sparse.numbytes", "4");
    assert_eq!(map(read(&[pax(&pax00), header("f", b'0', 4), body(b"abcd")])), wanted);
    let pax01 = record("GNU.sparse.size", "4096")
        + &record("GNU.sparse.map", "1024,4,4096,0")
        + &record("GNU.sparse.name", "f");
    assert_eq!(map(read(&[pax(&pax01), header("g", b'0', 4), body(b"abcd")])), wanted);
    let pax10 = record("GNU.sparse.major", "1")
        + &record("GNU.sparse.minor", "0")
        + &record("GNU.sparse.realsize", "4096");
    let stored = [body(b"1\n1024\n4\n"), b"abcd".to_vec()].concat();
    let parts = [pax(&pax10), header("f", b'0', 516), body(&stored)];
    assert_eq!(map(read(&parts)), wanted);
    let mut old = header("f", b'S', 4);
    old[386..410].copy_from_slice(b"00000002000\x0000000000004\0");
    old[483..495].copy_from_slice(b"00000010000\0");
    assert_eq!(map(read(&[sealed(old), body(b"abcd")])), wanted);
}

#[test]
fn malformed_archives_are_errors() {
    let mut unsealed = header("a", b'0', 0);
    unsealed[0] = b'b';
    let mut letters = header("a", b'0', 0);
    letters[124..136].copy_from_slice(b"lots and lot");
    let mut negative = header("a", b'0', 0);
    negative[124..136].fill(0xff);
    let huge_map = record("GNU.sparse.size", "18446744073709551615")
        + &record("GNU.sparse.map", "18446744073709551615,4");
    for (what, parts, wanted) in [
        ("truncated content", vec![header("a", b'0', 600), vec![0; 512]], "ends in the middle"),
        ("8 GiB declared", vec![header("a", b'0', (8 << 30) - 1)], "ends in the middle"),
        ("truncated header", vec![header("a", b'0', 0)[..100].to_vec()], "ends in the middle"),
        ("checksum", vec![unsealed], "checksum"),
        ("size of letters", vec![sealed(letters)], "not a number"),
        ("negative size", vec![sealed(negative)], "out of range"),
        ("unknown type", vec![header("a", b'Q', 0)], "unknown type"),
        ("name of nothing", vec![pax(&record("path", "x"))], "no member follows"),
        ("2 MiB of names", vec![header("a", b'x', 2 << 20)], "larger than"),
        ("record without length", vec![pax("path=x\n"), header("a", b'0', 0)], "PAX"),
        ("record too long", vec![pax("99 path=x\n"), header("a", b'0', 0)], "PAX"),
        ("owner of PAX", vec![pax(&record("uid", "4294967295")), header("a", b'0', 0)], "owner"),
        ("map overflow", vec![pax(&huge_map), header("a", b'0', 4), body(b"abcd")], "sparse"),
    ] {
        let error = read(&parts).expect_err(what).to_string();
        assert!(error.contains(wanted), "{what}: {error}");
    }
}

fn global(records: &str) -> Vec<u8> {
    [header("pax", b'g', records.len() as u64), body(records.as_bytes())].concat()
}

#[test]
fn what_is_said_of_all_members_is_small_however_often_it_is_said() {
    let said = |count: usize| {
        let attribute = |at| record(&format!("SCHILY.xattr.user.a{at}"), &"v".repeat(20_000));
        let mut parts: Vec<_> = (0..count).map(|at| global(&attribute(at))).collect();
        parts.extend([header("a/", b'5', 0), header("b/", b'5', 0)]);
        read(&parts)
    };
    let found = said(3).expect("read");
    assert!(found.iter().all(|(member, _)| member.text_bytes() > 60_000));
    assert!(matches!(said(4), Err(TarError::GlobalTooLarge)));
}

#[test]
fn what_is_said_of_one_member_is_small_however_often_it_is_said() {
    let attribute = |at| record(&format!("SCHILY.xattr.user.a{at}"), &"v".repeat(60_000));
    let said = |count: usize| {
        let mut parts: Vec<_> = (0..count).map(|at| pax(&attribute(at))).collect();
        parts.push(header("a/", b'5', 0));
        read(&parts)
    };
    assert_eq!(said(17).expect("read")[0].0.xattrs.len(), 17);
    assert!(matches!(said(18), Err(TarError::ExtendedTooLarge)));
    let many: String =
        (0..1_001).map(|at| record(&format!("SCHILY.xattr.user.a{at}"), "v")).collect();
    let parts = [pax(&many), header("a/", b'5', 0)];
    assert!(matches!(read(&parts), Err(TarError::TooManyAttributes)));
}
