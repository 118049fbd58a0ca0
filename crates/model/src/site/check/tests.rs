//! What is taken as a site's description, and how each mistake in one is named.

use super::*;

fn site(change: impl FnOnce(&mut serde_json::Value)) -> Result<(), String> {
    let mut site = serde_json::json!({
        "name": "hpc", "kind": "slurm", "program": "/opt/shipway", "server": "http://h:7447",
        "shared": ["/home"], "classes": [{
            "name": "a100", "partition": "gpu", "pilots": 4, "cpus": 8, "memory": "32GB",
            "gpus": {"count": 1, "model": "NVIDIA A100", "memory": "40GB", "kind": "a100"}
        }]
    });
    change(&mut site);
    let site: SiteSpec = serde_json::from_value(site).map_err(|error| error.to_string())?;
    site.check().map_err(|problems| problems[0].to_string())
}

type Change = fn(&mut serde_json::Value);

#[test]
fn a_site_is_taken_and_each_mistake_is_named() {
    assert_eq!(site(|_| ()), Ok(()));
    named(&[
        (
            |it| {
                (it["kind"], it["classes"][0]["partition"]) =
                    ("htcondor".into(), serde_json::Value::Null);
                it["classes"][0]["gpus"]["request"] = "gpus".into();
            },
            "classes: a100: HTCondor is asked for GPUs by `request_gpus`",
        ),
        (|it| it["relay"] = "login1".into(), "`login1` is not the address of a relay"),
        (|it| it["relay"] = "login1:7448".into(), "server: through a relay it is https://"),
        (|it| it["name"] = "this-machine".into(), "name: `this-machine` is a site of every"),
        (|it| it["name"] = "A b".into(), "`A b` is not a site name"),
        (|it| it["name"] = "-a".into(), "name: `-a` is not lower-case"),
        (|it| it["program"] = "shipway".into(), "program: `shipway` is not a path"),
        (|it| it["program"] = "send:bin".into(), "program: `bin` is not a path"),
        (
            |it| {
                it["program"] = "send:/opt".into();
                it["reach"] =
                    serde_json::json!({"slurmrestd": {"url": "unix:/run/s", "user": "a"}});
            },
            "program: slurmrestd takes no files",
        ),
        (|it| it["server"] = "ftp://h".into(), "server: `ftp://h` is not an address"),
        (|it| it["server"] = "https://h x".into(), "server: `https://h x` is not an address"),
        (|it| it["wall"] = "10s".into(), "wall: 10s is not between 1m and 31d"),
        (|it| it["warning"] = "11h".into(), "warning: 11h is more than half"),
        (|it| it["shared"] = serde_json::json!(["/a/../b"]), "shared: `/a/../b` is not a path"),
        (|it| it["submit"] = serde_json::json!(["--a\n--b"]), "submit: `--a\n--b` is not one"),
        (|it| it["classes"] = serde_json::json!([]), "classes: a site needs at least one"),
        (
            |it| it["classes"][0]["gpus"]["slice"] = "small".into(),
            "classes: a100: `slice: small` is no profile (write it as the driver does: 1g.10gb",
        ),
        (|it| it["classes"][0]["gpus"]["count"] = 0.into(), "classes: a100: 0 GPUs; between"),
        (|it| it["limits"] = serde_json::json!({"pending": 0}), "limits: with 0 nothing"),
        (|it| it["schedd"] = "ce.example.org".into(), "schedd: only HTCondor has one"),
        (|it| it["ce"] = true.into(), "ce: only HTCondor has compute elements"),
        (|it| it["kind"] = "htcondor".into(), "classes: a100: an HTCondor pool has no partitions"),
        (
            |it| {
                (it["kind"], it["ce"]) = ("htcondor".into(), true.into());
                it["pool"] = "-x".into();
            },
            "pool: `-x` is not the name of one",
        ),
        (
            |it| it["reach"] = serde_json::json!({"ssh": {"host": "-oProxyCommand=x"}}),
            "reach: `-oProxyCommand=x` is not a host",
        ),
    ]);
}

