//! A folder in which commands of the documentation run, with a server that has logs, samples and points.
//!
//! Names in a command are mapped to the folder: absolute paths become paths in it, a bucket becomes a
//! directory, a listen address gets a free port, and the server of the command is that of the folder.
//! Commands that run until they are stopped are stopped when they have begun to work.

use std::fs::{self, File};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use rcgen::{CertificateParams, KeyPair};
use sandur_attack::free_address;
use tempfile::TempDir;

use super::pages::root;
use super::shell::Call;
use crate::process::{Server, Setup, now_ns, request};

/// Far longer than a command takes.
const PATIENCE: Duration = Duration::from_secs(120);

/// The files that the documentation assumes, with minimal content.
const FILES: &[(&str, &str)] = &[
    ("work/metrics.prom", "http_requests_total{job=\"api\"} 7\n"),
    ("work/api.log", "{\"msg\":\"moved\",\"status\":200}\n"),
    (
        "work/export.jsonl",
        "{\"metric\":{\"__name__\":\"exported\"},\"values\":[1],\"timestamps\":[1795132800000]}\n",
    ),
    ("work/names.txt", "servers.web1.cpu.user\n"),
    ("work/storage-schemas.conf", "[all]\npattern = .*\nretentions = 60s:1d\n"),
    ("work/storage-aggregation.conf", "[all]\npattern = .*\naggregationMethod = average\n"),
    ("work/carbon.conf", "[relay]\nRELAY_METHOD = consistent-hashing\nDESTINATIONS = 10.0.0.1:2004:a\n"),
    (
        "work/new.toml",
        "[[cluster]]\nname = \"a\"\nmethod = \"all\"\ntargets = [\"10.0.0.1:2003\"]\n\
         [[stage]]\nto = [\"a\"]\n",
    ),
    ("work/ca.pem", ""),
    ("etc/sandur/rules/rules.yml", "groups:\n- name: g\n  rules:\n  - {record: one, expr: vector(1)}\n"),
    // A week is replayed three times, with one evaluation in an interval.
    ("work/rules.yml", "groups:\n- name: g\n  interval: 1h\n  rules:\n  - {record: one, expr: vector(1)}\n"),
    (
        "work/tests.yml",
        "rule_files: [rules.yml]\ntests:\n- promql_expr_test:\n  \
         - {expr: one, exp_samples: [{labels: one, value: 1}]}\n",
    ),
    ("var/log/api/a.log", "{\"msg\":\"timeout\",\"status\":503,\"level\":\"error\"}\n"),
];

/// See the module.
pub struct Place {
    folder: TempDir,
    server: Server,
    /// The address of the folder's relays.
    relay: SocketAddr,
    /// The address of the folder's caches.
    cache: SocketAddr,
}

/// How to detect that a command is running.
enum RunningWhen {
    /// A server whose protocol is not implemented here.
    Listens(SocketAddr),
    IsReady(SocketAddr),
    Writes(PathBuf),
}

/// The bucket of the documentation that has blocks of Prometheus.
const BLOCKS: &str = "s3://thanos?region=eu-west-1";

/// The folder that stands in for a bucket.
fn bucket_of(url: &str) -> String {
    format!("buckets/{}", url.bytes().map(|byte| format!("{byte:x}")).collect::<String>())
}

impl Place {
    pub fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &[u8]| {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        FILES.iter().for_each(|(name, text)| write(name, text.as_bytes()));
        let relay = free_address().unwrap();
        let c_relay = format!(
            "listen type linemode {relay} proto tcp ;\n\
             cluster graphite forward 127.0.0.1:1 ;\n\
             match * send to graphite stop ;\n"
        );
        write("work/carbon-c-relay.conf", c_relay.as_bytes());
        write("etc/carbon-c-relay.conf", c_relay.as_bytes());
        write("var/lib/graphite/whisper/servers/web1/load.wsp", &whisper());
        let block = root().join("crates/tsdb/tests/fixtures/blocks/deleted");
        for name in ["meta.json", "index", "tombstones", "chunks/000001"] {
            let bytes = fs::read(block.join(name)).unwrap();
            for folder in ["var/lib/prometheus", &bucket_of(BLOCKS)] {
                write(&format!("{folder}/01KAQ5Y7Z3M9N8P7Q6R5S4T3V2/{name}"), &bytes);
            }
        }
        let key = KeyPair::generate().unwrap();
        let certificate =
            CertificateParams::new(vec!["localhost".to_owned()]).unwrap().self_signed(&key).unwrap();
        write("etc/sandur/tls.crt", certificate.pem().as_bytes());
        write("etc/sandur/tls.key", key.serialize_pem().as_bytes());
        write("work/ca.pem", certificate.pem().as_bytes());
        let store = folder.path().join("store").to_str().unwrap().to_owned();
        let server = Setup::new(store, folder.path()).start();
        fill(server.address);
        Self { folder, server, relay, cache: free_address().unwrap() }
    }

