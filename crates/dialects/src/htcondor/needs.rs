//! What a task needs beside files and words: resources, a container, retries, limits, labels.
//! Tasks that differ in any of it are jobs of their own.

use super::command_table::Key;
use super::commands;
use super::error::{SubmitError, Warning, Wrong};
use super::evaluate;
use super::gpus;
use super::plan::{Plan, Values};
use super::quantity::amount;
use super::quoting::without_quotes;
use super::task_files::join;
use shipway_model::limits::{MAX_LABEL_BYTES, MAX_LABELS};
use shipway_model::{Bytes, Cores, ImageRef, Millis, Network, Resources, RetryPolicy, TimeLimit};
use std::collections::BTreeMap;

#[derive(Debug, Clone, PartialEq)]
pub struct Needs {
    pub name: String,
    pub resources: Resources,
    pub image: Option<ImageRef>,
    pub network: Network,
    pub requirements: Option<String>,
    pub rank: Option<String>,
    pub priority: i32,
    pub retries: RetryPolicy,
    pub time_limit: Option<TimeLimit>,
    pub max_running: Option<u32>,
    pub labels: BTreeMap<String, String>,
}

/// Whether all that `needs` looks at is the same for every task.
pub(super) fn is_fixed(plan: &Plan) -> bool {
    let others = super::program::PROGRAM
        .iter()
        .chain(super::program::VARIABLES)
        .chain(super::program::OWN_VARIABLES)
        .chain(super::task_files::FILES)
        .collect::<Vec<_>>();
    let mine: Vec<Key> = Key::all().filter(|key| !others.contains(&key)).collect();
    plan.is_fixed(&mine)
}

pub(super) fn needs(
    values: &Values<'_>,
    warnings: &mut Vec<Warning>,
) -> Result<Needs, SubmitError> {
    check_universe(values)?;
    for (key, usual) in IGNORED_UNLESS {
        if let Some(text) = values.get(*key)?
            && !text.eq_ignore_ascii_case(usual)
            && evaluate::truth(&text).map(|truth| truth.to_string()).as_deref() != Some(usual)
        {
            let what = format!("can only be {}", key.what());
            warnings.push(values.warning(*key, what));
        }
    }
    for (key, why) in REFUSED_WHEN_TRUE {
        if values.truth(*key, false)? {
            return Err(values.refused(*key, *why));
        }
    }
    if values.plan.has(Key::TransferOutputRemaps) && !values.plan.has(Key::TransferOutputFiles) {
        let what = "names all files that are taken, because transfer_output_files is not there";
        warnings.push(values.warning(Key::TransferOutputRemaps, what));
    }
    let text = |key| -> Result<Option<String>, SubmitError> {
        Ok(values.get(key)?.map(|text| without_quotes(&text).to_string()))
    };
    Ok(Needs {
        name: text(Key::BatchName)?.unwrap_or_default(),
        resources: resources(values, warnings)?,
        image: image(values)?,
        network: network(values)?,
        requirements: expression(values, Key::Requirements)?,
        rank: expression(values, Key::Rank)?,
        priority: priority(values)?,
        retries: retries(values)?,
        time_limit: time_limit(values, warnings)?,
        max_running: max_running(values)?,
        labels: labels(values, warnings)?,
    })
}

/// Commands with one value that means nothing special; any other is warned about.
const IGNORED_UNLESS: &[(Key, &str)] = &[
    (Key::Notification, "never"),
    (Key::OnExitHold, "false"),
    (Key::OnExitRemove, "true"),
    (Key::PeriodicHold, "false"),
    (Key::PeriodicRelease, "false"),
    (Key::PeriodicRemove, "false"),
    (Key::PeriodicVacate, "false"),
    (Key::NiceUser, "false"),
];

const REFUSED_WHEN_TRUE: &[(Key, &str)] = &[
    (Key::Hold, "a job starts as soon as there is room; submit it later"),
    (Key::NoopJob, "tasks are run"),
    (Key::SkipIfDataflow, "what is older than what is not looked at"),
];

fn check_universe(values: &Values<'_>) -> Result<(), SubmitError> {
    let Some(text) = values.get(Key::Universe)? else { return Ok(()) };
    let known = ["vanilla", "container", "docker", "5"];
    if known.iter().any(|known| text.eq_ignore_ascii_case(known)) {
        return Ok(());
    }
    Err(values.refused(Key::Universe, format!("the universe `{text}` is not known here")))
}