#[test]
fn what_is_no_way_to_a_slurmrestd_is_named() {
    named(&[
        (|it| it["reach"] = restd("http://h:6820", None), "reach: slurmrestd needs a `token` here"),
        (
            |it| it["reach"] = restd("http://ada:secret@h:6820", Some("/t")),
            "reach: `the address` is not where a slurmrestd is",
        ),
        (
            |it| it["reach"] = restd("unix:run/socket", None),
            "reach: `unix:run/socket` is not where a slurmrestd is",
        ),
        (
            |it| it["reach"] = restd("https://h:6820", Some("token")),
            "reach: `token`: `token` is not a path",
        ),
        (
            |it| {
                it["reach"] = restd("https://h:6820", Some("/t"));
                it["reach"]["slurmrestd"]["version"] = "v0.0.37".into();
            },
            "reach: `v0.0.37` is not a version of slurmrestd's interface",
        ),
        (
            |it| {
                (it["kind"], it["classes"][0]["partition"]) =
                    ("htcondor".into(), serde_json::Value::Null);
                it["reach"] = restd("https://h:6820", Some("/t"));
            },
            "reach: only Slurm has a slurmrestd",
        ),
    ]);
}

/// What is first said of a site that is changed so.
fn named(cases: &[(Change, &str)]) {
    for (change, expected) in cases {
        let said = site(change).expect_err(expected);
        assert!(said.starts_with(expected), "{said} instead of {expected}");
    }
}

fn restd(url: &str, token: Option<&str>) -> serde_json::Value {
    serde_json::json!({"slurmrestd": {"url": url, "user": "ada", "token": token}})
}

#[test]
fn a_slurmrestd_is_reached_with_a_token_or_by_its_socket() {
    for (url, token) in [
        ("http://head:6820", Some("/etc/shipway/token")),
        ("https://[::1]:6820/", Some("/etc/shipway/token")),
        ("unix:/run/slurmrestd/socket", None),
        ("unix:/run/slurmrestd/socket", Some("/etc/shipway/token")),
    ] {
        assert_eq!(site(|it| it["reach"] = restd(url, token)), Ok(()), "{url}");
    }
}

#[test]
fn several_nodes_in_an_allocation_are_slurms_and_pilots_come_so_many_at_a_time() {
    let with = |kind: &'static str, nodes: u32, pilots: u32| {
        site(move |it| {
            it["kind"] = kind.into();
            let class = &mut it["classes"][0];
            (class["nodes"], class["pilots"]) = (nodes.into(), pilots.into());
            if kind == "htcondor" {
                class["partition"] = serde_json::Value::Null;
            }
        })
    };
    for (kind, nodes, pilots) in [("slurm", 2, 2), ("slurm", 4, 8), ("htcondor", 1, 7)] {
        assert_eq!(with(kind, nodes, pilots), Ok(()), "{kind} {nodes} {pilots}");
    }
    for (kind, nodes, pilots, expected) in [
        ("slurm", 4, 6, "classes: a100: `pilots: 6` is no multiple of `nodes: 4`"),
        ("slurm", 4, 2, "classes: a100: `pilots: 2` is no multiple of `nodes: 4`"),
        ("slurm", 257, 257, "classes: a100: 257 nodes; at most 256 in one allocation"),
        ("slurm", 0, 4, "invalid value: integer `0`"),
        ("htcondor", 2, 4, "classes: a100: `nodes` is for Slurm: a job of HTCondor is on one"),
    ] {
        let said = with(kind, nodes, pilots).expect_err(expected);
        assert!(said.starts_with(expected), "{said} instead of {expected}");
    }
}

#[test]
fn a_compute_element_is_named_and_has_queues() {
    let ce = |it: &mut serde_json::Value| {
        (it["kind"], it["ce"]) = ("htcondor".into(), true.into());
    };
    let said = site(ce).expect_err("without a name");
    assert!(said.starts_with("ce: name the compute element"), "{said}");
    let named = |it: &mut serde_json::Value| {
        ce(it);
        it["schedd"] = "ce01.example.org".into();
        it["pool"] = "ce01.example.org:9619".into();
    };
    assert_eq!(site(named), Ok(()));
}

#[test]
fn unknown_keys_are_refused() {
    assert!(site(|it| it["partitions"] = 1.into()).is_err());
    assert!(site(|it| it["classes"][0]["gpu"] = 1.into()).is_err());
}
