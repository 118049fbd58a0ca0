//! Whom tasks run as: whoever started the server as themselves, others under accounts of the node
//! where root started it, and nobody as somebody else.

use crate::archive::archive;
use crate::site::{NOBODY, Pilot, Site, add_user, is_root, ordinary, runtimes};
use std::os::unix::fs::PermissionsExt as _;

/// An account that Debian has, and that is not `nobody`.
const GAMES: &str = "5";
const ROOT: &str = "0";

fn run_as(site: &Site, token: &str, words: &[&str]) -> (i32, String, String) {
    let run = ["run", "--workdir", "private"];
    let done = site.with_token(token).args(run).args(words).output().expect("started");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (done.status.code().unwrap_or(-1), text(&done.stdout), text(&done.stderr))
}

#[test]
fn containers_of_root_are_roots_without_its_powers_with_every_runtime() {
    if !is_root() {
        return;
    }
    for runtime in runtimes() {
        println!("with {runtime}:");
        let site = Site::start_with(None, &["--runtime", &runtime]);
        let busybox = std::fs::read("/bin/busybox").expect("busybox-static is installed");
        let mut files = vec![("etc/secret", &b"mine"[..])];
        files.extend(
            ["bin/sh", "bin/id", "bin/cat", "bin/dd", "bin/tr"].map(|it| (it, &busybox[..])),
        );
        archive(&site.path("saved.tar"), &files, "WHO=image");
        let line = "echo x > here && echo y > /etc/secret && \
                    echo $(id -u) $(cat here /etc/secret); cat /proc/self/status";
        let image = ["--memory", "100MB", "--image", "docker-archive:../saved.tar"];
        let (code, out, err) = site.words(&[&image[..], &["--", "sh", "-c", line]].concat());
        assert!(code == 0 && out.starts_with(&format!("{ROOT} x y\n")), "{code} {out}{err}");
        for line in ["CapEff:\t0000000000000000", "CapBnd:\t0000000000000000", "NoNewPrivs:\t1"] {
            assert!(out.lines().any(|said| said == line), "{line}: {out}");
        }
        let (code, _, err) = site.words(&[
            "--memory",
            "64MB",
            "--image",
            "docker-archive:../saved.tar",
            "--",
            "sh",
            "-c",
            "x=$(dd if=/dev/zero bs=1M count=200 | tr '\\0' a); cat",
        ]);
        assert!(code == 137 && err.contains("out of memory"), "{code} {err}");
    }
}

#[test]
fn everybody_has_their_own_account_and_nobody_roots() {
    if !is_root() {
        return;
    }
    let site = Site::start_as(None);
    let (games, other) = (add_user(&site, "games"), add_user(&site, "no-such-account"));
    let third = add_user(&site, "neither");
    let line = "echo x > here; echo $(id -u) $(id -g) $(cat here) $USER $HOME; ls /root";
    let words = ["--", "sh", "-c", line];
    let (_, out, err) = run_as(&site, &games, &words);
    assert!(out.starts_with(GAMES) && out.contains(" x games /usr/games"), "{out}{err}");
    assert!(err.contains("Permission denied"), "{err}");
    // Two who have none do not meet in an account that they share.
    for (token, name) in [(&other, "no-such-account"), (&third, "neither")] {
        let (code, out, err) = run_as(&site, token, &words);
        let fix = format!("--accounts {name}=ACCOUNT");
        assert!(code == 127 && out.is_empty() && err.contains(&fix), "{code} {out}{err}");
    }
    let (_, out, err) = site.words(&words);
    assert!(out.starts_with("0 0 x "), "the owner is themselves: {out}{err}");
    let script = site.path("script");
    std::fs::write(&script, "#!/bin/sh\nid -u\n").expect("written");
    let (_, out, err) = run_as(&site, &games, &["--script", &script.to_string_lossy()]);
    assert_eq!(out.trim(), GAMES, "{err}");
    // What is not theirs stays closed: other tasks' folders, the pilot's secrets, root's files.
    let home = site.path("home");
    let line = format!(
        "ls {0}/pilot {0}/pilot/work; cat {0}/shipway.db {0}/pilot/logs/1/0.1.out \
                        {0}/server.json {0}/pilot/credentials.json | wc -c",
        home.display()
    );
    let (_, out, err) = run_as(&site, &games, &["--", "sh", "-c", &line]);
    assert_eq!(out.trim(), "0", "{err}");
    let (code, _, err) = run_as(&site, &games, &["--image", "dir:/root", "--", "ls"]);
    assert!(code != 0 && err.contains("Permission denied"), "{code} {err}");
    let secret = site.path("secret.tar");
    let busybox = std::fs::read("/bin/busybox").expect("busybox-static is installed");
    archive(&secret, &[("bin/ls", &busybox)], "A=b");
    let image = format!("docker-archive:{}", secret.display());
    let (code, _, err) = run_as(&site, &games, &["--image", &image, "--", "ls"]);
    assert!(code != 0 && err.contains("is read for nobody else"), "{code} {err}");
    let (code, _, err) = run_as(&site, &games, &["--", "no-such-program"]);
    assert!(code == 127 && err.contains("no such program in PATH"), "{code} {err}");
}

