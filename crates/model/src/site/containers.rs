//! What containers are made with at a site, and what tasks run on there that name no image: whether
//! a pilot would take both. What it makes of them is the pilot's affair.

use super::check::{Check, is_line};
use super::{SiteClass, SiteSpec};
use crate::image_ref::ImageRef;

/// The words for plain processes, and for the runtime that is in the program itself.
const NONE: &str = "none";
const NATIVE: &str = "native";
const PROGRAMS: [&str; 2] = ["crun", "apptainer"];

pub(super) fn check_containers(site: &SiteSpec, check: &mut Check<'_>) {
    for (key, problem) in problems(site, site.runtime.as_deref(), site.image.as_deref()) {
        check(false, key, problem);
    }
    // One of a class stands beside that of the site.
    let is_own = |class: &&SiteClass| class.runtime.is_some() || class.image.is_some();
    for class in site.classes.iter().filter(is_own) {
        for (key, problem) in problems(site, site.runtime_of(class), site.image_of(class)) {
            check(false, "classes", format!("{}: {key}: {problem}", class.name));
        }
    }
}

fn problems(
    site: &SiteSpec,
    runtime: Option<&str>,
    image: Option<&str>,
) -> Vec<(&'static str, String)> {
    let mut found = Vec::new();
    found.extend(runtime.and_then(wrong_runtime).map(|what| ("runtime", what)));
    found.extend(image.and_then(|image| wrong_image(site, image)).map(|what| ("image", what)));
    let is_host = image == Some("host");
    if let Some(other) = runtime.filter(|name| *name != NATIVE && is_host) {
        found.push(("image", format!("{other} makes no containers on the node's own files")));
    }
    found
}

fn wrong_runtime(text: &str) -> Option<String> {
    let (name, program) = match text.split_once('=') {
        Some((name, program)) => (name, Some(program)),
        None => (text, None),
    };
    let is_program = PROGRAMS.contains(&name);
    if !is_line(text) || !is_program && text != NATIVE {
        let text: String = text.chars().take(60).collect();
        return Some(format!(
            "`{text}` is not a runtime: it is native, crun or apptainer, as in \
             apptainer=/opt/bin/apptainer where it is not in PATH"
        ));
    }
    let is_relative = program.is_some_and(|path| !path.starts_with('/'));
    is_relative.then(|| format!("the program is given by its whole path: {name}=/usr/bin/{name}"))
}

fn wrong_image(site: &SiteSpec, text: &str) -> Option<String> {
    if text == NONE {
        return None;
    }
    let image: ImageRef = match text.parse() {
        Ok(image) if is_line(text) => image,
        Ok(_) => return Some("not one short line of plain text".into()),
        Err(error) => return Some(format!("{error}; or `{NONE}`, for plain processes")),
    };
    if image.place().is_some_and(|place| !place.starts_with('/')) {
        return Some(format!("`{text}`: write the whole path, from / on"));
    }
    let is_loose = matches!(image, ImageRef::Registry(_)) && image.digest().is_none();
    (is_loose && site.relay.is_some()).then(|| {
        format!("a relay hands out images by digest: write `{text}` with its digest (@sha256:…)")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(site: serde_json::Value, class: serde_json::Value) -> Vec<String> {
        let mut whole = serde_json::json!({
            "name": "hpc", "kind": "slurm", "program": "/opt/shipway", "server": "https://h:7447",
            "classes": [{"name": "cpu", "pilots": 4, "cpus": 8, "memory": "32GB"}]
        });
        let mut add = |path: &str, more: serde_json::Value| {
            let place = whole.pointer_mut(path).expect("there");
            for (key, value) in more.as_object().expect("keys") {
                place[key] = value.clone();
            }
        };
        add("", site);
        add("/classes/0", class);
        let site: SiteSpec = serde_json::from_value(whole).expect("a site");
        let problems = site.check().err().unwrap_or_default();
        problems.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn what_a_pilot_would_not_take_is_refused() {
        use serde_json::json;
        let digest = format!("docker://r.example.org/x@sha256:{}", "a".repeat(64));
        for good in [
            json!({"runtime": "native", "image": "host"}),
            json!({"runtime": "apptainer", "image": "sif:/cvmfs/base.sif"}),
            json!({"runtime": "apptainer=/opt/bin/apptainer", "image": "none"}),
            json!({"runtime": "crun", "image": "docker://debian:12"}),
            json!({"relay": "login:7448", "image": digest}),
        ] {
            assert_eq!(said(good.clone(), json!({})), Vec::<String>::new(), "{good}");
        }
        for (bad, words) in [
            (json!({"runtime": "docker"}), "runtime: `docker` is not a runtime"),
            (json!({"runtime": "native=/x"}), "runtime: `native=/x` is not a runtime"),
            (json!({"runtime": "crun=crun"}), "runtime: the program is given by its whole path"),
            (json!({"runtime": "crun", "image": "host"}), "image: crun makes no containers"),
            (json!({"image": "sif:base.sif"}), "image: `sif:base.sif`: write the whole path"),
            (json!({"image": "what:/is"}), "image: "),
            (
                json!({"relay": "login:7448", "image": "docker://debian:12"}),
                "image: a relay hands out images by digest",
            ),
        ] {
            let found = said(bad.clone(), json!({}));
            assert_eq!(found.len(), 1, "{bad}: {found:?}");
            assert!(found[0].starts_with(words), "{bad}: {found:?}");
        }
    }

    /// What a class does not say is its site's.
    #[test]
    fn a_class_is_judged_with_what_its_site_says() {
        use serde_json::json;
        let site = json!({"runtime": "apptainer", "image": "none"});
        let found = said(site.clone(), json!({"image": "host"}));
        assert_eq!(
            found,
            ["classes: cpu: image: apptainer makes no containers on the node's own \
                            files"]
        );
        let both = json!({"runtime": "native", "image": "host"});
        assert_eq!(said(site, both), Vec::<String>::new());
    }
}
