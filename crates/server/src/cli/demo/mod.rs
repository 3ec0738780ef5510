//! `sandur demo`: a server on a local directory with real input, for trying it out.
//!
//! It ships the readable log files of the machine, and the lines and metrics of a generated shop (first
//! an hour of the past, then live) through the public HTTP API, sends Graphite points of the shop,
//! scrapes the shop's services and itself, and runs until Ctrl-C.

mod carbon;
mod machine_logs;
mod metrics;
mod queries;
mod shop;
mod targets;

use std::io::{IsTerminal, Write};
use std::path::Path;
use std::process::ExitCode;
use std::sync::PoisonError;
use std::time::Duration;

use carbon::CarbonLines;
use clap::{Arg, ArgAction, ArgMatches, Command};
use metrics::Counted;
use sandur_base::units::ByteSize;
use sandur_catalog::{Catalog, CatalogOptions};
use sandur_cli::client::Client;
use sandur_cli::paint::{Ink, Paint};
use sandur_config::Settings;
use sandur_model::SECOND_NS;
use sandur_offline::open_store;
use sandur_runtime::{Env, Shutdown, Task};
use sandur_store::Store;
use sandur_terminal::Failed;
use sandur_terminal::Signals;
use shop::Shop;
use targets::SharedMeter;
use tokio::net::TcpListener;

use super::push::{Given, Positions, Reading, Sender, Sent, Shipper};
use crate::roles::{self, Server};

/// Seconds of the past that are generated at the start.
const PAST_S: i64 = 3_600;
/// Seconds per push while catching up.
const PIECE_S: i64 = 120;

