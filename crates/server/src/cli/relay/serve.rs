//! `sandur relay --config FILE`: runs the relay until a signal.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::{Arg, ArgAction, ArgMatches};
use sandur_base::units::{self, ByteSize};
use sandur_relay::connect::Network;
use sandur_relay::intake::listen;
use sandur_relay::memory::Memory;
use sandur_relay::model::{Listener, Protocol, Routing, Transport};
use sandur_relay::router::Router;
use sandur_relay::running::Running;
use sandur_relay::spool::{Directory, Options, Spool, Sync};
use sandur_runtime::{Env, Shutdown};
use sandur_terminal::Failed;
use sandur_terminal::Signals;
use sandur_terminal::logging;
use sandur_terminal::logging::Log;

use super::configuration;
use crate::open_files::raise_for_relay;
use crate::roles;

/// Options of the command without a subcommand.
pub(super) fn arguments() -> Vec<Arg> {
    let value = |id: &'static str, name: &'static str| Arg::new(id).long(id).value_name(name);
    let flag = |id: &'static str| Arg::new(id).long(id).action(ArgAction::SetTrue);
    vec![
        value("config", "FILE").help("Configuration of carbon, carbon-c-relay or carbon-relay-ng, or ours"),
        value("listen", "ADDRESS")
            .action(ArgAction::Append)
            .help("Listen for lines here, by TCP and UDP, in place of the file's listeners"),
        value("spool-dir", "DIR")
            .help("Directory where lines wait for targets that are unreachable; by default only memory"),
        value("spool-size", "SIZE")
            .default_value("10GiB")
            .help("Maximum bytes on disk per connection to a target"),
        value("spool-sync", "WHEN")
            .default_value("1s")
            .help("When lines on disk are synced: always, never, or after a time"),
        flag("check").help(
            "Print which lines of the file are wrong, not supported or doubtful, or that it is valid, \
                and exit; with 1 if points would have other targets",
        ),
        flag("lenient").help("Run although lines of the file are not supported"),
        flag("insecure-listen").help("Listen beyond loopback: carbon's protocols have no credentials"),
    ]
}

/// Runs the command.
pub(super) async fn run(env: Env, matches: &ArgMatches) -> Result<ExitCode, Failed> {
    let Some(path) = matches.get_one::<String>("config") else {
        return Err(Failed::usage("sandur relay needs --config FILE, or the subcommand lookup or diff"));
    };
    let mut routing = configuration::routing(path, matches)?;
    let graves = routing.notes.iter().filter(|note| note.is_grave()).count();
    routing.notes.iter().for_each(|note| eprintln!("sandur: {note}"));
    if matches.get_flag("check") {
        return check(path, routing, graves);
    }
    if graves > 0 && !matches.get_flag("lenient") {
        return Err(Failed::new(format!(
            "{graves} lines of {path} are not supported (above): change them, or run with --lenient"
        )));
    }
    listeners(&mut routing, matches)?;
    let log = Log { format: "text".to_owned(), level: "info".to_owned() };
    logging::start(&log, env.clone(), None).map_err(Failed::new)?;
    serve(&env, path, routing, matches).await
}

/// Prints the result of `--check`, after the lines that are not supported.
fn check(path: &str, routing: Routing, graves: usize) -> Result<ExitCode, Failed> {
    let (clusters, routes) = (routing.clusters.len(), routing.routes());
    Router::new(routing).map_err(|error| Failed::new(format!("{path}: {error}")))?;
    if graves > 0 {
        return Ok(ExitCode::FAILURE);
    }
    println!("valid: {clusters} clusters, {routes} routes");
    Ok(ExitCode::SUCCESS)
}

async fn serve(env: &Env, path: &str, routing: Routing, matches: &ArgMatches) -> Result<ExitCode, Failed> {
    let (directory, options) = spool(&routing, matches)?;
    let open = |name: &str| match &directory {
        None => Ok(None),
        Some(directory) => {
            let disk = Directory::open(directory.join(name))?;
            Spool::open(Arc::new(disk), options).map(Some)
        }
    };
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let memory = Memory::alone();
    let (listening, targets) = (routing.listeners.clone(), routing.targets.len());
    let network = Network::of(&routing).map_err(|error| Failed::new(format!("{path}: {error}")))?;
    let started = Running::start((env, &memory), routing, Arc::new(network), &open, &host);
    let running = started.map_err(|error| Failed::new(format!("{path}: {error}")))?;
    let shutdown = Shutdown::default();
    let _signals = env.spawn("signals", Signals::catch().watch(shutdown.clone()));
    let mut accepting = Vec::new();
    running.senders.limit_connections(usize::try_from(raise_for_relay()).unwrap_or(usize::MAX));
    for listener in &listening {
        let bound = listen(&running.senders, listener, shutdown.signal()).await;
        let (address, task) =
            bound.map_err(|error| Failed::new(format!("cannot listen on {}: {error}", listener.address)))?;
        let kind = match (listener.transport, listener.protocol) {
            (_, Protocol::Pickle) => "pickle",
            (Transport::Udp, _) => "udp",
            (Transport::Tcp, _) => "tcp",
        };
        tracing::info!(%address, kind, "the relay listens");
        accepting.push(task);
    }
    let spool = directory.as_ref().map(|own| own.display().to_string()).unwrap_or_default();
    tracing::info!(targets, spool, "the relay is ready");
    shutdown.signal().triggered().await;
    for task in accepting {
        // A listener that failed has received lines until then.
        let _ = task.join().await;
    }
    running.stop().await;
    tracing::info!("the relay has stopped");
    Ok(ExitCode::SUCCESS)
}

/// The requested listeners. Fails for addresses beyond loopback unless they are allowed.
fn listeners(routing: &mut Routing, matches: &ArgMatches) -> Result<(), Failed> {
    if let Some(addresses) = matches.get_many::<String>("listen") {
        let both = |address: &String| {
            [Transport::Tcp, Transport::Udp].map(|transport| Listener {
                address: address.clone(),
                transport,
                protocol: Protocol::Line,
            })
        };
        routing.listeners = addresses.flat_map(both).collect();
    }
    if routing.listeners.is_empty() {
        return Err(Failed::new("the relay has no listener: give --listen ADDRESS"));
    }
    for listener in &routing.listeners {
        roles::check_listener(&listener.address, matches.get_flag("insecure-listen"))?;
    }
    Ok(())
}

fn spool(routing: &Routing, matches: &ArgMatches) -> Result<(Option<PathBuf>, Options), Failed> {
    let directory = matches.get_one::<String>("spool-dir").or(routing.spool_directory.as_ref());
    let text = |id: &str| matches.get_one::<String>(id).map_or("", String::as_str);
    let size: ByteSize =
        text("spool-size").parse().map_err(|error| Failed::usage(format!("--spool-size: {error}")))?;
    let sync = match text("spool-sync") {
        "always" => Sync::Always,
        "never" => Sync::Never,
        every => {
            let every = units::parse_duration(every);
            let every = every.map_err(|error| Failed::usage(format!("--spool-sync: {error}")))?;
            Sync::Every(every.max(Duration::from_millis(1)))
        }
    };
    let options = Options { bytes_max: size.0.max(1 << 20), sync, ..Options::default() };
    Ok((directory.map(PathBuf::from), options))
}