    pub fn server(&self) -> &Server {
        &self.server
    }

    /// The working directory of commands.
    pub fn work(&self) -> PathBuf {
        self.folder.path().join("work")
    }

    /// Writes a file in the working directory.
    pub fn write(&self, name: &str, text: &str) {
        fs::write(self.work().join(name), text).unwrap();
    }

    /// The hash of some password.
    pub fn password_hash(&self) -> String {
        self.write("input", "secret");
        let input = File::open(self.work().join("input")).unwrap();
        let words = ["token", "hash", "--password"].map(str::to_owned);
        let output = self.command(&words).stdin(input).output().unwrap();
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    /// Runs a command of the documentation; panics unless it works as described.
    pub fn run(&self, at: &str, call: &Call) {
        let mut words: Vec<String> = call.words[1..].iter().map(|word| self.adapt(word)).collect();
        let first: Vec<&str> = call.words[1..].iter().take(2).map(String::as_str).collect();
        let has = |word: &str| call.words.iter().any(|other| other == word);
        match first[..] {
            ["serve", ..] => {
                if !has("--listen") {
                    words.extend(["--listen".to_owned(), free_address().unwrap().to_string()]);
                }
                let listen = words.iter().position(|word| word == "--listen").unwrap() + 1;
                let port = words[listen].parse::<SocketAddr>().unwrap().port();
                let address = ([127, 0, 0, 1], port).into();
                let sign = if has("--tls-cert-file") {
                    RunningWhen::Listens(address)
                } else {
                    RunningWhen::IsReady(address)
                };
                self.run_until(at, &words, &sign, "TERM");
            }
            ["cache", "serve"] => {
                let (host, port) = (self.cache.ip().to_string(), self.cache.port().to_string());
                words.extend(["-l".to_owned(), host, "-p".to_owned(), port]);
                self.run_until(at, &words, &RunningWhen::Listens(self.cache), "TERM");
            }
            ["relay", "--config"] if !has("--check") => {
                self.run_until(at, &words, &RunningWhen::Listens(self.relay), "TERM");
            }
            ["tail", ..] => {
                self.run_until(at, &words, &RunningWhen::Writes(self.folder.path().join("output")), "INT");
            }
            ["push", ..] if has("--follow") => {
                let state = call.words.iter().position(|word| word == "--resume").unwrap() + 1;
                let state = self.work().join(&call.words[state]);
                self.run_until(at, &words, &RunningWhen::Writes(state), "INT");
            }
            _ => self.run_to_the_end(at, &words),
        }
    }

    fn run_to_the_end(&self, at: &str, words: &[String]) {
        let mut words = words.to_vec();
        if words.first().is_some_and(|word| word == "delete") {
            words.push("--yes".to_owned());
        }
        self.write("input", "level=info msg=journal\n");
        let input = File::open(self.work().join("input")).unwrap();
        let output = self.command(&words).stdin(input).output().unwrap();
        // Their exit code is 1 if they find something.
        let finds = [&["relay", "diff"][..], &["relay", "--config"], &["repair", "--store"]];
        let is_found =
            output.status.code() == Some(1) && finds.iter().any(|first| words.starts_with(&as_words(first)));
        assert!(output.status.success() || is_found, "{at}: sandur {words:?}: {}", text_of(&output));
        if words.starts_with(&as_words(&["token", "create"])) {
            let text = String::from_utf8(output.stdout).unwrap();
            let lines = &text[text.find("[tokens.").unwrap()..];
            self.write("auth.toml", lines);
            fs::write(self.folder.path().join("etc/sandur/auth.toml"), lines).unwrap();
        }
    }

    fn run_until(&self, at: &str, words: &[String], sign: &RunningWhen, signal: &str) {
        let output = self.folder.path().join("output");
        let file = File::create(&output).unwrap();
        let mut command = self.command(words);
        command.stdin(Stdio::null()).stdout(file.try_clone().unwrap()).stderr(file);
        let mut process = command.spawn().unwrap();
        let began = Instant::now();
        let said = || fs::read_to_string(&output).unwrap_or_default();
        while !sign.is_there() {
            let ended = process.try_wait().unwrap();
            assert!(ended.is_none(), "{at}: sandur {words:?} ended: {}", said());
            assert!(began.elapsed() < PATIENCE, "{at}: sandur {words:?} does not start to work: {}", said());
            std::thread::sleep(Duration::from_millis(5)); // polling another process
        }
        let code = end(&mut process, signal);
        assert_eq!(code, Some(0), "{at}: sandur {words:?}: {}", said());
    }

    fn command(&self, words: &[String]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_sandur"));
        command.args(words).current_dir(self.work());
        command.env("SANDUR_ADDR", format!("http://{}", self.server.address));
        command
    }

    /// A word, with names mapped to the folder.
    fn adapt(&self, word: &str) -> String {
        let below = |path: &str| {
            let path = self.folder.path().join(path.trim_start_matches('/'));
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            path.to_str().unwrap().to_owned()
        };
        if word.starts_with("s3://") {
            return below(&bucket_of(word));
        }
        if let Some(rest) = word.strip_prefix("http://") {
            let path = rest.find('/').map_or("", |at| &rest[at..]);
            return format!("http://{}{path}", self.server.address);
        }
        if let Some((path, _size)) = word.strip_prefix("ext_path=").and_then(|rest| rest.rsplit_once(':')) {
            return format!("ext_path={}:64m", below(path));
        }
        if word.starts_with('/') { below(word) } else { Self::adapt_address(word) }
    }

    /// A listen address with a free port instead of its own; other words unchanged.
    pub fn adapt_address(word: &str) -> String {
        let Ok(mut address) = word.parse::<SocketAddr>() else { return word.to_owned() };
        address.set_port(free_address().unwrap().port());
        address.to_string()
    }
}

/// Parses a command of the documentation without running it; panics if it is invalid.
pub fn parse(at: &str, call: &Call) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sandur"));
    command.args(&call.words[1..]);
    // The arguments before `--help` are parsed, then the help is printed.
    match call.words.iter().take(3).map(String::as_str).collect::<Vec<_>>()[..] {
        [_, "help", ..] => {}
        [_, "cache", "serve"] => drop(command.arg("-h")),
        _ => drop(command.arg("--help")),
    }
    let output = command.stdin(Stdio::null()).output().unwrap();
    let said = text_of(&output);
    // Text may mention an option without its value.
    let is_right = output.status.success() || said.contains("a value is required for");
    assert!(is_right, "{at}: {:?}: {said}", call.words);
}

