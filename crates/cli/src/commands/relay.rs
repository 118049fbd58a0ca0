//! `relay`: serves nodes without a way out until it is ended; `relay add` puts images there.

use super::ready_threads;
use crate::args::relay::{Folder, RelayArgs, RelayCommand};
use crate::failure::{Exit, Failure};
use crate::logging;
use crate::settings::{self, Output, SettingsError};
use crate::view::simple::AddedToRelay;
use crate::view::{self, talk};
use shipway_images::Settings as ImageSettings;
use shipway_model::ImageRef;
use shipway_relay::{Settings, add};
use shipway_runtime::share;
use std::path::{Path, PathBuf};

pub fn run(args: RelayArgs, output: Output) -> Result<Exit, Failure> {
    match args.command {
        Some(RelayCommand::Add { references, folder }) => {
            put(&references, &directory(folder)?, output)?;
            Ok(Exit::DONE)
        }
        None => serve(args),
    }
}

fn directory(folder: Folder) -> Result<PathBuf, SettingsError> {
    match folder.images {
        Some(dir) => Ok(dir),
        None => Ok(settings::home(&settings::environment)?.join("relay")),
    }
}

fn put(references: &[ImageRef], dir: &Path, output: Output) -> Result<(), Failure> {
    let settings = ImageSettings::of(settings::environment)?;
    let added = references.iter().map(|image| add(dir, image, &settings));
    let added = added.collect::<Result<Vec<_>, _>>()?;
    view::show(&AddedToRelay { added }, output)
}

fn serve(args: RelayArgs) -> Result<Exit, Failure> {
    logging::start(&args.log);
    share::open_more_files();
    let (Some(listen), Some(server)) = (args.listen, args.server) else {
        unreachable!("both are needed where nothing is added")
    };
    let settings = Settings {
        listen,
        server: server.clone(),
        certificate: args.ca,
        images: directory(args.folder)?,
        images_size: args.images_size,
        connections: args.connections,
        connections_each: args.connections_each,
    };
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    let runtime = ready_threads::build(&mut builder).map_err(Failure::Runtime)?;
    let ready = |at| talk::say(format_args!("shipway: relaying {at} to {server}"));
    let ended = runtime.block_on(shipway_relay::relay(settings, ready));
    // A fetch may still be under way; what it has is of no use to the next relay.
    runtime.shutdown_background();
    ended?;
    Ok(Exit::DONE)
}
