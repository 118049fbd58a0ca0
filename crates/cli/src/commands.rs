//! The verbs, one file each. A command asks the server, builds a view and hands it to be printed;
//! it returns what to exit with.

pub mod act;
pub mod classad;
pub mod doctor;
pub mod ending;
pub mod follow;
pub mod gpus;
pub mod image;
pub mod interrupt;
pub mod jobs;
pub mod logs;
pub mod nodes;
pub mod outputs;
pub mod patience;
pub mod pilot;
pub mod plain;
mod ready_threads;
pub mod registry;
pub mod relay;
pub mod run;
pub mod show;
pub mod site;
pub mod submission;
pub mod submit;
pub mod token;
pub mod top;
pub mod up;
pub mod user;
pub mod wait;
pub mod waiting;
pub mod why;

use crate::args::site::SiteCommand;
use crate::args::{Cli, Command};
use crate::failure::{Exit, Failure};
use crate::settings::{self, Output, Server};
use shipway_api::client::Client;
use std::future::Future;

/// What the commands that talk to a server work with.
#[derive(Debug)]
pub struct Context {
    pub output: Output,
    pub client: Client,
    pub server: Server,
}

impl Context {
    fn resolve(output: Output) -> Result<Self, Failure> {
        let server = settings::server(&settings::environment)?;
        Ok(Context { output, client: server.connect()?, server })
    }
}

pub fn dispatch(cli: Cli) -> Result<Exit, Failure> {
    let output = Output::resolve(cli.json, &settings::environment);
    match cli.command {
        Command::Up(args) => up::run(*args),
        Command::Pilot(args) => pilot::run(*args),
        Command::Relay(args) => relay::run(args, output),
        Command::Image(command) => image::run(command, output),
        Command::Doctor(args) => doctor::run(args, output),
        Command::Classad(command) => classad::run(command, output),
        Command::Site(SiteCommand::Check { file }) => site::check(&file, output),
        Command::Completions(args) => plain::completions(&args),
        Command::Openapi => plain::openapi(),
        Command::Version => plain::version(output),
        other => {
            let context = Context::resolve(output)?;
            block_on(Box::pin(ask(context, other)))
        }
    }
}

/// One thread is enough to wait with, and starts soonest.
fn block_on(work: impl Future<Output = Result<Exit, Failure>>) -> Result<Exit, Failure> {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let runtime = builder.enable_all().build().map_err(Failure::Runtime)?;
    let done = runtime.block_on(work);
    // A question at the terminal may still be open in a thread; it ends with the process.
    runtime.shutdown_background();
    done
}

async fn ask(context: Context, command: Command) -> Result<Exit, Failure> {
    let context = &context;
    match command {
        Command::Run(args) => run::run(context, *args).await,
        Command::Submit(args) => submit::run(context, args).await,
        Command::Jobs(args) => jobs::run(context, &args).await,
        Command::Show(args) => show::run(context, &args).await,
        Command::Logs(args) => logs::run(context, &args).await,
        Command::Outputs(args) => outputs::run(context, &args).await,
        Command::Wait(args) => wait::run(context, &args).await,
        Command::Cancel(args) => act::cancel(context, args).await,
        Command::Retry(args) => act::retry(context, args).await,
        Command::Why(args) => why::run(context, &args).await,
        Command::Gpus(args) => gpus::run(context, args).await,
        Command::Top(args) => top::run(context, &args).await,
        Command::Nodes => nodes::run(context).await,
        Command::User(command) => user::run(context, command).await,
        Command::Site(command) => site::run(context, command).await,
        Command::Token(command) => token::run(context, command).await,
        Command::Registry(command) => registry::run(context, command).await,
        Command::Up(_)
        | Command::Pilot(_)
        | Command::Relay(_)
        | Command::Image(_)
        | Command::Doctor(_)
        | Command::Classad(_)
        | Command::Completions(_)
        | Command::Openapi
        | Command::Version => unreachable!("dispatched before a server is looked for"),
    }
}
