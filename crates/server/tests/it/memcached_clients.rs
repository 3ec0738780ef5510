//! Goal: memcached clients, the exporter and command-line tools work unchanged with `sandur cache serve`.
//!
//! Method: the real programs against the real binary with a flash tier to which items move immediately,
//! so that both tiers answer. Afterwards the server is queried over a plain socket: the data of the
//! client exists, and the counters agree with its requests. `cargo xtask rivals` builds the Go programs;
//! the tools of libmemcached come with Debian's `libmemcached-tools`. Without a program its test is
//! skipped with a message.

#![allow(clippy::disallowed_methods, clippy::unwrap_used)] // process tests: real time

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use sandur_attack::free_address;

/// Far longer than an operation takes.
const PATIENCE: Duration = Duration::from_secs(60);

/// A separate cache server for each test.
struct Cache {
    child: Child,
    address: SocketAddr,
    folder: tempfile::TempDir,
}

impl Cache {
    fn start(arguments: &[&str]) -> Self {
        Self::start_with(arguments, &[])
    }

    fn start_with(arguments: &[&str], users: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let ports = folder.path().join("ports");
        let log = File::create(folder.path().join("log")).unwrap();
        let flash = format!("ext_path={}:256m,ext_item_age=0", folder.path().join("flash").display());
        let file = folder.path().join("users");
        let lines: String = users.iter().map(|(name, word)| format!("{name}:{word}\n")).collect();
        fs::write(&file, lines).unwrap();
        let mut child = Command::new(env!("CARGO_BIN_EXE_sandur"))
            .args(["cache", "serve", "-l", "127.0.0.1", "-p", "-1", "-m", "64", "-o", &flash])
            .args(arguments)
            .env("MEMCACHED_PORT_FILENAME", &ports)
            .env("MEMCACHED_SASL_PWDB", &file)
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap();
        let deadline = Instant::now() + PATIENCE;
        // the file is renamed into place, so it is complete
        while !ports.exists() {
            let ended = child.try_wait().unwrap().is_some();
            let log = || fs::read_to_string(folder.path().join("log")).unwrap();
            assert!(!ended && Instant::now() < deadline, "the server did not start: {}", log());
            std::thread::sleep(Duration::from_millis(5)); // polling another process
        }
        let text = fs::read_to_string(&ports).unwrap();
        let port = text.lines().find_map(|line| line.strip_prefix("TCP INET: ")).unwrap().parse().unwrap();
        Self { child, address: SocketAddr::from(([127, 0, 0, 1], port)), folder }
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    /// Sends text commands and returns the responses up to that of a last command that marks the end.
    fn ask(&self, commands: &str) -> String {
        let mut stream = self.connect();
        stream.write_all(format!("{commands}mn\r\n").as_bytes()).unwrap();
        let mut answer = String::new();
        for line in BufReader::new(stream).lines() {
            let line = line.unwrap();
            if line == "MN" {
                return answer;
            }
            answer += &line;
            answer.push('\n');
        }
        panic!("the server closed the connection after {answer}");
    }

    fn stats(&self) -> BTreeMap<String, f64> {
        let text = self.ask("stats\r\n");
        let pair = |line: &str| {
            let (name, value) = line.strip_prefix("STAT ")?.split_once(' ')?;
            Some((name.to_owned(), value.parse().ok()?))
        };
        text.lines().filter_map(pair).collect()
    }
}

impl Drop for Cache {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The program if it exists: in `.tools/bin` of the repository or on PATH.
fn program(name: &str, remedy: &str) -> Option<PathBuf> {
    let own = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../.tools/bin"));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut folders = std::iter::once(own).chain(std::env::split_paths(&path));
    let found = folders.find_map(|folder| Some(folder.join(name)).filter(|file| file.is_file()));
    if found.is_none() {
        eprintln!("skipped: there is no {name} ({remedy})");
    }
    found
}

/// Runs a program that must succeed; returns its output.
fn run(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let (out, error) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{command:?}: {out}{error}");
    out.into_owned()
}

/// Runs one of our Go clients; returns how many responses it checked.
fn use_client(arguments: &[&str]) -> Option<u64> {
    let client = program("cacheclients", "`cargo xtask rivals cacheclients` builds it")?;
    let printed = run(Command::new(client).args(arguments));
    Some(printed.trim().strip_suffix(" answers").unwrap().parse().unwrap())
}

#[test]
fn gomemcache_reads_in_batches_and_writes_conditionally() {
    let cache = Cache::start(&[]);
    let Some(answers) = use_client(&["gomemcache", &cache.address.to_string()]) else { return };
    assert!(answers > 1_200, "{answers}");
    assert_eq!(cache.ask("get left-by-gomemcache\r\n"), "VALUE left-by-gomemcache 3 4\nhere\nEND\n");
    let stats = cache.stats();
    for (name, least) in [("cmd_set", 400.0), ("get_hits", 400.0), ("cas_badval", 1.0), ("cmd_touch", 2.0)] {
        assert!(stats[name] >= least, "{name}: {stats:?}");
    }
    assert!(stats["get_extstore"] > 100.0, "most chunks were read from flash: {stats:?}");
    assert_eq!((stats["badcrc_from_extstore"], stats["evictions"]), (0.0, 0.0));
}

#[test]
fn mc_speaks_the_binary_protocol() {
    let cache = Cache::start(&[]);
    let Some(answers) = use_client(&["binary", &cache.address.to_string()]) else { return };
    assert!(answers > 20, "{answers}");
    assert_eq!(cache.ask("get left-by-binary\r\n"), "VALUE left-by-binary 3 4\nhere\nEND\n");
    let stats = cache.stats();
    assert_eq!((stats["cmd_flush"], stats["incr_hits"], stats["decr_hits"]), (1.0, 1.0, 1.0), "{stats:?}");
}

#[test]
fn mc_authenticates_with_sasl() {
    let cache = Cache::start_with(&["-S"], &[("loki", "a secret")]);
    let address = cache.address.to_string();
    if use_client(&["binary", &address, "loki", "a secret"]).is_none() {
        return;
    }
    let client = program("cacheclients", "it was just found").unwrap();
    let refused = Command::new(client).args(["binary", &address, "loki", "wrong"]).output().unwrap();
    let error = String::from_utf8_lossy(&refused.stderr);
    assert!(!refused.status.success() && error.contains("authentication required"), "{error}");
}

#[test]
fn the_exporter_finds_every_series_of_dashboards() {
    let cache = Cache::start(&[]);
    let Some(exporter) = program("memcached_exporter", "`cargo xtask rivals memcached_exporter` builds it")
    else {
        return;
    };
    let value = "v".repeat(20_000);
    cache.ask(&format!("set key 0 0 20000\r\n{value}\r\nset small 0 0 1\r\nx\r\nget small\r\nget none\r\n"));
    while cache.stats()["extstore_objects_written"] < 1.0 {}
    let listen = free_address().unwrap();
    let log = cache.folder.path().join("exporter");
    let mut child = Command::new(exporter)
        .args(["--memcached.address", &cache.address.to_string()])
        .args(["--web.listen-address", &listen.to_string()])
        .stdout(Stdio::null())
        .stderr(File::create(&log).unwrap())
        .spawn()
        .unwrap();
    let page = scrape(listen, &mut child);
    child.kill().unwrap();
    child.wait().unwrap();
    let log = fs::read_to_string(log).unwrap();
    assert!(!log.contains("level=error") && !log.contains("Failed"), "{log}");
    let sum = |name: &str| -> f64 {
        let of_name = |line: &&str| line.starts_with(name) && line[name.len()..].starts_with(['{', ' ']);
        let values = page.lines().filter(of_name).map(|line| line.rsplit_once(' ').unwrap().1);
        let values: Vec<f64> = values.map(|value| value.parse().unwrap()).collect();
        assert!(!values.is_empty(), "no {name} in {page}");
        values.iter().sum()
    };
    assert_eq!(sum("memcached_up"), 1.0);
    assert_eq!(sum("memcached_commands_total{command=\"set\",status=\"hit\"}"), 2.0);
    assert_eq!(sum("memcached_commands_total{command=\"get\",status=\"hit\"}"), 1.0);
    assert_eq!(sum("memcached_commands_total{command=\"get\",status=\"miss\"}"), 1.0);
    assert_eq!(sum("memcached_limit_bytes"), f64::from(64 << 20));
    assert_eq!(sum("memcached_items_total"), 2.0);
    assert_eq!(sum("memcached_current_items"), 2.0);
    assert_eq!(sum("memcached_slab_current_items"), 2.0);
    for name in [
        "memcached_version",
        "memcached_time_seconds",
        "memcached_current_connections",
        "memcached_max_connections",
        "memcached_read_bytes_total",
        "memcached_written_bytes_total",
        "memcached_malloced_bytes",
        "memcached_slab_chunk_size_bytes",
        "memcached_slab_commands_total",
        "memcached_extstore_objects_written_total",
        "memcached_extstore_bytes_limit",
    ] {
        assert!(sum(name) > 0.0, "{name} is 0");
    }
    for name in [
        "memcached_items_evicted_total",
        "memcached_items_reclaimed_total",
        "memcached_slab_items_evicted_unfetched_total",
    ] {
        assert_eq!(sum(name), 0.0, "{name}");
    }
}

/// The exporter's page, once it listens.
fn scrape(address: SocketAddr, exporter: &mut Child) -> String {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Ok(mut stream) = TcpStream::connect(address) {
            stream.set_read_timeout(Some(PATIENCE)).unwrap();
            stream.write_all(b"GET /metrics HTTP/1.0\r\n\r\n").unwrap();
            let mut page = String::new();
            stream.read_to_string(&mut page).unwrap();
            assert!(page.starts_with("HTTP/1.0 200"), "{page}");
            return page;
        }
        assert!(
            exporter.try_wait().unwrap().is_none() && Instant::now() < deadline,
            "the exporter did not start"
        );
        std::thread::sleep(Duration::from_millis(5)); // polling another process
    }
}

#[test]
fn the_tools_of_libmemcached_work() {
    let cache = Cache::start(&[]);
    let tool = |name: &str| program(name, "Debian: apt-get install libmemcached-tools");
    let (Some(copy), Some(cat), Some(stat)) = (tool("memccp"), tool("memccat"), tool("memcstat")) else {
        return;
    };
    let servers = format!("--servers={}", cache.address);
    let text: String = (0..3_000).map(|n| format!("{n} lines of a file\n")).collect();
    let file = cache.folder.path().join("a-file");
    fs::write(&file, &text).unwrap();
    for protocol in [None, Some("--binary")] {
        run(Command::new(&copy).arg(&servers).args(protocol).arg(&file));
        assert_eq!(
            run(Command::new(&cat).arg(&servers).args(protocol).arg("a-file")).trim_end(),
            text.trim_end()
        );
    }
    let answer = cache.ask("get a-file\r\n");
    assert!(answer.contains(&format!(" {}\n0 lines of a file\n", text.len())), "{}", &answer[..80]);
    let printed = run(Command::new(&stat).arg(&servers));
    for expected in ["version: 1.6", "cmd_set: 2", "get_hits: 3", "threads: "] {
        assert!(printed.contains(expected), "no {expected} in {printed}");
    }
    if let Some(remove) = tool("memcrm") {
        run(Command::new(&remove).arg(&servers).arg("a-file"));
        assert_eq!(cache.ask("get a-file\r\n"), "END\n");
    }
    if let Some(ping) = tool("memcping") {
        run(Command::new(&ping).arg(&servers));
    }
}
