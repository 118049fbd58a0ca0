//! Debian packages the tests need: installed when we may, named when we may not.
//!
//! In CI a missing one is a failure, because there a skipped test would look like a passed one.

use std::process::{Command, Stdio};

use anyhow::{Result, bail};

use super::{Context, Done};
use crate::children;

/// A package, a command that works only when it is there, and what needs it.
struct Package {
    name: &'static str,
    proof: &'static [&'static str],
    why: &'static str,
}

const PACKAGES: [Package; 23] = [
    Package {
        name: "curl",
        proof: &["curl", "--version"],
        why: "tests speak to the server with a client that is not ours",
    },
    Package {
        name: "bsdutils",
        proof: &["script", "--version"],
        why: "tests press Ctrl-C at a real terminal",
    },
    Package {
        name: "gcc",
        proof: &["cc", "--version"],
        why: "tests put a layer that fails between the server and its disk",
    },
    Package {
        name: "python3",
        proof: &["python3", "--version"],
        why: "tests run a task that takes more memory than it may",
    },
    Package {
        name: "python3-venv",
        proof: &["python3", "-c", "import ensurepip, venv"],
        why: "the API is fuzzed by a Python program, in an environment of its own",
    },
    Package {
        name: "prometheus",
        proof: &["promtool", "--version"],
        why: "tests have the metrics judged by the tool that Prometheus comes with",
    },
    Package {
        name: "busybox-static",
        proof: &["/bin/busybox", "true"],
        why: "tests run containers on a tree that has nothing else",
    },
    Package {
        name: "crun",
        proof: &["crun", "--version"],
        why: "containers must be the same with an OCI runtime",
    },
    Package {
        name: "uidmap",
        proof: &["sh", "-c", "command -v newuidmap newgidmap"],
        why: "people are kept apart without root by the ids that it maps",
    },
    Package {
        name: "patchelf",
        proof: &["patchelf", "--version"],
        why: "Apptainer is put beside the system with it, where Debian does not have it",
    },
    Package {
        name: "debootstrap",
        proof: &["sh", "-c", "command -v debootstrap /usr/sbin/debootstrap"],
        why: "HTCondor is put into a root of its own with it",
    },
    Package {
        name: "bubblewrap",
        proof: &["bwrap", "--version"],
        why: "the start of a container is measured against it",
    },
    Package {
        name: "docker-registry",
        proof: &["docker-registry", "--version"],
        why: "tests pull images from a registry that is not ours",
    },
    Package {
        name: "skopeo",
        proof: &["skopeo", "--version"],
        why: "tests fill that registry, and make archives of images",
    },
    Package {
        name: "iproute2",
        proof: &["sh", "-c", "PATH=$PATH:/usr/sbin; command -v ip"],
        why: "a node without a way out is made with it",
    },
    Package {
        name: "umoci",
        proof: &["umoci", "--version"],
        why: "tests compare our trees with those of another tool",
    },
    Package {
        name: "squashfs-tools",
        proof: &["sh", "-c", "command -v mksquashfs unsquashfs"],
        why: "SIF images are unpacked by it, and tests make some",
    },
    Package {
        name: "slurmctld slurmd slurm-client slurm-wlm-basic-plugins",
        proof: &["sh", "-c", "PATH=$PATH:/usr/sbin; command -v slurmctld && command -v slurmd"],
        why: "tests hand allocations in to a real Slurm",
    },
    Package {
        name: "slurmrestd slurm-wlm-jwt-plugin",
        proof: &[
            "sh",
            "-c",
            "PATH=$PATH:/usr/sbin; command -v slurmrestd && ls /usr/lib/*/slurm-wlm/auth_jwt.so",
        ],
        why: "tests speak to a real Slurm by HTTP, with tokens",
    },
    Package {
        name: "munge",
        proof: &["sh", "-c", "PATH=$PATH:/usr/sbin; command -v munged"],
        why: "that Slurm knows by it who asks",
    },
    Package {
        name: "slurmdbd",
        proof: &["sh", "-c", "PATH=$PATH:/usr/sbin; command -v slurmdbd"],
        why: "some sites keep accounts of what has ended, and tests read them",
    },
    Package {
        name: "mariadb-server-core mariadb-client-core",
        proof: &["sh", "-c", "PATH=$PATH:/usr/sbin; command -v mariadbd && command -v mariadb"],
        why: "these accounts are in it",
    },
    Package {
        name: "openssh-server",
        proof: &["test", "-x", "/usr/sbin/sshd"],
        why: "tests reach a batch system over a real ssh",
    },
];