fn resources(values: &Values<'_>, warnings: &mut Vec<Warning>) -> Result<Resources, SubmitError> {
    let sized = |key: Key, unit: u64| -> Result<Bytes, SubmitError> {
        let Some(text) = values.get(key)? else { return Ok(Bytes(0)) };
        if text.eq_ignore_ascii_case("undefined") {
            return Ok(Bytes(0));
        }
        let expression = || evaluate::whole(&text).and_then(|number| u64::try_from(number).ok());
        let wrong = || values.wrong(key, format!("`{text}` is not an amount such as 2 GB"));
        let amount = amount(&text, unit).or_else(expression).ok_or_else(wrong)?;
        Ok(Bytes(amount.saturating_mul(unit)))
    };
    let cpus = values.whole(Key::RequestCpus)?.unwrap_or(1);
    let wrong = || values.wrong(Key::RequestCpus, format!("{cpus} is not a number of cores"));
    let cpus = u64::try_from(cpus).ok().filter(|cpus| *cpus > 0).ok_or_else(wrong)?;
    let mut named = BTreeMap::new();
    for (name, entry) in &values.plan.named {
        let text = values.of(entry)?;
        let near = commands::nearest(&format!("request_{name}"));
        let meant = near.map_or(String::new(), |near| format!("; did you mean {near}?"));
        let what = format!("`{text}` is not a number{meant}");
        let wrong = || Wrong::value(&entry.name, what).at(&entry.place);
        if !meant.is_empty() {
            let what = format!("{} is a resource of your site's own{meant}", entry.name);
            warnings.push(Warning { place: entry.place.clone(), what });
        }
        let count = evaluate::whole(&text).and_then(|count| u64::try_from(count).ok());
        match count.ok_or_else(wrong)? {
            0 => {}
            count => {
                named.insert(name.clone(), count);
            }
        }
    }
    let mut asked = Resources {
        cpus: Cores::whole(cpus),
        memory: sized(Key::RequestMemory, 1 << 20)?,
        disk: sized(Key::RequestDisk, 1 << 10)?,
        gpu: gpus::gpus(values)?,
        ..Resources::default()
    };
    asked.named = named;
    Ok(asked)
}

fn image(values: &Values<'_>) -> Result<Option<ImageRef>, SubmitError> {
    let (container, docker) = (values.get(Key::ContainerImage)?, values.get(Key::DockerImage)?);
    let docker_universe =
        values.get(Key::Universe)?.is_some_and(|text| text.eq_ignore_ascii_case("docker"));
    let (key, text) = match (container, docker) {
        (Some(_), Some(_)) => {
            return Err(values.wrong(Key::DockerImage, "stands beside container_image"));
        }
        (Some(_), None) if docker_universe => {
            return Err(values.wrong(Key::ContainerImage, "is not for the universe `docker`"));
        }
        (Some(image), None) => {
            (Key::ContainerImage, container_form(values, without_quotes(&image)))
        }
        (None, Some(image)) => {
            let image = without_quotes(&image);
            let image = image.strip_prefix("docker://").unwrap_or(image);
            (Key::DockerImage, format!("docker://{image}"))
        }
        (None, None) if docker_universe || is_container(values)? => {
            return Err(values.wrong(Key::Universe, "needs container_image or docker_image"));
        }
        (None, None) => return Ok(None),
    };
    text.parse().map(Some).map_err(|bad| values.wrong(key, format!("{bad}")))
}

fn is_container(values: &Values<'_>) -> Result<bool, SubmitError> {
    let universe = values.get(Key::Universe)?;
    Ok(universe.is_some_and(|text| text.eq_ignore_ascii_case("container")))
}

/// `docker://…`, a file that ends in `.sif`, or a folder; or as images are named here.
fn container_form(values: &Values<'_>, image: &str) -> String {
    const OURS: [&str; 4] = ["dir:/", "oci:/", "sif:/", "docker-archive:/"];
    if image.contains("://") || OURS.iter().any(|form| image.starts_with(form)) {
        return image.to_string();
    }
    let path = join(&values.scope.setting.directory, image);
    let path = path.trim_end_matches('/');
    let is_sif = image.get(image.len().saturating_sub(4)..).is_some_and(|end| end == ".sif");
    if is_sif { format!("sif:{path}") } else { format!("dir:{path}") }
}

fn network(values: &Values<'_>) -> Result<Network, SubmitError> {
    match values.get(Key::DockerNetworkType)?.as_deref().map(without_quotes) {
        None | Some("host") => Ok(Network::Host),
        Some("none") => Ok(Network::None),
        Some(other) => {
            let why = format!("the network `{other}` is not known; `host` and `none` are");
            Err(values.refused(Key::DockerNetworkType, why))
        }
    }
}

/// One that can be read; what it gives on a node is asked there.
fn expression(values: &Values<'_>, key: Key) -> Result<Option<String>, SubmitError> {
    let Some(text) = values.get(key)? else { return Ok(None) };
    match evaluate::fault(&text) {
        None => Ok(Some(text.to_string())),
        Some(fault) => Err(values.wrong(key, format!("`{text}` is not an expression: {fault}"))),
    }
}

fn priority(values: &Values<'_>) -> Result<i32, SubmitError> {
    let priority = values.whole(Key::Priority)?.unwrap_or(0);
    let wrong = |_| values.wrong(Key::Priority, format!("{priority} is out of range"));
    i32::try_from(priority).map_err(wrong)
}

/// Retries when none are named but their end is, as with HTCondor.
const USUAL_RETRIES: u32 = 2;

