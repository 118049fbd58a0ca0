//! Those who mean harm: tasks, users and pilots.

use super::common::{World, wait_for};
use super::{cli_in, pilot, read, server, source, write};
use serde_json::{Value, json};
use shipway_api::wire::contents_client::ContentsClient;
use shipway_api::wire::{AttemptId, FetchFiles, FilePiece, OfferFiles};
use shipway_model::Digest;
use std::process::Stdio;
use tonic::transport::Endpoint;
use tonic::{Code, Request, Status};

#[test]
fn a_link_to_a_secret_is_neither_followed_nor_taken() {
    let world = server(&[]);
    let _pilot = pilot(&world, "node", &[]);
    let folder = source(&world);
    write(&world.work(), "secret", "of the node");
    let secret = world.work().join("secret");
    let script = format!(
        "ln -s {0} out; mkdir d; ln -s {0} d/x; ln -s .. up; mkfifo pipe; echo fine > fine; \
         ln {0} hard 2> /dev/null; true",
        secret.display()
    );
    let ran = cli_in(&world, &folder, &["run", "--sandbox", "--", "sh", "-c", &script]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert_eq!(read(folder.join("fine")), "fine\n");
    for name in ["out", "d", "up", "pipe"] {
        assert!(!folder.join(name).exists(), "{name} is not taken");
    }
    for (name, words) in [("out", "is a link"), ("pipe", "neither a file"), ("d/x", "is a link")] {
        let words_of = ["run", "--sandbox", "--output", name, "--", "sh", "-c", &script];
        let ran = cli_in(&world, &folder, &words_of);
        assert_eq!(ran.code, 1, "{name}");
        assert!(ran.stderr.contains(words), "{name}: {}", ran.stderr);
    }
    let ran = cli_in(&world, &folder, &["run", "--sandbox", "--output", "no", "--", "true"]);
    assert!(ran.stderr.contains("has not made the output no"), "{}", ran.stderr);
}

fn sandbox_of(world: &World, job: &str) -> Value {
    world.json(&["show", job])["job"]["spec"]["sandbox"].clone()
}

#[test]
fn who_knows_a_digest_has_no_right_to_it() {
    let world = server(&[]);
    world.ok(&["user", "add", "eve"]);
    let token = world.ok(&["token", "new", "--user", "eve"]).trim().to_owned();
    let folder = source(&world);
    let ran = cli_in(&world, &folder, &["run", "-d", "--sandbox", "--", "true"]);
    let digest = sandbox_of(&world, ran.stdout.trim());
    assert!(digest.as_str().is_some_and(|text| text.starts_with("sha256:")), "{digest}");
    let file = world.work().join("job.json");
    let job = json!({"command": ["cat", "main.sh"], "sandbox": digest});
    std::fs::write(&file, job.to_string()).expect("written");
    let words = ["submit", file.to_str().expect("text")];
    let mut submit = world.command(&words);
    let submit = submit.env("SHIPWAY_URL", world.url()).env("SHIPWAY_TOKEN", &token);
    let refused = submit.stdin(Stdio::null()).output().expect("it runs");
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(3), "{said}");
    assert!(said.contains("you have not uploaded"), "{said}");
    // The owner may, as often as they like.
    world.ok(&words);
}

