//! `doctor`: is this machine fit to run tasks? The same proof as a pilot's, for people to read. It
//! needs no server; where one is in reach, the clocks are compared, and what its pilot does with
//! what the machine can do.

use super::image::absolute;
use super::submission::random_key;
use crate::args::doctor::DoctorArgs;
use crate::failure::{Exit, Failure};
use crate::settings::{self, Output, Server};
use crate::view;
use crate::view::doctor::DoctorView;
use jiff::fmt::rfc2822;
use shipway_api::causes::causes;
use shipway_api::client::Client;
use shipway_api::routes;
use shipway_api::types::NodeList;
use shipway_images::pull::{self, Settings};
use shipway_images::sources::SourceError;
use shipway_images::sources::manifest::ImagePlan;
use shipway_model::{ImageRef, People, Timestamp};
use shipway_pilot::helper;
use shipway_pilot::people;
use shipway_pilot::probe::{Places, probe};
use shipway_pilot::proof::{self, Facts, ImageFact, ServerFact, Watch};
use shipway_pilot::run::node_name;
use std::path::Path;
use std::time::Duration;

/// A server that does not answer by then is as good as none for comparing clocks.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);

pub fn run(args: DoctorArgs, output: Output) -> Result<Exit, Failure> {
    let watch = Watch::start();
    let home = settings::home(&settings::environment)?;
    let dir = args.dir.unwrap_or_else(|| home.join("pilot"));
    let images = args.images.unwrap_or_else(|| home.join("images"));
    let image = args.image.map(absolute).transpose()?.map(|image| ask(&image));
    let helper = helper::of_tasks().map_err(Failure::OwnProgram)?.into();
    let choice = args.runtime.unwrap_or_default();
    // Under a name that nobody can have taken before.
    let scratch = std::env::temp_dir().join(format!("shipway-doctor-{}", random_key()?));
    let runtime = choice.start(&helper, &scratch).map_err(|missing| Failure::Service {
        what: "the doctor",
        hint: Some(missing.hint()),
        source: Box::new(missing),
    })?;
    let found = probe(&Places::of_this_node(&dir), None);
    let tried = proof::try_out(&found, &*runtime, !args.quick);
    let people = people::find(&choice, &helper, None, &dir).people;
    // Only some runtimes leave something there.
    let _ = shipway_trees::remove(&scratch);
    let server = settings::server(&settings::environment).ok();
    let asked = server.as_ref().map(ask_server).transpose()?;
    let (server, people_now) = asked.unzip();
    let node = proof::look(&dir, &images, watch.read(server));
    let facts = Facts { node, tried, people, people_now: people_now.flatten(), image };
    let view = DoctorView::new(proof::judge(&facts));
    view::show(&view, output)?;
    Ok(if view.fit { Exit::DONE } else { Exit::NOT_FIT })
}

/// What time it is there, and what the pilot says that it has on this node.
fn ask_server(server: &Server) -> Result<(ServerFact, Option<People>), Failure> {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let runtime = builder.enable_all().build().map_err(Failure::Runtime)?;
    let (clock, people) = runtime.block_on(async {
        let client = match server.connect() {
            Ok(client) => client,
            Err(error) => return (Err(causes(&error)), None),
        };
        let clock = compare_clocks(&client).await;
        let people = if clock.is_ok() { pilot_here(&client).await } else { None };
        (clock, people)
    });
    runtime.shutdown_background();
    Ok((ServerFact { url: server.url.clone(), clock }, people))
}

async fn compare_clocks(client: &Client) -> Result<(Timestamp, Timestamp), String> {
    let asked = tokio::time::timeout(ANSWER_WITHIN, client.date()).await;
    let date = asked.map_err(|_| "it takes too long".to_owned())?;
    let date = date.map_err(|error| causes(&error))?;
    let theirs = date.as_deref().and_then(moment).ok_or("it does not say its time")?;
    Ok((theirs, settings::now()))
}

/// How the pilot keeps people apart that runs on this node for that server.
async fn pilot_here(client: &Client) -> Option<People> {
    let asked = tokio::time::timeout(ANSWER_WITHIN, client.get::<NodeList>(routes::NODES)).await;
    let nodes = asked.ok()?.ok()?.nodes;
    let here = node_name();
    let node = nodes.into_iter().find(|node| node.ad.node == here && node.away_since.is_none());
    node?.ad.people
}

/// The time in a header: `Sun, 06 Nov 1994 08:49:37 GMT`.
fn moment(date: &str) -> Option<Timestamp> {
    let at = rfc2822::parse(date).ok()?.timestamp().as_millisecond();
    u64::try_from(at).ok().map(Timestamp)
}

fn ask(image: &ImageRef) -> ImageFact {
    let answer = plan(image).map(|plan| match plan {
        Some(plan) => format!("{} layers, {}", plan.layers.len(), plan.platform),
        None => "it is there".into(),
    });
    let answer = answer.map_err(|error| causes(&*error));
    ImageFact { reference: image.to_string(), answer }
}

/// What the image is made of, where its source tells that before anything is fetched.
fn plan(image: &ImageRef) -> Result<Option<ImagePlan>, Box<dyn std::error::Error>> {
    // A whole file would be read for a digest that nobody asked for.
    if let ImageRef::Sif { file: path, .. } | ImageRef::Dir { path } = image {
        let path = Path::new(path);
        let failed = |source| SourceError::File { act: "open", path: path.into(), source };
        std::fs::File::open(path).map_err(failed)?;
        return Ok(None);
    }
    Ok(pull::plan(image, &Settings::of(settings::environment)?)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_a_header_is_read() {
        let expected = Some(Timestamp(784_111_777_000));
        assert_eq!(moment("Sun, 06 Nov 1994 08:49:37 GMT"), expected);
        assert_eq!(moment("yesterday"), None);
    }
}
