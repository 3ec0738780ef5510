//! Divides lines of several formats into entries with times, as `push` does, and prints the processor time
//! per line.
//!
//! `cargo run --release -p sandur-agent --example line_speed -- [LINES [FORMAT]]`

#![allow(clippy::disallowed_methods, clippy::unwrap_used)] // a measurement reads the real clock

use std::fmt::Write;

use sandur_agent::push::{Assembler, Reading, Start};
use sandur_model::Labels;

/// 2026-11-20 00:00:00 UTC.
const NOW_NS: i64 = 1_795_132_800_000_000_000;
const ROUNDS: usize = 20;

/// Returns processor time in nanoseconds, so that other load does not count.
fn on_cpu() -> u64 {
    let text = std::fs::read_to_string("/proc/self/schedstat").unwrap();
    text.split(' ').next().unwrap().parse().unwrap()
}

/// A name, and the line with this number.
type Format = (&'static str, fn(usize) -> String);

fn text(n: usize) -> String {
    format!("GET /api/v1/items/{n} 200 in {} ms for user {}", n % 97, n * 31 % 1_000)
}

/// The clock of a line.
fn clock(n: usize) -> String {
    format!("{:02}:{:02}:{:02}", n / 3_600 % 24, n / 60 % 60, n % 60)
}

const FORMATS: &[Format] = &[
    ("ISO 8601", |n| format!("2026-11-19T{}.{:03}Z INFO {}", clock(n), n % 1_000, text(n))),
    ("container", |n| format!("2026-11-19T{}.{:09}Z stdout F {}", clock(n), n, text(n))),
    ("container, level", |n| format!("2026-11-19T{}.{:09}Z stderr F INFO {}", clock(n), n, text(n))),
    ("container, time", |n| {
        let clock = clock(n);
        format!("2026-11-19T{clock}.{n:09}Z stderr F 2026-11-19 {clock},123 INFO {}", text(n))
    }),
    ("container, JSON", |n| {
        format!("2026-11-19T{}.{n:09}Z stdout F {{\"level\":\"info\",\"msg\":\"{}\"}}", clock(n), text(n))
    }),
    ("Docker JSON", |n| {
        format!(
            "{{\"log\":\"{}\\n\",\"stream\":\"stdout\",\"time\":\"2026-11-19T{}.{n:09}Z\"}}",
            text(n),
            clock(n)
        )
    }),
    ("RFC 3164, file", |n| format!("Nov 19 {} web-1 app[{}]: {}", clock(n), n % 9_999, text(n))),
    ("RFC 3164, no id", |n| format!("Nov 19 {} web-1 kernel: {}", clock(n), text(n))),
    ("RFC 3164, priority", |n| format!("<13>Nov 19 {} web-1 app[{}]: {}", clock(n), n % 9_999, text(n))),
    ("RFC 5424", |n| format!("<165>1 2026-11-19T{}.003Z web-1 app {} - - {}", clock(n), n % 999, text(n))),
    ("syslog, ISO time", |n| {
        format!("2026-11-19T{}.000123+01:00 web-1 app[{}]: {}", clock(n), n % 999, text(n))
    }),
    ("combined log", |n| {
        let clock = clock(n);
        format!("192.0.2.1 - - [19/Nov/2026:{clock} +0000] \"GET /{n} HTTP/1.1\" 200 512 \"-\" \"-\"")
    }),
    ("klog", |n| format!("I1119 {}.123456   12 main.go:7] {}", clock(n), text(n))),
    ("logfmt", |n| format!("level=info ts=2026-11-19T{}.5Z msg=\"{}\"", clock(n), text(n))),
];

fn main() {
    let lines = std::env::args().nth(1).map_or(100_000, |text| text.parse().unwrap());
    let wanted = std::env::args().nth(2);
    for (name, line) in FORMATS.iter().filter(|(name, _)| wanted.as_deref().is_none_or(|one| one == *name)) {
        let mut input = String::new();
        (0..lines).for_each(|n| writeln!(input, "{}", line(n)).unwrap());
        // The kernel counts processor time in steps of milliseconds, so all rounds are measured at once.
        let mut took = 0;
        let (mut entries, mut undated) = (0, 0);
        for _ in 0..ROUNDS {
            let reading = Reading::automatic(NOW_NS);
            let mut assembler = Assembler::new(Labels::default(), reading, Start::default());
            (entries, undated) = (0, 0);
            let began = on_cpu();
            for chunk in input.as_bytes().chunks(64 << 10) {
                assembler.feed(chunk, NOW_NS);
                while let Some(batch) = assembler.take_full() {
                    entries += batch.lines.len();
                    undated += batch.undated;
                }
            }
            assembler.finish(NOW_NS);
            while let Some(batch) = assembler.flush() {
                entries += batch.lines.len();
                undated += batch.undated;
            }
            took += on_cpu() - began;
        }
        let mean = took / (ROUNDS * lines) as u64;
        println!("{name:20} {mean:5} ns a line; {entries} entries, {undated} without a time");
    }
}
