//! `cargo xtask cluster-demo [--short | --pause SECONDS] [--haproxy] [--program FILE]`: three nodes on one
//! bucket, on this machine.
//!
//! It starts a real S3 server, three Sandur processes and a load balancer, sends log lines, samples and
//! Graphite points through the load balancer, kills one process (`kill -9`), stops another one (SIGTERM),
//! and asks every node after each step for the acknowledged rows. It fails if a row is missing or is
//! found twice, and says how long pushes and queries had to wait. `--short` waits less between the steps;
//! nightly tests run it. With a long `--pause` there is time to look at the explorer. `--haproxy` uses
//! HAProxy with `packaging/haproxy.cfg`.
//!
//! Invariant: all processes that it starts have ended when it returns. Ctrl-C in a terminal ends them, too.

#![allow(clippy::disallowed_methods)] // it waits for other programs, outside the product

mod balancer;
mod front;
mod haproxy;
mod node;
mod questions;
mod senders;

use std::fs;
use std::io::IsTerminal;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use sandur_s3_server::S3Server;

use crate::process::{find, output, root};
use crate::rivals;
use front::Front;
use node::Node;
use questions::{Rows, Watcher, ask};
use senders::{SIGNALS, Sender, Signal, now_s};

const NODES: usize = 3;
/// A node that was just started or cut off shows all rows within this time, or the demo fails.
const PATIENCE: Duration = Duration::from_secs(60);
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// The arguments.
struct Options {
    /// How long rows are sent between two steps.
    pause: Duration,
    program: PathBuf,
    /// Use HAProxy with `packaging/haproxy.cfg` instead of the own load balancer.
    with_haproxy: bool,
}

impl Options {
    fn parse(arguments: &[String]) -> Result<Self> {
        let program = root().join("target/demo/sandur");
        let mut options = Self { pause: Duration::from_secs(12), program, with_haproxy: false };
        let mut rest = arguments.iter();
        while let Some(argument) = rest.next() {
            match argument.as_str() {
                "--short" => options.pause = Duration::from_secs(3),
                "--haproxy" => options.with_haproxy = true,
                "--pause" => {
                    let seconds = rest.next().context("--pause needs a number of seconds")?;
                    options.pause = Duration::from_secs(seconds.parse().context("--pause")?);
                }
                "--program" => options.program = rest.next().context("--program needs a file")?.into(),
                _ => bail!(
                    "usage: cargo xtask cluster-demo [--short | --pause SECONDS] [--haproxy] [--program FILE]"
                ),
            }
        }
        if !options.program.is_file() {
            let profile = "cargo build --profile demo --package sandur-server";
            bail!("{} is missing: run `{profile}` or use --program", options.program.display());
        }
        Ok(options)
    }
}

/// Whether `--haproxy` can be used.
pub fn has_haproxy() -> bool {
    haproxy::program().is_some()
}

/// Runs the demo.
pub fn run(arguments: &[String]) -> Result<()> {
    let options = Options::parse(arguments)?;
    rivals::ensure(&["versitygw"])?;
    let gateway = find("versitygw").context("versitygw is not built")?;
    let folder = root().join("target/cluster-demo");
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    let bucket = S3Server::start(&gateway, &folder.join("s3"))?;
    let mut demo = Demo::start(&options, &bucket, &folder)?;
    let outcome = demo.play(options.pause);
    if outcome.is_err() {
        demo.say(&format!("The logs are in {}.", folder.display()));
    }
    outcome
}

struct Demo {
    began: Instant,
    /// The first second of the rows.
    start: u64,
    nodes: Vec<Node>,
    front: Front,
    senders: Vec<Sender>,
    watcher: Watcher,
    program: PathBuf,
    store: String,
}

impl Demo {
    fn start(options: &Options, bucket: &S3Server, folder: &Path) -> Result<Self> {
        let (began, program) = (Instant::now(), options.program.clone());
        let store = S3Server::url(bucket.address(), "demo");
        let nodes = (1..=NODES).map(|n| Node::new(&format!("node-{n}"), &program, &store, folder));
        let mut nodes = nodes.collect::<Result<Vec<Node>>>()?;
        nodes.iter_mut().try_for_each(Node::start)?;
        nodes.iter_mut().try_for_each(Node::wait_until_ready)?;
        let addresses: Vec<SocketAddr> = nodes.iter().map(|node| node.address).collect();
        let front = match options.with_haproxy {
            true => Front::haproxy(&addresses, folder)?,
            false => Front::own(&addresses)?,
        };
        let start = now_s();
        let senders = SIGNALS.map(|signal| Sender::start(signal, front.pushes(), start)).into();
        let watcher = Watcher::start(front.queries());
        let demo = Self { began, start, nodes, front, senders, watcher, program, store };
        demo.say(&format!("A bucket of a real S3 server (versitygw) at {}.", bucket.address()));
        for node in &demo.nodes {
            demo.say(&format!("{} is process {} at http://{}.", node.name, node.pid(), node.address));
        }
        demo.say(&format!("The load balancer takes pushes at http://{},", demo.front.pushes()));
        demo.say(&format!("queries at http://{}: open it in a browser.", demo.front.queries()));
        Ok(demo)
    }

