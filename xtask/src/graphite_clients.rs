//! `cargo xtask graphite-clients`: runs senders and readers of Graphite that are not ours with a real
//! server of ours.
//!
//! Senders are Python's pickles, statsd (from the npm registry), and collectd if it is installed.
//! Readers are graphite-web, which reads by pickle and msgpack as from a server of its cluster, and
//! carbonapi. The Go module registry does not serve carbonapi, so `--carbonapi` names its program. Every
//! answer of a reader must equal our own.

#![allow(clippy::disallowed_methods)] // it waits for programs outside the product

use std::fs;
use std::io::Write;
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail};

use crate::process::{cargo, find, output, require, root, run as run_command, tools};
use crate::rival_environments;

const STATSD: &str = "statsd@0.9.0";
/// Longest wait for a server to start or for sent data to arrive.
const PATIENCE: Duration = Duration::from_secs(60);
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// A program that is killed when this is dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // The program may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Runs all senders and readers.
pub fn run(arguments: &[String]) -> Result<()> {
    let carbonapi = match arguments {
        [] => find("carbonapi"),
        [name, program] if name == "--carbonapi" => Some(PathBuf::from(program)),
        _ => bail!("usage: cargo xtask graphite-clients [--carbonapi PROGRAM]"),
    };
    run_command(cargo().args(["build", "--package", "sandur-server"]))?;
    let environment = rival_environments::find("graphite-web").context("no such environment")?;
    environment.ensure()?;
    let folder = tools().join("graphite-clients");
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    fs::create_dir_all(&folder)?;
    let server = Server::start(&folder)?;
    send(&server, &folder, &environment.python())?;
    let scripts = root().join("xtask/graphite_clients");
    for format in ["pickle", "msgpack"] {
        let script = scripts.join("graphite_web.py");
        run_command(Command::new(environment.python()).arg(script).args([&server.http, format]))?;
    }
    match carbonapi {
        Some(program) => read_by_carbonapi(&server, &program, &folder),
        None => {
            println!(
                "carbonapi is skipped: build it from its sources and name the program (--carbonapi PROGRAM)"
            );
            Ok(())
        }
    }
}

/// Our server and the addresses of its listeners.
struct Server {
    http: String,
    lines: u16,
    pickles: u16,
    _running: Running,
}

fn free_port() -> Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

fn local(port: u16) -> String {
    format!("127.0.0.1:{port}")
}

fn get(address: &str) -> Result<String> {
    output(Command::new("curl").args(["--silent", "--fail", "--globoff", &format!("http://{address}")]))
}

/// Waits until an answer contains a text.
fn wait_for(address: &str, text: &str) -> Result<()> {
    let begun = Instant::now();
    while !get(address).is_ok_and(|answer| answer.contains(text)) {
        if begun.elapsed() > PATIENCE {
            bail!("{address} did not answer '{text}' within {PATIENCE:?}: {:?}", get(address));
        }
        sleep(LOOK_EVERY);
    }
    Ok(())
}

impl Server {
    fn start(folder: &Path) -> Result<Self> {
        require("curl", "install curl")?;
        let schemas = folder.join("storage-schemas.conf");
        fs::write(&schemas, "[all]\npattern = .*\nretentions = 10s:1d\n")?;
        let (http, lines, pickles) = (free_port()?, free_port()?, free_port()?);
        let mut command = Command::new(root().join("target/debug/sandur"));
        command.args(["serve", "--store", &format!("file://{}", folder.join("data").display())]);
        command.args(["--listen", &local(http), "--carbon-listen", &local(lines)]);
        command.args(["--carbon-pickle-listen", &local(pickles), "--graphite-schemas"]).arg(schemas);
        let log = fs::File::create(folder.join("sandur.log"))?;
        let running = command.stdout(log.try_clone()?).stderr(log).spawn().context("our server")?;
        let server = Self { http: local(http), lines, pickles, _running: Running(running) };
        wait_for(&format!("{}/ready", server.http), "ready")?;
        Ok(server)
    }

    /// Waits until a path exists.
    fn has(&self, path: &str) -> Result<()> {
        wait_for(&format!("{}/metrics/index.json", self.http), &format!("\"{path}\""))?;
        println!("stored   {path}");
        Ok(())
    }
}

fn send(server: &Server, folder: &Path, python: &Path) -> Result<()> {
    let script = root().join("xtask/graphite_clients/send_pickles.py");
    run_command(Command::new(python).arg(script).arg(server.pickles.to_string()))?;
    server.has("pickled.p0")?;
    server.has("pickled.p5")?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
    let lines: String = (0..8).map(|n| format!("tagged.x;host=a;dc=eu {n} {}\n", now - 10 * n)).collect();
    TcpStream::connect(local(server.lines))?.write_all(lines.as_bytes())?;
    statsd(server, folder)?;
    match find("collectd").or_else(|| Some(PathBuf::from("/usr/sbin/collectd")).filter(|path| path.exists()))
    {
        Some(program) => collectd(server, &program, folder),
        None => {
            println!("collectd is skipped: it is not installed (Debian: apt-get install collectd-core)");
            Ok(())
        }
    }
}

