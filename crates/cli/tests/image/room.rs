//! Images on a small disk: what does not fit is told to its task, and keeps nobody else waiting.

use crate::archive::archive;
use crate::common::{World, cannot};

/// Fits on the disk, and leaves less of it than images have to leave.
const LARGE: usize = 52 << 20;

#[test]
fn an_image_that_does_not_fit_fails_its_task_and_stops_nobody() {
    let Some(world) = World::on_small_disk("64m") else {
        return cannot("mounting a tmpfs needs root");
    };
    world.up();
    let busybox = std::fs::read("/bin/busybox").expect("busybox-static is installed");
    let file = |name: &str| world.work().join(name);
    archive(&file("large.tar"), &[("bin/sh", &busybox), ("bulk", &vec![7; LARGE])], "A=B");
    archive(&file("small.tar"), &[("bin/echo", &busybox)], "A=B");
    let on = |image: &str, program: &[&str]| {
        let image = format!("docker-archive:{image}");
        let words = ["run", "--retries", "2", "--retry-delay", "0s", "--workdir", "private"];
        world.cli(&[&words[..], &["--image", &image, "--"], program].concat())
    };
    for _ in 0..2 {
        let ran = on("large.tar", &["true"]);
        let said = &ran.stderr;
        assert_eq!(ran.code, 127, "{said}");
        assert!(said.contains("large.tar") && said.contains("needs more room than"), "{said}");
        assert!(said.contains("image gc") && said.contains("--images-size"), "{said}");
        assert!(!said.contains("tried again"), "{said}");
        // What needs no image, and one that fits, go on at once.
        assert_eq!(world.ok(&["run", "--", "echo", "hello"]), "hello\n");
        assert_eq!(world.json(&["nodes"])["nodes"][0]["link"], "connected");
    }
    let ran = on("small.tar", &["echo", "fits"]);
    assert_eq!((ran.code, &*ran.stdout), (0, "fits\n"), "{}", ran.stderr);
    // Whoever pulls it themselves is told the same.
    let ran = world.cli(&["image", "pull", "docker-archive:large.tar"]);
    assert!(ran.code == 1 && ran.stderr.contains("needs more room than"), "{ran:?}");
    let images = world.json(&["image", "list"])["images"].as_array().map(Vec::len);
    assert_eq!(images, Some(1));
}
