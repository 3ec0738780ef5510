//! Goal: reports of `sandur push` are correct: acknowledged lines are stored, refused lines are reported
//! and kept, and no line is lost or stored twice even if it is interrupted.
//!
//! Method: the real binary against a real server, and against one in this process that responds like
//! Loki.

#![allow(clippy::unwrap_used, clippy::disallowed_methods)] // a test: a panic is its failure

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::process::{Server, Setup, now_ns};

/// Far longer than an operation takes.
const PATIENCE: Duration = Duration::from_secs(120);

struct Place {
    folder: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn text(&self, name: &str) -> String {
        self.path(name).to_str().unwrap().to_owned()
    }

    fn write(&self, name: &str, content: impl AsRef<[u8]>) -> String {
        fs::write(self.path(name), content).unwrap();
        self.text(name)
    }

    fn append(&self, name: &str, content: &str) {
        let mut file = fs::File::options().create(true).append(true).open(self.path(name)).unwrap();
        file.write_all(content.as_bytes()).unwrap();
    }

    fn server(&self, arguments: &[&str]) -> Server {
        Setup::new(self.text("store"), self.folder.path()).with(arguments).start()
    }
}

fn command(address: SocketAddr, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sandur"));
    command.args(["push", "--addr", &format!("http://{address}"), "--label", "app=a"]).args(arguments);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    command
}

fn push(address: SocketAddr, arguments: &[&str]) -> (Option<i32>, String) {
    let Output { status, stderr, .. } = command(address, arguments).output().unwrap();
    (status.code(), String::from_utf8(stderr).unwrap())
}

/// Every stored line of the last hour and the next.
fn stored(server: &Server) -> Vec<String> {
    let (hour, now) = (3_600_000_000_000, now_ns());
    server.lines("{app=\"a\"}", now - hour, now + hour, 5_000)
}

fn wait_for(what: &str, mut done: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !done() {
        assert!(Instant::now() < deadline, "{what}");
        std::thread::sleep(Duration::from_millis(20)); // polling another process
    }
}

/// A process that is killed on drop.
struct Running(Child);

impl Running {
    fn start(mut command: Command) -> Self {
        Self(command.stderr(Stdio::null()).spawn().unwrap())
    }

