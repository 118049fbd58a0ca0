//! People who are kept apart by subordinate ids: what one of them, and what the caller, may not
//! do to another. For an ordinary account that was given such ids.

use crate::site::Site;
use crate::table::{asking_the_loader, programs_that_ran};
use crate::{Case, On};
use shipway_runtime::native::{Keeper, Start};
use shipway_runtime::plan::{Bind, Container, Person, Process, Reads, Root, Within};
use shipway_runtime::report::Ending;
use std::fs;
use std::num::NonZeroU32;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

pub(crate) const ALL: &[Case] = &[
    Case { name: "people have ids of their own", on: On::Native, run: own_ids },
    Case { name: "what a person names is opened with their rights", on: On::Native, run: named },
    Case { name: "a closed folder is not made anew", on: On::Native, run: made_anew },
    Case { name: "a folder is given and removed again", on: On::Native, run: given },
    Case { name: "output can be opened by name", on: On::Native, run: output },
    Case { name: "what it reads is opened with their rights", on: On::Native, run: reads },
    Case { name: "a closed work directory is told", on: On::Native, run: work_directory },
    Case { name: "programs read as the person", on: On::Native, run: programs },
    Case { name: "no variables in who becomes the person", on: On::Native, run: variables },
    Case { name: "the keys of the caller stay behind", on: On::Native, run: keys },
    Case { name: "keyrings count for the person", on: On::Native, run: key_quota },
    Case { name: "nobody is run without a keeper", on: On::Native, run: without_keeper },
];

/// The kernel lets each user have two hundred. What one person's tasks hold is not to be missing to
/// another's.
fn key_quota(site: &Site) {
    let of = |text: &str, uid: u32| {
        let line = text.lines().find(|line| line.trim_start().starts_with(&format!("{uid}:")));
        line.map(|line| line.split_whitespace().nth(3).unwrap_or_default().to_string())
    };
    let before = fs::read_to_string("/proc/key-users").unwrap();
    let inside = site.ok(&on_node(site, 1, "cat /proc/key-users"));
    let own = rustix::process::geteuid().as_raw();
    // There the caller is 0.
    assert_eq!(of(&inside, 0), of(&before, own), "{inside}");
    assert!(of(&inside, 1000).is_some(), "{inside}");
}

pub(crate) fn person(site: &Site, number: u32) -> Person {
    keeper(site).given().person(NonZeroU32::new(number).unwrap()).unwrap()
}

fn on_node(site: &Site, number: u32, script: &str) -> Container {
    let mut container = site.command(&["/bin/sh", "-c", script]);
    container.root = Root::Host;
    container.env = vec![("PATH".into(), "/usr/bin:/bin".into())];
    container.person = Some(person(site, number));
    container
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

/// A folder of the caller's that is closed to others, with a file that by itself is not.
fn closed_folder(site: &Site, name: &str) -> PathBuf {
    let folder = site.directory(name);
    fs::create_dir(folder.join("below")).unwrap();
    for file in ["token", "below/token"] {
        fs::write(folder.join(file), "secret\n").unwrap();
        set_mode(&folder.join(file), 0o644);
    }
    set_mode(&folder, 0o700);
    folder
}

fn keeper<'a>(site: &'a Site) -> &'a Keeper {
    site.keeper.as_deref().expect("these cases have one")
}

/// Runs a program of the node in the keeper's namespace.
fn within(site: &Site, within: Within, handed: Vec<PathBuf>, argv: &[&str]) -> (Ending, String) {
    within_with(site, within, handed, argv, &[])
}

fn within_with(
    site: &Site,
    within: Within,
    handed: Vec<PathBuf>,
    argv: &[&str],
    env: &[(String, String)],
) -> (Ending, String) {
    let argv = argv.iter().map(Into::into).collect();
    let process = Process { cwd: "/".into(), within: Some(within), handed, ..Process::default() };
    let env = env.iter().map(|(name, value)| (name.into(), value.into()));
    let env = env.chain([("PATH".into(), "/usr/bin:/bin".into())]).collect();
    let start = Start { argv, env, stdin: None };
    let launch = keeper(site).before(&site.helper, start, &process).unwrap();
    let (mut command, after) = launch.into_command();
    let output = command.output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    (after.ending(output.status), String::from_utf8_lossy(&said).into_owned())
}