fn statsd(server: &Server, folder: &Path) -> Result<()> {
    require("npm", "install Node.js with npm")?;
    let home = tools().join("statsd");
    fs::create_dir_all(&home)?;
    if !home.join("node_modules/statsd").exists() {
        let mut install = Command::new("npm");
        install.current_dir(&home).args(["install", "--no-audit", "--no-fund", "--omit=optional", STATSD]);
        run_command(&mut install)?;
    }
    let (config, port) = (folder.join("statsd.js"), free_port()?);
    let (lines, management) = (server.lines, free_port()?);
    let text = format!(
        "{{ graphiteHost: '127.0.0.1', graphitePort: {lines}, port: {port}, mgmt_port: {management}, \
         flushInterval: 1000, backends: ['./backends/graphite'] }}"
    );
    fs::write(&config, text)?;
    let mut command = Command::new("node");
    command.arg(home.join("node_modules/statsd/stats.js")).arg(&config);
    let _running = Running(command.stdout(Stdio::null()).spawn().context("statsd")?);
    let socket = UdpSocket::bind("127.0.0.1:0")?;
    let begun = Instant::now();
    while !get(&format!("{}/metrics/index.json", server.http))?.contains("\"stats.timers.took.mean\"") {
        if begun.elapsed() > PATIENCE {
            bail!("statsd sent nothing within {PATIENCE:?}");
        }
        // statsd may not listen yet.
        let _ = socket.send_to(b"hits:3|c\nwarm:21.5|g\ntook:120|ms", local(port));
        sleep(LOOK_EVERY);
    }
    server.has("stats.gauges.warm")?;
    server.has("stats.timers.took.mean")
}

fn collectd(server: &Server, program: &Path, folder: &Path) -> Result<()> {
    let (config, here) = (folder.join("collectd.conf"), folder.display());
    let port = server.lines;
    let text = format!(
        "Hostname \"box\"\nFQDNLookup false\nBaseDir \"{here}\"\nPIDFile \"{here}/pid\"\nInterval 1\n\
         LoadPlugin load\nLoadPlugin write_graphite\n<Plugin write_graphite>\n<Node \"sandur\">\n\
         Host \"127.0.0.1\"\nPort \"{port}\"\nProtocol \"tcp\"\nPrefix \"collectd.\"\n</Node>\n</Plugin>\n"
    );
    fs::write(&config, text)?;
    let mut command = Command::new(program);
    command.args(["-f", "-C"]).arg(&config);
    let _running = Running(command.stdout(Stdio::null()).spawn().context("collectd")?);
    server.has("collectd.box.load.load.shortterm")
}

/// Reads through carbonapi with our server as its backend, in each of the protocols that both support.
fn read_by_carbonapi(server: &Server, program: &Path, folder: &Path) -> Result<()> {
    for protocol in ["auto", "carbonapi_v3_pb", "carbonapi_v2_pb"] {
        let (config, port) = (folder.join("carbonapi.yaml"), free_port()?);
        let text = format!(
            "listeners: [{{address: \"127.0.0.1:{port}\"}}]\nexpvar: {{enabled: false}}\n\
             cache: {{type: \"null\"}}\nbackendCache: {{type: \"null\"}}\n\
             upstreams:\n  doMultipleRequestsIfSplit: true\n  backendsv2:\n    backends:\n      \
             - {{groupName: ours, protocol: {protocol}, lbMethod: any, servers: [\"http://{}\"]}}\n",
            server.http
        );
        fs::write(&config, text)?;
        let log = fs::File::create(folder.join(format!("carbonapi-{protocol}.log")))?;
        let mut command = Command::new(program);
        command.arg("-config").arg(&config).stdout(log.try_clone()?).stderr(log);
        let _running = Running(command.spawn().context("carbonapi")?);
        let theirs = local(port);
        wait_for(&format!("{theirs}/metrics/find?format=json&query=pickled.*"), "pickled.p0")?;
        let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
        for target in ["pickled.p*", "sumSeries(pickled.*)", "seriesByTag('name=tagged.x')"] {
            let asked = format!("/render?format=json&from={}&until={now}&target={target}", now - 120);
            let answers = [&theirs, &server.http].map(|host| get(&format!("{host}{asked}")));
            let [theirs, ours] = answers.map(|answer| answer.and_then(|body| points(&body)));
            let (theirs, ours) = (theirs?, ours?);
            if ours.is_empty() || theirs != ours {
                bail!("carbonapi by {protocol}, {target}:\n  {theirs:?}\n  we: {ours:?}");
            }
            println!("equal    carbonapi by {protocol}: {target}");
        }
    }
    Ok(())
}

/// Returns the times and values of all points with a value, in order of their series.
fn points(body: &str) -> Result<Vec<Vec<(i64, String)>>> {
    let answer: serde_json::Value = serde_json::from_str(body)?;
    let mut all: Vec<Vec<(i64, String)>> = Vec::new();
    for series in answer.as_array().into_iter().flatten() {
        let points = series["datapoints"].as_array().into_iter().flatten();
        let present = points.filter(|point| !point[0].is_null());
        all.push(
            present
                .map(|point| (point[1].as_i64().unwrap_or(0), format!("{:?}", point[0].as_f64())))
                .collect(),
        );
    }
    all.sort();
    Ok(all)
}
