//! Measures the cost of a crash: `kill_recovery FILE BYTES ITEMS` fills flash with small values, kills
//! the process while it continues to write, and starts it again on the same file.
//!
//! It prints the times until the first answer and until the index is complete, the share of the bytes in
//! sealed segments that was recovered, whether values are correct, and the memory per item. The file is
//! removed at the end.

#![allow(clippy::unwrap_used, clippy::disallowed_methods)] // a measuring program in real time

use std::future::Future;
use std::io::{BufRead, BufReader};
use std::pin::pin;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use sandur_cache::device::FilePart;
use sandur_cache::flash::{Class, Flash, FlashOptions, FlashRead, NewRecord, NoObserver, SegmentState, Warm};
use sandur_runtime::Env;

/// Number of keys that are rewritten continuously while others are new.
const HOT: u64 = 1000;
/// Small, so that buffers that fill while the device is busy are not counted as memory of items.
const WRITE_BUFFER_BYTES: u64 = 4 << 20;
/// Duration of the load before the kill.
const LOAD: Duration = Duration::from_secs(3);

struct Arguments {
    file: String,
    bytes: u64,
    items: u64,
}

fn main() {
    let given: Vec<String> = std::env::args().skip(1).collect();
    let [file, bytes, items, role @ ..] = &given[..] else { panic!("FILE BYTES ITEMS") };
    let number = |text: &String| text.parse::<u64>().unwrap_or_else(|_| panic!("'{text}' is no number"));
    let arguments = Arguments { file: file.clone(), bytes: number(bytes), items: number(items) };
    match role.first().map(String::as_str) {
        Some("write") => write(&arguments),
        Some("recover") => recover(&arguments, number(&role[1]), number(&role[2])),
        _ => {
            kill_and_recover(&given);
            std::fs::remove_file(file).unwrap();
        }
    }
}

fn start(arguments: &[String], role: &[&str]) -> (Child, BufReader<std::process::ChildStdout>) {
    let mut command = Command::new(std::env::current_exe().unwrap());
    let mut child = command.args(&arguments[..3]).args(role).stdout(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap());
    (child, lines)
}

fn kill_and_recover(arguments: &[String]) {
    let (mut writer, lines) = start(arguments, &["write"]);
    let mut load_began = None;
    let mut last = String::new();
    for line in lines.lines().map_while(Result::ok) {
        match line.strip_prefix("sealed ") {
            None => println!("{line}"),
            Some(sealed) => {
                last = sealed.to_owned();
                if load_began.get_or_insert_with(Instant::now).elapsed() >= LOAD {
                    break;
                }
            }
        }
    }
    writer.kill().unwrap(); // SIGKILL
    writer.wait().unwrap();
    let sealed: Vec<&str> = last.split(' ').collect();
    let (mut reader, lines) = start(arguments, &["recover", sealed[0], sealed[1]]);
    lines.lines().map_while(Result::ok).for_each(|line| println!("{line}"));
    reader.wait().unwrap();
}

fn open(env: &Env, arguments: &Arguments, warm: Warm) -> Flash {
    let part = FilePart { path: arguments.file.clone().into(), bytes: arguments.bytes };
    let write_buffer_bytes = WRITE_BUFFER_BYTES;
    let options = FlashOptions { parts: vec![part], warm, write_buffer_bytes, ..FlashOptions::default() };
    Flash::open(env, options, Arc::new(NoObserver)).unwrap_or_else(|error| panic!("{error}"))
}

fn key(number: u64) -> String {
    format!("tenant/fingerprint/from:through:checksum/{number:014}")
}

/// 100 to 200 bytes that follow from the number.
fn value(number: u64) -> Vec<u8> {
    let mixed = number.wrapping_mul(0x9E37_79B9_7F4A_7C15).to_le_bytes();
    mixed.iter().copied().cycle().take(100 + (number % 101) as usize).collect()
}

fn append(flash: &Flash, number: u64) {
    let (key, value) = (key(number), value(number));
    let hash = flash.hash(key.as_bytes());
    let record = NewRecord::plain(key.as_bytes(), hash, &value, Class::Ingest);
    let record = NewRecord { cas: number, ..record };
    while flash.append(record).is_err() {
        std::thread::yield_now();
    }
}

/// Resident memory of this process in bytes.
fn resident() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = text.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok());
    pages.unwrap_or_default() * 4096
}

/// Live bytes of sealed segments with ids up to `upto`, and the largest of these ids.
fn sealed(flash: &Flash, upto: u64) -> (u64, u64) {
    let segments = flash.stats().segments.into_iter();
    let whole = segments.filter(|s| s.state == SegmentState::Sealed && s.id <= upto);
    whole.fold((0, 0), |(last, bytes), s| (s.id.max(last), bytes + s.live_bytes))
}

fn write(arguments: &Arguments) {
    let env = Env::system(1);
    let flash = open(&env, arguments, Warm::Off);
    let (began, tenth) = (Instant::now(), arguments.items / 10);
    (0..tenth).for_each(|number| append(&flash, number));
    let resident_before = resident();
    (tenth..arguments.items).for_each(|number| append(&flash, number));
    let grown = resident().saturating_sub(resident_before);
    println!(
        "filled with {} items in {:.1} s; {:.1} bytes of memory for each item from a tenth of them on, \
         index {:.1}; {} images",
        arguments.items,
        began.elapsed().as_secs_f64(),
        grown as f64 / (arguments.items - tenth) as f64,
        flash.index_bytes() as f64 / arguments.items as f64,
        flash.stats().counts.images_written,
    );
    let mut next = arguments.items + HOT;
    loop {
        let (last, bytes) = sealed(&flash, u64::MAX);
        println!("sealed {last} {bytes}");
        let since = Instant::now();
        while since.elapsed() < Duration::from_millis(50) {
            append(&flash, next);
            append(&flash, arguments.items + next % HOT);
            next += 1;
        }
    }
}

fn recover(arguments: &Arguments, upto: u64, bytes: u64) {
    let env = Env::system(1);
    let began = Instant::now();
    let flash = open(&env, arguments, Warm::Crash);
    let _ = read(&flash, 0);
    let answered = began.elapsed();
    while flash.is_recovering() {
        std::thread::sleep(Duration::from_millis(1));
    }
    let whole = began.elapsed();
    let (_, back) = sealed(&flash, upto);
    println!(
        "after the kill: first answer after {} ms, {} items found in {} ms, {:.3} % of {} sealed bytes back, \
         {} MiB resident",
        answered.as_millis(),
        flash.stats().records,
        whole.as_millis(),
        back as f64 * 100.0 / bytes as f64,
        bytes,
        resident() >> 20,
    );
    let samples = 100_000;
    let (mut right, mut missing) = (0, 0);
    for _ in 0..samples {
        let number = env.random_below(arguments.items);
        match read(&flash, number) {
            Some(found) => {
                assert!(found == value(number), "a wrong value of {number}");
                right += 1;
            }
            None => missing += 1,
        }
    }
    println!("of {samples} items {right} are right, {missing} are missing, none is wrong");
}

fn read(flash: &Flash, number: u64) -> Option<Vec<u8>> {
    let key = key(number);
    let hash = flash.hash(key.as_bytes());
    let location = flash.lookup(hash)?;
    let read = FlashRead { key: key.as_bytes(), hash, location, range: None };
    let mut future = pin!(flash.read(&[read]).pop()?);
    loop {
        if let Poll::Ready(item) = future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            return item.map(|item| item.value.to_vec());
        }
        std::thread::yield_now();
    }
}
