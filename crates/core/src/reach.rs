//! Which sites a job may not go to, whatever they have: its owner may not use them, it names paths
//! that mean something else there, or their tags are not those it asks for. Jobs remember what they
//! name, so that a site that comes later or changes is judged anew.

use crate::batch::BatchSite;
use crate::job::Terms;
use crate::site::SiteKind;
use crate::state::State;
use serde::{Deserialize, Serialize};
use shipway_model::reason::KeptFrom;
use shipway_model::{ImageRef, JobId, JobSpec, OutputFiles, SiteName, UserName};
use std::collections::{BTreeMap, BTreeSet};

/// Paths of one job that are remembered; of more, the folders they have in common.
const MOST: usize = 16;
/// And of each; of longer ones, the folders above.
const LONGEST: usize = 256;

/// The paths a job names outside of what is its tasks' own, none below another.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Paths(Option<Box<[String]>>);

impl Paths {
    /// Of jobs from before paths were remembered: they may be anything.
    #[allow(clippy::trivially_copy_pass_by_ref, reason = "the signature serde asks for")]
    pub fn are_unknown(&self) -> bool {
        self.0.is_none()
    }

    pub fn of(spec: &JobSpec) -> Paths {
        let mut named: Vec<&str> = Vec::new();
        named.extend(spec.workdir.as_deref());
        named.extend(
            [&spec.stdin, &spec.stdout, &spec.stderr].into_iter().flatten().map(|it| &**it),
        );
        named.extend(spec.inputs.iter().map(|input| &*input.source));
        named.extend(spec.binds.iter().map(|bind| &*bind.source));
        // With files that travel, outputs do too.
        if let Some(outputs) = spec.outputs.as_ref().filter(|_| spec.sandbox.is_none()) {
            named.extend(outputs.to.as_deref().or(spec.basedir.as_deref()));
            named.extend(outputs.renamed.iter().filter_map(|map| map.target.as_deref()));
            if let OutputFiles::Listed(files) = &outputs.files {
                named.extend(files.iter().filter_map(|map| map.target.as_deref()));
            }
        }
        named.extend(spec.image.as_ref().and_then(ImageRef::place));
        let base = spec.basedir.as_deref().unwrap_or("/");
        let absolute = named.into_iter().map(|path| before_placeholder(&join(base, path)));
        Paths(Some(reduced(absolute.collect())))
    }

    pub(crate) fn bytes(&self) -> usize {
        self.0.iter().flatten().map(|path| path.len() + size_of::<String>()).sum()
    }
}

fn join(base: &str, path: &str) -> String {
    if path.starts_with('/') {
        path.to_owned()
    } else {
        format!("{}/{path}", base.trim_end_matches('/'))
    }
}

/// What is filled in for each task may lead anywhere below the folder it stands in.
fn before_placeholder(path: &str) -> String {
    match path.split_once('{') {
        Some((before, _)) => folder_of(before).to_owned(),
        None => path.to_owned(),
    }
}

fn folder_of(path: &str) -> &str {
    path.rsplit_once('/').map_or("/", |(folder, _)| if folder.is_empty() { "/" } else { folder })
}

/// None below another, few, and short. A folder above takes the place of what is too much: then the
/// job goes only where all of that is shared.
fn reduced(mut paths: BTreeSet<String>) -> Box<[String]> {
    loop {
        let long = |path: &String| path.len() > LONGEST;
        let all = std::mem::take(&mut paths);
        for path in all {
            let path = path.trim_end_matches('/');
            let path = if path.is_empty() { "/" } else { path };
            let is_covered = paths.iter().any(|above| is_below(path, above));
            if !is_covered {
                paths.insert(path.to_owned());
            }
        }
        if paths.len() <= MOST && !paths.iter().any(long) {
            return paths.into_iter().collect();
        }
        paths = paths.iter().map(|path| folder_of(path).to_owned()).collect();
    }
}

