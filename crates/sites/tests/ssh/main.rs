//! Commands on a login node, with a real client and a real server on loopback. Not what any batch
//! system makes of them.
//!
//! Needs Debian's openssh-server; without it it is a skip that is explained, in CI a failure.

mod sshd;

use shipway_sites::way::{Way as _, WayError};
use sshd::Sshd;
use std::time::Duration;

const LONG: Duration = Duration::from_mins(1);

#[test]
fn words_input_and_codes_pass_over_one_kept_connection() {
    let Some(sshd) = Sshd::start(&[("GIVEN".into(), "there".into())]) else { return };
    let way = sshd.way();
    let script = "cat; printf '<%s>' \"$@\" \"$GIVEN\"; echo said >&2; exit 3";
    let words = ["sh", "-c", script, "sh", "a b", "it's", "$HOME `id`", "", "-n", "*"];
    let output = way.run(&words, b"in\0put\n", LONG).expect("it runs");
    assert_eq!(output.code, Some(3));
    let said = String::from_utf8_lossy(&output.stdout);
    assert_eq!(said, "in\0put\n<a b><it's><$HOME `id`><><-n><*><there>");
    assert_eq!(String::from_utf8_lossy(&output.stderr), "said\n", "no banner, nothing of ssh");
    let much = vec![b'x'; 2_000_000];
    let output = way.run(&["cat"], &much, LONG).expect("it runs");
    assert_eq!((output.code, output.stdout.len()), (Some(0), much.len()));
    // Slurm's commands end so when an option is wrong: that is an answer, not a lost connection.
    let output = way.run(&["sh", "-c", "exit 255"], b"", LONG).expect("it runs");
    assert_eq!(output.code, Some(254));
    let output = way.run(&["/no/such/program"], b"", LONG).expect("it was reached");
    assert_eq!(output.code, Some(127));
    assert_eq!(sshd.log().matches("Accepted publickey").count(), 1, "{}", sshd.log());
    assert_eq!(std::fs::read_dir(sshd.kept()).expect("a folder").count(), 1, "its socket");
    way.close();
    assert_eq!(std::fs::read_dir(sshd.kept()).expect("a folder").count(), 0);
    assert_eq!(way.run(&["true"], b"", LONG).expect("it comes back").code, Some(0));
}

#[test]
fn several_threads_may_use_it_at_once() {
    let Some(sshd) = Sshd::start(&[]) else { return };
    let way = sshd.way();
    std::thread::scope(|scope| {
        let run = |number: usize| {
            let output = way.run(&["echo", &number.to_string()], b"", LONG).expect("it runs");
            assert_eq!(output.stdout, format!("{number}\n").into_bytes());
        };
        for number in 0..8 {
            scope.spawn(move || run(number));
        }
    });
}

#[test]
fn what_is_slow_is_given_up_and_the_connection_stays() {
    let Some(sshd) = Sshd::start(&[]) else { return };
    let way = sshd.way();
    way.run(&["true"], b"", LONG).expect("it runs");
    let slow = way.run(&["sleep", "1000"], b"", Duration::from_secs(2)).expect_err("too slow");
    assert!(matches!(slow, WayError::TooSlow { .. }), "{slow}");
    assert_eq!(way.run(&["echo", "here"], b"", LONG).expect("it runs").stdout, b"here\n");
    assert_eq!(sshd.log().matches("Accepted publickey").count(), 1, "{}", sshd.log());
}

#[test]
fn who_is_not_reached_is_told_in_the_words_of_ssh() {
    let Some(sshd) = Sshd::start(&[]) else { return };
    let with = |from: &str, to: String| {
        let options = sshd.options().into_iter();
        options.map(|word| if word.starts_with(from) { to.clone() } else { word }).collect()
    };
    let port = sshd.options()[3].clone();
    let unknown = with("UserKnownHostsFile=", "UserKnownHostsFile=/dev/null".into());
    let silent = with(&port, "1".into());
    let strange = {
        let key = sshd.options()[5].clone();
        with(&key, "/no/such/key".into())
    };
    for (options, expected) in [
        (unknown, "Host key verification failed"),
        (silent, "Connection refused"),
        (strange, "Permission denied"),
    ] {
        let error = sshd.way_with(options).run(&["true"], b"", LONG).expect_err(expected);
        let WayError::NotReached { host, words } = &error else { panic!("{error:?}") };
        assert!(host == "127.0.0.1" && words.contains(expected), "{error}");
    }
}