fn own_ids(site: &Site) {
    let shared = site.directory("shared-by-people");
    let make = |number: u32| {
        let line = format!(
            "umask 077; echo mine > {0}/{number}; id -u; id -G; cat {0}/* 2>&1",
            shared.display()
        );
        let mut container = on_node(site, number, &line);
        container.binds = vec![Bind::writable(&shared, &shared)];
        let said = site.ok_or_not(&container);
        let found = fs::metadata(shared.join(number.to_string())).unwrap();
        let ids = keeper(site).given().ids(person(site, number));
        assert_eq!(ids, Some((found.uid(), found.gid())));
        said
    };
    assert_eq!(make(1), "1000\n1000\nmine\n");
    let second = make(2);
    assert!(
        second.contains("Permission denied") && second.matches("mine").count() == 1,
        "{second}"
    );
    let token = site.directory("of-the-caller").join("token");
    fs::write(&token, "secret\n").unwrap();
    set_mode(&token, 0o600);
    let reading = on_node(site, 1, &format!("cat {}", token.display()));
    let outcome = site.run(&reading);
    assert!(!outcome.stdout.contains("secret"), "{}", outcome.stdout);
    assert!(outcome.stderr.contains("Permission denied"), "{}", outcome.stderr);
}

fn named(site: &Site) {
    let folder = closed_folder(site, "closed");
    for source in ["token", "below", "below/token"] {
        let mut container = on_node(site, 1, "cat /tmp/x /tmp/x/token 2>/dev/null; true");
        container.binds = vec![Bind::read_only(folder.join(source), "/tmp/x")];
        let outcome = site.run(&container);
        assert!(outcome.refusal().contains("may not enter"), "{source}: {}", outcome.refusal());
    }
    let tree = site.other_tree("closed-tree-of-the-caller");
    let above = site.directory("above-a-tree");
    fs::rename(&tree, above.join("tree")).unwrap();
    set_mode(&above, 0o700);
    let mut container = site.script("cat /etc/marker");
    container.root = Root::Tree(above.join("tree"));
    site.run(&container).refusal();
    // A tree that is kept for all is opened for them.
    container.tree_is_ours = true;
    assert_eq!(site.ok(&container), "image\n");
    set_mode(&above, 0o755);
}

/// A directory that lacks a place is made anew where it is looked into, and only there.
fn made_anew(site: &Site) {
    let (folder, data) = (closed_folder(site, "not-anew"), site.directory("anew-data"));
    let line = format!("cat {}/below/token", folder.display());
    let mut container = on_node(site, 1, &line);
    for target in ["new", "below/new"] {
        container.binds = vec![Bind::read_only(&data, folder.join(target))];
        let outcome = site.run(&container);
        assert!(!outcome.stdout.contains("secret"), "{target}");
        outcome.refusal();
    }
}

fn given(site: &Site) {
    let own = site.directory("attempt");
    set_mode(&own, 0o700);
    let work = own.join("work");
    fs::create_dir(&work).unwrap();
    set_mode(&work, 0o700);
    let line = "mkdir -p a/b; echo x > a/b/c; chmod 0 a/b/c a/b a; pwd";
    let mut container = on_node(site, 3, line);
    container.cwd = "/tmp/work".into();
    container.binds = vec![Bind::writable(&work, "/tmp/work").made_for_it()];
    assert_eq!(site.ok(&container), "/tmp/work\n");
    let ids = keeper(site).given().ids(person(site, 3)).unwrap();
    assert_eq!(fs::metadata(&work).unwrap().uid(), ids.0);
    assert!(fs::read_dir(&work).is_err(), "it is closed to the caller");
    // Somebody else, who is shown it by name, may not enter it either.
    let mut other = on_node(site, 2, "true");
    other.binds = vec![Bind::read_only(&work, "/tmp/work")];
    site.run(&other).refusal();
    let (ending, said) =
        within(site, Within::Keeper, Vec::new(), &["rm", "-rf", work.to_str().unwrap()]);
    assert_eq!((ending, work.exists()), (Ending::Exit(0), false), "{said}");
}

fn output(site: &Site) {
    assert_eq!(site.says("echo x > /dev/stdout; echo y > /proc/self/fd/1"), "x\ny\n");
}

