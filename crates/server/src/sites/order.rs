//! An allocation as it is handed in to a batch system: from the site's file, its class and the
//! secrets of the pilots that will be there, one on each node. Pure.

use super::program::Program;
use crate::secrets::PilotKey;
use serde_json::json;
use shipway_model::site::MAX_CLASS_GPUS;
use shipway_model::{
    AllocationId, BatchKind, ClassGpus, Millis, PilotCredentials, PilotId, SiteClass, SiteSpec,
};
use shipway_sites::batch::{Order, OrderedGpus, PilotStart};

/// The name of the server's certificate in a pilot's folder.
pub(super) const CERTIFICATE: &str = "server.pem";
/// That of GPUs that nobody is to look for.
const DECLARED: &str = "declared.json";
/// How long a pilot may be out of touch: longer than a server takes to be put back up.
const LEASE: Millis = Millis(10 * 60_000);

/// With as many nodes as it was asked for with, whatever the file says by now. `None`: nobody may
/// come of it, as all its tokens are over; and the credentials of a pilot are always JSON.
pub(super) fn order(
    spec: &SiteSpec,
    class: &SiteClass,
    (allocation, pilots): (&AllocationId, &[PilotId]),
    key: &PilotKey,
    program: Program,
) -> Option<Order> {
    let nodes = u32::try_from(pilots.len()).ok().filter(|nodes| *nodes > 0)?;
    let credentials = |pilot: &PilotId| {
        let credentials = PilotCredentials { pilot: pilot.clone(), token: key.token_of(pilot) };
        serde_json::to_string(&credentials).ok()
    };
    let credentials = pilots.iter().map(credentials).collect::<Option<Vec<String>>>()?;
    let certificate = spec.certificate.iter();
    let certificate = certificate.map(|text| (CERTIFICATE.to_owned(), text.clone()));
    let gpus = class.gpus.iter().filter(|gpus| gpus.declared);
    let declared = gpus.map(|gpus| (DECLARED.to_owned(), declared(gpus)));
    let files = certificate.chain(declared).collect();
    Some(Order {
        allocation: allocation.clone(),
        partition: class.partition.clone(),
        nodes,
        cpus: class.cpus,
        memory: class.memory,
        gpus: class.gpus.as_ref().map(|gpus| OrderedGpus {
            count: gpus.count,
            kind: gpus.kind.clone(),
            request: gpus.request,
        }),
        wall: spec.wall,
        warning: spec.warning,
        submit_lines: spec.submit.iter().chain(&class.submit).cloned().collect(),
        pilot: PilotStart {
            program: program.path,
            sha256: program.sha256,
            options: options(spec, class),
            scratch: spec.scratch.clone(),
            credentials,
            files,
        },
    })
}

/// As many as a node may have, so that the batch system's number of one finds it.
fn declared(gpus: &ClassGpus) -> String {
    let one = |at: u32| {
        json!({
            "uuid": format!("declared-{at}"), "model": gpus.model, "memory": gpus.memory,
            "vendor": "nvidia", "capability": gpus.capability, "driver": gpus.driver,
            "slice": gpus.slice,
        })
    };
    json!({"gpus": (0..MAX_CLASS_GPUS).map(one).collect::<Vec<_>>()}).to_string()
}

