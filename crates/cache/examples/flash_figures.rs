//! Measures the flash tier alone on this machine: filling, reading, stopping, recovering.
//!
//! `cargo run --release --example flash_figures -- FILE BYTES VALUE_BYTES SECONDS`
//!
//! Prints CPU time per read next to reads per second: on a shared machine only the CPU time is
//! comparable. One thread reads 1, 32 and 100 keys at a time.

use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use sandur_cache::device::{FilePart, Readers};
use sandur_cache::flash::{Class, Flash, FlashOptions, FlashRead, Journaling, NewRecord, NoObserver, Warm};
use sandur_runtime::Env;

struct Unpark(std::thread::Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

fn block_on<F: Future + Unpin>(mut future: F) -> F::Output {
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut context = Context::from_waker(&waker);
    loop {
        if let Poll::Ready(output) = std::pin::Pin::new(&mut future).poll(&mut context) {
            return output;
        }
        std::thread::park();
    }
}

/// CPU time of this process so far, user and system.
fn cpu() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
    let ticks: u64 = fields.skip(11).take(2).filter_map(|field| field.parse::<u64>().ok()).sum();
    Duration::from_millis(ticks * 10)
}

fn key(number: u64) -> String {
    format!("tenant/fingerprint/from:through:checksum/{number:014}")
}

fn open(env: &Env, arguments: &Arguments, warm: Warm, uring: bool) -> Flash {
    let options = FlashOptions {
        parts: vec![FilePart { path: arguments.file.clone().into(), bytes: arguments.bytes }],
        warm,
        journaling: Journaling::Grouped,
        readers: Readers { uring, ..Readers::default() },
        ..FlashOptions::default()
    };
    Flash::open(env, options, Arc::new(NoObserver)).unwrap_or_else(|error| panic!("{error}"))
}

struct Arguments {
    file: String,
    bytes: u64,
    value_bytes: usize,
    seconds: u64,
}

fn main() {
    let given: Vec<String> = std::env::args().skip(1).collect();
    let [file, bytes, value_bytes, seconds] = &given[..] else {
        panic!("FILE BYTES VALUE_BYTES SECONDS");
    };
    let number = |text: &String| text.parse::<u64>().unwrap_or_else(|_| panic!("'{text}' is no number"));
    let arguments = Arguments {
        file: file.clone(),
        bytes: number(bytes),
        value_bytes: number(value_bytes) as usize,
        seconds: number(seconds),
    };
    let env = Env::system(1);
    let records = fill(&env, &arguments);
    for uring in [true, false] {
        let flash = open(&env, &arguments, Warm::Clean, uring);
        wait_until_recovered(&env, &flash, "clean stop", records);
        for batch in [1, 32, 100] {
            read(&env, &flash, &arguments, records, batch, uring);
        }
        flash.close();
    }
    let flash = open(&env, &arguments, Warm::Clean, true);
    wait_until_recovered(&env, &flash, "clean stop", records);
    drop(flash); // like a crash: no image, no clean root
    let flash = open(&env, &arguments, Warm::Crash, true);
    wait_until_recovered(&env, &flash, "crash", records);
}

fn fill(env: &Env, arguments: &Arguments) -> u64 {
    let flash = open(env, arguments, Warm::Off, true);
    let records = arguments.bytes / 10 * 8 / (arguments.value_bytes as u64 + 140);
    let (began, before) = (env.monotonic(), cpu());
    let mut value = vec![7_u8; arguments.value_bytes];
    for number in 0..records {
        value[..8].copy_from_slice(&number.to_le_bytes());
        let key = key(number);
        let hash = flash.hash(key.as_bytes());
        let record = NewRecord::plain(key.as_bytes(), hash, &value, Class::Ingest);
        while flash.append(NewRecord { cas: number, ..record }).is_err() {
            std::thread::yield_now();
        }
    }
    let (wall, used) = (env.monotonic() - began, cpu() - before);
    let stats = flash.stats();
    let began = env.monotonic();
    flash.close();
    println!(
        "fill: {records} records of {} B, {:.0} MB/s, {:.2} us CPU each, index {:.1} B each, \
         amplification {:.3}; clean stop {} ms",
        arguments.value_bytes,
        records as f64 * arguments.value_bytes as f64 / wall.as_secs_f64() / 1e6,
        used.as_secs_f64() * 1e6 / records as f64,
        stats.index_bytes as f64 / stats.records as f64,
        stats.counts.write_amplification(),
        (env.monotonic() - began).as_millis(),
    );
    records
}

fn wait_until_recovered(env: &Env, flash: &Flash, after: &str, records: u64) {
    let began = env.monotonic();
    while flash.is_recovering() {
        std::thread::yield_now();
    }
    let found = flash.stats().records;
    let wall = (env.monotonic() - began).as_millis();
    println!("after a {after}: {found} of {records} records in {wall} ms");
}

fn read(env: &Env, flash: &Flash, arguments: &Arguments, records: u64, batch: u64, uring: bool) {
    let (began, before) = (env.monotonic(), cpu());
    let (mut reads, mut hits) = (0_u64, 0_u64);
    while env.monotonic() - began < Duration::from_secs(arguments.seconds) {
        let numbers: Vec<u64> = (0..batch).map(|_| env.random_below(records)).collect();
        let keys: Vec<String> = numbers.iter().map(|&number| key(number)).collect();
        let wanted: Vec<FlashRead<'_>> = keys
            .iter()
            .filter_map(|key| {
                let hash = flash.hash(key.as_bytes());
                let location = flash.lookup(hash)?;
                Some(FlashRead { key: key.as_bytes(), hash, location, range: None })
            })
            .collect();
        for future in flash.read(&wanted) {
            hits += u64::from(block_on(future).is_some());
        }
        reads += batch;
    }
    let (wall, used) = (env.monotonic() - began, cpu() - before);
    println!(
        "read {} B, {batch} at a time, {}: {:.0}/s, {:.1} us CPU each, {:.2} % hits",
        arguments.value_bytes,
        if uring { "io_uring" } else { "threads" },
        reads as f64 / wall.as_secs_f64(),
        used.as_secs_f64() * 1e6 / reads as f64,
        hits as f64 * 100.0 / reads as f64,
    );
}