/// What starts a task for somebody else is root, until it is the task: the loader of programs must
/// not do there what variables of the task ask for.
#[test]
fn variables_of_a_task_are_the_tasks_alone() {
    use std::os::unix::fs::MetadataExt as _;
    if !is_root() {
        return;
    }
    let site = Site::start_with(None, &["--default-image", "none"]);
    let games = add_user(&site, "games");
    let dir = tempfile::tempdir().expect("a folder");
    let open = std::fs::Permissions::from_mode(0o777);
    std::fs::set_permissions(dir.path(), open).expect("open to all");
    let file = format!("LD_DEBUG_OUTPUT={}/said", dir.path().display());
    let asked = ["--env", "LD_DEBUG=libs", "--env", &file, "--", "id", "-u"];
    let (code, out, err) = run_as(&site, &games, &asked);
    assert_eq!((code, out.trim()), (0, GAMES), "{err}");
    let files = std::fs::read_dir(dir.path()).expect("listed");
    let found: Vec<(u32, String)> = files
        .map(|entry| entry.expect("listed").path())
        .map(|path| {
            let uid = path.metadata().expect("there").uid();
            (uid, std::fs::read_to_string(path).expect("read"))
        })
        .collect();
    assert!(found.iter().any(|(_, said)| said.contains("initialize program: id")), "{found:?}");
    assert!(found.iter().all(|(uid, _)| uid.to_string() == GAMES), "{found:?}");
    assert!(!found.iter().any(|(_, said)| said.contains("program: shipway")), "{found:?}");
}

/// A home in a folder that accounts may not even enter.
#[test]
fn a_task_needs_no_way_to_its_own_folders() {
    if !is_root() {
        return;
    }
    let mut site = Site::start_as(None);
    std::fs::set_permissions(site.path(""), std::fs::Permissions::from_mode(0o700)).unwrap();
    let script = site.path("script");
    std::fs::write(&script, "#!/bin/sh\necho x > here; cat here; id -u\n").expect("written");
    let games = add_user(&site, "games");
    let (_, out, err) = run_as(&site, &games, &["--script", &script.to_string_lossy()]);
    assert_eq!(out, format!("x\n{GAMES}\n"), "{err}");
    // One that is no task's own stays closed.
    let other = site.path("other");
    std::fs::create_dir(&other).expect("a folder");
    let words = ["run", "--workdir", &other.to_string_lossy(), "--", "true"];
    let closed = site.with_token(&games).args(words).output().expect("started");
    let said = String::from_utf8_lossy(&closed.stderr).into_owned();
    assert!(!closed.status.success() && said.contains("may not enter it"), "{said}");
    site.restart(&["--default-image", "none"]);
    let (code, _, err) = run_as(&site, &games, &["--", "id", "-u"]);
    assert!(code != 0 && err.contains("is closed to others"), "{code} {err}");
    assert_eq!(site.words(&["--", "id", "-u"]).1, "0\n", "root may go everywhere");
}

/// The commands of the first minute, typed where nobody else may go, and by a shell that has hung
/// up.
#[test]
fn the_first_job_works_wherever_it_is_typed() {
    let hangs_up = ["/bin/sh", "-c", "trap '' HUP; exec \"$@\"", "sh"];
    for (user, mode) in [(None, 0o700), (None, 0o755), (ordinary(), 0o700)] {
        if user.is_none() && !is_root() {
            continue;
        }
        let mut site = Site::start_as(user);
        let folder = site.path("folder");
        std::fs::create_dir(&folder).expect("a folder");
        std::os::unix::fs::chown(&folder, user, user).expect("given away");
        let closed = std::fs::Permissions::from_mode(mode);
        std::fs::set_permissions(&folder, closed.clone()).expect("a mode");
        if user.is_none() {
            std::fs::set_permissions(site.path(""), closed).expect("a mode");
        }
        for by in [&[][..], &hangs_up] {
            site.restart_by(by, &[]);
            let run = |words: &[&str]| {
                let mut run = site.command_by(by);
                let done = run.current_dir(&folder).arg("run").args(words).output();
                let done = done.expect("started");
                let said = String::from_utf8_lossy(&done.stderr).into_owned();
                assert!(done.status.success(), "{user:?} {mode:o} {by:?} {words:?}: {said}");
                String::from_utf8_lossy(&done.stdout).into_owned()
            };
            assert_eq!(run(&["--", "echo", "hello"]), "hello\n");
            run(&["--array", "1-3", "--", "sh", "-c", "echo task $SHIPWAY_INDEX > $SHIPWAY_INDEX"]);
            let third = std::fs::read_to_string(folder.join("3")).expect("written there");
            assert_eq!(third, "task 3\n");
        }
    }
}

