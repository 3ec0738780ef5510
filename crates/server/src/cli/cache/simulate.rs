//! `sandur cache simulate`: simulates caches of given sizes with given accesses.

use std::process::ExitCode;

use clap::{Arg, ArgAction, ArgMatches, Command};
use sandur_cache::policy::{Reinsertion, TenantCaps};
use sandur_cache_sim::advise::{count, percent, size};
use sandur_cache_sim::oracle::{Lru, LruFifo, PaperS3Fifo, WTinyLfu};
use sandur_cache_sim::{Measured, Policy, TierOptions, TwoTier, run as run_policies, story};
use sandur_cli::paint::{Ink, Paint};
use sandur_terminal::Failed;
use serde_json::{Value, json};

use super::load;

/// Minimum number of segments of a simulated flash tier, as in a real one; larger tiers have segments of
/// 64 MiB.
const SEGMENTS_MIN: u64 = 256;
/// Size of a real segment.
const SEGMENT_BYTES: u64 = 64 << 20;

/// A policy of a given size with its label.
struct Lane {
    label: String,
    capacity: u64,
    policy: Box<dyn Policy>,
}

/// The command.
pub fn command() -> Command {
    let capacity = Arg::new("capacity").long("capacity").value_name("SIZE").action(ArgAction::Append);
    let capacity =
        capacity.help("Size of a cache, both tiers together; may be repeated [default: 1GB, 4GB, 16GB]");
    let share = Arg::new("ram-share").long("ram-share").value_name("PART").default_value("0.05");
    let share = share.help("Share of RAM in caches with two tiers");
    let budget = Arg::new("write-budget").long("write-budget").value_name("SIZE");
    let budget = budget.help("Maximum bytes written to flash per day [default: no limit]");
    let json = Arg::new("json").long("json").action(ArgAction::SetTrue).help("Print JSON");
    let about = "Simulate our cache and others over a trace or a generated load";
    let command = Command::new("simulate").about(about).after_help(
        "Every policy sees the same requests at the same number of bytes. `--workload story` sets sizes \
         itself and prints the published case next to its simulation.",
    );
    load::arguments(command).args([capacity, share, budget, json])
}

