//! The real binary as a child process, and a simple HTTP client for it.
//!
//! The client uses only HTTP/1.1 over a blocking socket, so that a failure is that of the server and not
//! of a library. Every wait ends: by an event, by the exit of the child, or by a deadline that is far
//! longer than needed.

// A test harness: real time, real threads, and no test needs all of it.
#![allow(clippy::disallowed_methods, clippy::unwrap_used)]

use std::fs::File;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use sandur_attack::free_address;
use serde_json::{Value, json};

/// Far longer than an operation takes.
const PATIENCE: Duration = Duration::from_secs(60);

/// A running server.
pub struct Server {
    child: Ended,
    pub address: SocketAddr,
    log: PathBuf,
}

/// How to start a server.
#[derive(Clone)]
pub struct Setup {
    pub store: String,
    pub arguments: Vec<String>,
    pub log: PathBuf,
    /// The arguments of `ulimit` in the server's shell.
    pub ulimit: Option<String>,
}

impl Setup {
    /// A server on `store` that writes its log to `folder`.
    pub fn new(store: impl Into<String>, folder: &Path) -> Self {
        let log = folder.join(format!("server-{}.log", std::process::id()));
        Self { store: store.into(), arguments: Vec::new(), log, ulimit: None }
    }

    /// Adds command-line arguments.
    pub fn with(mut self, arguments: &[&str]) -> Self {
        self.arguments.extend(arguments.iter().map(|a| (*a).to_owned()));
        self
    }

    /// Starts the server and waits until it is ready; panics with its log if it exits.
    pub fn start(&self) -> Server {
        match self.try_start() {
            Ok(server) => server,
            Err(log) => panic!("the server did not become ready:\n{log}"),
        }
    }

    /// Starts the server; returns its log if it exits before it is ready.
    pub fn try_start(&self) -> Result<Server, String> {
        let address = free_address().unwrap();
        let output = File::options().create(true).append(true).open(&self.log).unwrap();
        let program = env!("CARGO_BIN_EXE_sandur");
        let mut command = match &self.ulimit {
            None => Command::new(program),
            Some(limit) => {
                let mut shell = Command::new("sh");
                shell.args(["-c", &format!("ulimit {limit} && exec \"$0\" \"$@\""), program]);
                shell
            }
        };
        let child = command
            .args(["serve", "--store", &self.store, "--listen", &address.to_string()])
            .args(&self.arguments)
            .stdout(output.try_clone().unwrap())
            .stderr(output)
            .stdin(Stdio::null())
            .spawn()
            .unwrap();
        let mut server = Server { child: Ended(child), address, log: self.log.clone() };
        let deadline = Instant::now() + PATIENCE;
        loop {
            if matches!(request(address, "GET", "/ready", &[], b""), Ok((200, _))) {
                return Ok(server);
            }
            if server.child.0.try_wait().unwrap().is_some() || Instant::now() > deadline {
                return Err(server.log_text());
            }
            std::thread::sleep(Duration::from_millis(5)); // polling another process
        }
    }
}

impl Server {
    /// Kills the process immediately, like a power failure.
    pub fn kill(mut self) {
        self.child.0.kill().unwrap();
        self.child.0.wait().unwrap();
    }

    /// Requests a stop and waits for the process; returns its exit code.
    pub fn terminate(self) -> Option<i32> {
        self.signal("TERM");
        self.wait()
    }

    /// Waits until the process exits by itself; returns its exit code.
    pub fn wait(mut self) -> Option<i32> {
        let deadline = Instant::now() + PATIENCE;
        while Instant::now() < deadline {
            if let Some(status) = self.child.0.try_wait().unwrap() {
                return status.code();
            }
            std::thread::sleep(Duration::from_millis(5)); // polling another process
        }
        panic!("the server did not stop within {PATIENCE:?}:\n{}", self.log_text());
    }

    /// Sends a signal by name (`STOP`, `CONT`, `TERM`).
    pub fn signal(&self, name: &str) {
        let pid = self.child.0.id().to_string();
        assert!(Command::new("kill").args(["-s", name, &pid]).status().unwrap().success());
    }

    /// Whether the process is running.
    pub fn is_running(&mut self) -> bool {
        self.child.0.try_wait().unwrap().is_none()
    }

    /// Resident memory in bytes.
    pub fn resident_bytes(&self) -> u64 {
        let statm = std::fs::read_to_string(format!("/proc/{}/statm", self.child.0.id())).unwrap_or_default();
        statm.split_whitespace().nth(1).and_then(|n| n.parse::<u64>().ok()).unwrap_or(0) * 4096
    }

    /// The peak of resident memory in bytes.
    pub fn peak_resident_bytes(&self) -> u64 {
        let status =
            std::fs::read_to_string(format!("/proc/{}/status", self.child.0.id())).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or_default();
        line.split_whitespace().next().and_then(|n| n.parse::<u64>().ok()).unwrap_or(0) * 1024
    }

