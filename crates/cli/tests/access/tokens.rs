//! Tokens: good until they are over or revoked, and secret.

use super::common::{World, wait_for};
use super::{act, person};
use std::os::unix::fs::PermissionsExt;

#[test]
fn a_token_that_is_over_forged_or_revoked_opens_nothing() {
    let world = World::started();
    let good = person(&world, "alice", "user");
    assert_eq!(act(&world, &good, &["jobs"]).code, 0);

    let short = world.ok(&["token", "new", "--user", "alice", "--lasts", "1s"]);
    wait_for("the token is over", || act(&world, short.trim(), &["jobs"]).code == 3);
    let over = act(&world, short.trim(), &["jobs"]);
    assert!(over.stderr.contains("expired"), "{}", over.stderr);

    let mut forged = good.clone();
    let last = forged.pop().expect("a letter");
    forged.push(if last == 'a' { 'b' } else { 'a' });
    for bad in [&*forged, "shw_", "x", &good[..good.len() - 1]] {
        let ran = act(&world, bad, &["jobs"]);
        assert_eq!(ran.code, 3, "{bad}: {}", ran.stderr);
        assert!(ran.stderr.contains("the token is not known"), "{bad}: {}", ran.stderr);
    }

    let tokens = world.json(&["token", "list"])["tokens"].clone();
    let lasting = |token: &&serde_json::Value| {
        token["user"] == "alice" && token["expires"].as_u64() > tokens_end(&tokens)
    };
    let id =
        tokens.as_array().expect("tokens").iter().find(lasting).expect("alice's")["id"].clone();
    world.ok(&["token", "revoke", id.as_str().expect("an id")]);
    let revoked = act(&world, &good, &["jobs"]);
    assert_eq!(revoked.code, 3, "{}", revoked.stderr);
    world.kill_server();
    world.up();
    assert_eq!(act(&world, &good, &["jobs"]).code, 3, "after a restart as well");
}

/// The earliest end of all tokens.
fn tokens_end(tokens: &serde_json::Value) -> Option<u64> {
    tokens.as_array().expect("tokens").iter().filter_map(|token| token["expires"].as_u64()).min()
}

#[test]
fn the_owners_token_outlives_a_crash_and_ends_with_an_orderly_stop() {
    let world = World::started();
    let first = world.token();
    world.kill_server();
    world.up();
    assert_eq!(world.token(), first, "commands that stayed with their jobs are still let in");
    assert!(world.stop_server().success());
    assert!(!world.home().join("server.json").exists());
    world.up();
    assert_ne!(world.token(), first);
    assert_eq!(act(&world, &first, &["jobs"]).code, 3);
}

#[test]
fn a_user_makes_tokens_for_oneself_alone() {
    let world = World::started();
    let (alice, bob) = (person(&world, "alice", "user"), person(&world, "bob", "user"));
    let own = act(&world, &alice, &["token", "new", "--note", "laptop"]);
    assert_eq!(act(&world, own.stdout.trim(), &["jobs"]).code, 0, "{}", own.stderr);
    assert_eq!(act(&world, &alice, &["token", "new", "--user", "bob"]).code, 3);
    let listed = act(&world, &alice, &["token", "list"]).stdout;
    assert!(listed.contains("laptop") && !listed.contains("bob"), "{listed}");
    let bobs = act(&world, &bob, &["--json", "token", "list"]).stdout;
    let bobs: serde_json::Value = serde_json::from_str(&bobs).expect("JSON");
    let id = bobs["tokens"][0]["id"].as_str().expect("an id");
    assert_eq!(act(&world, &alice, &["token", "revoke", id]).code, 3);
    assert_eq!(act(&world, &bob, &["jobs"]).code, 0, "bob's is still good");
}

#[test]
fn secrets_are_shown_once_and_kept_nowhere() {
    let world = World::started();
    let alice = person(&world, "alice", "user");
    assert_eq!(act(&world, &alice, &["run", "--export-all", "--", "env"]).code, 0);
    for words in [
        &["token", "list"][..],
        &["--json", "token", "list"],
        &["--json", "user", "list"],
        &["--json", "jobs", "--all"],
        &["--json", "show", "1"],
        &["logs", "1"],
    ] {
        let shown = world.ok(words);
        assert!(!shown.contains(&alice) && !shown.contains(&world.token()), "{words:?}");
    }
    let log = world.server_log();
    assert!(!log.contains(&alice) && !log.contains(&world.token()), "{log}");
    let secret = alice.as_bytes();
    for file in std::fs::read_dir(world.home()).expect("a home").flatten() {
        let bytes = std::fs::read(file.path()).unwrap_or_default();
        let found = bytes.windows(secret.len()).any(|window| window == secret);
        assert!(!found, "{} holds alice's secret", file.path().display());
    }
    let mode = |name: &str| {
        let meta = std::fs::metadata(world.home().join(name)).expect("a file");
        meta.permissions().mode() & 0o777
    };
    // As root accounts of tasks may pass through to their folders, and still not look.
    let home = if rustix::process::geteuid().is_root() { 0o711 } else { 0o700 };
    assert_eq!((mode("server.json"), mode(".")), (0o600, home), "only the owner may look");
    assert_eq!((mode("shipway.db"), mode("shipway.db-wal")), (0o600, 0o600));
}
