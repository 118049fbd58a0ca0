//! Images that want out, or want too much. Whatever becomes of them, nothing outside the store
//! changes, and nothing half done stays in it.

use crate::common::{Fixture, Layer, Tar, gzip, layout, layout_with, member, sha256, told};
use serde_json::json;
use shipway_images::limits::Limits;
use shipway_images::tar::{Kind, Member, Time};
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// What must not change: a directory beside the store, with a secret in it.
struct Victim {
    dir: PathBuf,
    before: Vec<String>,
}

impl Victim {
    fn new(beside: &Path) -> Self {
        let dir = beside.join("victim");
        fs::create_dir(&dir).expect("made");
        fs::write(dir.join("secret"), "secret").expect("written");
        fs::set_permissions(&dir, fs::Permissions::from_mode(0o750)).expect("set");
        let before = state(beside);
        Victim { dir, before }
    }
}

/// Everything outside the store and the images: names, modes, links, times, contents.
fn state(root: &Path) -> Vec<String> {
    let mut out = Vec::new();
    let mut todo = vec![root.join("victim")];
    for entry in fs::read_dir(root).expect("listed") {
        out.push(entry.expect("entry").file_name().display().to_string());
    }
    out.retain(|name| !name.contains("image"));
    while let Some(path) = todo.pop() {
        let found = fs::symlink_metadata(&path).expect("there");
        let (mode, links, time) = (found.mode(), found.nlink(), found.mtime_nsec());
        out.push(format!("{} {mode:o} {links} {time} {}", path.display(), found.len()));
        if found.is_dir() {
            for entry in fs::read_dir(&path).expect("listed") {
                todo.push(entry.expect("entry").path());
            }
        } else {
            out.push(fs::read_to_string(&path).expect("read"));
        }
    }
    out.sort();
    out
}