    /// The steps.
    fn play(&mut self, pause: Duration) -> Result<()> {
        self.step("Log lines, samples and Graphite points are sent every second.");
        sleep(pause);
        self.compare("every row on every node")?;

        self.step(&format!("kill -9 of node-2 (process {}), while it has a push.", self.nodes[1].pid()));
        self.wait_for_push(1)?;
        self.nodes[1].kill()?;
        self.wait_for_ready(&[true, false, true])?;
        sleep(pause);
        self.compare("the rows of the killed node are found by the others")?;

        self.step("node-2 is started again.");
        self.nodes[1].start()?;
        self.nodes[1].wait_until_ready()?;
        self.wait_for_ready(&[true, true, true])?;
        sleep(pause);
        self.compare("the new process finds everything")?;

        self.step("SIGTERM to node-3, while it has a push: it refuses new work, flushes and exits.");
        self.wait_for_push(2)?;
        let took = self.nodes[2].drain()?;
        self.say(&format!("It exited with code 0 after {:.1} s.", took.as_secs_f64()));
        self.wait_for_ready(&[true, true, false])?;
        sleep(pause);
        self.compare("nothing is lost with the stopped node")?;

        self.step("The senders stop.");
        self.senders.iter_mut().for_each(Sender::stop);
        self.compare("every acknowledged row is found exactly once")?;
        self.print_waits();
        self.check()
    }

    /// Asks all running nodes for the acknowledged rows until each has found all of them.
    fn compare(&self, title: &str) -> Result<()> {
        let began = Instant::now();
        let running: Vec<&Node> = self.nodes.iter().filter(|node| node.is_running()).collect();
        let names: String = running.iter().map(|node| format!("{:>12}", node.name)).collect();
        println!("\n  {:<18}{:>14}{names}", "", "acknowledged");
        for sender in &self.senders {
            let (signal, seconds) = (sender.signal, sender.acknowledged());
            let expected = Rows::of(signal, seconds);
            if expected.count == 0 {
                bail!("no push of {} was acknowledged", signal.name());
            }
            let mut row = format!("  {:<18}{:>14}", signal.name(), thousands(expected.count));
            for node in &running {
                self.wait_for_rows(node, signal, seconds, began)?;
                row.push_str(&format!("{:>12}", thousands(expected.count)));
            }
            println!("{row}");
        }
        println!();
        self.say(&format!("Right: {title} (found after {:.1} s).", began.elapsed().as_secs_f64()));
        Ok(())
    }

    /// Asks a node for the rows of the first seconds until it finds exactly these. More rows are an error
    /// at once; fewer rows and queries that fail are one after [`PATIENCE`].
    fn wait_for_rows(&self, node: &Node, signal: Signal, seconds: u64, began: Instant) -> Result<()> {
        let expected = Rows::of(signal, seconds);
        loop {
            let found = ask(node.address, signal, self.start, seconds);
            if found.as_ref().is_ok_and(|found| *found == expected) {
                return Ok(());
            }
            let is_more = found.as_ref().is_ok_and(|found| found.count > expected.count);
            if is_more || began.elapsed() > PATIENCE {
                bail!("{} of {}: {found:?} instead of {expected:?}", signal.name(), node.name);
            }
            sleep(LOOK_EVERY);
        }
    }

    /// Waits until a push is under way to a node.
    fn wait_for_push(&self, node: usize) -> Result<()> {
        let began = Instant::now();
        while self.front.open_pushes(node)? == 0 {
            if began.elapsed() > PATIENCE {
                bail!("{} gets no pushes", self.nodes[node].name);
            }
            std::thread::yield_now();
        }
        Ok(())
    }

    /// Waits until both listeners of the load balancer see these nodes as ready.
    fn wait_for_ready(&self, wanted: &[bool]) -> Result<()> {
        let began = Instant::now();
        while !self.front.sees(wanted)? {
            if began.elapsed() > PATIENCE {
                bail!("the load balancer does not see that {wanted:?} are ready");
            }
            sleep(LOOK_EVERY);
        }
        let used = self.nodes.iter().zip(wanted).filter(|(_, is_used)| **is_used);
        let used: Vec<&str> = used.map(|(node, _)| node.name.as_str()).collect();
        self.say(&format!("The load balancer uses {}.", used.join(", ")));
        Ok(())
    }

    fn print_waits(&mut self) {
        for sender in &self.senders {
            let (repeats, longest) = sender.repeats();
            self.say(&format!(
                "{}: pushes sent again: {repeats}; the longest wait for an acknowledgement was {:.1} s.",
                sender.signal.name(),
                longest.as_secs_f64()
            ));
        }
        let watched = self.watcher.stop();
        self.say(&format!(
            "Queries: {}, of which asked again: {}; the longest wait for an answer was {:.1} s.",
            watched.asked,
            watched.failed,
            watched.longest.as_secs_f64()
        ));
    }

    /// Stops all nodes and checks the bucket.
    fn check(&mut self) -> Result<()> {
        self.step("The other nodes stop, and `sandur check` reads the bucket.");
        for node in self.nodes.iter_mut().filter(|node| node.is_running()) {
            node.drain()?;
        }
        let mut command = Command::new(&self.program);
        command.args(["check", "--store", &self.store]).envs(S3Server::credentials());
        let text = output(&mut command)?;
        text.lines().for_each(|line| self.say(&format!("check: {line}")));
        self.step("Nothing was lost, and nothing is found twice.");
        Ok(())
    }

    /// Prints the title of a step.
    fn step(&self, text: &str) {
        match std::io::stdout().is_terminal() {
            true => println!("\n\x1b[1m[{:>3} s] {text}\x1b[0m", self.began.elapsed().as_secs()),
            false => println!("\n[{:>3} s] {text}", self.began.elapsed().as_secs()),
        }
    }

    fn say(&self, text: &str) {
        println!("[{:>3} s] {text}", self.began.elapsed().as_secs());
    }
}

/// A number with commas between thousands.
fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::thousands;

    #[test]
    fn thousands_are_separated() {
        assert_eq!([0, 999, 1_000, 1_234_567].map(thousands), ["0", "999", "1,000", "1,234,567"]);
    }
}