/// A server of an ordinary user, and a pilot that root has started for it: of the server's users
/// none is root there, whatever they are called.
#[test]
fn a_name_makes_nobody_root() {
    if !is_root() {
        return;
    }
    let site = Site::start_with(Some(NOBODY), &["--no-pilot"]);
    let (root, games) = (add_user(&site, "root"), add_user(&site, "games"));
    let mut pilot = Pilot::start(&site, &[]);
    let (code, out, err) = run_as(&site, &root, &["--", "id", "-u"]);
    assert!(code == 127 && err.contains("runs no tasks of others"), "{code} {out}{err}");
    let owner = site.words(&["--", "id", "-u"]);
    assert_eq!((owner.0, owner.1.trim()), (0, "65534"), "by the name alone: {}", owner.2);
    let (_, out, err) = run_as(&site, &games, &["--", "id", "-u"]);
    assert_eq!(out.trim(), GAMES, "{err}");
    pilot.stop();
    let pilot = Pilot::start(&site, &["--accounts", "root=root"]);
    let (_, out, err) = run_as(&site, &root, &["--", "id", "-u"]);
    assert_eq!(out.trim(), ROOT, "because whoever runs the node says so: {err}");
    drop(pilot);
}

/// Plain processes of an ordinary user's server could read all that it keeps.
#[test]
fn others_have_no_plain_processes_of_mine() {
    let mut site = Site::start();
    let (home, me) = (site.path("home").display().to_string(), site.account());
    let ada = add_user(&site, "ada");
    site.restart(&["--default-image", "none"]);
    let steal = ["--", "cat", &format!("{home}/server.json")];
    let (code, out, err) = run_as(&site, &ada, &steal);
    assert!(code == 127 && out.is_empty(), "{code} {out}{err}");
    assert!(err.contains(&format!("--accounts ada={me}")), "{err}");
    assert_eq!(site.words(&["--", "echo", "mine"]).1, "mine\n", "the owner's are their own");
    site.restart(&["--default-image", "none", "--accounts", &format!("ada={me}")]);
    let (code, _, err) = run_as(&site, &ada, &["--", "true"]);
    assert_eq!(code, 0, "because whoever runs it says so: {err}");
}

#[test]
fn a_site_says_who_has_which_account() {
    if !is_root() {
        return;
    }
    let site = Site::start_with(None, &["--accounts", "ada=games"]);
    let refused = site.shipway(&["up", "--accounts", "ada=no-such-account"]);
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(said.contains("there is no account `no-such-account`"), "{said}");
    let ada = add_user(&site, "ada");
    let (_, out, err) = run_as(&site, &ada, &["--", "id", "-u"]);
    assert_eq!(out.trim(), GAMES, "{err}");
    // Whoever started the server is not in the list, and runs as themselves.
    assert_eq!(site.words(&["--", "id", "-u"]).1.trim(), ROOT);
    let bob = add_user(&site, "bob");
    let (code, _, err) = run_as(&site, &bob, &["--", "id", "-u"]);
    assert!(code != 0 && err.contains("user bob has no account on this node"), "{code} {err}");
}

/// And what the warning advises helps.
#[test]
fn whoever_adds_somebody_without_an_account_is_warned() {
    if !is_root() {
        return;
    }
    let mut site = Site::start_as(None);
    assert_eq!(site.words(&["--", "true"]).0, 0, "the node is there");
    let said = |name: &str, role: &str| {
        let added = site.shipway(&["user", "add", name, "--role", role]);
        assert!(added.status.success());
        String::from_utf8_lossy(&added.stderr).into_owned()
    };
    for (name, role) in [("games", "user"), ("only-looks", "monitor")] {
        assert_eq!(said(name, role), "", "{name}");
    }
    let warned = said("newcomer", "user");
    for words in ["jobs of newcomer are refused", "useradd", "--accounts newcomer=ACCOUNT"] {
        assert!(warned.contains(words), "{words}: {warned}");
    }
    let newcomer = add_user(&site, "newcomer");
    assert_eq!(run_as(&site, &newcomer, &["--", "true"]).0, 127, "as was said");
    site.restart(&["--accounts", "newcomer=games"]);
    let (_, out, err) = run_as(&site, &newcomer, &["--", "id", "-u"]);
    assert_eq!(out.trim(), GAMES, "{err}");
}
