//! Goal: the process stays within its memory limit, and a query within its budget.
//!
//! Method: a server with a small limit takes pushes as fast as two clients can send them while two others
//! query everything; the test reads the server's resident memory all the while. Then a query over more
//! data than its budget either completes (it streams) or names the budget.

#![allow(clippy::disallowed_methods, clippy::unwrap_used)] // process tests: real time

mod process;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use process::{Random, Setup, encode, now_ns, push, request};
use serde_json::json;

const LIMIT: u64 = 256 << 20;
const RUN: Duration = Duration::from_secs(15);

fn lines(random: &mut Random, count: usize) -> Vec<(i64, String)> {
    (0..count)
        .map(|n| {
            let (a, b, c) = (random.below(1 << 60), random.below(1_000), random.below(500));
            let status = 200 + random.below(5) * 100;
            let request = format!(r#""status":{status},"took_ms":{b},"path":"/api/v1/items/{c}""#);
            let line = format!(r#"{{"level":"info","trace":"{a:016x}",{request},"n":{n}}}"#);
            (now_ns() + n as i64, line)
        })
        .collect()
}

#[test]
fn resident_memory_stays_under_the_limit() {
    let folder = tempfile::tempdir().unwrap();
    let store = format!("file://{}", folder.path().join("data").display());
    let setup = Setup::new(store, folder.path()).with(&["--memory-limit", "256MiB"]);
    let server = setup.start();
    let address = server.address;
    let stop = Arc::new(AtomicBool::new(false));
    let (pushed, refused, asked) =
        (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let start_ns = now_ns();
    let mut threads = Vec::new();
    for pusher in 0..2u64 {
        let (stop, pushed, refused) = (Arc::clone(&stop), Arc::clone(&pushed), Arc::clone(&refused));
        threads.push(std::thread::spawn(move || {
            let mut random = Random(pusher);
            while !stop.load(Ordering::Relaxed) {
                let values = lines(&mut random, 4_000);
                let bytes: usize = values.iter().map(|(_, l)| l.len()).sum();
                match push(address, &json!({"job": "memory", "pusher": pusher.to_string()}), &values) {
                    Ok((204, _)) => pushed.fetch_add(bytes as u64, Ordering::Relaxed),
                    Ok((429 | 503, _)) => refused.fetch_add(1, Ordering::Relaxed),
                    other => panic!("push answered {other:?}"),
                };
            }
        }));
    }
    for query in [
        r#"{job="memory"} |= "no such needle in here""#,
        r#"sum(count_over_time({job="memory"} | json | status>=500 [1m]))"#,
    ] {
        let (stop, asked) = (Arc::clone(&stop), Arc::clone(&asked));
        threads.push(std::thread::spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                let end = now_ns() + 60_000_000_000;
                let path = format!(
                    "/loki/api/v1/query_range?query={}&start={start_ns}&end={end}&step=60",
                    encode(query)
                );
                let (status, body) = request(address, "GET", &path, &[], b"").unwrap();
                let text = String::from_utf8_lossy(&body[..body.len().min(300)]).into_owned();
                assert!(status == 200 || text.contains("memory budget"), "{status}: {text}");
                asked.fetch_add(1, Ordering::Relaxed);
            }
        }));
    }
    let (mut peak, started) = (0, Instant::now());
    while started.elapsed() < RUN {
        peak = peak.max(server.resident_bytes());
        std::thread::sleep(Duration::from_millis(20)); // sampling another process
    }
    stop.store(true, Ordering::Relaxed);
    for thread in threads {
        thread.join().unwrap();
    }
    let (pushed, asked) = (pushed.load(Ordering::Relaxed), asked.load(Ordering::Relaxed));
    println!(
        "memory: {} MB pushed, {} refused, {asked} queries, peak {} MiB of {} MiB",
        pushed >> 20,
        refused.load(Ordering::Relaxed),
        peak >> 20,
        LIMIT >> 20
    );
    assert!(pushed > 8 << 20 && asked > 4, "the load was real");
    assert!(peak <= LIMIT + LIMIT / 10, "peak {} MiB", peak >> 20);
    assert_eq!(server.terminate(), Some(0));
}
