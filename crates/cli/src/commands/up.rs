//! `shipway up`: the whole product on this machine, in the foreground.

use super::ready_threads;
use crate::args::serve::{LogFormat, NodeArgs, UpArgs};
use crate::failure::{Exit, Failure};
use crate::view::talk;
use crate::{logging, settings};
use shipway_pilot::probe::Declared;
use shipway_runtime::binds::AllowList;
use shipway_runtime::{native, share};
use shipway_server::files::Limits;
use shipway_server::tls::Tls;
use shipway_server::up::{self, NodeOptions, Settings, UpError};

pub fn run(args: UpArgs) -> Result<Exit, Failure> {
    native::keep_descriptors().map_err(Failure::Clean)?;
    logging::start(&args.log);
    share::stay_when_memory_ends();
    let format = args.log.log_format;
    let home = settings::home(&settings::environment)?;
    let program = std::env::current_exe().map_err(Failure::OwnProgram)?;
    let tls = match (args.tls, args.cert, args.key) {
        (_, Some(certificate), Some(key)) => Tls::Files { certificate, key },
        (true, _, _) => Tls::SelfMade,
        _ => Tls::None,
    };
    if let Some(file) = &args.declared {
        // Read again by the pilot; what is wrong with it is told here, before anything starts.
        Declared::read(file).map_err(|error| Failure::Service {
            what: "the server",
            hint: Some("docs/gpu.md shows what the file may say".into()),
            source: Box::new(error),
        })?;
    }
    if !args.no_pilot {
        check_node(&args.node)?;
    }
    let is_root = rustix::process::geteuid().is_root();
    let says_whom =
        is_root && !args.no_pilot && args.node.accounts.is_none() && format == LogFormat::Text;
    let passed_on = args.node.words();
    let offered: Option<AllowList> = args.node.binds.as_deref().and_then(|list| list.parse().ok());
    let usual = Limits::default();
    let settings = Settings {
        home: home.clone(),
        listen: args.listen,
        tls,
        allow_plain_text: args.allow_plain_text,
        no_pilot: args.no_pilot,
        node: NodeOptions { declared: args.declared, passed_on },
        half_life: args.half_life,
        program,
        files: Limits {
            quota: args.files_quota.unwrap_or(usual.quota),
            keep: args.files_keep.unwrap_or(usual.keep),
        },
        offered: offered.map(|offered| offered.writable()),
    };
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder.worker_threads(request_threads());
    let runtime = ready_threads::build(&mut builder).map_err(Failure::Runtime)?;
    let done = runtime.block_on(up::run(settings, |up| {
        let text = match format {
            LogFormat::Text => format!("shipway is up at {} (home {})", up.url, home.display()),
            // Whoever reads JSON lines reads nothing else; and this one comes at every level.
            LogFormat::Json => serde_json::json!({"timestamp": logging::timestamp(),
                "level": "INFO", "fields": {
                    "message": "shipway is up", "url": up.url, "home": home}})
            .to_string(),
        };
        talk::say(format_args!("{text}"));
        if says_whom {
            talk::say(format_args!(
                "started by root: your own tasks are root's, in containers without its powers; \
                 others' have the account of their user's name (--accounts says otherwise)"
            ));
        }
    }));
    // Watchers' connections may still be open; they end with the process.
    runtime.shutdown_background();
    done.map(|()| Exit::DONE).map_err(failure)
}

/// What the pilot would stumble over: its log is no place to find this.
fn check_node(node: &NodeArgs) -> Result<(), Failure> {
    let runtime = node.runtime.clone().unwrap_or_default();
    let found = runtime.find(std::env::var_os("PATH"));
    found.map_err(|missing| refused(Some(missing.hint()), missing))?;
    let image = node.default_image.clone().unwrap_or_default();
    image.check(&runtime).map_err(|error| refused(Some(error.hint().into()), error))?;
    let accounts = node.accounts.clone().unwrap_or_default();
    accounts.check().map_err(|error| refused(Some(error.hint().into()), error))
}

fn refused(hint: Option<String>, error: impl std::error::Error + Send + Sync + 'static) -> Failure {
    Failure::Service { what: "the server", hint, source: Box::new(error) }
}

/// Threads for requests. All that matters goes through the one writer, so few are enough; more
/// than that wake each other for work that one would have done sooner.
fn request_threads() -> usize {
    const MOST: usize = 8;
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    (cores / 2).clamp(1, MOST)
}

fn failure(error: UpError) -> Failure {
    let hint = error.hint();
    Failure::Service { what: "the server", hint, source: Box::new(error) }
}