/// Not a package of every Debian; the script puts it into `/opt`.
const APPTAINER: Package = Package {
    name: "apptainer",
    proof: &["sh", "-c", "PATH=$PATH:/opt/apptainer/bin apptainer --version"],
    why: "containers must be the same with it, and some sites allow nothing else",
};
const APPTAINER_SCRIPT: &str = include_str!("apptainer.sh");

/// Not a package of every Debian either; the script puts a newer one into `/opt`.
const HTCONDOR: Package = Package {
    name: "htcondor",
    proof: &["test", "-x", "/opt/shipway-htcondor/usr/bin/condor_submit"],
    why: "submit files must mean to us what they mean to it, and tests hand allocations in to it",
};
const HTCONDOR_SCRIPT: &str = include_str!("htcondor.sh");

/// What scripts put into `/opt`, each with its file.
const SCRIPTS: [(&Package, &str, &str); 2] =
    [(&APPTAINER, "apptainer.sh", APPTAINER_SCRIPT), (&HTCONDOR, "htcondor.sh", HTCONDOR_SCRIPT)];

pub(super) fn install(context: &Context) -> Result<Done> {
    let done = provide(context, |_| true)?;
    if matches!(done, Done::Passed) {
        println!("all {} Debian packages are there", PACKAGES.len() + SCRIPTS.len());
    }
    Ok(done)
}

/// For a step that may run alone: what it needs, by the names above.
pub(super) fn of_step(context: &Context, names: &[&str]) -> Result<Done> {
    provide(context, |package| names.contains(&package.name))
}

fn provide(context: &Context, is_wanted: impl Fn(&Package) -> bool) -> Result<Done> {
    let wanted = PACKAGES.iter().filter(|package| is_wanted(package));
    let mut missing: Vec<&Package> = wanted.filter(|package| !works(package)).collect();
    let is_root = rustix::process::geteuid().is_root();
    if !missing.is_empty() && is_root {
        apt_install(&missing);
        missing.retain(|package| !works(package));
    }
    let scripts = SCRIPTS.iter().filter(|(package, ..)| is_wanted(package) && !works(package));
    for (package, file, script) in scripts {
        if is_root {
            run_script(file, script);
        }
        missing.extend((!works(package)).then_some(*package));
    }
    for Package { name, why, .. } in &missing {
        eprintln!("missing Debian package {name}: {why}");
    }
    let names: Vec<&str> = missing.iter().map(|package| package.name).collect();
    let advice = format!("run `apt-get install {}` as root", names.join(" "));
    match (names.is_empty(), context.ci) {
        (true, _) => Ok(Done::Passed),
        (false, true) => bail!("{} package(s) missing; {advice}", names.len()),
        (false, false) => Ok(Done::Skipped(format!("{} missing; {advice}", names.join(", ")))),
    }
}

fn works(package: &Package) -> bool {
    let (program, args) = package.proof.split_first().expect("a proof names a program");
    let mut command = Command::new(program);
    command.args(args).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// Tries; whether it helped is seen by looking again.
fn run_script(file: &str, text: &str) {
    println!("$ sh xtask/src/test/{file}");
    if let Err(error) = children::run(Command::new("sh").args(["-c", text])) {
        eprintln!("{file} did not do its work: {error:#}");
    }
}

/// Tries; whether it helped is seen by looking again.
fn apt_install(missing: &[&Package]) {
    let install = || {
        let mut apt = Command::new("apt-get");
        apt.env("DEBIAN_FRONTEND", "noninteractive");
        // Some of them are services; the tests want the programs and nothing running.
        apt.env("SYSTEMD_OFFLINE", "1");
        apt.args(["install", "--yes", "--quiet=2", "--no-install-recommends"]);
        apt.args(missing.iter().flat_map(|package| package.name.split(' ')));
        println!("$ {}", children::describe(&apt));
        children::run(&mut apt)
    };
    if install().is_ok() {
        return;
    }
    // A fresh machine knows no packages until it asks.
    let updated = children::run(Command::new("apt-get").args(["update", "--quiet=2"]));
    if let Err(error) = updated.and_then(|()| install()) {
        eprintln!("could not install: {error:#}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proof_tells_present_from_absent() {
        let package = |proof| Package { name: "x", proof, why: "test" };
        assert!(works(&package(&["true"])));
        assert!(!works(&package(&["false"])));
        assert!(!works(&package(&["no-such-program-anywhere"])));
    }
}
