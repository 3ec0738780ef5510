//! Searches for ids in all lines of a running server: ids that lines contain, and ids that none contains.
//!
//! The data is some data sets of [`crate::pack`], one per day, or what the server holds for their times. The
//! present ids are taken from lines that the server returns at times distributed over the whole range.
//!
//! **Invariants.** No id is searched for twice, so no answer is cached. A present id that is not found, or an
//! absent one that is, fails the measurement.

use std::fmt::Write;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use sandur_runtime::Env;

use super::alone::{push_all, settle};
use super::report::percentile;
use super::server::Process;
use crate::http::{Connection, escaped, flush};
use crate::pack::Manifest;
use crate::services::Random;

/// The longest time to wait for an answer.
const PATIENCE: Duration = Duration::from_secs(600);
/// Lines per request when ids are collected.
const SAMPLE_LINES: u32 = 100;
/// Requests per wanted id after which the search for present ids of a kind ends.
const SAMPLES_PER_ID: u64 = 4;

/// A form of ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Uuid,
    Hex32,
    Hex16,
}

impl Kind {
    const ALL: [Self; 3] = [Self::Uuid, Self::Hex32, Self::Hex16];

    fn name(self) -> &'static str {
        match self {
            Self::Uuid => "UUID",
            Self::Hex32 => "32 hex digits",
            Self::Hex16 => "16 hex digits",
        }
    }

    /// The kind of a text that consists of hexadecimal digits and hyphens.
    fn of(text: &str) -> Option<Self> {
        let groups: Vec<usize> = text.split('-').map(str::len).collect();
        // A number or a word of the letters a to f is no id.
        let is_mixed =
            text.bytes().any(|b| b.is_ascii_digit()) && text.bytes().any(|b| b.is_ascii_lowercase());
        match groups[..] {
            [8, 4, 4, 4, 12] if is_mixed => Some(Self::Uuid),
            [32] if is_mixed => Some(Self::Hex32),
            [16] if is_mixed => Some(Self::Hex16),
            _ => None,
        }
    }

    /// An id of random digits.
    fn random(self, dice: &mut Random) -> String {
        let digits = format!("{:016x}{:016x}", dice.next(), dice.next());
        match self {
            Self::Hex32 => digits,
            Self::Hex16 => digits[..16].to_owned(),
            Self::Uuid => {
                let groups = [0..8, 8..12, 12..16, 16..20, 20..32];
                groups.map(|range| digits[range].to_owned()).join("-")
            }
        }
    }
}

/// The ids in a line.
fn ids_in(line: &str) -> impl Iterator<Item = (Kind, &str)> {
    let parts = line.split(|c: char| !(c.is_ascii_digit() || ('a'..='f').contains(&c) || c == '-'));
    parts.filter_map(|part| Some((Kind::of(part)?, part)))
}

/// The options of the measurement.
#[derive(Clone, Debug)]
pub struct NeedleSearch {
    /// `host:port` of the server.
    pub address: String,
    /// The process of the server.
    pub process: Option<Process>,
    /// The directories of the data sets.
    pub data: Vec<PathBuf>,
    /// Whether the data sets are pushed first.
    pub pushes: bool,
    /// Time after the pushes in which the server merges blocks.
    pub merge_time: Duration,
    /// Number of ids of each kind, present and absent.
    pub ids: u64,
    /// Seed of the absent ids.
    pub seed: u64,
}

/// The searches for ids of one kind.
#[derive(Clone, Debug)]
struct Asked {
    name: String,
    /// Milliseconds of each search.
    ms: Vec<f64>,
    /// CPU milliseconds of the server per search.
    cpu_ms: Option<f64>,
    /// Answers that were wrong or missing, and the first reason.
    failures: u64,
    reason: Option<String>,
}

/// The figures of the measurement.
#[derive(Clone, Debug)]
pub struct NeedleReport(Vec<Asked>);