fn options(spec: &SiteSpec, class: &SiteClass) -> Vec<String> {
    let within = match spec.kind {
        BatchKind::Slurm => "slurm",
        BatchKind::HtCondor => "htcondor",
    };
    let seconds = |span: Millis| format!("{}s", span.0.div_ceil(1_000));
    let mut words: Vec<String> = [
        ("--server", spec.server.clone()),
        ("--within", within.to_owned()),
        ("--cpus", class.cpus.to_string()),
        ("--memory", class.memory.0.to_string()),
        ("--lease", seconds(LEASE)),
        ("--idle", seconds(spec.idle)),
        ("--wall", seconds(spec.wall)),
        ("--grace", seconds(spec.warning)),
    ]
    .into_iter()
    .flat_map(|(option, value)| [option.to_owned(), value])
    .collect();
    // Whoever keeps the server has chosen the account that hands pilots in.
    words.push("--of-owner".to_owned());
    if let Some(gpus) = &class.gpus {
        words.extend(["--expect-gpus".to_owned(), gpus.count.to_string()]);
        if gpus.declared {
            words.extend(["--declared".to_owned(), DECLARED.to_owned()]);
        }
    }
    if let Some(relay) = &spec.relay {
        words.extend(["--relay".to_owned(), relay.to_string()]);
    }
    for (option, value) in
        [("--runtime", spec.runtime_of(class)), ("--default-image", spec.image_of(class))]
    {
        words.extend(value.into_iter().flat_map(|value| [option.to_owned(), value.to_owned()]));
    }
    if spec.certificate.is_some() {
        // The script starts it in its folder.
        words.extend(["--ca".to_owned(), CERTIFICATE.to_owned()]);
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::documents::HomeFiles;

    #[test]
    fn pilots_of_a_site_with_a_relay_go_that_way_to_the_same_server() {
        let site = |relay: serde_json::Value| -> SiteSpec {
            let site = json!({
                "name": "hpc", "kind": "slurm", "program": "/opt/shipway",
                "server": "https://head:7447", "relay": relay, "classes": [
                    {"name": "cpu", "pilots": 1, "cpus": 1, "memory": "1GB"}
                ]
            });
            serde_json::from_value(site).expect("a site")
        };
        let words = |spec: &SiteSpec| options(spec, &spec.classes[0]).join(" ");
        let by = words(&site("login1:7448".into()));
        assert!(by.starts_with("--server https://head:7447 "), "{by}");
        assert!(by.contains(" --relay login1:7448"), "{by}");
        assert!(!words(&site(serde_json::Value::Null)).contains("--relay"));
    }

    #[test]
    fn each_node_has_the_credentials_of_its_own_pilot() {
        let site = json!({
            "name": "hpc", "kind": "slurm", "program": "/opt/shipway", "server": "https://head:1",
            "classes": [{"name": "mpi", "pilots": 8, "nodes": 4, "cpus": 1, "memory": "1GB"}]
        });
        let site: SiteSpec = serde_json::from_value(site).expect("a site");
        let folder = tempfile::tempdir().expect("a folder");
        let key = PilotKey::open(&HomeFiles::of(folder.path())).expect("made");
        let allocation = AllocationId::new("a-1").expect("good");
        let pilots = ["batch-1", "batch-2"].map(|id| PilotId::new(id).expect("good"));
        let program = Program { path: "/opt/shipway".into(), sha256: None };
        let made =
            |pilots| order(&site, &site.classes[0], (&allocation, pilots), &key, program.clone());
        let two = made(&pilots).expect("an order");
        assert_eq!(two.nodes, 2, "as it was asked for, whatever the file says now");
        let own = |text: &String| serde_json::from_str::<PilotCredentials>(text).expect("read");
        let found: Vec<PilotCredentials> = two.pilot.credentials.iter().map(own).collect();
        let named: Vec<&PilotId> = found.iter().map(|it| &it.pilot).collect();
        assert_eq!(named, [&pilots[0], &pilots[1]]);
        assert_eq!(found[0].token, key.token_of(&pilots[0]));
        assert_ne!(found[0].token, found[1].token);
        assert_eq!(made(&[]), None, "nobody may come of it any more");
    }

    #[test]
    fn what_containers_are_made_with_is_the_class_s_word_before_the_site_s() {
        let site = json!({
            "name": "hpc", "kind": "slurm", "program": "/opt/shipway", "server": "https://head:1",
            "runtime": "apptainer", "image": "sif:/base.sif", "classes": [
                {"name": "cpu", "pilots": 1, "cpus": 1, "memory": "1GB"},
                {"name": "own", "pilots": 1, "cpus": 1, "memory": "1GB", "image": "none"}
            ]
        });
        let site: SiteSpec = serde_json::from_value(site).expect("a site");
        let words = |class: usize| options(&site, &site.classes[class]).join(" ");
        let (of_site, of_class) = (words(0), words(1));
        let both = " --runtime apptainer --default-image sif:/base.sif";
        assert!(of_site.contains(both), "{of_site}");
        let both = " --runtime apptainer --default-image none";
        assert!(of_class.contains(both), "{of_class}");
        let plain = SiteSpec { runtime: None, image: None, ..site.clone() };
        let neither = options(&plain, &plain.classes[0]).join(" ");
        assert!(!neither.contains("--runtime") && !neither.contains("image"), "{neither}");
    }
}
