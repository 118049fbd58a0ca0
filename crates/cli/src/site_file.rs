//! A site's file in YAML or JSON, read into its description. The certificate that it names is read
//! here too: the server may be elsewhere.

use crate::input::{self, InputError};
use crate::job_file::{line_of_key, place, read};
use serde_json::Value;
use shipway_api::job_form::{Language, Wrong};
use shipway_api::site_form;
use shipway_model::SiteSpec;
use shipway_model::validate::Problem;
use std::path::Path;

#[derive(Debug, thiserror::Error)]
pub enum SiteFileError {
    #[error("{place}: {wrong}")]
    Key { place: String, wrong: Wrong },
    #[error("{place}: this is not a site: {said}")]
    Unreadable { place: String, said: String },
    #[error("{place}: {first}")]
    Problems { place: String, first: Problem, more: usize },
    #[error("{place}: one site in a file; this has {found}")]
    Several { place: String, found: usize },
}

impl SiteFileError {
    pub fn hint(&self) -> Option<String> {
        match self {
            SiteFileError::Key { wrong, .. } => wrong.hint(),
            SiteFileError::Problems { more: 0, .. } | SiteFileError::Unreadable { .. } => {
                Some("`shipway site --help` shows a file".into())
            }
            SiteFileError::Problems { more, .. } => Some(format!("{more} more to mend after it")),
            SiteFileError::Several { .. } => Some("write a file for each".into()),
        }
    }
}

/// Either what the file says, or what is wrong with it.
pub fn parse(name: &Path, text: &str) -> Result<SiteSpec, SiteFileError> {
    let json = name.extension().is_some_and(|ext| ext.eq_ignore_ascii_case("json"))
        || text.trim_start().starts_with('{');
    let language = if json { Language::Json } else { Language::Yaml };
    let file = name.display().to_string();
    let unreadable = |(line, said)| SiteFileError::Unreadable { place: place(&file, line), said };
    let values: Vec<Value> = read(language, text).map_err(unreadable)?;
    let [value] = values.as_slice() else {
        return Err(SiteFileError::Several { place: file, found: values.len() });
    };
    if let Some(wrong) = site_form::unknown_key(value) {
        let place = place(&file, line_of_key(text, wrong.key()));
        return Err(SiteFileError::Key { place, wrong });
    }
    let mut specs: Vec<SiteSpec> = read(language, text).map_err(unreadable)?;
    specs.pop().ok_or(SiteFileError::Several { place: file, found: 0 })
}

/// All that the file says, checked, with the certificate that it names.
pub fn load(name: &Path) -> Result<SiteSpec, crate::failure::Failure> {
    let text = input::read_text(name)?;
    let mut spec = parse(name, &text)?;
    spec.certificate = spec.certificate.map(|given| certificate(name, given)).transpose()?;
    spec.check().map_err(|problems| {
        let more = problems.len().saturating_sub(1);
        let first = problems.into_iter().next();
        let first = first.unwrap_or(Problem { field: "site", what: "it cannot be used".into() });
        let place = place(&name.display().to_string(), line_of_key(&text, first.field));
        SiteFileError::Problems { place, first, more }
    })?;
    Ok(spec)
}

/// The text itself, or a file beside the site's.
fn certificate(site: &Path, given: String) -> Result<String, InputError> {
    if given.trim_start().starts_with("-----BEGIN") {
        return Ok(given);
    }
    let folder = site.parent().unwrap_or(Path::new("."));
    input::read_text(&folder.join(given))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SITE: &str = "name: hpc
kind: slurm
program: /opt/shipway
server: https://h:7447
classes:
  - name: cpu
    pilots: 4
    cpus: 2
    memory: 8GB
";

    fn wrong(text: &str) -> String {
        let error = parse(Path::new("hpc.yaml"), text).expect_err(text);
        format!("{error} / {}", error.hint().unwrap_or_default())
    }

    #[test]
    fn a_file_is_read_and_what_is_wrong_is_placed() {
        let spec = parse(Path::new("hpc.yaml"), SITE).expect("good");
        assert_eq!((spec.name.as_str(), spec.classes.len()), ("hpc", 1));
        let misspelt = SITE.replace("cpus:", "cpu:");
        assert_eq!(
            wrong(&misspelt),
            "hpc.yaml, line 8: `cpu` is not a key of a class / did you mean `cpus`?"
        );
        let odd = SITE.replace("slurm", "pbs");
        assert!(
            wrong(&odd).starts_with("hpc.yaml, line 2: this is not a site:"),
            "{}",
            wrong(&odd)
        );
        let two = format!("{SITE}---\n{SITE}");
        assert_eq!(wrong(&two), "hpc.yaml: one site in a file; this has 2 / write a file for each");
    }

    /// What the file is let say of containers, a pilot takes, and nothing else.
    #[test]
    fn runtimes_and_images_are_those_that_a_pilot_takes() {
        use shipway_pilot::runtimes::RuntimeChoice;
        use shipway_pilot::usual::DefaultImage;
        let is_taken = |key: &str, value: &str| {
            let spec = parse(Path::new("hpc.yaml"), &format!("{SITE}{key}: \"{value}\"\n"));
            spec.expect("it can be read").check().is_ok()
        };
        for runtime in
            ["native", "crun", "apptainer=/opt/apptainer", "docker", "native=/x", "crun=x", "crun="]
        {
            let pilots = runtime.parse::<RuntimeChoice>().is_ok();
            assert_eq!(is_taken("runtime", runtime), pilots, "{runtime}");
        }
        for image in
            ["none", "host", "dir:/srv/tree", "dir:tree", "docker://debian:12", "sif:/x.sif", "no"]
        {
            let pilots = image.parse::<DefaultImage>().is_ok();
            assert_eq!(is_taken("image", image), pilots, "{image}");
        }
    }
}