/// Runs the measurement. `report` is called with progress messages.
pub async fn needles(env: &Env, plan: &NeedleSearch, report: impl Fn(&str)) -> Result<NeedleReport> {
    let mut range: Option<(i64, i64)> = None;
    let mut connection = Connection::new(&plan.address).with_timeout(PATIENCE);
    for directory in &plan.data {
        let manifest = Manifest::load(directory).with_context(|| directory.display().to_string())?;
        let (from, to) = range.unwrap_or((manifest.from, manifest.to));
        range = Some((from.min(manifest.from), to.max(manifest.to)));
        if plan.pushes {
            report(&format!("pushing {} lines of {}", manifest.lines, directory.display()));
            push_all(env, &plan.address, directory, &manifest)?;
            flush(&format!("http://{}/flush", plan.address), PATIENCE)?;
        }
    }
    let range = range.context("no data set is named")?;
    if plan.pushes {
        report(&format!("waiting {:?} for merges", plan.merge_time));
        env.sleep(plan.merge_time).await;
    }
    if let Some(process) = plan.process {
        settle(env, process).await;
    }
    let mut found = present_ids(&mut connection, range, plan.ids)?;
    let mut dice = Random::of(&[plan.seed, 0x1D5]);
    let mut rows = Vec::new();
    for kind in Kind::ALL {
        let absent = (0..plan.ids).map(|_| kind.random(&mut dice)).collect();
        let present = std::mem::take(&mut found[kind as usize]);
        for (ids, is_present) in [(present, true), (absent, false)] {
            report(&format!("searching for {} ids", kind.name()));
            rows.push(ask_all(env, plan, &mut connection, range, (kind, ids, is_present)));
        }
    }
    Ok(NeedleReport(rows))
}

/// Collects ids of each kind from lines at times that are distributed over the range.
fn present_ids(connection: &mut Connection, (from, to): (i64, i64), wanted: u64) -> Result<[Vec<String>; 3]> {
    let mut found: [Vec<String>; 3] = Default::default();
    let asks = wanted.max(1) * SAMPLES_PER_ID;
    // Each sample gives at most one id of a kind, so that ids are of different times and applications.
    for sample in 0..asks {
        if found.iter().all(|of_kind| of_kind.len() as u64 >= wanted) {
            break;
        }
        // The golden ratio distributes any number of samples evenly.
        let share = (sample as f64 * 0.618_033_988_749_895).fract();
        let start = from + ((to - from) as f64 * share) as i64;
        let lines = lines_of(connection, &path("{app=~\".+\"}", (start, to), SAMPLE_LINES))?;
        let before = found.clone().map(|of_kind| of_kind.len());
        for (kind, id) in lines.iter().skip(sample as usize % 7).flat_map(|line| ids_in(line)) {
            let of_kind = &mut found[kind as usize];
            let is_full = of_kind.len() as u64 >= wanted || of_kind.len() > before[kind as usize];
            if !is_full && !of_kind.iter().any(|known| known == id) {
                of_kind.push(id.to_owned());
            }
        }
    }
    Ok(found)
}

fn path(query: &str, (from, to): (i64, i64), limit: u32) -> String {
    let query = escaped(query);
    format!("/loki/api/v1/query_range?query={query}&start={from}&end={to}&limit={limit}&direction=forward")
}

/// The lines of an answer.
fn lines_of(connection: &mut Connection, path: &str) -> Result<Vec<String>> {
    let answer = connection.get(path)?;
    if answer.status != 200 {
        bail!("answered with {}: {}", answer.status, answer.text());
    }
    let json: serde_json::Value = serde_json::from_slice(&answer.body)?;
    let streams = json["data"]["result"].as_array().into_iter().flatten();
    let values = streams.flat_map(|stream| stream["values"].as_array().into_iter().flatten());
    Ok(values.filter_map(|value| value[1].as_str().map(str::to_owned)).collect())
}