    fn kill(mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The numbers of the vector that a query of samples returns.
fn numbers(server: &Server, query: &str) -> Vec<String> {
    let (_, answer) = server.get(&format!("/api/v1/query?query={query}&time=1000"));
    let json: serde_json::Value = serde_json::from_slice(&answer).unwrap();
    let series = json["data"]["result"].as_array().unwrap();
    series.iter().map(|one| one["value"][1].as_str().unwrap().to_owned()).collect()
}

#[test]
fn refused_samples_are_counted_by_reason_reported_and_kept() {
    let place = Place::new();
    let server = place.server(&["--limits-metrics-max-label-value-length", "10"]);
    let long = format!("m{{a=\"{}\"}} 1 1000000", "x".repeat(20));
    let good: String = (0..300).map(|n| format!("m{{a=\"{n}\"}} 1 1000000\n")).collect();
    let mut text = format!("# HELP m x\n\n{good}{long}\nm one\n").into_bytes();
    text.extend_from_slice(b"m{a=\"\xff\"} 1 1000000\nm 1 1000000");
    let (file, kept) = (place.write("m.prom", text), place.text("kept"));
    let (code, said) = push(server.address, &["--metrics", &file, "--rejected", &kept]);
    assert_eq!(code, Some(1), "{said}");
    for part in [
        "acknowledged 301 samples",
        "refused 1 line: invalid sample",
        "refused 1 line: label value too long; raise limits.metrics.max_label_value_length",
        "refused 1 line: not utf8",
        "m.prom:303: refused, label value too long: m{a=",
        "m.prom:304: refused, invalid sample: m one",
        "m.prom:305: refused, not utf8",
        "the server says: ",
        &format!("refused lines are kept in '{kept}'"),
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
    let lines = fs::read(&kept).unwrap();
    let expected = [b"m{a=\"\xff\"} 1 1000000\n", long.as_bytes(), b"\nm one\n"].concat();
    assert_eq!(String::from_utf8_lossy(&lines), String::from_utf8_lossy(&expected));
    assert_eq!(numbers(&server, "count(m)"), ["301"]);
    let (code, said) = push(server.address, &["--metrics", &place.write("good.prom", &good)]);
    assert_eq!((code, said.contains("acknowledged 300 samples")), (Some(0), true), "{said}");
}

#[test]
fn samples_that_conflict_are_not_reported_as_acknowledged() {
    let place = Place::new();
    let server = place.server(&[]);
    let text = "m 1 1000000\nm 2 1000000\nm 1 1000000\nn 7 1000000\nm 3 1000000\n";
    let (file, kept) = (place.write("m.prom", text), place.text("kept"));
    for _ in ["new", "known"] {
        let (code, said) = push(server.address, &["--metrics", &file, "--rejected", &kept]);
        assert_eq!(code, Some(1), "{said}");
        for part in [
            "acknowledged 3 samples",
            "refused 2 lines: new value for timestamp; the server keeps the first value of an instant",
            "m.prom:2: refused, new value for timestamp: m 2 1000000",
            "m.prom:5: refused, new value for timestamp: m 3 1000000",
            "duplicate sample for timestamp 1000000; overrides not allowed: existing 1, new value 2",
        ] {
            assert!(said.contains(part), "{part}: {said}");
        }
    }
    assert_eq!(fs::read_to_string(&kept).unwrap(), "m 2 1000000\nm 3 1000000\n".repeat(2));
    assert_eq!((numbers(&server, "m"), numbers(&server, "n")), (vec!["1".to_owned()], vec!["7".to_owned()]));
}

#[test]
fn options_without_meaning_for_samples_are_refused_with_a_reason() {
    let place = Place::new();
    let file = place.write("m.prom", "m 1\n");
    let nowhere = SocketAddr::from(([127, 0, 0, 1], 9));
    for (option, why) in [
        (&["--resume", "state"][..], "--resume cannot be used with --metrics: a file of samples is pushed"),
        (&["--follow"], "--follow cannot be used with --metrics: files of samples are rewritten"),
        (
            &["--timestamps", "auto"],
            "--timestamps cannot be used with --metrics: samples have their timestamps",
        ),
    ] {
        let arguments: Vec<&str> = ["--metrics", &file].into_iter().chain(option.iter().copied()).collect();
        let (code, said) = push(nowhere, &arguments);
        assert_eq!((code, said.contains(why)), (Some(2), true), "{said}");
    }
}

#[test]
fn a_format_separated_from_its_option_is_explained() {
    let place = Place::new();
    let file = place.write("m.prom", "m 1\n");
    let nowhere = SocketAddr::from(([127, 0, 0, 1], 9));
    for arguments in [["--metrics", "auto", &file], [&file, "--metrics", "openmetrics"]] {
        let (code, said) = push(nowhere, &arguments);
        let format = if arguments.contains(&"auto") { "auto" } else { "openmetrics" };
        let why = format!("a format follows an =, as in --metrics={format}");
        assert_eq!((code, said.contains(&why)), (Some(2), true), "{said}");
    }
}

#[test]
fn refused_lines_that_are_not_utf8_are_not_reported_as_stored() {
    let place = Place::new();
    let server = place.server(&["--limits-max-line-size", "20"]);
    let text = b"short \xff\na line of many characters \xff\n";
    let (code, said) = push(server.address, &[&place.write("a.log", text)]);
    assert_eq!(code, Some(1), "{said}");
    for part in ["acknowledged 1 line", "1 line is not valid UTF-8: stored unchanged", "refused 1 line: "] {
        assert!(said.contains(part), "{part}: {said}");
    }
    let (_, said) = push(server.address, &[&place.write("b.log", b"many more characters \xff\n")]);
    assert!(said.contains("acknowledged 0 lines") && !said.contains("UTF-8"), "{said}");
}

#[test]
fn samples_that_a_foreign_server_refuses_without_details_are_found_by_bisection() {
    // It behaves like a server that stores no part of a body with a line "m bad".
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let taken = Arc::new(Mutex::new(Vec::new()));
    let notes = Arc::clone(&taken);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let body = request_body(&mut stream);
            let refused = body.lines().any(|line| line == "m bad");
            if !refused {
                notes.lock().unwrap().extend(body.lines().map(str::to_owned));
            }
            let head = if refused { "400 Bad Request" } else { "204 No Content" };
            let answer = format!("HTTP/1.1 {head}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
            stream.write_all(answer.as_bytes()).unwrap();
        }
    });
    let place = Place::new();
    let file = place.write("m.prom", "m 1 1\nm 1 2\nm bad\nm 1 4\nm 1 5\n");
    let (code, said) = push(address, &["--metrics=openmetrics", &file]);
    assert_eq!(code, Some(1), "{said}");
    for part in ["acknowledged 4 samples", "refused 1 line: refused", "m.prom:3: refused", "--rejected FILE"]
    {
        assert!(said.contains(part), "{part}: {said}");
    }
    let taken: Vec<String> = taken.lock().unwrap().iter().filter(|line| *line != "# EOF").cloned().collect();
    assert_eq!(taken, ["m 1 1", "m 1 2", "m 1 4", "m 1 5"]);
}

/// The body of a request with a length.
fn request_body(stream: &mut std::net::TcpStream) -> String {
    let mut all = Vec::new();
    loop {
        let mut part = [0; 4_096];
        let read = stream.read(&mut part).unwrap();
        all.extend_from_slice(&part[..read]);
        let text = String::from_utf8_lossy(&all).into_owned();
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let length = head.lines().find_map(|line| {
            let (name, value) = line.split_once(": ")?;
            name.eq_ignore_ascii_case("content-length").then(|| value.parse::<usize>().unwrap())
        });
        if read == 0 || body.len() >= length.unwrap_or(0) {
            return body.to_owned();
        }
    }
}

#[test]
fn refused_lines_are_counted_kept_and_reported_and_the_rest_is_stored() {
    let place = Place::new();
    let server = place.server(&["--limits-max-line-size", "1KiB"]);
    let long = "x".repeat(2_000);
    let log = place.write("a.log", format!("one\n{long}\ntwo\n{long}y\nthree\n"));
    let (state, kept) = (place.text("state"), place.text("kept"));
    let arguments = [log.as_str(), "--resume", &state, "--rejected", &kept];
    let (code, text) = push(server.address, &arguments);
    assert_eq!(code, Some(1), "{text}");
    for part in
        ["acknowledged 3 lines", "refused 2 lines: line too long", "limits.max_line_size", "byte 4: refused"]
    {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert_eq!(fs::read_to_string(&kept).unwrap(), format!("{long}\n{long}y\n"));
    assert_eq!(stored(&server), ["one", "two", "three"]);
    place.append("a.log", "four\n");
    let (code, text) = push(server.address, &arguments);
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains("acknowledged 1 line"), "{text}");
    assert_eq!(stored(&server), ["one", "two", "three", "four"]);
    assert_eq!(server.terminate(), Some(0));

    let lenient = place.server(&[]);
    let (code, text) = push(lenient.address, &[&kept]);
    assert_eq!(code, Some(0), "kept lines can be pushed again: {text}");
    assert_eq!(stored(&lenient).len(), 6);
}

#[test]
fn with_a_resume_point_refused_lines_are_kept_by_default() {
    let place = Place::new();
    let server = place.server(&["--limits-max-line-size", "10"]);
    let log = place.write("a.log", "short\nmuch longer than that\n");
    let (code, text) = push(server.address, &[&log, "--resume", &place.text("state")]);
    assert_eq!(code, Some(1), "{text}");
    assert_eq!(fs::read_to_string(place.path("state.rejected")).unwrap(), "much longer than that\n");
}

/// A server that responds like Loki: of a push with a line that contains `BAD` it stores the rest.
fn foreign_server() -> (SocketAddr, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let lines = Arc::new(Mutex::new(Vec::new()));
    let all = Arc::clone(&lines);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut head = Vec::new();
            let mut byte = [0];
            while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte).unwrap() > 0 {
                head.push(byte[0]);
            }
            let head = String::from_utf8(head).unwrap().to_lowercase();
            let length = head.lines().find_map(|l| l.strip_prefix("content-length: ")).unwrap();
            let mut body = vec![0; length.parse().unwrap()];
            stream.read_exact(&mut body).unwrap();
            let plain = snap::raw::Decoder::new().decompress_vec(&body).unwrap();
            let text = String::from_utf8_lossy(&plain).into_owned();
            let found: Vec<String> =
                text.match_indices("line ").map(|(at, _)| text[at..at + 9].to_owned()).collect();
            let is_whole = found.iter().all(|line| !line.ends_with('!'));
            all.lock().unwrap().extend(found.into_iter().filter(|line| !line.ends_with('!')));
            let answer = match is_whole {
                true => "HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n".to_owned(),
                false => {
                    "HTTP/1.1 400 Bad Request\r\nConnection: close\r\nContent-Length: 38\r\n\r\nentry for \
                          stream has timestamp too old"
                        .to_owned()
                }
            };
            stream.write_all(answer.as_bytes()).unwrap();
        }
    });
    (address, lines)
}

