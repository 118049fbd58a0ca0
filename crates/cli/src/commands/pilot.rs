//! `shipway pilot`: what a site's batch system starts. First the guard, which starts the pilot
//! itself as the same program with `--inner`.

use super::ready_threads;
use crate::args::serve::{GpuSharing, PilotArgs};
use crate::failure::{Exit, Failure};
use crate::logging;
use shipway_model::Millis;
use shipway_pilot::run::{ImageKeep, Server, Settings};
use shipway_pilot::{guard, run as pilot};
use shipway_runtime::{native, share};
use std::ffi::OsString;
use std::time::Duration;

/// For pilots that nobody supervises: longer than most outages, shorter than a lost night.
const DEFAULT_LEASE: Millis = Millis(10 * 60 * 1_000);

pub fn run(args: PilotArgs) -> Result<Exit, Failure> {
    let server = args.server.as_deref().filter(|url| !url.starts_with("https://"));
    if let (Some(_), Some(url)) = (&args.relay, server) {
        return Err(Failure::PlainRelay { server: url.to_owned() });
    }
    native::start_clean().map_err(Failure::Clean)?;
    logging::start(&args.log);
    share::stay_when_memory_ends();
    if args.inner { inner(args) } else { outer(&args) }
}

fn outer(args: &PilotArgs) -> Result<Exit, Failure> {
    // Started by a server, which it outlives: a Ctrl-C meant for that one does not reach it.
    if args.home.is_some() {
        native::leave_terminal();
    }
    let program = std::env::current_exe().map_err(Failure::OwnProgram)?;
    let mut words: Vec<OsString> = std::env::args_os().skip(1).collect();
    words.push("--inner".into());
    let grace = args.lent.grace.map(|grace| Duration::from_millis(grace.0));
    let code = guard::run(&args.dir, &program, &words, grace);
    let code = code.map_err(|error| service("the pilot's guard", error))?;
    Ok(Exit(u8::try_from(code).unwrap_or(1)))
}

fn inner(args: PilotArgs) -> Result<Exit, Failure> {
    share::open_more_files();
    let (server, lease) = match (args.home, args.server) {
        (Some(home), _) => (Server::Home(home), args.lease),
        (None, url) => {
            let url = url.unwrap_or_default();
            let lease = args.lease.unwrap_or(DEFAULT_LEASE);
            (Server::Url { url, certificate: args.ca, relay: args.relay }, Some(lease))
        }
    };
    let images = args.images.unwrap_or_else(|| args.dir.join("images"));
    let settings = Settings {
        dir: args.dir,
        images,
        server,
        token_file: args.token_file,
        lease,
        declared: args.declared,
        keep_output: args.node.keep_output,
        keep_images: ImageKeep {
            used_within: args.node.keep_images,
            at_most: args.node.images_size,
        },
        files_size: args.node.files_size,
        runtime: args.node.runtime.unwrap_or_default(),
        default_image: args.node.default_image.unwrap_or_default(),
        binds: args.node.binds.and_then(|text| text.parse().ok()),
        accounts: args.node.accounts.unwrap_or_default(),
        lent: args.lent.settings(),
        gpu_mps: args.node.gpu_sharing == Some(GpuSharing::Mps),
    };
    // One thread, the main one: what tasks leave behind becomes its child and is found there.
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let runtime = ready_threads::build(&mut builder).map_err(Failure::Runtime)?;
    let done = runtime.block_on(pilot::pilot(settings));
    runtime.shutdown_background();
    done.map(|()| Exit::DONE).map_err(|error| {
        let hint = error.hint();
        Failure::Service { what: "the pilot", hint, source: Box::new(error) }
    })
}

fn service(what: &'static str, error: impl std::error::Error + Send + Sync + 'static) -> Failure {
    Failure::Service { what, hint: None, source: Box::new(error) }
}