/// A recording rule in PromQL and an alerting rule in LogQL, over the metrics and lines of the shop.
const RULES: &str = "groups:
  - name: shop
    interval: 5s
    rules:
      - record: app:shop_lines:rate2m
        expr: sum by (app) (rate(shop_lines_total[2m]))
      - alert: ShopErrors
        language: logql
        expr: sum by (app) (count_over_time({env=\"demo\"} | detected_level=\"error\" [1h])) > 20
        labels: {severity: page}
        annotations:
          summary: '{{ $labels.app }} logged {{ $value | humanize }} errors in the last hour'
";

/// The command.
pub fn command() -> Command {
    let store = Arg::new("store").long("store").value_name("DIRECTORY").default_value("./sandur-demo");
    let store = store.help("Directory of the data");
    let listen = Arg::new("listen").long("listen").value_name("ADDR").default_value("127.0.0.1:3100");
    let listen = listen.help("Address of the server; a free port is used if it is in use");
    let insecure = Arg::new("insecure-listen")
        .long("insecure-listen")
        .action(ArgAction::SetTrue)
        .help("Listen beyond loopback: every client that reaches the address has all permissions");
    let length =
        Arg::new("for").long("for").value_name("DURATION").help("Stop after this time instead of at Ctrl-C");
    Command::new("demo")
        .about("Try it: a server on a local directory, with this machine's logs and a generated shop")
        .arg(store)
        .arg(listen)
        .arg(insecure)
        .arg(length)
}

/// Runs until Ctrl-C.
pub async fn run(matches: &ArgMatches) -> Result<ExitCode, Failed> {
    let text = |name: &str| matches.get_one::<String>(name).cloned();
    let mut settings = settings(text("store"), text("listen"));
    settings.insecure_listen = matches.get_flag("insecure-listen");
    let store = settings.store.clone();
    let length =
        text("for").map(|t| sandur_base::units::parse_duration(&t).map_err(|e| Failed::new(e.to_string())));
    let length = length.transpose()?;
    let env = roles::environment(&settings);
    sandur_terminal::logging::start(&settings.log, env.clone(), None).map_err(Failed::new)?;
    let stop = Shutdown::default();
    let _signals = env.spawn("signals", Signals::catch().watch(stop.clone()));
    let server = start(&env, settings).await?;
    let paint = Paint::for_stderr();
    let address = format!("http://{}", server.address);
    eprintln!("{} at {address}, data in {store}", paint.ink(Ink::Strong, "Sandur is running"));

    let signal = stop.signal();
    let sender = Sender::new(env.clone(), Client::new(&address, None)?, Some(10));
    let now = env.now_ns().div_euclid(SECOND_NS);
    let shop = Shop::with_trouble(now - PAST_S, now);
    let (counted, meter) = (Counted::default(), SharedMeter::default());
    let (next, carbon) = (now - PAST_S, CarbonLines::default());
    let mut demo = Demo { env: env.clone(), sender, shop, next, lines: 0, bytes: 0, counted, meter, carbon };
    let work = async {
        demo.load_past(now).await?;
        let _scrapes = demo.scrape(&server).await?;
        let _rules = server.evaluate(RULES)?;
        demo.load_files().await;
        demo.introduce(&address, &paint).await?;
        demo.live().await
    };
    // Scraping ends with the work, before the server does.
    let outcome = tokio::select! {
        outcome = work => outcome,
        () = signal.triggered() => Ok(()),
        () = wait(&env, length) => Ok(()),
    };
    eprintln!("\nstopping: flushing to {store} ...");
    server.stop().await?;
    demo.print_stored(&store).await?;
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
    // Log files of the machine may be of any age.
    settings.limits.reject_old_samples_max_age = 0;
    settings.limits.max_query_length = 0;
    settings
}

/// Starts the server, on a free port if the requested one is in use.
async fn start(env: &Env, settings: Settings) -> Result<Server, Failed> {
    let taken = std::net::TcpListener::bind(&settings.listen)
        .is_err_and(|e| e.kind() == std::io::ErrorKind::AddrInUse);
    let mut settings = settings;
    if taken {
        eprintln!("{} is in use; using a free port (or choose one with --listen)", settings.listen);
        settings.listen = "127.0.0.1:0".to_owned();
    }
    Server::start(env.clone(), settings, None).await
}

struct Demo {
    env: Env,
    sender: Sender,
    shop: Shop,
    /// First second of the shop that is not shipped yet.
    next: i64,
    lines: u64,
    bytes: u64,
    /// Counts that are not sampled yet.
    counted: Counted,
    meter: SharedMeter,
    carbon: CarbonLines,
}

impl Demo {
    /// Ships the last hour of the shop.
    async fn load_past(&mut self, now: i64) -> Result<(), Failed> {
        eprintln!("loading the last hour of a generated shop ...");
        while self.next < now {
            let to = (self.next + PIECE_S).min(now);
            self.ship(to).await?;
            let text =
                self.meter.lock().unwrap_or_else(PoisonError::into_inner).sample(&mut self.counted, to);
            metrics::send(self.sender.client(), text).await?;
            self.carbon.send(self.sender.client(), to).await?;
            let minutes = (PAST_S - (now - self.next)) / 60;
            show_progress(&format!("{minutes} of {} minutes, {} lines", PAST_S / 60, self.lines));
        }
        end_progress();
        eprintln!("loaded {} lines, {}", self.lines, ByteSize(self.bytes));
        Ok(())
    }

    /// Ships the files of the machine.
    async fn load_files(&mut self) {
        let files = machine_logs::files();
        let total: u64 = files.iter().map(|(_, bytes)| bytes).sum();
        eprintln!("loading {} readable log files of this machine, {} ...", files.len(), ByteSize(total));
        let reading = Reading::automatic(self.sender.env().now_ns());
        let mut shipper = Shipper::new(self.sender.clone(), Positions::none(), reading);
        for (path, _) in files {
            let name = machine_logs::name_of(&path);
            let labels = [("job".to_owned(), "machine".to_owned()), ("app".to_owned(), name)];
            shipper.label(&labels);
            // A file that vanished or is damaged must not end the demo.
            if let Err(failed) = shipper.ship_file(&Given { path, is_named: false }).await {
                eprintln!("skipped: {}", failed.message());
            }
        }
        if let Err(failed) = shipper.drain().await {
            eprintln!("skipped: {}", failed.message());
        }
        let (lines, bytes) = shipper.report.score();
        self.lines += lines;
        self.bytes += bytes;
        shipper.finish();
    }

    /// Ships what the shop wrote before the second `to` and was not shipped yet.
    async fn ship(&mut self, to: i64) -> Result<(), Failed> {
        let written = self.shop.write(&self.env, self.next, to).await;
        if let Sent::PartlyRefused(partly) = self.sender.send(written.body).await? {
            return Err(Failed::new(format!("the server refused lines: {}", partly.text)));
        }
        self.next = to;
        self.lines += written.lines;
        self.bytes += written.bytes;
        self.carbon.count(&written.counted);
        self.count(written.counted);
        Ok(())
    }

    /// Starts scraping of the server itself and of the services.
    async fn scrape(&mut self, server: &Server) -> Result<[Task<()>; 2], Failed> {
        self.show_counted();
        let failed = |error: std::io::Error| Failed::new(format!("no port for the shop's services: {error}"));
        let listener = TcpListener::bind("127.0.0.1:0").await.map_err(failed)?;
        let services = listener.local_addr().map_err(failed)?;
        let file = targets::scraped(server.address, services, &self.meter);
        let serving = targets::serve(listener, SharedMeter::clone(&self.meter));
        Ok([self.env.spawn("services of the demo", serving), server.scrape(file)])
    }

    /// Adds all counts to the metrics that the services expose.
    fn show_counted(&mut self) {
        let counted = std::mem::take(&mut self.counted);
        self.meter.lock().unwrap_or_else(PoisonError::into_inner).count(counted);
    }

    /// Adds counts of services to those that are not sampled yet.
    fn count(&mut self, new: Counted) {
        for (slot, incident) in new.incidents {
            let known = self.counted.incidents.entry(slot).or_default();
            *known = known.or(incident);
        }
        for (slot, instances) in new.lines {
            let slot = self.counted.lines.entry(slot).or_default();
            for (instance, (lines, bytes)) in instances {
                let counts = slot.entry(instance).or_default();
                *counts = (counts.0 + lines, counts.1 + bytes);
            }
        }
    }

    /// Prints the address and queries, each of which was tried.
    async fn introduce(&self, address: &str, paint: &Paint) -> Result<(), Failed> {
        queries::wait_for_scrapes(&self.env, self.sender.client()).await?;
        let proposals = queries::propose(&self.env, self.sender.client()).await?;
        let program = std::env::args().next().unwrap_or_else(|| "sandur".to_owned());
        let named = match address {
            "http://127.0.0.1:3100" => String::new(),
            other => format!(" --addr {other}"),
        };
        let ready = paint.ink(Ink::Strong, "Ready.");
        eprintln!(
            "\n{ready} {address} is a Loki, Prometheus and Graphite data source for Grafana, logcli and \
             promtool."
        );
        let of_graphite =
            carbon::propose(&self.env, self.sender.client(), (address, &program, &named)).await?;
        let count = proposals.len() + of_graphite.len();
        eprintln!("{count} queries worth trying, in another terminal:\n");
        for proposal in &proposals {
            eprintln!("  {}", paint.ink(Ink::Dim, &proposal.comment()));
            eprintln!("  {}", proposal.command(&program, &named));
        }
        for [comment, command] in &of_graphite {
            eprintln!("  {}\n  {command}", paint.ink(Ink::Dim, comment));
        }
        eprintln!("  {}", paint.ink(Ink::Dim, "# and live:"));
        eprintln!("  {program} tail{named} '{{app=\"checkout\"}}'");
        eprintln!("  {}", paint.ink(Ink::Dim, "# rules of the demo and their states:"));
        eprintln!("  {program} rules list{named}");
        eprintln!("\nNew lines keep arriving. Ctrl-C stops.\n");
        Ok(())
    }

    /// Ships the shop live, forever. A failed push is reported and skipped.
    async fn live(&mut self) -> Result<(), Failed> {
        loop {
            let wait = (self.next + 1) * SECOND_NS - self.env.now_ns();
            self.env.sleep(Duration::from_nanos(wait.max(0) as u64)).await;
            let now = self.env.now_ns().div_euclid(SECOND_NS);
            let to = now.clamp(self.next, self.next + PIECE_S);
            let shipped = match self.ship(to).await {
                Ok(()) => self.carbon.send(self.sender.client(), to).await,
                failed => failed,
            };
            if let Err(failed) = shipped {
                end_progress();
                eprintln!("a push failed, continuing: {}", failed.message());
                self.next = to;
            }
            self.show_counted();
            show_progress(&format!("{} lines, {} shipped", self.lines, ByteSize(self.bytes)));
        }
    }

    /// Prints what the stopped server has stored.
    async fn print_stored(&self, store: &str) -> Result<(), Failed> {
        let stored = open_store(store, &self.env).await?;
        let catalog = Catalog::open(stored, self.env.clone(), CatalogOptions::default()).await;
        let catalog =
            catalog.map_err(|e| Failed::new(format!("stopped; cannot read the contents of {store}: {e}")))?;
        let snapshot = catalog.snapshot();
        let rows: u64 = snapshot.all_blocks().map(|block| block.rows).sum();
        let directory = Store::directory_of(store).ok().flatten().unwrap_or_else(|| store.into());
        let path = directory.display();
        eprintln!(
            "kept {rows} rows in {} blocks in {path}, which takes {} on disk (this run shipped {} lines, {} \
             of text).\n\
             `sandur serve --store {path}` serves them again; delete the directory to remove them.",
            snapshot.block_count(),
            ByteSize(size_of(&directory)),
            self.lines,
            ByteSize(self.bytes),
        );
        Ok(())
    }
}

/// Prints a line that the next one overwrites; only on a terminal.
fn show_progress(text: &str) {
    if std::io::stderr().is_terminal() {
        eprint!("\r{text}  ");
        // If flushing fails, the line appears later.
        let _ = std::io::stderr().flush();
    }
}

/// Clears the line of [`show_progress`].
fn end_progress() {
    if std::io::stderr().is_terminal() {
        eprint!("\r\x1b[K");
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
