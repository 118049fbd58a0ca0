//! The keys a site's file may have, and the nearest known one to a key that is not. What the values
//! must be is serde's work, and whether the site can be used is asked of `SiteSpec::check`.

use crate::job_form::Wrong;
use serde_json::Value;

const SITE: &[&str] = &[
    "name",
    "kind",
    "reach",
    "schedd",
    "pool",
    "ce",
    "env",
    "program",
    "server",
    "relay",
    "certificate",
    "classes",
    "limits",
    "wall",
    "idle",
    "warning",
    "submit",
    "users",
    "shared",
    "tags",
    "required_tags",
    "scratch",
    "runtime",
    "image",
];
const LIMITS: &[&str] = &["pending", "running", "starts_per_hour"];
const REACH: &[&str] = &["ssh", "slurmrestd"];
const SSH: &[&str] = &["host", "options"];
const SLURMRESTD: &[&str] = &["url", "user", "token", "version"];
const CLASS: &[&str] = &[
    "name",
    "partition",
    "pilots",
    "nodes",
    "cpus",
    "memory",
    "disk",
    "gpus",
    "cost",
    "guests",
    "attributes",
    "submit",
    "runtime",
    "image",
];
const GPUS: &[&str] =
    &["count", "model", "memory", "kind", "capability", "driver", "slice", "request", "declared"];

/// The first key that no site has.
pub fn unknown_key(site: &Value) -> Option<Wrong> {
    let first = |value: Option<&Value>, of, known: &'static [&'static str]| {
        let key = value?.as_object()?.keys().find(|key| !known.contains(&key.as_str()))?;
        Some(Wrong::Key { key: key.chars().take(60).collect(), of, known })
    };
    let reach = site.get("reach");
    let classes = site.get("classes").and_then(Value::as_array).into_iter().flatten();
    let in_classes = || {
        classes.clone().find_map(|class| {
            let in_gpus = || first(class.get("gpus"), "`gpus`", GPUS);
            first(Some(class), "a class", CLASS).or_else(in_gpus)
        })
    };
    first(Some(site), "a site", SITE)
        .or_else(|| first(site.get("limits"), "`limits`", LIMITS))
        .or_else(|| first(reach, "`reach`", REACH))
        .or_else(|| first(reach.and_then(|it| it.get("ssh")), "`ssh`", SSH))
        .or_else(|| first(reach.and_then(|it| it.get("slurmrestd")), "`slurmrestd`", SLURMRESTD))
        .or_else(in_classes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use shipway_model::{ClassGpus, SiteClass, SiteSpec};
    use std::collections::BTreeSet;

    fn whole() -> Value {
        let mut whole = json!({
            "name": "hpc", "kind": "slurm", "reach": {"ssh": {"host": "h", "options": ["-4"]}},
            "env": {"A": "b"}, "program": "/p", "server": "https://h:1", "certificate": "x",
            "relay": "login:7448",
            "limits": {"pending": 1, "running": 1, "starts_per_hour": 1}, "wall": "1h",
            "idle": "1m", "warning": "1m", "submit": ["-x"], "users": ["ada"],
            "shared": ["/home"], "tags": ["a"], "required_tags": ["b"],
            "scratch": "/tmp", "classes": [{
                "name": "c", "partition": "p", "pilots": 2, "nodes": 2, "cpus": 1, "memory": "1GB",
                "disk": "1GB", "cost": 2.5, "guests": "30s",
                "attributes": {"A": "1"}, "submit": ["-y"], "gpus": {
                    "count": 1, "model": "m", "memory": "1GB", "kind": "k", "capability": "8.0",
                    "driver": "550", "slice": "1g.10gb", "declared": true
                }
            }]
        });
        for (key, value) in
            [("schedd", json!("ce")), ("pool", json!("ce:9619")), ("ce", json!(true))]
        {
            whole[key] = value;
        }
        for place in ["", "/classes/0"] {
            let place = whole.pointer_mut(place).expect("there");
            (place["runtime"], place["image"]) = (json!("crun"), json!("none"));
        }
        whole["classes"][0]["gpus"]["request"] = json!("gpus");
        whole
    }

    fn properties<T: utoipa::PartialSchema>() -> BTreeSet<String> {
        let schema = serde_json::to_value(T::schema()).expect("plain data");
        schema["properties"].as_object().expect("an object").keys().cloned().collect()
    }

    /// The tables above repeat what the types say; this is what notices when they differ.
    #[test]
    fn the_known_keys_are_those_of_the_type() {
        let read: SiteSpec = serde_json::from_value(whole()).expect("every key is taken");
        let printed = serde_json::to_value(&read).expect("printed");
        assert_eq!(unknown_key(&printed), None);
        let keys = |value: &Value| -> BTreeSet<String> {
            value.as_object().expect("keys").keys().cloned().collect()
        };
        let known = |known: &[&str]| known.iter().map(|key| (*key).to_owned()).collect();
        // What is not printed when it is nothing is in the schema too.
        assert_eq!(properties::<SiteSpec>(), known(SITE));
        assert_eq!(properties::<SiteClass>(), known(CLASS));
        assert_eq!(properties::<ClassGpus>(), known(GPUS));
        let class = &printed["classes"][0];
        let pairs: [(&Value, BTreeSet<String>); 5] = [
            (&printed, known(SITE)),
            (&printed["limits"], known(LIMITS)),
            (&printed["reach"]["ssh"], known(SSH)),
            (class, known(CLASS)),
            (&class["gpus"], known(GPUS)),
        ];
        for (value, known) in pairs {
            assert_eq!(keys(value), known);
        }
    }

    #[test]
    fn the_known_ways_to_a_site_are_those_of_the_type() {
        let mut site = whole();
        let all: Vec<Value> = SLURMRESTD.iter().map(|_| json!("v0.0.40")).collect();
        let restd = SLURMRESTD.iter().map(|key| (*key).to_owned()).zip(all).collect();
        site["reach"] = json!({"slurmrestd": Value::Object(restd)});
        let read: SiteSpec = serde_json::from_value(site.clone()).expect("every key is taken");
        assert_eq!(serde_json::to_value(&read).expect("printed")["reach"], site["reach"]);
        assert_eq!(unknown_key(&site), None);
        site["reach"]["slurmrestd"]["tokens"] = json!(1);
        assert_eq!(unknown_key(&site).expect("one").hint(), Some("did you mean `token`?".into()));
        site["reach"] = json!({"slurmrest": {}});
        let wrong = unknown_key(&site).expect("one");
        assert_eq!(wrong.hint(), Some("did you mean `slurmrestd`?".into()));
    }

    #[test]
    fn a_misspelt_key_is_named_with_the_one_that_is_meant() {
        for (path, key, meant) in [
            ("", "clases", "classes"),
            ("/limits", "pendings", "pending"),
            ("/reach/ssh", "hosts", "host"),
            ("/classes/0", "cpu", "cpus"),
            ("/classes/0/gpus", "models", "model"),
        ] {
            let mut site = whole();
            let place = site.pointer_mut(path).expect("there");
            place[key] = json!(1);
            let wrong = unknown_key(&site).expect(key);
            assert_eq!(wrong.key(), key);
            assert_eq!(wrong.hint(), Some(format!("did you mean `{meant}`?")));
        }
    }
}