#[test]
fn refused_lines_of_a_server_that_does_not_list_them_are_found() {
    let place = Place::new();
    let (address, lines) = foreign_server();
    let is_bad = |n: u32| matches!(n, 0 | 417 | 418 | 999);
    let line = |n: u32| format!("line {n:03}{}", if is_bad(n) { '!' } else { '.' });
    let log = place.write("a.log", (0..1_000).map(|n| line(n) + "\n").collect::<String>());
    let kept = place.text("kept");
    let (code, text) = push(address, &[&log, "--rejected", &kept]);
    assert_eq!(code, Some(1), "{text}");
    assert!(
        text.contains("acknowledged 996 lines") && text.contains("refused 4 lines: older than"),
        "{text}"
    );
    let bad: String = (0..1_000).filter(|n| is_bad(*n)).map(|n| line(n) + "\n").collect();
    assert_eq!(fs::read_to_string(kept).unwrap(), bad);
    let mut stored = lines.lock().unwrap().clone();
    stored.sort();
    stored.dedup();
    let good: Vec<String> = (0..1_000).filter(|n| !is_bad(*n)).map(line).collect();
    assert_eq!(stored, good);
}

#[test]
fn a_push_refused_as_a_whole_can_be_resumed_from_there() {
    let place = Place::new();
    let (log, state) = (place.write("a.log", "one\ntwo\n"), place.text("state"));
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let (code, text) = push(closed, &[&log, "--resume", &state, "--retries", "1"]);
    assert_eq!(code, Some(1));
    assert!(text.contains("not stored from byte 0:") && text.contains("connection refused"), "{text}");
    assert!(text.contains("acknowledged 0 lines"), "{text}");
    let server = place.server(&[]);
    let (code, text) = push(server.address, &[&log, "--resume", &state]);
    assert_eq!(code, Some(0), "{text}");
    assert_eq!(stored(&server), ["one", "two"]);
}