    /// The output of the process.
    pub fn log_text(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Waits until the process has printed a text: lines of queries are written after their responses.
    pub fn prints(&self, text: &str) {
        let deadline = Instant::now() + PATIENCE;
        while !self.log_text().contains(text) {
            assert!(Instant::now() < deadline, "'{text}' was not printed:\n{}", self.log_text());
            std::thread::sleep(Duration::from_millis(5)); // polling another process
        }
    }

    /// A GET; returns the status and the body.
    pub fn get(&self, path: &str) -> (u16, Vec<u8>) {
        request(self.address, "GET", path, &[], b"").unwrap()
    }

    /// A GET that must be answered with 200 and JSON.
    pub fn get_json(&self, path: &str) -> Value {
        let (status, body) = self.get(path);
        let text = String::from_utf8_lossy(&body).into_owned();
        assert_eq!(status, 200, "GET {path}: {text}");
        serde_json::from_str(&text).unwrap_or_else(|e| panic!("GET {path}: {e}: {text}"))
    }

    /// A log query over a time range in nanoseconds; returns the whole answer.
    pub fn query_range(&self, query: &str, start: i64, end: i64, limit: usize) -> Value {
        let encoded = encode(query);
        let range = format!("start={start}&end={end}&limit={limit}&direction=forward");
        self.get_json(&format!("/loki/api/v1/query_range?query={encoded}&{range}"))
    }

    /// The lines of a log query.
    pub fn lines(&self, query: &str, start: i64, end: i64, limit: usize) -> Vec<String> {
        let answer = self.query_range(query, start, end, limit);
        let streams = answer["data"]["result"].as_array().unwrap();
        let values = streams.iter().flat_map(|s| s["values"].as_array().unwrap());
        values.map(|v| v[1].as_str().unwrap().to_owned()).collect()
    }

    /// Pushes lines of one stream; returns the status, or why there is none.
    pub fn push(&self, labels: &Value, values: &[(i64, String)]) -> std::io::Result<(u16, Vec<u8>)> {
        push(self.address, labels, values)
    }
}

/// A child process that is killed on drop.
pub struct Ended(pub Child);

impl Drop for Ended {
    fn drop(&mut self) {
        // It may already have exited.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Pushes lines of one stream to an address.
pub fn push(
    address: SocketAddr,
    labels: &Value,
    values: &[(i64, String)],
) -> std::io::Result<(u16, Vec<u8>)> {
    let values: Vec<Value> = values.iter().map(|(ts, line)| json!([ts.to_string(), line])).collect();
    let body = json!({"streams": [{"stream": labels, "values": values}]}).to_string();
    let headers = [("Content-Type", "application/json")];
    request(address, "POST", "/loki/api/v1/push", &headers, body.as_bytes())
}

/// One request on a separate connection; returns the status and the body.
pub fn request(
    address: SocketAddr,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &[u8],
) -> std::io::Result<(u16, Vec<u8>)> {
    let mut stream = TcpStream::connect_timeout(&address, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_nodelay(true)?;
    let mut head = format!("{method} {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n");
    head.push_str(&format!("Content-Length: {}\r\n", body.len()));
    for (name, value) in headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    head.push_str("\r\n");
    stream.write_all(head.as_bytes())?;
    stream.write_all(body)?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    parse(&answer).ok_or_else(|| std::io::Error::other("the connection was closed within the response"))
}

fn parse(answer: &[u8]) -> Option<(u16, Vec<u8>)> {
    let split = answer.windows(4).position(|w| w == b"\r\n\r\n")?;
    let head = std::str::from_utf8(&answer[..split]).ok()?;
    let status = head.split(' ').nth(1)?.parse().ok()?;
    let body = &answer[split + 4..];
    let header = |name: &str| {
        let line = head.lines().find(|l| l.to_ascii_lowercase().starts_with(name))?;
        Some(line.split_once(':')?.1.trim().to_owned())
    };
    if header("transfer-encoding").is_some_and(|v| v.eq_ignore_ascii_case("chunked")) {
        return Some((status, dechunk(body)?));
    }
    match header("content-length") {
        Some(length) => Some((status, body.get(..length.parse().ok()?)?.to_vec())),
        None => Some((status, body.to_vec())),
    }
}

fn dechunk(mut body: &[u8]) -> Option<Vec<u8>> {
    let mut whole = Vec::new();
    loop {
        let line = body.windows(2).position(|w| w == b"\r\n")?;
        let size = usize::from_str_radix(std::str::from_utf8(&body[..line]).ok()?.trim(), 16).ok()?;
        if size == 0 {
            return Some(whole);
        }
        whole.extend_from_slice(body.get(line + 2..line + 2 + size)?);
        body = body.get(line + 2 + size + 2..)?;
    }
}

/// Percent-encodes a query parameter.
pub fn encode(text: &str) -> String {
    text.bytes()
        .map(|b| if b.is_ascii_alphanumeric() { (b as char).to_string() } else { format!("%{b:02X}") })
        .collect()
}

/// Nanoseconds since the epoch.
pub fn now_ns() -> i64 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_nanos() as i64
}

/// A seeded generator (splitmix64), so that a failing run can be repeated.
pub struct Random(pub u64);

impl Random {
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (z ^ (z >> 31)) % bound
    }
}

/// The S3 server of the test run as a store URL with a new prefix; `None`, with a message, without one.
pub fn s3_store(test: &str) -> Option<String> {
    let Ok(url) = std::env::var("SANDUR_TEST_S3") else {
        eprintln!(
            "skipped: {test}: SANDUR_TEST_S3 is not set (`cargo xtask test` starts a server and sets it)"
        );
        return None;
    };
    let (base, query) = url.split_once('?').unwrap_or((&url, ""));
    Some(format!("{base}/{test}-{}-{}?{query}", std::process::id(), now_ns()))
}

/// Whether a client program is on PATH, in a version that the tests know: those of Prometheus 2 have other
/// commands and files.
pub fn client_is_there(program: &str) -> bool {
    let said = |argument: &str| {
        let output = Command::new(program).arg(argument).stdin(Stdio::null()).output().ok()?;
        Some(String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned())
    };
    let Some(version) = said("--version") else {
        eprintln!("skipped: {program} is not on PATH (`cargo xtask rivals {program}` builds it)");
        return false;
    };
    let is_old = ["prometheus", "promtool"].contains(&program) && version.contains("version 2.");
    if is_old {
        eprintln!(
            "skipped: {program} on PATH is of version 2 (`cargo xtask rivals {program}` builds a newer one)"
        );
    }
    !is_old
}
