//! Goal: a new user who runs `sandur demo` gets ten commands that all find something, and Ctrl-C stops it
//! cleanly with a message about the kept data.
//!
//! Method: the real binary, with an empty directory and a free port; a shell runs the commands exactly as
//! they were printed.

#![allow(clippy::unwrap_used, clippy::disallowed_methods)] // a test: a panic is its failure

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Far longer than loading takes, even in a debug build on a busy machine.
const PATIENCE: Duration = Duration::from_secs(180);

struct Demo {
    child: Child,
    log: PathBuf,
}

impl Demo {
    fn start(folder: &Path, listen: &str) -> Self {
        let log = folder.join("demo.log");
        let store = folder.join("store");
        let child = Command::new(env!("CARGO_BIN_EXE_sandur"))
            .args(["demo", "--store", store.to_str().unwrap(), "--listen", listen])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::create(&log).unwrap())
            .spawn()
            .unwrap();
        Self { child, log }
    }

    fn said(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    fn wait_for(&mut self, words: &str) -> String {
        let deadline = Instant::now() + PATIENCE;
        while !self.said().contains(words) {
            let ended = self.child.try_wait().unwrap();
            assert!(ended.is_none() && Instant::now() < deadline, "{ended:?}\n{}", self.said());
            std::thread::sleep(Duration::from_millis(10)); // polling another process
        }
        self.said()
    }

    /// The targets that the server scrapes, once every scrape succeeded.
    fn targets_once_up(&self, address: std::net::SocketAddr) -> String {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let path = "/api/v1/targets?state=active";
            let (status, body) = crate::process::request(address, "GET", path, &[], b"").unwrap();
            let targets = String::from_utf8(body).unwrap();
            assert!(status == 200 && Instant::now() < deadline, "{targets}");
            if !targets.contains(r#""health":"down""#) && !targets.contains(r#""health":"unknown""#) {
                return targets;
            }
            std::thread::sleep(Duration::from_millis(10)); // polling another process
        }
    }

    fn interrupt(&mut self) -> Option<i32> {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args(["-s", "INT", &pid]).status().unwrap().success());
        let deadline = Instant::now() + PATIENCE;
        while Instant::now() < deadline {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.code();
            }
            std::thread::sleep(Duration::from_millis(10)); // polling another process
        }
        panic!("the demo did not stop within {PATIENCE:?}:\n{}", self.said());
    }
}

impl Drop for Demo {
    fn drop(&mut self) {
        // It may already have exited.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The number before `after`, after the last `before` that precedes it.
fn number(text: &str, before: &str, after: &str) -> u64 {
    let head = &text[..text.find(after).unwrap_or_else(|| panic!("no {after:?} in {text}"))];
    head.rsplit(before).next().unwrap().trim().parse().unwrap()
}

#[test]
fn printed_commands_of_logs_and_metrics_find_something_and_ctrl_c_reports_the_kept_data() {
    let folder = tempfile::tempdir().unwrap();
    // Occupied, so that the demo has to choose another port.
    let held = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = held.local_addr().unwrap();
    let mut demo = Demo::start(folder.path(), &taken.to_string());
    let said = demo.wait_for("Ctrl-C stops.");
    assert!(said.contains(&format!("{taken} is in use; using a free port")), "{said}");

    let program = format!("{} query ", env!("CARGO_BIN_EXE_sandur"));
    let commands: Vec<&str> = said.lines().map(str::trim).filter(|line| line.starts_with(&program)).collect();
    assert_eq!(commands.len(), 9, "{said}");
    assert!(commands.iter().any(|command| command.contains("--graphite")), "{said}");
    for command in commands {
        let output = Command::new("sh").args(["-c", &format!("{command} --output raw")]).output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{command}: {errors}");
        assert!(!output.stdout.trim_ascii().is_empty(), "{command} found nothing: {errors}");
    }

    let address = said.split("http://").nth(1).unwrap().split([',', ' ']).next().unwrap();
    let find = said.lines().find_map(|line| line.trim().strip_prefix("curl -s 'http://")).expect("a find");
    let path = find.trim_end_matches('\'').split_once('/').map(|(_, path)| format!("/{path}")).unwrap();
    let (status, nodes) = crate::process::request(address.parse().unwrap(), "GET", &path, &[], b"").unwrap();
    assert!(status == 200 && String::from_utf8_lossy(&nodes).contains("gateway"), "{status} {path}");
    let (status, labels) =
        crate::process::request(address.parse().unwrap(), "GET", "/loki/api/v1/label/app/values", &[], b"")
            .unwrap();
    let labels = String::from_utf8_lossy(&labels);
    assert!(status == 200 && labels.contains("payments") && labels.contains("gateway"), "{status} {labels}");

    let targets = demo.targets_once_up(address.parse().unwrap());
    let pools = |name: &str| targets.matches(&format!(r#""scrapePool":"{name}""#)).count();
    assert_eq!(pools("sandur"), 1, "{targets}");
    assert!(pools("shop") > 2 && targets.contains("/watch-0/metrics"), "{targets}");

    assert_eq!(demo.interrupt(), Some(0), "{}", demo.said());
    let said = demo.said();
    assert!(said.contains("serves them again"), "{said}");
    let closing = &said[said.rfind("kept ").unwrap()..];
    let (rows, blocks) = (number(closing, "kept", " rows in"), number(closing, "rows in", " blocks in"));
    assert!(rows > 10_000 && blocks > 0, "{closing}");
    assert!(number(closing, "this run shipped", " lines, ") <= rows, "shipped lines were kept: {closing}");

    // The second time most lines of the last hour already exist.
    let mut again = Demo::start(folder.path(), &taken.to_string());
    let said = again.wait_for("Ctrl-C stops.");
    assert_eq!(said.lines().filter(|line| line.trim().starts_with(&program)).count(), 9, "{said}");
    assert_eq!(again.interrupt(), Some(0), "{}", again.said());
}