#[test]
fn a_quota_is_said_and_kept() {
    let world = server(&["--files-quota", "100KB"]);
    let folder = world.work().join("much");
    write(&folder, "large", vec![7; 200_000]);
    let ran = cli_in(&world, &folder, &["run", "-d", "--sandbox", "--", "true"]);
    assert_eq!(ran.code, 3, "{}", ran.stderr);
    assert!(ran.stderr.contains("of the 100kB that one user may have"), "{}", ran.stderr);
    assert!(ran.stderr.contains(".shipwayignore"), "{}", ran.stderr);
    write(&folder, ".shipwayignore", "large\n");
    let ran = cli_in(&world, &folder, &["run", "-d", "--sandbox", "--", "true"]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    write(&folder, "larger", vec![7; 2_000_000]);
    let words = ["run", "-d", "--sandbox", "--sandbox-size", "1MB", "--", "true"];
    let ran = cli_in(&world, &folder, &words);
    assert_eq!(ran.code, 2, "nobody is there to be asked: {}", ran.stderr);
    assert!(ran.stderr.contains("--sandbox-size"), "{}", ran.stderr);
}

/// What a task has made fits nowhere: it is not there, and the task says why.
#[test]
fn outputs_beyond_the_quota_fail_the_task() {
    let world = server(&["--files-quota", "100KB"]);
    let _pilot = pilot(&world, "node", &[]);
    let folder = source(&world);
    let script = "echo a > a; head -c 300000 /dev/zero > big";
    let ran = cli_in(&world, &folder, &["run", "--sandbox", "--", "sh", "-c", script]);
    assert_eq!(ran.code, 1, "{}", ran.stderr);
    assert!(ran.stderr.contains("of the 100kB that one user may have"), "{}", ran.stderr);
    assert!(!folder.join("a").exists(), "all of them or none");
}

/// Calls of a pilot, by hand.
struct Files {
    runtime: tokio::runtime::Runtime,
    client: ContentsClient<tonic::transport::Channel>,
    token: String,
}

impl Files {
    fn of(world: &World, token: &str) -> Self {
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        let runtime = builder.worker_threads(1).enable_all().build().expect("a runtime");
        let endpoint = Endpoint::from_shared(world.url()).expect("an address");
        let channel = runtime.block_on(endpoint.connect()).expect("a server");
        Files { runtime, client: ContentsClient::new(channel), token: token.to_owned() }
    }

    fn request<T>(&self, message: T) -> Request<T> {
        let mut request = Request::new(message);
        let bearer = format!("Bearer {}", self.token).parse().expect("plain text");
        request.metadata_mut().insert("authorization", bearer);
        request
    }

    fn fetch(&mut self, attempt: AttemptId, digest: &Digest) -> Result<Vec<u8>, Status> {
        let (attempt, digests) = (Some(attempt), digest.0.to_vec());
        let request = self.request(FetchFiles { attempt, digests, offset: 0 });
        self.runtime.block_on(async {
            let mut pieces = self.client.fetch(request).await?.into_inner();
            let mut all = Vec::new();
            while let Some(piece) = pieces.message().await? {
                all.extend(piece.data);
            }
            Ok(all)
        })
    }

    fn put(&mut self, pieces: Vec<FilePiece>) -> Result<(), Status> {
        let request = self.request(tokio_stream::iter(pieces));
        self.runtime.block_on(self.client.put(request)).map(drop)
    }

    fn offer(&mut self, attempt: AttemptId, digest: &Digest) -> Result<Vec<u8>, Status> {
        let request =
            self.request(OfferFiles { attempt: Some(attempt), digest: digest.0.to_vec() });
        self.runtime.block_on(self.client.offer(request)).map(|said| said.into_inner().wanted)
    }
}

#[test]
fn a_pilot_gets_and_gives_only_for_what_is_placed_on_it() {
    let world = World::started();
    let folder = source(&world);
    let stay = format!("until [ -e {} ]; do sleep 0.05; done", world.work().join("go").display());
    let words = ["run", "-d", "--sandbox", "--", "sh", "-c", &stay];
    let job = cli_in(&world, &folder, &words).stdout.trim().to_owned();
    wait_for("it runs", || world.json(&["show", &job])["job"]["state"] == "running");
    let list: Digest = sandbox_of(&world, &job).as_str().expect("text").parse().expect("a digest");
    let attempt = AttemptId { job: job.parse().expect("a number"), index: 0, attempt: 1 };
    let credentials = world.json(&["token", "pilot"]);
    let other = credentials["token"].as_str().expect("text").to_owned();
    let mut files = Files::of(&world, &other);
    let code = |status: Result<_, Status>| status.map(drop).expect_err("refused").code();
    assert_eq!(code(files.fetch(attempt, &list)), Code::PermissionDenied);
    assert_eq!(files.offer(attempt, &list).expect_err("refused").code(), Code::PermissionDenied);
    let piece =
        FilePiece { attempt: Some(attempt), digest: list.0.to_vec(), ..FilePiece::default() };
    assert_eq!(files.put(vec![piece]).expect_err("refused").code(), Code::PermissionDenied);
    let mut stranger = Files::of(&world, "nobody's");
    assert_eq!(code(stranger.fetch(attempt, &list)), Code::Unauthenticated);

    // The pilot that has it gets what it came with, and nothing else of its owner's.
    let token = std::fs::read_dir(world.home().join("pilot")).expect("its folder");
    let token = token.flatten().map(|entry| entry.path()).find(|path| {
        path.extension().is_some_and(|kind| kind == "json")
            && std::fs::read_to_string(path).is_ok_and(|text| text.contains("token"))
    });
    let token = token.or_else(|| Some(world.home().join("pilot-token.json"))).expect("a file");
    let Ok(text) = std::fs::read_to_string(&token) else {
        panic!("no token file: {}", token.display());
    };
    let own: Value = serde_json::from_str(&text).expect("credentials");
    let mut own = Files::of(&world, own["token"].as_str().expect("text"));
    let manifest = own.fetch(attempt, &list).expect("it is placed there");
    let manifest: Value = serde_json::from_slice(&manifest).expect("a list");
    assert!(manifest["files"].as_array().is_some_and(|files| files.len() == 4), "{manifest:#}");
    write(&folder, "another", "of the same user");
    let more = cli_in(&world, &folder, &["run", "-d", "--sandbox", "--cpus", "1000", "--", "true"]);
    let others: Digest =
        sandbox_of(&world, more.stdout.trim()).as_str().expect("text").parse().expect("a digest");
    assert_eq!(code(own.fetch(attempt, &others)), Code::PermissionDenied);
    let wrong = AttemptId { attempt: 2, ..attempt };
    assert_eq!(code(own.fetch(wrong, &list)), Code::PermissionDenied);
    write(&world.work(), "go", "");
    assert_eq!(world.cli(&["wait", &job]).code, 0);
    assert_eq!(code(own.fetch(attempt, &list)), Code::PermissionDenied, "it is over");
}

/// Uploads leave some of the disk to the journal: jobs are taken as ever.
#[test]
fn a_disk_that_is_full_of_files_takes_jobs() {
    let Some(world) = World::on_small_disk("64m") else {
        return super::common::cannot("mount a small disk");
    };
    world.up_with(&["--no-pilot"], |_| {});
    let folder = world.work().join("much");
    write(&folder, "large", vec![7; 56 << 20]);
    let ran = cli_in(&world, &folder, &["run", "-d", "--sandbox", "--", "true"]);
    assert_eq!(ran.code, 3, "{}", ran.stderr);
    assert!(ran.stderr.contains("the disk of the server has no room"), "{}", ran.stderr);
    world.submit(&["--", "true"]);
    assert!(world.is_ready());
}
