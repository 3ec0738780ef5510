//! `sandur demo`: a server on a local directory with real input, to look around in.
//!
//! It ships the machine's readable log files and the lines of a made-up shop (an hour of the past
//! quickly, then live) through the same HTTP API that everyone uses, and goes on until Ctrl-C.

mod machine_logs;
mod services;

use std::io::{IsTerminal, Write};
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Arg, ArgMatches, Command};
use sandur_base::units::ByteSize;
use sandur_base::{Env, Shutdown};

use super::client::Client;
use super::failed::Failed;
use super::paint::{Ink, Paint};
use super::push::{Input, Positions, Sender, Sent, Shipper, push_body};
use crate::config::Settings;
use crate::roles::{self, Server};
use services::Shop;

/// Requests of customers per second, live and in the past that is made up at the start.
const LIVE_RATE: u64 = 25;
const PAST_RATE: u64 = 8;
/// Past that is made up.
const PAST: Duration = Duration::from_secs(3_600);
/// Interval of live pushes.
const TICK: Duration = Duration::from_secs(1);

/// The command.
pub fn command() -> Command {
    let store = Arg::new("store").long("store").value_name("DIRECTORY").default_value("./sandur-demo");
    let store = store.help("Where the data goes");
    let listen = Arg::new("listen").long("listen").value_name("ADDR").default_value("127.0.0.1:3100");
    let listen = listen.help("Address of the server; a free port is taken when it is in use");
    let length =
        Arg::new("for").long("for").value_name("DURATION").help("Stop after this time instead of at Ctrl-C");
    Command::new("demo")
        .about("Try it: a server on a local directory, with this machine's logs and a made-up shop in it")
        .arg(store)
        .arg(listen)
        .arg(length)
}

/// Five queries over what the demo ships, each with what it shows.
const QUERIES: [(&str, &str, &str); 5] = [
    ("errors of the shop", "{env=\"demo\"} | detected_level=\"error\"", ""),
    ("slow payments, from JSON", "{service=\"payments\"} | json | duration_ms > 1000", ""),
    (
        "lines per level and minute",
        "sum by (detected_level) (count_over_time({env=\"demo\"}[1m]))",
        " --step 1m",
    ),
    ("requests per second by service", "sum by (service) (rate({env=\"demo\"}[5m]))", " --instant"),
    ("this machine's own logs", "{job=\"machine\"}", " --since 30d"),
];

/// Runs until Ctrl-C.
pub async fn run(matches: &ArgMatches) -> Result<ExitCode, Failed> {
    let text = |name: &str| matches.get_one::<String>(name).cloned();
    let settings = settings(text("store"), text("listen"));
    let store = settings.store.clone();
    let length =
        text("for").map(|t| sandur_base::units::parse_duration(&t).map_err(|e| Failed::new(e.to_string())));
    let length = length.transpose()?;
    let env = roles::environment(&settings);
    crate::logging::start(&settings.log, env.clone()).map_err(Failed::new)?;
    let server = start(&env, settings).await?;
    let paint = Paint::for_stderr();
    let address = format!("http://{}", server.address);
    eprintln!("{} at {address}, data in {store}", paint.ink(Ink::Strong, "Sandur is running"));

    let stop = Shutdown::default();
    let _signals = env.spawn("signals", roles::watch_signals(stop.clone()));
    let signal = stop.signal();
    let sender = Sender { env: env.clone(), client: Client::new(&address, None)?, retries: 10 };
    let mut demo = Demo { env: env.clone(), sender, shop: Shop::new(env.clone()), lines: 0, bytes: 0 };
    let work = async {
        demo.load().await?;
        demo.introduce(&address, &paint).await;
        demo.live().await
    };
    let outcome = tokio::select! {
        outcome = work => outcome,
        () = signal.triggered() => Ok(()),
        () = wait(&env, length) => Ok(()),
    };
    eprintln!("\nstopping: flushing to {store} ...");
    server.stop().await?;
    demo.farewell(&store);
    outcome.map(|()| ExitCode::SUCCESS)
}

async fn wait(env: &Env, length: Option<Duration>) {
    match length {
        Some(length) => env.sleep(length).await,
        None => std::future::pending().await,
    }
}

fn settings(store: Option<String>, listen: Option<String>) -> Settings {
    let mut settings = Settings::default();
    settings.store = store.unwrap_or_else(|| "./sandur-demo".to_owned());
    settings.listen = listen.unwrap_or(settings.listen);
    settings.log.level = "warn".to_owned();
    // The machine's log files may be as old as they like.
    settings.limits.reject_old_samples_max_age = 0;
    settings.limits.max_query_length = 0;
    settings
}

/// Starts the server, on a free port when the asked one is taken.
async fn start(env: &Env, settings: Settings) -> Result<Server, Failed> {
    let taken = std::net::TcpListener::bind(&settings.listen)
        .is_err_and(|e| e.kind() == std::io::ErrorKind::AddrInUse);
    let mut settings = settings;
    if taken {
        eprintln!("{} is in use; taking a free port", settings.listen);
        settings.listen = "127.0.0.1:0".to_owned();
    }
    Server::start(env.clone(), settings).await
}

struct Demo {
    env: Env,
    sender: Sender,
    shop: Shop,
    lines: u64,
    bytes: u64,
}

