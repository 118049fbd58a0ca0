//! Images on a small disk: they leave a part of it free, and what does not fit leaves nothing.

use crate::common::{Fixture, Layer, Tar, layout, member, told};
use crate::engines::{Door, have, run};
use crate::others::sif;
use crate::registry::{noisy, serve};
use shipway_images::tar::Kind;
use shipway_images::{ImageError, Store};
use shipway_model::ImageRef;
use shipway_trees::disk::Disk;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

/// Of which images leave a fifth: there are 51 MiB for them.
const SIZE: &str = "size=64m";
const MIB: usize = 1 << 20;

/// Unmounted with the value.
struct Mounted(PathBuf);

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.0).status();
    }
}

/// A store on a disk of its own.
struct Small {
    mounted: Mounted,
    fixture: Fixture,
}

impl Small {
    /// `None`: mounting a disk needs root.
    #[allow(clippy::print_stderr, reason = "a skipped test must be seen")]
    fn mount(options: &str) -> Option<Self> {
        let mut fixture = Fixture::new();
        let dir = fixture.path("small");
        fs::create_dir(&dir).expect("a directory");
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", options, "none"]).arg(&dir).stderr(Stdio::null());
        if !mount.status().is_ok_and(|status| status.success()) {
            assert!(std::env::var("CI").is_err(), "this must run in CI: mounting a tmpfs");
            eprintln!("skipped: mounting a tmpfs needs root");
            return None;
        }
        let mounted = Mounted(dir);
        fixture.store = Store::create(&mounted.0.join("store")).expect("store");
        Some(Small { mounted, fixture })
    }

    fn free(&self) -> u64 {
        Disk::of(&self.mounted.0).expect("a disk").free
    }

    /// Pulls what does not fit: why. All that it took is free again.
    fn refused(&self, reference: &ImageRef) -> String {
        let before = self.free();
        let error = self.fixture.pull(reference).expect_err("it does not fit");
        assert!(matches!(error, ImageError::Room(_)), "{}", told(&error));
        let taken = before.saturating_sub(self.free());
        assert!(taken < 1 << 20, "{taken} bytes are left behind");
        assert_eq!(self.fixture.store.images().expect("listed"), []);
        let left = |name: &str| fs::read_dir(self.fixture.store.root().join(name)).expect("listed");
        assert_eq!(
            (left("work").count(), left("claims").count(), left("partial").count()),
            (0, 0, 0)
        );
        told(&error)
    }

    fn of(&self, name: &str, layers: &[Layer]) -> ImageRef {
        layout(&self.fixture.path(name), layers)
    }
}

/// A layer that packs well: so many files of a mebibyte and one of the rest.
fn airy(name: &str, files: usize, rest: usize) -> Layer {
    let last = text(name, files, rest);
    Layer::new(&airy_files(name, files).file(&format!("{name}-rest"), &last).end())
}

fn airy_files(name: &str, files: usize) -> Tar {
    let add = |tar: Tar, number| tar.file(&format!("{name}{number}"), &text(name, number, MIB));
    (0..files).fold(Tar::new(), add)
}

fn text(name: &str, number: usize, length: usize) -> String {
    let mut text = format!("{name}{number} ").repeat(length / 2);
    text.truncate(length);
    text
}

#[test]
fn what_is_known_not_to_fit_is_not_begun() {
    let Some(small) = Small::mount(SIZE) else { return };
    let layer = noisy("large", 56 * MIB);
    let reference = small.of("image", std::slice::from_ref(&layer));
    let digest = layer.descriptor["digest"].as_str().expect("digest").replace("sha256:", "");
    // Nobody gets as far as missing it.
    fs::remove_file(small.fixture.path("image/blobs/sha256").join(digest)).expect("removed");
    let said = small.refused(&reference);
    assert!(
        said.contains("needs more room than the disk of") && said.contains("image gc"),
        "{said}"
    );
}

#[test]
fn what_turns_out_not_to_fit_is_given_up_and_removed() {
    let Some(small) = Small::mount(SIZE) else { return };
    // All of it would go onto the disk, and leave less than what is not for images.
    for (name, files, rest) in [("files", 56, 0), ("one", 0, 56 * MIB), ("both", 28, 28 * MIB)] {
        small.refused(&small.of(name, &[airy(name, files, rest)]));
    }
    let layers = [airy("a", 20, 0), airy("b", 20, 0), airy("c", 20, 0)];
    small.refused(&small.of("several", &layers));
    // Where there is room all is well, and what is there is no matter of room.
    let fits = small.of("fits", &[airy("fits", 20, 20 * MIB)]);
    assert!(small.fixture.pull(&fits).expect("it fits").fetched);
    assert!(!small.fixture.pull(&fits).expect("it is there").fetched);
    let error = small.fixture.pull(&small.of("more", &[airy("more", 15, 0)])).expect_err("full");
    assert!(told(&error).contains("needs more room"), "{}", told(&error));
    assert!(small.free() > 12 * MIB as u64, "{}", small.free());
    small.fixture.assert_whole();
}

