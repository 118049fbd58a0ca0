//! What is in a store that several use is given to who could have fetched it; and what was looked
//! at is what is unpacked.

use crate::common::{Fixture, Layer, NOW, layout, sha256, told};
use crate::engines::{Door, Registry, have, pass, reply, run};
use crate::others::sif;
use crate::registry::{login, noisy, serve};
use shipway_images::limits::Limits;
use shipway_images::progress::Silent;
use shipway_images::pull::{Pull, Settings, Shown};
use shipway_images::sources::manifest::this_platform;
use shipway_images::sources::sif::Sif;
use shipway_images::sources::{Judge, Source, SourceError};
use shipway_images::{Ensured, Holder, ImageError};
use shipway_model::ImageRef;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

fn pull_for(
    fixture: &Fixture,
    user: &str,
    settings: &Settings,
    reference: &str,
    shown: &Shown,
) -> Result<Ensured, ImageError> {
    let holder = Holder::begin(&fixture.store)?;
    let pull = Pull { holder: &holder, settings, progress: &Silent, now: NOW };
    pull.run_for_one(&reference.parse().expect("a reference"), user, shown)
}

/// Before a registry: lets through who says that they are `ada`, or shows nothing at all when it
/// is open.
fn guarded(port: u16) -> Door {
    Door::open(Arc::new(move |head, client| {
        if head.to_lowercase().contains("authorization: basic ywrhonnly3jlda==") {
            return pass(port, head, client, u64::MAX);
        }
        reply(client, "401 Unauthorized", "WWW-Authenticate: Basic realm=\"x\"\r\n", b"");
    }))
}

fn digest(layer: &Layer) -> String {
    layer.descriptor["digest"].as_str().expect("a digest").to_owned()
}

fn blob_file(dir: &Path, layer: &Layer) -> PathBuf {
    dir.join("blobs/sha256").join(digest(layer).trim_start_matches("sha256:"))
}

/// A registry of somebody's own, which says of everything that it has it.
fn liar(dir: PathBuf) -> Door {
    Door::open(Arc::new(move |head, stream| {
        if head.to_lowercase().contains("range: bytes=0-0") {
            let part = "Content-Range: bytes 0-0/1000\r\n";
            return reply(stream, "206 Partial Content", part, b"x");
        }
        serve(&dir, head, stream);
    }))
}

#[test]
fn to_know_the_digest_of_a_layer_is_not_to_have_it() {
    if !have(&["docker-registry", "skopeo"]) {
        return;
    }
    let mut fixture = Fixture::new();
    let registry = Registry::start(fixture.dir.path());
    let secret = noisy("secret", 100_000);
    layout(&fixture.path("ada"), std::slice::from_ref(&secret));
    registry.push(&fixture.path("ada"), "ada/secret:1");
    let door = guarded(registry.port);
    login(&mut fixture, &format!("127.0.0.1:{}", door.port));
    let (shown, adas, bobs) = (Shown::default(), fixture.settings.clone(), Settings::default());
    let theirs = format!("docker://127.0.0.1:{}/ada/secret:1", door.port);
    let image = pull_for(&fixture, "ada", &adas, &theirs, &shown).expect("hers").image;

    // His own image, in his own registry or folder, is made of hers: he has not her bytes.
    let own = fixture.path("bob");
    layout(&own, &[secret.clone(), noisy("more", 10)]);
    fs::remove_file(blob_file(&own, &secret)).expect("removed");
    let liar = liar(own.clone());
    let evil = format!("docker://127.0.0.1:{}/bob/own", liar.port);
    let in_folder = format!("oci:{}", own.display());
    // Or other bytes, with the digest of hers as what they unpack to.
    let junk = noisy("junk", 100_000);
    let mixed = Layer { diff_id: secret.diff_id.clone(), ..junk };
    let mixed_in = fixture.path("mixed");
    layout(&mixed_in, &[mixed]);
    // Or her whole image, by its digest: he has seen what it is made of.
    let copied = fixture.path("copied");
    layout(&copied, std::slice::from_ref(&secret));
    fs::remove_file(blob_file(&copied, &secret)).expect("removed");
    let second = liar_of(&copied);
    let pinned = format!("docker://127.0.0.1:{}/bob/own@{image}", second.port);
    let mixed = format!("oci:{}", mixed_in.display());
    let copied = format!("oci:{}", copied.display());
    for reference in [&theirs, &evil, &in_folder, &mixed, &pinned, &copied] {
        let tried = pull_for(&fixture, "bob", &bobs, reference, &shown);
        assert!(tried.is_err(), "{reference} was given to bob: {tried:?}");
    }
    assert_eq!(fixture.store.images().expect("listed").len(), 1, "hers alone");

    // Whoever is let in where it came from need not fetch it again, in another repository neither.
    layout(&fixture.path("both"), &[secret.clone(), noisy("other", 10)]);
    registry.push(&fixture.path("both"), "ada/both:1");
    let both = format!("docker://127.0.0.1:{}/ada/both:1", door.port);
    let before = door.asked.lock().expect("held").len();
    pull_for(&fixture, "carol", &adas, &both, &shown).expect("let in");
    let asked = door.asked.lock().expect("held")[before..].to_vec();
    let of_secret =
        asked.iter().filter(|head| head.contains(&format!("/blobs/{}", digest(&secret))));
    assert!(of_secret.clone().count() > 0, "it was asked for: {asked:?}");
    let part = |head: &String| head.to_lowercase().contains("range: bytes=0-0");
    let refused = |head: &String| !head.to_lowercase().contains("authorization");
    assert!(of_secret.clone().all(|head| part(head) || refused(head)), "{asked:?}");
    // And who brings the bytes along may have it too.
    layout(&fixture.path("own"), std::slice::from_ref(&secret));
    let own = format!("oci:{}", fixture.path("own").display());
    pull_for(&fixture, "bob", &bobs, &own, &shown).expect("his own copy");
    fixture.assert_whole();
}