impl Demo {
    /// The shop's past and the machine's files.
    async fn load(&mut self) -> Result<(), Failed> {
        eprintln!("loading an hour of a made-up shop ...");
        let now = self.env.now_ns();
        let (start, step) = (now - PAST.as_nanos() as i64, 300_000_000_000);
        for from in (start..now).step_by(step as usize) {
            self.ship(from, (from + step).min(now), PAST_RATE).await?;
        }
        let files = machine_logs::files();
        let total: u64 = files.iter().map(|(_, bytes)| bytes).sum();
        eprintln!("loading {} log files of this machine, {} ...", files.len(), ByteSize(total));
        let mut shipper = Shipper::new(self.sender.clone(), Positions::none(), true);
        for (path, _) in files {
            let name = machine_logs::name_of(&path);
            let labels = [("job".to_owned(), "machine".to_owned()), ("app".to_owned(), name)];
            // A file that vanished or is damaged must not end the demo.
            if let Err(failed) = shipper.ship(&Input::File(path), &labels).await {
                eprintln!("left out: {}", failed.message());
            }
        }
        let (lines, bytes) = shipper.score();
        self.lines += lines;
        self.bytes += bytes;
        shipper.finish();
        Ok(())
    }

    async fn ship(&mut self, from: i64, to: i64, rate: u64) -> Result<(), Failed> {
        let streams = self.shop.lines(from, to, rate);
        if let Sent::Partly(text) = self.sender.send(push_body(&streams)).await? {
            return Err(Failed::new(format!("the server left lines out: {text}")));
        }
        self.lines += streams.iter().map(|s| s.count()).sum::<u64>();
        self.bytes += streams.iter().map(|s| s.line_bytes()).sum::<u64>();
        Ok(())
    }

    /// Address and queries, each tried once.
    async fn introduce(&self, address: &str, paint: &Paint) {
        let program = std::env::args().next().unwrap_or_else(|| "sandur".to_owned());
        let named =
            if address == "http://127.0.0.1:3100" { String::new() } else { format!(" --addr {address}") };
        eprintln!(
            "\n{} {address} is a Loki data source for Grafana and logcli.",
            paint.ink(Ink::Strong, "Ready.")
        );
        eprintln!("Queries worth trying, in another terminal:\n");
        for (what, query, more) in QUERIES {
            let found = self.try_query(query, more).await;
            eprintln!("  {}", paint.ink(Ink::Dim, &format!("# {what}: {found}")));
            eprintln!("  {program} query{named} '{query}'{more}");
        }
        eprintln!("  {}", paint.ink(Ink::Dim, "# and live:"));
        eprintln!("  {program} tail{named} '{{service=\"checkout\"}}'");
        eprintln!("\nLines keep coming. Ctrl-C stops.\n");
    }

    async fn try_query(&self, query: &str, more: &str) -> String {
        let now = self.env.now_ns();
        let back: i64 = if more.contains("30d") { 30 * 86_400 } else { 3_600 };
        let range = [("start", (now - back * 1_000_000_000).to_string()), ("end", now.to_string())];
        let (path, mut pairs) = match more.contains("--instant") {
            true => ("/loki/api/v1/query", vec![("time", now.to_string())]),
            false => ("/loki/api/v1/query_range", range.to_vec()),
        };
        pairs.push(("query", query.to_owned()));
        if more.contains("--step") {
            pairs.push(("step", "1m".to_owned()));
        }
        let began = self.env.monotonic();
        let answer = self.sender.client.get(path, &pairs).await;
        let took = (self.env.monotonic() - began).as_millis();
        let read = answer.map_err(Failed::from).and_then(|body| super::results::read(&body));
        match read {
            Ok(answer) => format!("{} in {took} ms", answer.data.size_in_words()),
            Err(failed) => format!("failed: {}", failed.message()),
        }
    }

    /// Ships the shop's present for ever.
    async fn live(&mut self) -> Result<(), Failed> {
        let mut from = self.env.now_ns();
        loop {
            self.env.sleep(TICK).await;
            let now = self.env.now_ns();
            self.ship(from, now, LIVE_RATE).await?;
            from = now;
            if std::io::stderr().is_terminal() {
                eprint!("\r{} lines, {} shipped  ", self.lines, ByteSize(self.bytes));
                let _ = std::io::stderr().flush();
            }
        }
    }

    fn farewell(&self, store: &str) {
        let path = store.strip_prefix("file://").unwrap_or(store);
        let kept = ByteSize(size_of(Path::new(path)));
        eprintln!(
            "kept {} lines ({} of text) of this run in {path}, which takes {kept} on disk.\n\
             `sandur serve --store {path}` serves them again; delete the directory to forget them.",
            self.lines,
            ByteSize(self.bytes),
        );
    }
}

/// Bytes of all files below a directory.
fn size_of(directory: &Path) -> u64 {
    let Ok(entries) = std::fs::read_dir(directory) else { return 0 };
    let size = |entry: std::fs::DirEntry| match entry.metadata() {
        Ok(metadata) if metadata.is_dir() => size_of(&entry.path()),
        Ok(metadata) => metadata.len(),
        Err(_) => 0,
    };
    entries.flatten().map(size).sum()
}