enum Wanted {
    Refused(&'static str),
    /// Taken, and this file is in the tree.
    Has(&'static str),
    /// Taken, and this file is not in the tree.
    Lacks(&'static str),
}
use Wanted::{Has, Lacks, Refused};

struct Case {
    name: &'static str,
    layers: Vec<Layer>,
    wanted: Wanted,
}

fn case(name: &'static str, tar: Tar, wanted: Wanted) -> Case {
    Case { name, layers: vec![Layer::new(&tar.end())], wanted }
}

fn packed(name: &'static str, packed: Vec<u8>, tar: &[u8], wanted: Wanted) -> Case {
    Case { name, layers: vec![Layer::packed(packed, tar)], wanted }
}

/// A header with fields of one's own making, and a right checksum.
fn odd(path: &str, kind: u8, change: impl FnOnce(&mut [u8])) -> Vec<u8> {
    let mut block = Tar::new().file(path, "").0;
    block.truncate(512);
    block[156] = kind;
    change(&mut block);
    block[148..156].fill(b' ');
    let sum: u32 = block.iter().map(|b| u32::from(*b)).sum();
    block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    block
}

/// A PAX header with these records.
fn pax(records: &str) -> Vec<u8> {
    let size = format!("{:011o}\0", records.len());
    let mut out = odd("pax", b'x', |block| block[124..136].copy_from_slice(size.as_bytes()));
    out.extend_from_slice(records.as_bytes());
    out.resize(out.len().div_ceil(512) * 512, 0);
    out
}

fn record(key: &str, value: &str) -> String {
    let rest = key.len() + value.len() + 3;
    let length = (rest..rest + 9).find(|n| n.to_string().len() + rest == *n).expect("a length");
    format!("{length} {key}={value}\n")
}

fn paths(victim: &str) -> Vec<Case> {
    let to = |name: &str| format!("{victim}/{name}");
    let up = format!("../../../../../../../../../..{victim}");
    vec![
        case("absolute path", Tar::new().file("/inside/evil", "x"), Has("inside/evil")),
        case("leading ..", Tar::new().file("../evil", "x"), Refused("leads upwards")),
        case("middle ..", Tar::new().file("a/../../evil", "x"), Refused("leads upwards")),
        case("only ..", Tar::new().dir(".."), Refused("leads upwards")),
        case("through a link", Tar::new().link("x", victim).file("x/evil", "x"), Has("x")),
        case(
            "over a link to a file",
            Tar::new().link("x", &to("secret")).file("x", "overwritten"),
            Has("x"),
        ),
        case(
            "below a linked directory",
            Tar::new().link("x", victim).dir("x/d").file("x/d/evil", "x"),
            Has("x"),
        ),
        case("below a relative link", Tar::new().link("x", &up).file("x/evil", "x"), Has("x")),
        case(
            "a chain of links",
            Tar::new()
                .link("a", ".")
                .link("b", "a/..")
                .link("c", "b/..")
                .file(&format!("c{victim}/evil"), "x"),
            Has("a"),
        ),
        case("file below a file", Tar::new().file("f", "").file("f/x", ""), Refused("below `f`")),
        case(
            "links in a circle",
            Tar::new().link("a", "b").link("b", "a").file("a/x", ""),
            Refused("circle"),
        ),
        case(
            "link to the machine's root",
            Tar::new().link("p", "/proc/self/root").file(&format!("p{victim}/evil"), "x"),
            Has("p"),
        ),
        case(
            "link to the working directory",
            Tar::new().link("p", "/proc/self/cwd").file("p/evil", "x"),
            Has("p"),
        ),
        case("link to nothing", Tar::new().link("x", ""), Refused("leads nowhere")),
        case("the root as a link", Tar::new().link("./", victim), Refused("leads upwards")),
        case("the root as a file", Tar::new().file(".", "x"), Refused("leads upwards")),
        case("5,000 letters", Tar::new().file(&"a".repeat(5000), ""), Refused("longer than")),
        case("a name of 300", Tar::new().file(&"a".repeat(300), ""), Refused("longer than")),
        case("300 deep", Tar::new().file(&"a/".repeat(300), ""), Refused("deeper than")),
        case(
            "deep behind links",
            Tar::new()
                .dir(&"a/".repeat(250))
                .link("l", &"a/".repeat(250))
                .dir(&format!("l/{}", "b/".repeat(250))),
            Refused("deeper than"),
        ),
        case(
            "a zero in a name",
            Tar::new().raw(&pax(&record("path", "a\0b"))).file("x", ""),
            Refused("zero byte"),
        ),
    ]
}

fn hard_links(victim: &str) -> Vec<Case> {
    let up = format!("../../../../../../../../../..{victim}");
    vec![
        case(
            "hard link outside",
            Tar::new().hard("h", &format!("{victim}/secret")),
            Refused("not there"),
        ),
        case("hard link upwards", Tar::new().hard("h", &up), Refused("leads upwards")),
        case(
            "hard link through a link",
            Tar::new().link("x", victim).hard("h", "x/secret"),
            Refused("not there"),
        ),
        case("hard link to itself", Tar::new().hard("h", "h"), Refused("not there")),
        case("hard link to the root", Tar::new().hard("h", "/"), Refused("not there")),
        case("hard link to a directory", Tar::new().dir("d").hard("h", "d"), Refused("directory")),
    ]
}

fn marks(victim: &str) -> Vec<Case> {
    vec![
        case("whiteout of ..", Tar::new().file(".wh...", ""), Refused("leads upwards")),
        case("whiteout of .", Tar::new().file("a/.wh..", ""), Refused("leads upwards")),
        case("whiteout of nothing", Tar::new().file(".wh.", ""), Refused("leads upwards")),
        case("whiteout of a whiteout", Tar::new().file(".wh..wh.b", ""), Lacks(".wh..wh.b")),
        case(
            "whiteout through a link",
            Tar::new().link("x", victim).file("x/.wh.secret", ""),
            Has("x"),
        ),
        case(
            "opaque through a link",
            Tar::new().link("x", victim).file("x/.wh..wh..opq", ""),
            Has("x"),
        ),
        case(
            "directory over a link",
            Tar::new()
                .link("x", victim)
                .with(Member { mode: 0o777, ..member("x", Kind::Dir) }, b"")
                .file("x/evil", ""),
            Has("x/evil"),
        ),
    ]
}

fn members() -> Vec<Case> {
    let device = |kind| odd("dev/null", kind, |_| {});
    let huge = record("GNU.sparse.size", "1099511627776")
        + &record("GNU.sparse.map", "0,1")
        + &record("GNU.sparse.name", "huge");
    let overlay = |name: &str| Member {
        xattrs: vec![(name.into(), b"y".to_vec())],
        ..member("d", Kind::Dir)
    };
    let setuid = Member { mode: 0o4755, ..member("su", Kind::File) };
    let old = Member { mtime: Time { seconds: -86_400, nanos: 0 }, ..member("old", Kind::File) };
    vec![
        case("character device", Tar::new().raw(&device(b'3')), Lacks("dev/null")),
        case("block device", Tar::new().raw(&device(b'4')), Lacks("dev/null")),
        case("setuid", Tar::new().with(setuid, b"x"), Has("su")),
        case("a hole of a terabyte", Tar::new().raw(&pax(&huge)).file("x", "y"), Refused("larger")),
        case(
            "size by PAX beyond the end",
            Tar::new().raw(&pax(&record("size", "99999999999"))).file("x", ""),
            Refused("ends in the middle"),
        ),
        case("twice the same", Tar::new().file("f", "1").file("f", "2").file("f", "3"), Has("f")),
        case("overlay marks", Tar::new().with(overlay("trusted.overlay.opaque"), b""), Has("d")),
        case("user overlay marks", Tar::new().with(overlay("user.overlay.opaque"), b""), Has("d")),
        case(
            "owner of no one",
            Tar::new().raw(&pax(&record("uid", "4294967295"))).file("x", ""),
            Refused("out of range"),
        ),
        case("before 1970", Tar::new().with(old, b""), Has("old")),
        case(
            "8 GiB declared",
            Tar::new().raw(&odd("x", b'0', |b| b[124..136].copy_from_slice(b"77777777777\0"))),
            Refused("ends in the middle"),
        ),
        case(
            "a negative size",
            Tar::new().raw(&odd("x", b'0', |block| block[124..136].fill(0xff))),
            Refused("out of range"),
        ),
        case("unknown type", Tar::new().raw(&odd("x", b'Z', |_| {})), Refused("unknown type")),
        case("a wrong checksum", Tar::new().raw(&[b'x'; 512]), Refused("not a number")),
        case(
            "2 MiB of PAX",
            Tar::new().raw(&odd("x", b'x', |block| {
                block[124..136].copy_from_slice(b"00010000000\0");
            })),
            Refused("larger than"),
        ),
        case(
            "PAX without a member",
            Tar::new().raw(&pax(&record("path", "x"))),
            Refused("follows"),
        ),
    ]
}

/// Each case has an archive of its own: a layer that is known is not read again.
fn streams() -> Vec<Case> {
    let tar = |mark: &str| Tar::new().file("f", &mark.repeat(5000)).end();
    let case = |name, change: &dyn Fn(&[u8]) -> Vec<u8>, wanted| {
        let tar = tar(name);
        packed(name, change(&tar), &tar, wanted)
    };
    let stated = |tar: &[u8], size: u32| {
        let mut packed = gzip(tar);
        let end = packed.len() - 4;
        packed[end..].copy_from_slice(&size.to_le_bytes());
        packed
    };
    let zstd = |tar: &[u8]| zstd::bulk::compress(tar, 3).expect("packed");
    let cut = |packed: Vec<u8>| packed[..packed.len() - 10].to_vec();
    let two = |tar: &[u8]| {
        let (a, b) = tar.split_at(tar.len() / 2);
        [gzip(a), gzip(b)].concat()
    };
    let rubbish = |tar: &[u8]| [gzip(tar), vec![7; 99]].concat();
    let bomb = vec![0u8; 300 << 20];
    vec![
        case("two gzip members", &two, Has("f")),
        case("a lying size, too small", &|tar| stated(tar, 9), Refused("cannot read")),
        case("a lying size, too large", &|tar| stated(tar, u32::MAX), Refused("cannot read")),
        packed("a bomb", gzip(&bomb), &bomb, Refused("times its size")),
        case("gzip cut", &|tar| cut(gzip(tar)), Refused("cannot read")),
        case("gzip and rubbish", &rubbish, Refused("cannot read")),
        case("zstd", &zstd, Has("f")),
        case("zstd cut", &|tar| cut(zstd(tar)), Refused("cannot read")),
        case("zstd with a huge window", &|_| huge_window(), Refused("cannot read")),
        case("not packed", &<[u8]>::to_vec, Has("f")),
        packed("not an archive", vec![b'x'; 5000], &[b'x'; 5000], Refused("not a number")),
        packed("nothing at all", Vec::new(), &[], Lacks("f")),
        packed("another diff id", gzip(&tar("diff")), b"other", Refused("configuration says")),
    ]
}

/// A zstd frame that asks for 2 GiB of memory.
fn huge_window() -> Vec<u8> {
    let mut out = zstd::Encoder::new(Vec::new(), 1).expect("encoder");
    out.window_log(31).expect("set");
    out.long_distance_matching(true).expect("set");
    for _ in 0..9 {
        out.write_all(&vec![0; 1 << 20]).expect("packed");
    }
    out.finish().expect("packed")
}

fn judge(fixture: &Fixture, number: usize, case: &Case) {
    let name = case.name;
    let found = fixture.unpack(&format!("image-{number}"), &case.layers);
    match (&case.wanted, found) {
        (Refused(why), Err(error)) => {
            assert!(told(&error).contains(why), "{name}: {}", told(&error));
        }
        (Has(file), Ok(tree)) => {
            let there = fs::symlink_metadata(tree.join(file));
            let mode = there.unwrap_or_else(|_| panic!("{name}: {file} is not there")).mode();
            assert_eq!(mode & 0o6000, 0, "{name}: set-id bits");
        }
        (Lacks(file), Ok(tree)) => {
            assert!(fs::symlink_metadata(tree.join(file)).is_err(), "{name}: {file} is there");
        }
        (_, Ok(tree)) => panic!("{name}: taken, in {}", tree.display()),
        (_, Err(error)) => panic!("{name}: refused: {}", told(&error)),
    }
}

#[test]
fn nothing_outside_the_store_is_touched() {
    let fixture = Fixture::new();
    let victim = Victim::new(fixture.dir.path());
    let dir = victim.dir.to_str().expect("text").to_owned();
    let cases = [paths(&dir), hard_links(&dir), marks(&dir), members(), streams()].concat_cases();
    assert!(cases.len() >= 60, "{} cases", cases.len());
    for (number, case) in cases.iter().enumerate() {
        judge(&fixture, number, case);
        assert_eq!(
            state(fixture.dir.path()),
            victim.before,
            "{} changed what is outside",
            case.name
        );
    }
    // What was refused left nothing behind.
    let left = |name: &str| fs::read_dir(fixture.store.root().join(name)).expect("listed").count();
    assert_eq!((left("work"), left("claims"), left("leases")), (0, 0, 0));
    fixture.assert_whole();
}

trait Concat {
    fn concat_cases(self) -> Vec<Case>;
}

impl<const N: usize> Concat for [Vec<Case>; N] {
    fn concat_cases(self) -> Vec<Case> {
        self.into_iter().flatten().collect()
    }
}

#[test]
fn limits_hold_over_all_layers() {
    let mut fixture = Fixture::new();
    fixture.settings.limits = Limits { entries: 10, bytes: 100_000, ..Limits::default() };
    let six = || (0..6).fold(Tar::new(), |tar, n| tar.file(&format!("f{n}"), "")).end();
    let other = || (0..6).fold(Tar::new(), |tar, n| tar.file(&format!("g{n}"), "")).end();
    let error = fixture.unpack("image-a", &[Layer::new(&six()), Layer::new(&other())]);
    assert!(told(&error.expect_err("refused")).contains("more than 10 files"));
    let big = Tar::new().file("big", &"x".repeat(200_000)).end();
    let error = fixture.unpack("image-b", &[Layer::new(&big)]);
    assert!(told(&error.expect_err("refused")).contains("larger than 100000"));
}

#[test]
fn documents_that_lie_are_refused() {
    let fixture = Fixture::new();
    let tar = Tar::new().file("f", "x").end();
    let good = || Layer::new(&tar);
    let refused = |name: &str, layers: &[Layer], why: &str| {
        let error = fixture.unpack(&format!("image-{name}"), layers).expect_err(name);
        assert!(told(&error).contains(why), "{name}: {}", told(&error));
    };
    let mut size = good();
    size.descriptor["size"] = json!(5);
    refused("size too small", &[size], "the manifest says 5");
    let mut size = good();
    size.descriptor["size"] = json!(99_999);
    refused("size too large", &[size], "the manifest says 99999");
    let mut digest = good();
    digest.descriptor["digest"] = json!(sha256(b"other"));
    refused("wrong digest", &[digest], "the manifest says sha256:");
    let mut urls = good();
    urls.descriptor["urls"] = json!(["http://127.0.0.1/layer"]);
    refused("foreign urls", &[urls], "other addresses");
    let mut kind = good();
    kind.descriptor["mediaType"] = json!("application/vnd.oci.image.layer.v1.tar+encrypted");
    refused("encrypted", &[kind], "not a layer");
    let mut odd = good();
    odd.diff_id = odd.diff_id.replace("sha256", "md5");
    refused("unknown algorithm", &[odd], "not a digest");
    let reference = layout_with(&fixture.path("image-count"), &[good()], |manifest| {
        let layer = manifest["layers"][0].clone();
        manifest["layers"] = json!([layer, layer]);
    });
    let error = fixture.pull(&reference).expect_err("refused");
    assert!(told(&error).contains("has 2 layers, and the configuration 1"), "{}", told(&error));
    let reference = layout(&fixture.path("image-config"), &[good()]);
    for entry in fs::read_dir(fixture.path("image-config/blobs/sha256")).expect("listed") {
        let path = entry.expect("entry").path();
        let text = fs::read_to_string(&path).unwrap_or_default().replace("amd64", "AMD64");
        if text.contains("rootfs") {
            fs::write(path, text.replace("\"sh\"", "\"ss\"")).expect("written");
        }
    }
    let error = fixture.pull(&reference).expect_err("refused");
    assert!(told(&error).contains("the digest of the configuration"), "{}", told(&error));
    assert_eq!(fixture.store.images().expect("listed"), []);
}