#[test]
fn lines_that_are_too_old_are_reported_with_two_remedies() {
    let place = Place::new();
    let server = place.server(&[]);
    let log = place.write("a.log", "2001-02-03T04:05:06Z one\n2001-02-03T04:05:07Z two\n");
    let (code, text) = push(server.address, &[&log]);
    assert_eq!(code, Some(1));
    for part in
        ["refused 2 lines: older", "--timestamps now", "limits.reject_old_samples_max_age", "--rejected"]
    {
        assert!(text.contains(part), "{part}: {text}");
    }
    let (code, text) = push(server.address, &[&log, "--timestamps", "now"]);
    assert_eq!(code, Some(0), "{text}");
    assert_eq!(stored(&server).len(), 2);
}

#[test]
fn directories_are_read_with_compressed_files_and_without_binary_ones() {
    let place = Place::new();
    let server = place.server(&[]);
    fs::create_dir_all(place.path("logs/deeper")).unwrap();
    let gzip = |text: &[u8]| {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(text).unwrap();
        encoder.finish().unwrap()
    };
    place.write("logs/1.log", "plain\n");
    place.write("logs/2.gz", [gzip(b"member one\n"), gzip(b"member two\n")].concat());
    place.write("logs/deeper/3.zst", zstd::encode_all(&b"zstd\n"[..], 1).unwrap());
    place.write("logs/deeper/binary", b"a\0b");
    let (code, text) = push(server.address, &[&place.text("logs")]);
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains("skipped: ") && text.contains("deeper/binary' is binary"), "{text}");
    let mut lines = stored(&server);
    lines.sort();
    assert_eq!(lines, ["member one", "member two", "plain", "zstd"]);

    let many: String = (0..4_000).map(|n| format!("{n} of many\n")).collect();
    let mut cut = gzip(many.as_bytes());
    cut.truncate(cut.len() / 2);
    let names = [place.write("cut.gz", cut), place.text("none"), place.text("logs/deeper/binary")];
    let last = place.write("last.log", "the others go on\n");
    let (code, text) = push(server.address, &[&names[0], &names[1], &names[2], &last]);
    assert_eq!(code, Some(1));
    for part in
        ["cut.gz' is damaged or truncated at byte", "none': no such file", "binary' is binary", "3 inputs"]
    {
        assert!(text.contains(part), "{part}: {text}");
    }
    let lines = stored(&server);
    assert!(
        lines.iter().any(|line| line == "the others go on") && lines.iter().any(|line| line == "0 of many")
    );
}