fn liar_of(dir: &Path) -> Door {
    let dir = dir.to_path_buf();
    Door::open(Arc::new(move |head, stream| {
        // By digest: the manifest lies among the blobs.
        serve(&dir, head, stream);
    }))
}

/// Links in a layout may lead to what whoever reads it may read, and whoever made it may not.
#[test]
fn links_in_a_layout_are_not_followed() {
    let fixture = Fixture::new();
    let secret = noisy("secret", 1_000);
    let whole = fixture.path("whole");
    layout(&whole, std::slice::from_ref(&secret));
    let dir = fixture.path("linked");
    for linked in ["blob", "index.json", "blobs/sha256", "blobs"] {
        layout(&dir, std::slice::from_ref(&secret));
        let (at, leads_to) = match linked {
            "blob" => (blob_file(&dir, &secret), blob_file(&whole, &secret)),
            other => (dir.join(other), whole.join(other)),
        };
        let removed = if at.is_dir() { fs::remove_dir_all(&at) } else { fs::remove_file(&at) };
        removed.expect("removed");
        std::os::unix::fs::symlink(leads_to, &at).expect("a link");
        let reference = format!("oci:{}", dir.display());
        let settings = Settings::default();
        let tried = pull_for(&fixture, "bob", &settings, &reference, &Shown::default());
        let said = told(&tried.expect_err(linked));
        assert!(said.contains("is a link") && said.contains("cp -rL"), "{linked}: {said}");
        fs::remove_dir_all(&dir).expect("removed");
    }
    // A link to the whole of it is as good as its name.
    std::os::unix::fs::symlink(&whole, &dir).expect("a link");
    let reference = format!("oci:{}", dir.display());
    pull_for(&fixture, "bob", &Settings::default(), &reference, &Shown::default()).expect("pulled");
}

/// What was opened is judged, once and for all that is read of it.
#[test]
fn a_judge_is_asked_about_every_file_that_is_read() {
    let fixture = Fixture::new();
    let dir = fixture.path("layout");
    layout(&dir, &[noisy("layer", 1_000)]);
    let asked: Arc<std::sync::Mutex<Vec<PathBuf>>> = Arc::default();
    let told_of = Arc::clone(&asked);
    let judge = Judge::new(move |_, path| {
        told_of.lock().expect("held").push(path.to_owned());
        Ok(())
    });
    let settings = Settings { judge, ..Settings::default() };
    let reference = format!("oci:{}", dir.display());
    pull_for(&fixture, "bob", &settings, &reference, &Shown::default()).expect("pulled");
    let seen = asked.lock().expect("held").clone();
    // The folder, the index, the manifest, the configuration and the layer.
    assert_eq!((seen.len(), &seen[0], &seen[1]), (5, &dir, &dir.join("index.json")), "{seen:?}");
    let settings = Settings {
        judge: Judge::new(|_, path| Err(format!("not {}", path.display()).into())),
        ..Settings::default()
    };
    for form in ["oci", "sif", "docker-archive"] {
        let place = if form == "oci" { dir.clone() } else { dir.join("index.json") };
        let reference = format!("{form}:{}", place.display());
        let fixture = Fixture::new();
        let tried = pull_for(&fixture, "bob", &settings, &reference, &Shown::default());
        let said = told(&tried.expect_err(form));
        assert!(said.contains(&format!("not {}", place.display())), "{form}: {said}");
    }
}