fn ask_all(
    env: &Env,
    plan: &NeedleSearch,
    connection: &mut Connection,
    range: (i64, i64),
    (kind, ids, is_present): (Kind, Vec<String>, bool),
) -> Asked {
    let name = format!("{}, {}", kind.name(), if is_present { "present" } else { "absent" });
    let mut asked = Asked { name, ms: Vec::new(), cpu_ms: None, failures: 0, reason: None };
    let cpu_before = plan.process.map(Process::cpu_seconds);
    for id in &ids {
        let began = env.monotonic();
        let found = lines_of(connection, &path(&format!("{{app=~\".+\"}} |= `{id}`"), range, SAMPLE_LINES));
        asked.ms.push((env.monotonic() - began).as_secs_f64() * 1_000.0);
        let wrong = match found {
            Ok(lines) if lines.is_empty() != is_present => continue,
            Ok(lines) => format!("{} lines with {id} were found", lines.len()),
            Err(error) => format!("{id}: {error}"),
        };
        asked.failures += 1;
        asked.reason.get_or_insert(wrong);
    }
    if let (Some(process), Some(before)) = (plan.process, cpu_before) {
        asked.cpu_ms = Some((process.cpu_seconds() - before) * 1_000.0 / (ids.len() as f64).max(1.0));
    }
    asked
}

impl NeedleReport {
    /// Returns a table in Markdown, and the reasons of failures.
    pub fn text(&self) -> String {
        let mut text = String::from(
            "| ids | searches | p50, ms | p99, ms | server CPU, ms per search | failures |\n\
             |---|---|---|---|---|---|\n",
        );
        for Asked { name, ms, cpu_ms, failures, .. } in &self.0 {
            let cpu = cpu_ms.filter(|_| !ms.is_empty()).map_or(String::new(), |cpu| format!("{cpu:.1}"));
            let [half, most] = [0.5, 0.99].map(|share| percentile(ms, share));
            // Writing to a String cannot fail.
            let _ = writeln!(text, "| {name} | {} | {half:.1} | {most:.1} | {cpu} | {failures} |", ms.len());
        }
        for asked in &self.0 {
            if let Some(reason) = &asked.reason {
                let _ = writeln!(text, "{}: {reason}", asked.name);
            }
        }
        text
    }

    /// The number of searches that failed or had a wrong answer.
    pub fn failures(&self) -> u64 {
        self.0.iter().map(|asked| asked.failures).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_found_in_lines_by_their_form() {
        let line = "{\"trace\":\"0b8f6a52-1c5e-4d0a-9a40-7f1f2c3d4e5f\",\"span\":\"00f067aa0ba902b7\"} \
                    session=4bf92f3577b34da6a3ce929d0e0e4736 face 1234567890123456 ts=2026-11-20T12:00:00Z";
        let found: Vec<_> = ids_in(line).collect();
        let expected = [
            (Kind::Uuid, "0b8f6a52-1c5e-4d0a-9a40-7f1f2c3d4e5f"),
            (Kind::Hex16, "00f067aa0ba902b7"),
            (Kind::Hex32, "4bf92f3577b34da6a3ce929d0e0e4736"),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn random_ids_have_their_form_and_differ() {
        let mut dice = Random::of(&[7]);
        for kind in Kind::ALL {
            let ids: Vec<String> = (0..50).map(|_| kind.random(&mut dice)).collect();
            assert!(ids.iter().filter(|id| Kind::of(id) == Some(kind)).count() > 45, "{ids:?}");
            assert!(ids.windows(2).all(|pair| pair[0] != pair[1]));
        }
    }

    #[test]
    fn the_table_names_wrong_answers() {
        let asked = Asked {
            name: "UUID, absent".to_owned(),
            ms: vec![1.0, 2.0, 30.0],
            cpu_ms: Some(2.25),
            failures: 1,
            reason: Some("1 lines with x were found".to_owned()),
        };
        let report = NeedleReport(vec![asked]);
        let text = report.text();
        assert!(text.contains("| UUID, absent | 3 | 2.0 | 30.0 | 2.2 | 1 |"), "{text}");
        assert!(text.ends_with("UUID, absent: 1 lines with x were found\n"), "{text}");
        assert_eq!(report.failures(), 1);
    }
}