/// Runs the command.
pub fn run(matches: &ArgMatches) -> Result<ExitCode, Failed> {
    let mut lanes = lanes(matches)?;
    let load = load::load(matches)?;
    let bar = load::progress(&load);
    let mut policies: Vec<Box<dyn Policy>> = Vec::new();
    let mut labels = Vec::new();
    for lane in lanes.drain(..) {
        labels.push((lane.label, lane.capacity));
        policies.push(lane.policy);
    }
    let name = load.name.clone();
    let measured = run_policies(load.requests, &mut policies, load.warm_up_s, |done| bar.set_position(done));
    bar.finish_and_clear();
    let measured = measured.map_err(|e| Failed::new(e.to_string()))?;
    let rows: Vec<(&(String, u64), &Measured)> = labels.iter().zip(&measured).collect();
    if matches.get_flag("json") {
        let rows: Vec<Value> =
            rows.iter().map(|((label, capacity), m)| as_json(label, *capacity, m)).collect();
        println!("{}", json!({ "load": name, "caches": rows }));
    } else {
        println!("{name}\n");
        print_table(&rows);
        if is_story(matches) {
            print_story(&measured);
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn is_story(matches: &ArgMatches) -> bool {
    let workload = matches.get_one::<String>("workload").map(String::as_str);
    workload == Some("story") && !matches.contains_id("trace")
}

fn lanes(matches: &ArgMatches) -> Result<Vec<Lane>, Failed> {
    let lane = |label: &str, capacity, policy| Lane { label: label.to_owned(), capacity, policy };
    let budget =
        matches.get_one::<String>("write-budget").map(|text| load::size(text)).transpose()?.unwrap_or(0);
    let seed = matches.get_one::<u64>("seed").copied().unwrap_or(1);
    let ours = |ram_bytes: u64, flash_bytes: u64| {
        let segment_bytes = SEGMENT_BYTES.min(flash_bytes / SEGMENTS_MIN).max(1);
        let (reinsertion, tenants) = (Reinsertion::default(), TenantCaps::default());
        let options = TierOptions {
            ram_bytes,
            flash_bytes,
            segment_bytes,
            write_bytes_per_day: budget,
            reinsertion,
            tenants,
            seed,
        };
        Box::new(TwoTier::new(&options))
    };
    if is_story(matches) {
        let (before, after, ram) = (story::BEFORE_BYTES, story::AFTER_BYTES, story::AFTER_RAM_BYTES);
        return Ok(vec![
            lane("before: LRU", before, Box::new(Lru::new(before))),
            lane("after: LRU", after, Box::new(Lru::new(after))),
            lane("after: Sandur", after, ours(ram, after)),
        ]);
    }
    let share: f64 =
        matches.get_one::<String>("ram-share").and_then(|text| text.parse().ok()).unwrap_or(-1.0);
    if !(0.0..1.0).contains(&share) {
        return Err(Failed::new("--ram-share is a share like 0.05, at least 0 and below 1"));
    }
    let texts = matches.get_many::<String>("capacity").map(|sizes| sizes.cloned().collect());
    let texts = texts.unwrap_or_else(|| vec!["1GB".to_owned(), "4GB".to_owned(), "16GB".to_owned()]);
    let mut lanes = Vec::new();
    for text in texts {
        let bytes = load::size(&text)?;
        let ram = (bytes as f64 * share) as u64;
        lanes.push(lane("LRU and FIFO", bytes, Box::new(LruFifo::new(ram, bytes - ram))));
        lanes.push(lane("LRU", bytes, Box::new(Lru::new(bytes))));
        lanes.push(lane("S3-FIFO", bytes, Box::new(PaperS3Fifo::new(bytes))));
        lanes.push(lane("W-TinyLFU", bytes, Box::new(WTinyLfu::new(bytes))));
        lanes.push(lane("Sandur, RAM", bytes, ours(bytes, 0)));
        lanes.push(lane("Sandur, flash", bytes, ours(ram, bytes - ram)));
    }
    Ok(lanes)
}

const HEADER: [&str; 9] =
    ["cache", "size", "hits", "byte hits", "store GETs", "written", "unread/h", "max", "replaced/h (max)"];

fn print_table(rows: &[(&(String, u64), &Measured)]) {
    let mut table: Vec<[String; 9]> = vec![HEADER.map(str::to_owned)];
    for ((label, capacity), measured) in rows {
        let (unread, unread_max) = measured.unfetched_per_hour();
        let (replaced, replaced_max) = measured.replacements_per_hour(*capacity);
        table.push([
            label.clone(),
            size(*capacity),
            format!("{:.2} %", measured.hit_ratio() * 100.0),
            format!("{:.2} %", measured.byte_hit_ratio() * 100.0),
            measured.store_requests().to_string(),
            size(measured.written_bytes),
            format!("{unread:.0}"),
            format!("{unread_max:.0}"),
            format!("{replaced:.2} ({replaced_max:.2})"),
        ]);
    }
    let widths: Vec<usize> =
        (0..HEADER.len()).map(|at| table.iter().map(|row| row[at].len()).max().unwrap_or(0)).collect();
    let paint = Paint::for_stdout();
    for (line, row) in table.iter().enumerate() {
        let cells = row.iter().zip(&widths).enumerate().map(|(at, (cell, width))| {
            if at == 0 { format!("{cell:width$}") } else { format!("{cell:>width$}") }
        });
        let text = cells.collect::<Vec<_>>().join("  ");
        println!("{}", if line == 0 { paint.ink(Ink::Strong, &text) } else { text });
    }
}

/// Prints the published figures next to the simulated ones, which are scaled up.
fn print_story(measured: &[Measured]) {
    let [before, lru, ours] = measured else { return };
    let published = story::PUBLISHED;
    let saved =
        |after: &Measured| percent(1.0 - after.store_requests() as f64 / before.store_requests() as f64);
    let unread = |m: &Measured| count(m.unfetched_per_hour().1 * story::SCALE as f64);
    let replaced = |m: &Measured, bytes: u64| format!("{:.1}", m.replacements_per_hour(bytes).1);
    let rows = [
        ["", "published", "simulated", "with Sandur"].map(str::to_owned),
        [
            "hits before".to_owned(),
            format!("{}+", percent(published.hit_ratio_before)),
            percent(before.hit_ratio()),
            String::new(),
        ],
        [
            "hits after".to_owned(),
            format!("{}+", percent(published.hit_ratio_after)),
            percent(lru.hit_ratio()),
            percent(ours.hit_ratio()),
        ],
        [
            "fewer requests to the store".to_owned(),
            percent(published.requests_saved),
            saved(lru),
            saved(ours),
        ],
        [
            "evicted unread per hour before, max".to_owned(),
            count(published.unfetched_per_hour),
            unread(before),
            String::new(),
        ],
        ["evicted unread per hour after, max".to_owned(), "\u{2013}".to_owned(), unread(lru), unread(ours)],
        [
            "complete replacements per hour before, max".to_owned(),
            format!("{:.0}", published.replacements_per_hour),
            replaced(before, story::BEFORE_BYTES),
            String::new(),
        ],
        [
            "complete replacements per hour after, max".to_owned(),
            "\u{2013}".to_owned(),
            replaced(lru, story::AFTER_BYTES),
            replaced(ours, story::AFTER_BYTES),
        ],
    ];
    println!("\nThe published case, figures of the simulation scaled up by {}:\n", story::SCALE);
    for [what, published, simulated, ours] in rows {
        println!("{what:40}{published:>14}{simulated:>14}{ours:>14}");
    }
}

fn as_json(label: &str, capacity: u64, measured: &Measured) -> Value {
    let (unread, unread_max) = measured.unfetched_per_hour();
    let (replaced, replaced_max) = measured.replacements_per_hour(capacity);
    json!({
        "cache": label,
        "capacity_bytes": capacity,
        "reads": measured.reads,
        "hits": measured.hits,
        "hit_ratio": measured.hit_ratio(),
        "byte_hit_ratio": measured.byte_hit_ratio(),
        "store_requests": measured.store_requests(),
        "store_bytes": measured.read_bytes - measured.hit_bytes,
        "written_bytes": measured.written_bytes,
        "evicted_objects": measured.drops.objects,
        "evicted_unfetched_objects": measured.drops.unfetched_objects,
        "evicted_unfetched_per_hour": { "mean": unread, "max": unread_max },
        "replacements_per_hour": { "mean": replaced, "max": replaced_max },
    })
}
