//! Options and commands that were typed wrongly, or that would do what nobody wants: each says what
//! to do instead.

use super::check_message;
use super::common::World;

#[test]
fn every_wrong_line_says_what_to_do() {
    let world = World::started();
    assert_eq!(world.cli(&["run", "--", "true"]).code, 0);
    assert_eq!(world.cli(&["run", "--", "false"]).code, 1);
    world.ok(&["user", "add", "bob"]);
    let me = world.json(&["user", "list"]);
    let me = me["users"].as_array().expect("users").iter().find(|user| user["user"] != "bob");
    let me = me.expect("the owner")["user"].as_str().expect("a name").to_string();
    let bad = "a\u{202e}b";
    for (words, code, said) in [
        (&["run", "--cpus", "0", "--", "true"][..], 2, "0 cores"),
        (&["run", "--memory", "1", "--", "true"], 2, "a bare number is bytes"),
        (&["run", "--array", "5-1", "--", "true"], 2, "write 1-5"),
        (&["run", "--array", "0-9223372036854775808", "--", "true"], 2, "one job may have"),
        (&["run", "--name", bad, "--", "true"], 2, "direction characters"),
        (&["run", "--label", &format!("x={bad}"), "--", "true"], 2, "not a label"),
        (&["run", "--after", "9", "--", "true"], 3, "does not exist"),
        (&["run", "--after", "18446744073709551615", "--", "true"], 3, "does not exist"),
        (&["run", "--priority", "99999999999", "--", "true"], 2, "--priority"),
        (&["run", "--env", "A=\u{1b}[2J", "--script", "/nope"], 2, "/nope"),
        (&["run", "--each", "/proc/self/mem", "--", "true"], 2, "cannot read"),
        (&["why", "1/0"], 2, "`shipway why 1`"),
        (&["why", "99"], 3, "no job 99"),
        (&["show", "1/5"], 3, "no task"),
        (&["logs", "1", "--attempt", "9"], 3, "attempt"),
        (&["cancel", "1"], 3, "shipway show"),
        (&["retry", "1"], 3, "shipway show"),
        (&["user", "add", "bob", "--role", "admin"], 3, "shipway user remove"),
        (&["user", "add", bad], 2, "user name"),
        (&["user", "remove", "nobody"], 3, "shipway user list"),
        (&["user", "remove", &me], 3, "started this server"),
        (&["token", "new", "--lasts", "9999d"], 3, "at most"),
        (&["token", "new", "--user", "nobody"], 3, "no user nobody"),
        (&["token", "revoke", "nothing"], 3, "shipway token list"),
    ] {
        let ran = world.cli(words);
        let what = format!("{words:?}: exit {}: {}", ran.code, ran.stderr);
        assert_eq!(ran.code, code, "{what}");
        assert!(ran.stderr.contains(said), "no `{said}`: {what}");
        check_message(&format!("{words:?}"), &ran.stderr);
    }
}

#[test]
fn answers_lead_on() {
    let world = World::started();
    assert_eq!(world.cli(&["run", "--", "true"]).code, 0);
    assert_eq!(world.cli(&["run", "--", "false"]).code, 1);
    assert!(world.ok(&["why", "1"]).contains("`shipway show 1`"));
    assert!(world.ok(&["why", "2"]).contains("`shipway retry 2`"));
    assert!(world.ok(&["user", "add", "bob"]).contains("user bob is added, with the role user"));
    assert!(
        world.ok(&["user", "add", "bob"]).contains("bob was there already, with the role user")
    );
    let older = world.ok(&["jobs", "--all", "--limit", "1"]);
    assert!(older.contains("shipway jobs --all --limit 1 --before 2"), "{older}");
    let help = world.ok(&["run", "--help"]);
    assert!(help.contains("$line") && help.contains("$name"), "{help}");

    world.ok(&["user", "add", "olga", "--role", "operator"]);
    for (user, told) in [("olga", true), ("bob", false)] {
        let token = world.ok(&["token", "new", "--user", user]);
        let mut command = world.command(&["jobs"]);
        let output = command.env("SHIPWAY_TOKEN", token.trim()).output().expect("it runs");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(said.contains("shipway jobs --all"), told, "{user}: {said}");
    }
}