#[test]
fn what_everybody_may_have_is_fetched_once_for_all() {
    if !have(&["docker-registry", "skopeo"]) {
        return;
    }
    let fixture = Fixture::new();
    let registry = Registry::start(fixture.dir.path());
    let base = noisy("base", 50_000);
    for name in ["a", "b"] {
        layout(&fixture.path(name), &[base.clone(), noisy(name, 10)]);
        registry.push(&fixture.path(name), &format!("test/{name}:1"));
    }
    let (door, shown) = (Door::before(registry.port), Shown::default());
    for (user, name) in [("ada", "a"), ("bob", "b")] {
        let reference = format!("docker://127.0.0.1:{}/test/{name}:1", door.port);
        pull_for(&fixture, user, &fixture.settings, &reference, &shown).expect("pulled");
    }
    assert_eq!(door.count(&format!("/blobs/{}", digest(&base))), 1);
}

#[test]
fn half_of_a_private_layer_is_not_gone_on_with_from_elsewhere() {
    let fixture = Fixture::new();
    // Large enough that bytes are kept; she broke off just before its end.
    let secret = noisy("secret", 9 << 20);
    let hex = digest(&secret).trim_start_matches("sha256:").to_owned();
    fs::write(fixture.store.root().join("partial").join(hex), &secret.packed).expect("written");
    let own = fixture.path("bob");
    layout(&own, std::slice::from_ref(&secret));
    fs::remove_file(blob_file(&own, &secret)).expect("removed");
    let door = liar_of(&own);
    let evil = format!("docker://127.0.0.1:{}/bob/own", door.port);
    let tried = pull_for(&fixture, "bob", &fixture.settings, &evil, &Shown::default());
    assert!(tried.is_err(), "{tried:?}");
}

/// A SIF of a folder, packed by the real tool.
fn sif_of(fixture: &Fixture, name: &str, fill: impl FnOnce(&Path)) -> Vec<u8> {
    let (tree, packed) = (fixture.path(name), fixture.path(&format!("{name}.squashfs")));
    fs::create_dir(&tree).expect("a directory");
    fill(&tree);
    run(Command::new("mksquashfs").arg(&tree).arg(&packed).args(["-no-progress", "-noappend"]));
    sif(&fs::read(&packed).expect("read"))
}

#[test]
fn a_sif_that_changes_after_the_look_is_not_unpacked() {
    if !have(&["mksquashfs", "unsquashfs"]) {
        return;
    }
    let fixture = Fixture::new();
    let put =
        |text: &'static str| move |tree: &Path| fs::write(tree.join("f"), text).expect("written");
    let (good, bad) = (sif_of(&fixture, "good", put("good")), sif_of(&fixture, "bad", put("bad")));
    let file = fixture.path("image.sif");
    let scratch = fixture.path("scratch");
    for replaced in [false, true] {
        fs::write(&file, &good).expect("written");
        let _ = fs::remove_dir_all(&scratch);
        fs::create_dir(&scratch).expect("a directory");
        let source = Sif::new(&file, &this_platform(), &scratch, Limits::default());
        let plan = source.plan().expect("looked at");
        assert_eq!(plan.image.to_string(), sha256(&good));
        if replaced {
            // Another file under the same name: the one that was opened counts.
            fs::remove_file(&file).expect("removed");
            fs::write(&file, &bad).expect("written");
            drop(source.blob(&plan.layers[0]).expect("as it was looked at"));
            assert_eq!(fs::read(scratch.join("squashed/f")).expect("read"), b"good");
        } else {
            fs::write(&file, &bad).expect("written over");
            let Err(error) = source.blob(&plan.layers[0]) else { panic!("what was not looked at") };
            assert!(matches!(error, SourceError::Digest { .. }), "{}", told(&error));
        }
    }
}

#[test]
fn a_sif_that_unpacks_to_too_much_is_stopped() {
    if !have(&["mksquashfs", "unsquashfs"]) {
        return;
    }
    let mut fixture = Fixture::new();
    let one = sif_of(&fixture, "one", |tree| {
        let file = fs::File::create(tree.join("zeros")).expect("made");
        file.set_len(300 << 20).expect("long");
    });
    let many = sif_of(&fixture, "many", |tree| {
        for number in 0..40 {
            fs::write(tree.join(format!("f{number}")), vec![b'a'; 8 << 20]).expect("written");
        }
    });
    let files = sif_of(&fixture, "files", |tree| {
        for number in 0..200 {
            fs::write(tree.join(format!("f{number}")), format!("{number}")).expect("written");
        }
    });
    for (name, sif, entries) in
        [("one", one, 2_000_000), ("many", many, 2_000_000), ("files", files, 50)]
    {
        fixture.settings.limits = Limits { entries, ..Limits::default() };
        let file = fixture.path(&format!("{name}.sif"));
        fs::write(&file, sif).expect("written");
        let reference: ImageRef = format!("sif:{}", file.display()).parse().expect("reference");
        let error = fixture.pull(&reference).expect_err("refused");
        let said = told(&error);
        let expected = ["was stopped", "could not unpack"].iter().any(|text| said.contains(text));
        assert!(expected, "{name}: {said}");
        assert_eq!(fixture.store.images().expect("listed"), []);
    }
}
