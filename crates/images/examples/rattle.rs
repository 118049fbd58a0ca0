//! Parsers of outside bytes, shaken: archives, manifests, layer indexes and SIF headers with
//! random changes, a stated number of times. Nothing may panic, hang or take much memory.
//!
//! `cargo run --release -p shipway-images --example rattle -- [EXECUTIONS] [SEED]`

#![allow(clippy::print_stdout, reason = "its output is its purpose")]

use shipway_images::layer::index::LayerIndex;
use shipway_images::sources::manifest;
use shipway_images::tar::{Kind, Member, TarReader, Time, write};
use shipway_images::{path, sif};

/// A small generator of its own: the same seed gives the same run.
struct Chance(u64);

impl Chance {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, limit: usize) -> usize {
        usize::try_from(self.next() % limit.max(1) as u64).expect("below a size")
    }
}

fn main() {
    let mut args = std::env::args().skip(1).map(|arg| arg.parse::<u64>().expect("a number"));
    let executions = args.next().unwrap_or(1_000_000);
    let mut chance = Chance(args.next().unwrap_or(42).max(1));
    let seeds = [archive(), document(), index(), image()];
    let mut taken = [0u64; 4];
    for _ in 0..executions {
        let which = chance.below(seeds.len());
        let mut bytes = seeds[which].clone();
        shake(&mut bytes, &mut chance);
        taken[which] += u64::from(match which {
            0 => read_archive(&bytes),
            1 => manifest::parse(&bytes, None).is_ok(),
            2 => LayerIndex::decode(&bytes).is_some(),
            _ => read_image(&bytes),
        });
    }
    println!(
        "{executions} executions, no panic; taken: archives {}, manifests {}, indexes {}, SIF {}",
        taken[0], taken[1], taken[2], taken[3]
    );
}

/// Flips, cuts, copies and numbers at the edge.
fn shake(bytes: &mut Vec<u8>, chance: &mut Chance) {
    for _ in 0..=chance.below(6) {
        let at = chance.below(bytes.len());
        match chance.below(5) {
            0 if !bytes.is_empty() => bytes[at] ^= 1 << chance.below(8),
            1 => bytes.truncate(at),
            2 if !bytes.is_empty() => {
                bytes[at] = *b"\0\xff09/. =\n".get(chance.below(9)).expect("one");
            }
            3 => {
                let end = (at + chance.below(600)).min(bytes.len());
                let piece = bytes[at..end].to_vec();
                let to = chance.below(bytes.len() + 1);
                bytes.splice(to..to, piece);
            }
            _ => seal(bytes, at),
        }
    }
}

/// Makes the checksum of a header right again, so that what is behind it is reached.
fn seal(bytes: &mut [u8], at: usize) {
    let start = at / 512 * 512;
    let Some(block) = bytes.get_mut(start..start + 512) else { return };
    block[148..156].fill(b' ');
    let sum: u32 = block.iter().map(|b| u32::from(*b)).sum();
    block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
}

fn read_archive(bytes: &[u8]) -> bool {
    let mut tar = TarReader::new(bytes);
    loop {
        match tar.next_member() {
            Ok(Some(member)) => {
                let _ = path::normal(&member.path);
                let map = member.sparse.map_or(0, |map| map.holes());
                assert!(map <= member.size);
            }
            Ok(None) => return true,
            Err(_) => return false,
        }
    }
}

fn read_image(bytes: &[u8]) -> bool {
    let length = bytes.len() as u64;
    let Some(header) = bytes.first_chunk() else { return false };
    let Ok(table) = sif::header(header, length) else { return false };
    let start = usize::try_from(table.offset).expect("inside");
    let end = start + usize::try_from(table.bytes()).expect("inside");
    sif::primary(&bytes[start..end], length).is_ok()
}

fn archive() -> Vec<u8> {
    let mut out = Vec::new();
    for (kind, name) in [(Kind::Dir, "d/"), (Kind::File, "d/f"), (Kind::Symlink, "l")] {
        let member = Member {
            path: name.repeat(if kind == Kind::File { 60 } else { 1 }).into(),
            kind,
            mode: 0o644,
            uid: 1,
            gid: 1,
            mtime: Time { seconds: 1, nanos: 5 },
            link: b"target".to_vec(),
            size: if kind == Kind::File { 700 } else { 0 },
            sparse: None,
            xattrs: vec![(b"user.a".to_vec(), b"b".to_vec())],
        };
        write::header(&mut out, &member).expect("memory");
        out.resize(out.len() + usize::try_from(member.size).expect("small"), b'x');
        write::pad(&mut out, member.size).expect("memory");
    }
    write::end(&mut out).expect("memory");
    out
}

fn document() -> Vec<u8> {
    let digest = format!("sha256:{}", "0".repeat(64));
    format!(
        r#"{{"schemaVersion":2,"mediaType":"application/vnd.oci.image.manifest.v1+json",
        "config":{{"digest":"{digest}","size":1}},"layers":[{{"digest":"{digest}","size":2,
        "mediaType":"application/vnd.oci.image.layer.v1.tar+gzip","urls":[]}}]}}"#
    )
    .into_bytes()
}

fn index() -> Vec<u8> {
    LayerIndex::default().encode()
}

fn image() -> Vec<u8> {
    let mut file = vec![0u8; 34_000];
    file[32..45].copy_from_slice(b"SIF_MAGIC\x0001\0");
    for (at, value) in [(88, 48i64), (96, 4096), (104, 48 * 585), (4113, 33_000), (4121, 900)] {
        file[at..at + 8].copy_from_slice(&value.to_le_bytes());
    }
    file[4096..4101].copy_from_slice(&[4, 0x40, 0, 0, 1]);
    file[4297..4308].copy_from_slice(b"\x01\0\0\0\x02\0\0\x0002\0");
    file
}