/// In the order of texts a folder comes before what is in it.
fn is_below(path: &str, above: &str) -> bool {
    let rest = path.strip_prefix(above.trim_end_matches('/'));
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// All that makes this site one that is not for jobs of this user on these terms.
pub fn kept_from(
    site: &BatchSite,
    owner: &UserName,
    terms: &Terms,
) -> impl Iterator<Item = KeptFrom> {
    let spec = &site.spec;
    let user = (!spec.lets(owner)).then(|| KeptFrom::User { user: owner.clone() });
    let missing = terms.tags.iter().filter(|tag| !spec.has_tag(tag));
    let required = spec.required_tags.iter().filter(|tag| !terms.tags.contains(tag));
    let unknown = terms.paths.are_unknown().then_some(KeptFrom::UnknownPaths);
    let paths = terms.paths.0.iter().flatten().filter(|path| !spec.shares(path));
    user.into_iter()
        .chain(missing.map(|tag| KeptFrom::Tag { tag: tag.clone() }))
        .chain(required.map(|tag| KeptFrom::RequiredTag { tag: tag.clone() }))
        .chain(unknown)
        .chain(paths.map(|path| KeptFrom::Path { path: path.clone() }))
}

/// The sites that such a job may not go to, in order. The server's machine stands for all nodes
/// that no batch system gives: those have no tags.
pub(crate) fn sites_kept_from(
    sites: &BTreeMap<SiteName, BatchSite>,
    owner: &UserName,
    terms: &Terms,
) -> Vec<SiteName> {
    let here = SiteKind::ThisMachine.only().filter(|_| !terms.tags.is_empty());
    let kept = sites.iter().filter(|(_, site)| kept_from(site, owner, terms).next().is_some());
    let kept = kept.map(|(name, _)| name.clone());
    let mut all: Vec<SiteName> = here.into_iter().chain(kept).collect();
    all.sort_unstable();
    all
}

impl State {
    /// Sites have come, gone or changed: jobs are judged anew, those too that have ended and may be
    /// run again.
    pub(crate) fn judge_reach_anew(&mut self) {
        let all: Vec<JobId> = self.jobs.iter().map(|(id, _)| id).collect();
        let mut before = Vec::new();
        for id in all {
            let Some(job) = self.jobs.get(id) else { continue };
            let before_that = self.shapes.get(job.shape);
            let now = self.at_sites(before_that.clone(), &job.owner, &job.terms);
            let now = now.kept_as_before(before_that, job);
            if *before_that == now {
                continue;
            }
            let Some(job) = self.jobs.get_mut(id) else { continue };
            let is_unfinished = job.ended.is_none();
            if is_unfinished {
                self.ready.remove(id, job);
                self.unfinished.remove(job, &self.shapes);
            }
            before.push(std::mem::replace(&mut job.shape, self.shapes.intern(now)));
            if is_unfinished {
                self.ready.refresh(id, job);
                self.unfinished.add(job, &self.shapes);
            }
        }
        for shape in before {
            self.release_shape(shape);
        }
        self.planner.somebody_came = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(json: &str) -> Vec<String> {
        let spec: JobSpec = serde_json::from_str(json).expect(json);
        Paths::of(&spec).0.expect("known").into_vec()
    }

    #[test]
    fn all_that_a_job_names_counts() {
        assert_eq!(paths(r#"{"command":["true"],"basedir":"/b"}"#), [""; 0], "nothing is named");
        assert_eq!(paths(r#"{"workdir":"/w/x"}"#), ["/w/x"]);
        assert_eq!(paths(r#"{"basedir":"/b","stdout":"out-{index}.txt"}"#), ["/b"]);
        assert_eq!(paths(r#"{"stdin":"/d/{name}/in","inputs":["/d/a","/e/f:g"]}"#), ["/d", "/e/f"]);
        assert_eq!(paths(r#"{"outputs":{"files":"new"},"basedir":"/b/c"}"#), ["/b/c"]);
        assert_eq!(paths(r#"{"outputs":{"files":["a:/t/a"],"to":"/o"}}"#), ["/o", "/t/a"]);
        let digest = "00".repeat(32);
        let sandbox = format!(r#"{{"sandbox":"sha256:{digest}","outputs":"new","basedir":"/b"}}"#);
        assert_eq!(paths(&sandbox), [""; 0], "files that travel name no path");
        assert_eq!(
            paths(r#"{"binds":["/data/:/d"],"image":"sif:/i/x.sif"}"#),
            ["/data", "/i/x.sif"]
        );
        assert_eq!(paths(r#"{"workdir":"/a/b","binds":["/a","/ab"]}"#), ["/a", "/ab"]);
    }

    #[test]
    fn of_many_or_long_ones_the_folders_above_are_kept() {
        let many: Vec<String> = (0..40).map(|n| format!("\"/d/{n}/x\"")).collect();
        assert_eq!(paths(&format!(r#"{{"inputs":[{}]}}"#, many.join(","))), ["/d"]);
        let long = format!("/short/{}", "x".repeat(300));
        assert_eq!(paths(&format!(r#"{{"workdir":"{long}"}}"#)), ["/short"]);
    }
}