#[test]
fn names_without_content_take_room_too() {
    let Some(small) = Small::mount("size=64m,nr_inodes=3000") else { return };
    let many = |add: &dyn Fn(Tar, &str) -> Tar| {
        (0..2300).fold(Tar::new(), |tar, number| add(tar, &number.to_string())).end()
    };
    for (name, tar) in [
        // Files of no content would all be the same one.
        ("files", many(&|tar, name| tar.file(name, name))),
        ("links", many(&|tar, name| tar.link(name, "to"))),
        ("folders", many(&|tar, name| tar.dir(name))),
    ] {
        let said = small.refused(&small.of(name, &[Layer::new(&tar)]));
        assert!(said.contains("needs more files than the disk of"), "{name}: {said}");
    }
}

#[test]
fn a_sif_that_does_not_fit_is_given_up_and_removed() {
    if !have(&["mksquashfs", "unsquashfs"]) {
        return;
    }
    let Some(small) = Small::mount(SIZE) else { return };
    let packed = |name: &str, files: usize, fill: &dyn Fn(usize) -> Vec<u8>| {
        let (tree, to) = (small.fixture.path(name), small.fixture.path(&format!("{name}.sqfs")));
        fs::create_dir(&tree).expect("a directory");
        for number in 0..files {
            fs::write(tree.join(number.to_string()), fill(number)).expect("written");
        }
        run(Command::new("mksquashfs").arg(&tree).arg(&to).args(["-no-progress", "-noappend"]));
        let file = small.fixture.path(&format!("{name}.sif"));
        fs::write(&file, sif(&fs::read(&to).expect("read"))).expect("written");
        format!("sif:{}", file.display()).parse().expect("reference")
    };
    let zeros = |number: usize| vec![u8::try_from(number).expect("few"); MIB];
    let noise = |number: usize| crate::registry::noise(MIB, number as u64 + 1);
    // The copy does not fit; what comes out of it does not; what is made of that does not.
    for (name, files, fill) in [
        ("noise", 56, &noise as &dyn Fn(usize) -> Vec<u8>),
        ("much", 56, &zeros),
        ("twice", 30, &zeros),
    ] {
        let said = small.refused(&packed(name, files, fill));
        assert!(said.contains("needs more room"), "{name}: {said}");
    }
    let fits = packed("fits", 20, &zeros);
    assert!(small.fixture.pull(&fits).expect("it fits").fetched);
}

#[test]
fn what_is_kept_for_another_try_takes_no_room_that_the_image_needs() {
    let Some(small) = Small::mount(SIZE) else { return };
    let serve = |dir: PathBuf| Door::open(Arc::new(move |head, stream| serve(&dir, head, stream)));
    let at = |door: &Door| format!("docker://127.0.0.1:{}/x", door.port).parse().expect("a name");
    // As it comes and unpacked, it would be more than there is room for.
    let layer = noisy("fits", 30 * MIB);
    small.of("fits", std::slice::from_ref(&layer));
    let door = serve(small.fixture.path("fits"));
    let image: ImageRef = at(&door);
    let pulled = small.fixture.pull(&image).expect("it fits by itself");
    assert!(small.fixture.store.tree(&pulled.image).join("fits").is_file());
    let holder = shipway_images::Holder::begin(&small.fixture.store).expect("holder");
    holder.remove(&pulled.image).expect("removed");
    drop(holder);
    // Of an earlier try, of something that does not fit.
    let noise = crate::registry::noise(9 * MIB, 5);
    let tar = airy_files("x", 46).with(member("noise", Kind::File), &noise);
    let layer = Layer::new(&tar.end());
    small.of("large", std::slice::from_ref(&layer));
    let door = serve(small.fixture.path("large"));
    let ImageRef::Registry(named) = at(&door) else { panic!("a registry") };
    let digest = layer.descriptor["digest"].as_str().expect("digest").parse().expect("a digest");
    let kept = shipway_images::pull::partial_name(&named, &digest);
    let kept: &Path = &small.fixture.store.root().join("partial").join(kept);
    fs::write(kept, &layer.packed[..MIB]).expect("written");
    small.refused(&ImageRef::Registry(named));
    assert!(!kept.exists());
}