fn retries(values: &Values<'_>) -> Result<RetryPolicy, SubmitError> {
    let limit = values.whole(Key::MaxRetries)?;
    let success = values.whole(Key::SuccessExitCode)?;
    let until = values.get(Key::RetryUntil)?;
    if success.is_some_and(|code| code != 0) {
        return Err(values.refused(Key::SuccessExitCode, "a task has gone well when it exits 0"));
    }
    let asked = limit.is_some() || success.is_some() || until.is_some();
    let mut policy = RetryPolicy::default();
    if !asked {
        return Ok(policy);
    }
    let wrong = |_| values.wrong(Key::MaxRetries, "is not a number of retries");
    policy.limit = limit.map_or(Ok(USUAL_RETRIES), |limit| u32::try_from(limit).map_err(wrong))?;
    if let Some(text) = until {
        let code = evaluate::whole(&text).filter(|code| (0..=255).contains(code));
        let why = "only an exit code can end the retries";
        let code = code.ok_or_else(|| values.refused(Key::RetryUntil, why))?;
        policy.on = all_but(code).parse().map_err(|_| values.refused(Key::RetryUntil, why))?;
    }
    Ok(policy)
}

/// Every end but this code.
fn all_but(code: i64) -> String {
    let below = (code > 1).then(|| format!("1-{}", code - 1));
    let above = (code < 255).then(|| format!("{}-255", (code + 1).max(1)));
    let words = below.into_iter().chain(above).chain(["signal".into(), "oom".into()]);
    words.collect::<Vec<_>>().join(",")
}

fn time_limit(
    values: &Values<'_>,
    warnings: &mut Vec<Warning>,
) -> Result<Option<TimeLimit>, SubmitError> {
    let seconds = |key: Key| -> Result<Option<u64>, SubmitError> {
        let Some(number) = values.whole(key)? else { return Ok(None) };
        let wrong = |_| values.wrong(key, format!("{number} is not a number of seconds"));
        u64::try_from(number).map(Some).map_err(wrong)
    };
    let limits = [seconds(Key::AllowedExecuteDuration)?, seconds(Key::AllowedJobDuration)?];
    let grace = seconds(Key::JobMaxVacateTime)?;
    let signal = values.get(Key::KillSig)?;
    let Some(limit) = limits.into_iter().flatten().min() else {
        for (key, given) in
            [(Key::JobMaxVacateTime, grace.is_some()), (Key::KillSig, signal.is_some())]
        {
            if given {
                warnings.push(values.warning(key, "has no meaning without a time limit"));
            }
        }
        return Ok(None);
    };
    let mut time_limit = TimeLimit::new(Millis(limit.saturating_mul(1_000)));
    if let Some(grace) = grace {
        time_limit.grace = Millis(grace.saturating_mul(1_000));
    }
    if let Some(text) = signal {
        let number = || evaluate::whole(&text).and_then(|number| i32::try_from(number).ok());
        let by_number = || number().and_then(shipway_model::time_limit::Signal::from_number);
        match text.parse().ok().or_else(by_number) {
            Some(signal) => time_limit.warn = signal,
            None => warnings.push(values.warning(Key::KillSig, "is SIGTERM here")),
        }
    }
    Ok(Some(time_limit))
}

fn max_running(values: &Values<'_>) -> Result<Option<u32>, SubmitError> {
    let Some(most) = values.whole(Key::MaxMaterialize)? else { return Ok(None) };
    let wrong = || values.wrong(Key::MaxMaterialize, format!("{most} is not a number of tasks"));
    u32::try_from(most).ok().filter(|most| *most > 0).map(Some).ok_or_else(wrong)
}

/// Of accounting, and of attributes that are plain values.
fn labels(
    values: &Values<'_>,
    warnings: &mut Vec<Warning>,
) -> Result<BTreeMap<String, String>, SubmitError> {
    let mut labels = BTreeMap::new();
    for key in [Key::AccountingGroup, Key::AccountingGroupUser, Key::ProjectName, Key::Description]
    {
        if let Some(text) = values.get(key)? {
            labels.insert(key.name().to_string(), without_quotes(&text).to_string());
        }
    }
    for (name, entry) in &values.plan.attributes {
        let text = values.raw(entry)?;
        let warn = |what: &str| {
            let name = entry.name.trim_start_matches("MY.");
            Warning {
                place: entry.place.clone(),
                what: format!("+{name} has no meaning here: {what}"),
            }
        };
        match evaluate::plain_value(&text) {
            _ if text.is_empty() => {}
            None => warnings.push(warn("only plain values of your own are kept, as labels")),
            Some(value) if name.len() + value.len() > MAX_LABEL_BYTES => {
                warnings.push(warn("it is too long for a label"));
            }
            Some(_) if labels.len() == MAX_LABELS => {
                warnings.push(warn("there are too many labels"));
            }
            Some(value) => {
                let written = entry.name.trim_start_matches("MY.").to_string();
                labels.insert(written, value);
            }
        }
    }
    Ok(labels)
}

#[cfg(test)]
mod tests {
    use super::all_but;

    #[test]
    fn all_ends_but_one() {
        assert_eq!(all_but(0), "1-255,signal,oom");
        assert_eq!(all_but(1), "2-255,signal,oom");
        assert_eq!(all_but(7), "1-6,8-255,signal,oom");
        assert_eq!(all_but(255), "1-254,signal,oom");
    }
}