#[test]
fn standard_input_is_sent_while_it_is_open() {
    let place = Place::new();
    let server = place.server(&[]);
    let mut command = command(server.address, &["-"]);
    let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(b"first\npart").unwrap();
    wait_for("the line arrives before the input ends", || stored(&server) == ["first"]);
    stdin.write_all(b"ial\nlast").unwrap();
    wait_for("the next line arrives too", || stored(&server) == ["first", "partial"]);
    drop(stdin);
    let output = child.wait_with_output().unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success() && text.contains("acknowledged 3 lines"), "{text}");
    assert_eq!(stored(&server), ["first", "partial", "last"]);
}

#[test]
fn a_line_beyond_the_limit_of_the_server_is_never_truncated() {
    let place = Place::new();
    let server = place.server(&[]);
    let long = "y".repeat(300 << 10);
    let log = place.write("a.log", format!("{long}\nshort\n"));
    let (code, text) = push(server.address, &[&log]);
    assert_eq!(code, Some(1));
    assert!(text.contains("refused 1 line: line too long"), "{text}");
    assert_eq!(stored(&server), ["short"]);
}

/// How often each line is stored.
fn counts(server: &Server) -> BTreeMap<String, u32> {
    let mut counts = BTreeMap::new();
    for line in stored(server) {
        *counts.entry(line).or_default() += 1;
    }
    counts
}

fn rename(from: &Path, to: &Path) {
    fs::rename(from, to).unwrap();
}

#[test]
fn kills_and_rotations_while_following_neither_lose_nor_repeat_lines() {
    let place = Place::new();
    let server = place.server(&[]);
    let (log, state) = (place.text("a.log"), place.text("state"));
    let mut next = 0;
    let mut write = |count: u32| {
        // Some with their own timestamps, some dated by arrival, some with equal timestamps.
        let text: String = (next..next + count)
            .map(|n| match n % 3 {
                0 => format!("INFO line {n}\n"),
                _ => format!("ts={} line {n}\n", now_ns() / 1_000_000_000),
            })
            .collect();
        place.append("a.log", &text);
        next += count;
        next as usize
    };
    let follow = || Running::start(command(server.address, &[&log, "--follow", "--resume", &state]));
    write(50);
    for round in 0..4 {
        let running = follow();
        let sum = write(40);
        wait_for("existing and new lines are sent", || stored(&server).len() >= sum);
        rename(&place.path("a.log"), &place.path(&format!("a.log.{round}")));
        let sum = write(40);
        // A file that was created and removed while no process followed could not be known.
        wait_for("the new file is sent", || stored(&server).len() >= sum);
        write(30);
        running.kill(); // between reading, sending and storing the resume point
        // The end of a file that was rotated while no process followed.
        write(20);
        rename(&place.path("a.log"), &place.path(&format!("a.log.{round}b")));
        write(20);
    }
    let sum = write(10);
    let _running = follow();
    wait_for("all lines are stored", || counts(&server).len() >= sum);
    let counts = counts(&server);
    assert_eq!(counts.len(), sum);
    let doubled: Vec<_> = counts.iter().filter(|(_, n)| **n != 1).collect();
    assert!(doubled.is_empty(), "{doubled:?}");
}

#[test]
fn new_files_of_a_directory_and_truncated_ones_are_followed() {
    let place = Place::new();
    let server = place.server(&[]);
    fs::create_dir(place.path("logs")).unwrap();
    place.append("logs/a.log", "a one\n");
    // Its own files are in the same directory, but are not input.
    let own = [place.text("logs/state"), place.text("logs/kept")];
    let arguments = ["--follow", &place.text("logs"), "--resume", &own[0], "--rejected", &own[1]];
    let mut running = Running::start(command(server.address, &arguments));
    wait_for("the existing line", || stored(&server).len() == 1);
    place.append("logs/b.log", "b one\n");
    wait_for("a new file", || stored(&server).len() == 2);
    drop(fs::File::create(place.path("logs/a.log")).unwrap());
    place.append("logs/a.log", "a two\nwithout its end");
    wait_for("the line after a truncation", || stored(&server).len() == 3);
    let pid = running.0.id().to_string();
    assert!(Command::new("kill").args(["-s", "TERM", &pid]).status().unwrap().success());
    assert!(running.0.wait().unwrap().success());
    assert_eq!(stored(&server).len(), 3, "with a state file an incomplete line waits for the next run");
    assert!(
        push(server.address, &[&place.text("logs"), "--resume", &own[0], "--rejected", &own[1]]).0 == Some(0)
    );
    assert_eq!(stored(&server).len(), 4);
}