fn reads(site: &Site) {
    let folder = site.directory("read-by-a-person");
    let reading = |path: PathBuf, resolved| {
        let mut container = site.command(&["cat"]);
        container.reads = Some(Reads { path, resolved });
        container
    };
    let file = folder.join("data");
    fs::write(&file, "data\n").unwrap();
    set_mode(&file, 0o644);
    let link = folder.join("link");
    symlink(&file, &link).unwrap();
    assert_eq!(site.ok(&reading(file.clone(), true)), "data\n");
    assert_eq!(site.ok(&reading(link.clone(), false)), "data\n");
    site.run(&reading(link.clone(), true)).refusal();
    let closed = closed_folder(site, "not-read-by-a-person").join("token");
    let pipe = folder.join("pipe");
    rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::from_raw_mode(0o666)).unwrap();
    set_mode(&file, 0o600);
    for refused in [closed, pipe, file, link, folder, "/proc/self/fd/1".into()] {
        site.run(&reading(refused, false)).refusal();
    }
}

fn work_directory(site: &Site) {
    let folder = site.directory("not-theirs");
    set_mode(&folder, 0o755);
    let mut container = on_node(site, 1, "true");
    container.cwd.clone_from(&folder);
    container.binds = vec![Bind::writable(&folder, &folder)];
    let outcome = site.run(&container);
    assert!(outcome.refusal().contains("--workdir private"), "{}", outcome.refusal());
    set_mode(&folder, 0o777);
    site.ok(&container);
}

/// A process that copies files for a person: links of theirs lead it nowhere they could not go.
fn programs(site: &Site) {
    let secret = closed_folder(site, "secret-of-the-caller");
    let own = site.directory("of-a-person");
    let first = Within::Person(person(site, 1));
    let as_first = |handed: Vec<PathBuf>, argv: &[&str]| within(site, first, handed, argv);
    let work = own.join("work");
    fs::create_dir(&work).unwrap();
    symlink(secret.join("token"), work.join("out")).unwrap();
    set_mode(&own, 0o700);
    let place = shipway_runtime::native::handed(0, true);
    let (ending, said) = as_first(
        vec![work.clone()],
        &[
            "sh",
            "-c",
            &format!(
                "echo x > {0}/made && cat {0}/made; cat {0}/out; id -u; id -G",
                place.display()
            ),
        ],
    );
    assert_eq!(ending, Ending::Exit(0), "{said}");
    let Person { uid, gid } = person(site, 1);
    let expected = format!("x\n{uid}\n{gid}\n");
    assert!(said.contains(&expected) && said.contains("Permission denied"), "{said}");
    let ids = keeper(site).given().ids(person(site, 1)).unwrap();
    assert_eq!(fs::metadata(&work).unwrap().uid(), ids.0);
    let (ending, said) =
        as_first(Vec::new(), &["grep", "-E", "^Cap(Prm|Bnd|Eff)", "/proc/self/status"]);
    assert_eq!(said.matches("0000000000000000").count(), 3, "{ending:?} {said}");
    let (_, said) = as_first(Vec::new(), &["chown", "0", "/proc/self/fd/0"]);
    assert!(said.contains("not permitted"), "{said}");
}

/// Until it is the person it has every right over the files of all of them.
fn variables(site: &Site) {
    let dir = site.directory("loader-of-a-person");
    let env = asking_the_loader(&dir);
    let who = Within::Person(person(site, 1));
    let (ending, said) = within_with(site, who, Vec::new(), &["true"], &env);
    assert_eq!(ending, Ending::Exit(0), "{said}");
    assert_eq!(programs_that_ran(&dir), ["true"]);
}

fn keys(site: &Site) {
    let name = format!("shipway-test-{}", std::process::id());
    if !crate::probe::add_key(&name) {
        // A kernel without keys.
        return;
    }
    assert!(crate::probe::has_key(&name));
    let exe = fs::read_link("/proc/self/exe").unwrap();
    let words = [exe.to_str().unwrap(), crate::probe::KEYS, &name];
    for who in [Within::Keeper, Within::Person(person(site, 1))] {
        let (ending, said) = within(site, who, Vec::new(), &words);
        assert_eq!((ending, said.as_str()), (Ending::Exit(0), "absent\n"), "{who:?}");
    }
}

fn without_keeper(site: &Site) {
    use shipway_runtime::Runtime;
    let native = shipway_runtime::native::Native::new(std::sync::Arc::clone(&site.helper));
    let refused = native.launch(&on_node(site, 1, "true"), None).unwrap_err();
    assert!(refused.to_string().contains("keeps people apart"), "{refused}");
}
