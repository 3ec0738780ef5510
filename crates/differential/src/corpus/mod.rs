//! The logs that are pushed to both servers: few, awkward, and reproducible by seed.
//!
//! Times are around a fixed hour, so that a request means the same on every day. Most timestamps occur
//! once. One stream repeats them on purpose, to test the order of entries with equal times.

mod lines;

use serde_json::{Value, json};

use crate::random::Random;

/// Middle of the corpus: 2026-01-05T09:00:00Z, a full hour.
pub const MIDDLE_NS: i64 = 1_767_603_600 * SECOND_NS;
/// Nanoseconds per second.
pub const SECOND_NS: i64 = 1_000_000_000;
/// The corpus extends this many nanoseconds to either side of the middle.
pub const HALF_NS: i64 = 20 * 60 * SECOND_NS;

/// A log entry.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Nanoseconds since the epoch.
    pub time_ns: i64,
    /// The line.
    pub line: String,
    /// Structured metadata, as names and values.
    pub metadata: Vec<(String, String)>,
}

/// A stream of entries.
#[derive(Clone, Debug)]
pub struct Stream {
    /// Its labels.
    pub labels: Vec<(&'static str, &'static str)>,
    /// Its entries in the order in which they are pushed, which differs from the order of time.
    pub entries: Vec<Entry>,
}

/// The description of a stream: its labels, the kind of its lines, and their number.
struct Recipe {
    labels: &'static [(&'static str, &'static str)],
    line: fn(&mut Random, usize) -> lines::Made,
    entries: usize,
}

const RECIPES: &[Recipe] = &[
    Recipe {
        labels: &[("app", "web"), ("env", "prod"), ("cluster", "a")],
        line: lines::logfmt,
        entries: 300,
    },
    Recipe { labels: &[("app", "web"), ("env", "dev"), ("cluster", "a")], line: lines::logfmt, entries: 120 },
    Recipe {
        labels: &[("app", "web"), ("env", "prod"), ("cluster", "b"), ("level", "info")],
        line: lines::logfmt,
        entries: 120,
    },
    Recipe { labels: &[("app", "api"), ("env", "prod"), ("cluster", "a")], line: lines::json, entries: 300 },
    Recipe { labels: &[("app", "api"), ("env", "dev"), ("cluster", "b")], line: lines::json, entries: 120 },
    Recipe { labels: &[("app", "text"), ("env", "prod")], line: lines::text, entries: 200 },
    Recipe {
        labels: &[("app", "nginx"), ("env", "prod"), ("host", "10.1.2.3")],
        line: lines::access,
        entries: 200,
    },
    Recipe { labels: &[("app", "packed"), ("env", "prod")], line: lines::packed, entries: 80 },
    Recipe { labels: &[("app", "meta"), ("service_name", "shop")], line: lines::metadata, entries: 160 },
    Recipe {
        labels: &[("app", "counter"), ("env", "prod"), ("pod", "p-0")],
        line: lines::counter,
        entries: 160,
    },
    Recipe {
        labels: &[("app", "counter"), ("env", "prod"), ("pod", "p-1")],
        line: lines::counter,
        entries: 160,
    },
    Recipe { labels: &[("app", "ties"), ("env", "dev")], line: lines::ties, entries: 60 },
    Recipe { labels: &[("app", "huge"), ("env", "dev")], line: lines::huge, entries: 6 },
    Recipe {
        labels: &[("app", "ünï"), ("env", "dev"), ("name_with_quote", "a\"b\\c")],
        line: lines::text,
        entries: 30,
    },
];

/// Returns all streams of a seed.
pub fn streams(seed: u64) -> Vec<Stream> {
    let make = |(number, recipe): (usize, &Recipe)| {
        let mut random = Random::fork(seed, number as u64);
        Stream { labels: recipe.labels.to_vec(), entries: entries(recipe, number, &mut random) }
    };
    RECIPES.iter().enumerate().map(make).collect()
}

fn entries(recipe: &Recipe, number: usize, random: &mut Random) -> Vec<Entry> {
    let mut entries: Vec<Entry> = (0..recipe.entries)
        .map(|index| {
            let made = (recipe.line)(random, index);
            let share = 2 * HALF_NS / recipe.entries as i64;
            // the numbers of stream and entry make the time unique within the corpus
            let jitter = random.between(0, share / 1_000_000 - 1) * 1_000_000;
            let exact = MIDDLE_NS - HALF_NS + index as i64 * share + jitter + number as i64 * 1000 + 1;
            let time_ns = if made.on_the_second { exact / (60 * SECOND_NS) * 60 * SECOND_NS } else { exact };
            Entry { time_ns, line: made.line, metadata: made.metadata }
        })
        .collect();
    for _ in 0..recipe.entries / 10 {
        // late entries, and exact repetitions, which are stored once
        let (from, to) = (random.below(entries.len()), random.below(entries.len()));
        if random.chance(70) {
            let late = entries.remove(from);
            entries.insert(to, late);
        } else {
            let again = entries[from].clone();
            entries.push(again);
        }
    }
    entries
}

/// Returns bodies for `/loki/api/v1/push`, to be sent one after the other.
pub fn push_bodies(streams: &[Stream]) -> Vec<String> {
    const ENTRIES_PER_PUSH: usize = 50;
    let rounds = streams.iter().map(|s| s.entries.len().div_ceil(ENTRIES_PER_PUSH)).max().unwrap_or(0);
    let part = |stream: &Stream, round: usize| -> Option<Value> {
        let entries = stream.entries.chunks(ENTRIES_PER_PUSH).nth(round)?;
        let labels: serde_json::Map<String, Value> =
            stream.labels.iter().map(|(name, value)| ((*name).to_owned(), json!(value))).collect();
        let values: Vec<Value> = entries.iter().map(value).collect();
        Some(json!({"stream": labels, "values": values}))
    };
    (0..rounds)
        .map(|round| {
            let parts: Vec<Value> = streams.iter().filter_map(|stream| part(stream, round)).collect();
            json!({ "streams": parts }).to_string()
        })
        .collect()
}

fn value(entry: &Entry) -> Value {
    if entry.metadata.is_empty() {
        return json!([entry.time_ns.to_string(), entry.line]);
    }
    let metadata: serde_json::Map<String, Value> =
        entry.metadata.iter().map(|(name, value)| (name.clone(), json!(value))).collect();
    json!([entry.time_ns.to_string(), entry.line, metadata])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_corpus_is_reproducible_and_has_all_kinds_of_entries() {
        let (first, again) = (push_bodies(&streams(5)), push_bodies(&streams(5)));
        assert_eq!(first, again);
        assert_ne!(first, push_bodies(&streams(6)));
        let all: Vec<Entry> = streams(5).into_iter().flat_map(|s| s.entries).collect();
        let has = |what: &dyn Fn(&Entry) -> bool| all.iter().any(what);
        assert!(has(&|e| e.line.is_empty()) && has(&|e| e.line.len() > 100_000));
        assert!(has(&|e| e.line.contains('\u{1b}')) && has(&|e| !e.line.is_ascii()));
        assert!(has(&|e| e.line.contains("_entry")) && has(&|e| !e.metadata.is_empty()));
        let inside = |e: &Entry| (e.time_ns - MIDDLE_NS).abs() <= HALF_NS;
        assert!(all.iter().all(inside));
    }
}