impl RunningWhen {
    fn is_there(&self) -> bool {
        match self {
            Self::Listens(address) => TcpStream::connect(address).is_ok(),
            Self::IsReady(address) => {
                matches!(request(*address, "GET", "/ready", &[], b""), Ok((200, _)))
            }
            Self::Writes(path) => fs::metadata(path).is_ok_and(|metadata| metadata.len() > 0),
        }
    }
}

fn as_words(words: &[&str]) -> Vec<String> {
    words.iter().map(|&word| word.to_owned()).collect()
}

fn text_of(output: &Output) -> String {
    [&output.stdout[..], &output.stderr].concat().escape_ascii().to_string().replace("\\n", "\n")
}

fn end(process: &mut Child, signal: &str) -> Option<i32> {
    let pid = process.id().to_string();
    assert!(Command::new("kill").args(["-s", signal, &pid]).status().unwrap().success());
    process.wait().unwrap().code()
}

/// Some data for all queries of the documentation.
fn fill(address: SocketAddr) {
    let now = now_ns();
    let line = (now, r#"{"msg":"timeout","status":503,"level":"error"}"#.to_owned());
    let labels = serde_json::json!({"app": "api"});
    crate::process::push(address, &labels, &[line]).unwrap();
    for (path, body) in [
        ("/api/v1/import/prometheus", "up{job=\"api\"} 0\nhttp_requests_total{job=\"api\"} 5\n".to_owned()),
        ("/graphite/carbon", format!("servers.web1.load 1 {}\n", now / 1_000_000_000)),
    ] {
        let (status, answer) = request(address, "POST", path, &[], body.as_bytes()).unwrap();
        assert!(status < 300, "{path}: {status} {}", String::from_utf8_lossy(&answer));
    }
}

/// A whisper file with one hour of minutes.
fn whisper() -> Vec<u8> {
    let (step, points) = (60, 60);
    let words = [1, step * points, 0.5f32.to_bits(), 1, 28, step, points];
    let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_be_bytes()).collect();
    let now = u32::try_from(now_ns() / 1_000_000_000).unwrap();
    for n in 0..points {
        bytes.extend((now - now % step - (points - 1 - n) * step).to_be_bytes());
        bytes.extend(f64::from(n).to_be_bytes());
    }
    bytes
}
