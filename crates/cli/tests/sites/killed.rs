//! The server is killed with -9 between handing an allocation in and writing down that it was
//! taken, or while the command that does so is still on its way and comes to its end later.

use crate::common::{World, is_alive, quick, wait_for};
use crate::engines::{Engine, remembered, wait_until_empty};
use crate::ground::{Class, SiteFile, book, ends_well, free_address};
use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// Stands before the command that hands in. `after`: it is told to kill the server when the engine
/// has taken it; `late`: before, and that it takes its time.
const DEADLY: &str = r#"#!/bin/sh
PATH=/usr/sbin:/usr/bin:/sbin:/bin
cd FOLDER || exit 1
if mv late late.done 2> /dev/null; then
    script=$(mktemp ./script.XXXXXX)
    cat > "$script"
    kill -KILL "$(cat server)"
    sleep 2
    exec REAL "$@" < "$script"
fi
REAL "$@"
code=$?
if mv after after.done 2> /dev/null; then kill -KILL "$(cat server)"; fi
exit $code
"#;

/// Each has a pilot of its own until all are told to go on.
const WAIT_AND_WRITE: &str = "until [ -e go ]; do sleep 0.2; done; echo $SHIPWAY_TASK >> book";

/// Before the command `name`, which is `real`. `site` finds it by PATH. Each job has as many tasks
/// as an allocation has nodes.
pub(crate) fn nothing_twice(
    world: &World,
    site: SiteFile,
    engine: &impl Engine,
    (name, nodes): (&str, usize),
) {
    let folder = world.work().join("deadly");
    std::fs::create_dir(&folder).expect("made");
    let path = site.env.iter().find(|(name, _)| *name == "PATH").map(|(_, path)| path.clone());
    let path = path.unwrap_or_else(|| "/usr/bin:/bin".to_owned());
    let real = path.split(':').map(|dir| Path::new(dir).join(name)).find(|it| it.exists());
    let real = real.expect("the command is there").display().to_string();
    let text = DEADLY.replace("FOLDER", folder.to_str().expect("text")).replace("REAL", &real);
    std::fs::write(folder.join(name), text).expect("written");
    let mode = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(folder.join(name), mode).expect("made to run");
    let mut site = site;
    site.env.retain(|(name, _)| *name != "PATH");
    site.env.push(("PATH", format!("{}:{path}", folder.display())));
    let more = if nodes == 1 { "" } else { ", nodes: 2" };
    site.classes = vec![Class { cpus: 1, more, ..Class::cpu(60) }];
    site.limits = "pending: 30, running: 30, starts_per_hour: 1000";

    // The same address each time: pilots that are on their way have been told it.
    let listen = free_address();
    let up = || {
        world.up_with(&["--no-pilot", "--listen", &listen], |_| {});
        std::fs::write(folder.join("server"), world.server_pid().to_string()).expect("written");
    };
    up();
    site.add(world);
    let kills = if quick() { 4 } else { 20 };
    let (mut jobs, array) = (Vec::new(), format!("1-{nodes}"));
    for at in 0..kills {
        let when = if at % 4 == 3 { "late" } else { "after" };
        std::fs::write(folder.join(when), "").expect("written");
        let words = ["--array", &array, "--cpus", "1", "--", "sh", "-c", WAIT_AND_WRITE];
        jobs.push(world.submit(&words));
        let server = world.server_pid();
        wait_for("the server is killed", || !is_alive(server));
        world.kill_server();
        up();
    }
    std::fs::write(world.work().join("go"), "").expect("written");
    for job in &jobs {
        ends_well(world, job);
    }
    assert_eq!(book(world).len(), jobs.len() * nodes);
    assert!(book(world).values().all(|times| *times == 1), "{:?}", book(world));
    wait_until_empty(world, site.name, engine);
    let all = remembered(world, engine);
    let different: BTreeSet<&String> = all.iter().map(|(id, _)| id).collect();
    assert_eq!(all.len(), different.len(), "no allocation twice: {all:?}");
}
