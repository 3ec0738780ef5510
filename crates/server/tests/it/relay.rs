//! Goal: a server that is a target of its own relay stores what it relays, and an unreachable target gets
//! the points later, even after a kill.
//!
//! Method: the real binary relays to itself and to a port without a listener, is killed and restarted,
//! and then there is a listener.

#![allow(clippy::unwrap_used, clippy::disallowed_methods)] // process tests: real time

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

use sandur_attack::free_address;

use crate::process::{Setup, encode, now_ns};

const NAMES: usize = 50;
const VALUES: usize = 20;

#[test]
fn relayed_points_are_stored_and_delivered_even_after_a_kill() {
    let folder = tempfile::tempdir().unwrap();
    let (own, legacy) = (free_address().unwrap().port(), free_address().unwrap().port());
    let configuration = folder.path().join("relay.toml");
    let text = format!(
        "listen = ['tcp://127.0.0.1:{own}']\nspool_directory = '{}'\n[[cluster]]\nname = 'both'\n\
         method = 'all'\ntargets = ['127.0.0.1:{legacy}', 'sandur:1']\n[[stage]]\nto = ['both']\n\
         [statistics]\nevery = '1h'\n",
        folder.path().join("spool").display()
    );
    std::fs::write(&configuration, text).unwrap();
    let spool = folder.path().join(format!("spool/127_0_0_1+{legacy}+None.0/0000000000000000.spool"));
    let store = format!("file://{}", folder.path().join("data").display());
    let setup = Setup::new(store, folder.path());
    let setup = setup.with(&["--relay-config", configuration.to_str().unwrap()]);
    let server = setup.start();
    let first = now_ns() / 1_000_000_000 - VALUES as i64;
    let line =
        |value: usize, name: usize| format!("servers.web{name}.cpu {value} {}\n", first + value as i64);
    let lines: String = (0..VALUES).flat_map(|value| (0..NAMES).map(move |name| line(value, name))).collect();
    TcpStream::connect(("127.0.0.1", own)).unwrap().write_all(lines.as_bytes()).unwrap();
    let query = encode("sum(count_over_time({__g0__=\"servers\"}[5m]))");
    let path = format!("/api/v1/query?query={query}");
    let begun = Instant::now();
    let all = (NAMES * VALUES).to_string();
    let is_stored = || server.get_json(&path)["data"]["result"][0]["value"][1] == all;
    let is_spooled = || std::fs::metadata(&spool).is_ok_and(|file| file.len() > lines.len() as u64);
    while !is_stored() || !is_spooled() {
        assert!(begun.elapsed() < Duration::from_secs(30), "{}", server.log_text());
        std::thread::sleep(Duration::from_millis(20)); // polling another process
    }
    server.kill();
    let listener = TcpListener::bind(("127.0.0.1", legacy)).unwrap();
    let server = setup.start();
    let (stream, _) = listener.accept().unwrap();
    let mut next = vec![0; NAMES];
    for line in BufReader::new(stream).lines().take(NAMES * VALUES) {
        let line = line.unwrap();
        let mut fields = line.split(' ');
        let name = fields.next().unwrap().strip_prefix("servers.web").unwrap();
        let name: usize = name.strip_suffix(".cpu").unwrap().parse().unwrap();
        assert_eq!(fields.next().unwrap().parse::<usize>().unwrap(), next[name], "{line}");
        next[name] += 1;
    }
    assert_eq!(next, vec![VALUES; NAMES]);
    assert_eq!(server.terminate(), Some(0));
}
