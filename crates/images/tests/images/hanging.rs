//! A registry that does not answer holds up those who asked it, and nobody else.

use crate::common::{Fixture, NOW, layout};
use crate::engines::Door;
use crate::registry::{noisy, serve};
use shipway_images::progress::{Phase, Progress, Silent};
use shipway_images::pull::{Pull, Shown};
use shipway_images::{Ensured, Holder, ImageError};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, mpsc};

/// Gives up where it would have to wait for somebody else.
#[derive(Default)]
struct Impatient(AtomicBool);

impl Progress for Impatient {
    fn phase(&self, phase: Phase) {
        self.0.fetch_or(phase == Phase::Waiting, Ordering::Relaxed);
    }
    fn bytes(&self, _: usize, _: u64) {}
    fn layer_done(&self, _: usize) {}
    fn is_wanted(&self) -> bool {
        !self.0.load(Ordering::Relaxed)
    }
}

fn pull(
    fixture: &Fixture,
    user: &str,
    port: u16,
    progress: &dyn Progress,
) -> Result<Ensured, ImageError> {
    let holder = Holder::begin(&fixture.store)?;
    let reference = format!("docker://127.0.0.1:{port}/test/a:latest").parse().expect("reference");
    let pull = Pull { holder: &holder, settings: &fixture.settings, progress, now: NOW };
    pull.run_for_one(&reference, user, &Shown::default())
}

/// Whoever copies the description of a public image to a registry of their own, which then never
/// sends the layers, keeps nobody from fetching that image elsewhere.
#[test]
fn the_same_image_comes_from_another_registry_meanwhile() {
    let fixture = Fixture::new();
    let dir = fixture.path("a");
    let layer = noisy("large", 1 << 20);
    layout(&dir, std::slice::from_ref(&layer));
    let digest = layer.descriptor["digest"].as_str().expect("a digest").to_owned();
    let (say, asked) = mpsc::channel();
    let (release, held) = mpsc::channel::<()>();
    let (from, held) = (dir.clone(), Mutex::new(held));
    let hangs = Door::open(Arc::new(move |head, stream| {
        if head.contains(&digest) {
            let _ = say.send(());
            let _ended = held.lock().expect("held").recv();
        }
        serve(&from, head, stream);
    }));
    let answers = Door::open(Arc::new(move |head, stream| serve(&dir, head, stream)));
    std::thread::scope(|scope| {
        let slow = scope.spawn(|| pull(&fixture, "ada", hangs.port, &Silent));
        asked.recv().expect("the layer was asked for");
        let done = pull(&fixture, "bob", answers.port, &Impatient::default());
        drop(release);
        assert!(done.expect("fetched by oneself").fetched);
        slow.join().expect("no panic").expect("it comes in the end");
    });
    fixture.assert_whole();
}
