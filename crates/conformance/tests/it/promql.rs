//! Goal: PromQL returns the answers of Prometheus, and no query exhausts the stack.
//!
//! Method: Prometheus's acceptance scripts, if available, run as its own harness runs them. Each of
//! their queries is also parsed, written and parsed again. Every form in the language's tables is
//! repeated 10 to 100,000 times, on a thread with a small stack.

use std::path::{Path, PathBuf};

use sandur_conformance::hostile::{promql as hostile, whole::on_a_small_stack};
use sandur_conformance::promql::{Runs, expressions, run_file, scripts};
use sandur_conformance::world::Place;
use sandur_promql::forms;

/// Returns the directory of Prometheus's scripts, which are not part of this repository.
fn corpus() -> Option<PathBuf> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/conformance/promql");
    let other = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../../shared/conformance/promql");
    let found = [directory, other].into_iter().find(|directory| directory.is_dir());
    if found.is_none() {
        println!("skipped: no conformance data (../shared/conformance/promql)");
    }
    found
}

/// Evaluations that Prometheus answers differently since 3.16: a script of an earlier version, and a
/// query in it. Our own `fill_sides.test`, `extended_starts.test` and `described_series.test` have the
/// new answers.
const ANSWERED_ANEW: [(&str, &str); 4] = [
    // The fill value of a side applies to that side, whichever side has several series.
    ("fill-modifier.test", "node_meta * on(instance) group_right fill_left(1) cpu_info"),
    ("fill-modifier.test", "node_meta * on(instance) group_right fill_right(0) cpu_info"),
    // An unchanged start timestamp is not a reset.
    ("start_timestamps.test", "increase(series[5m])"),
    // Series match regardless of their types and units.
    (
        "type_and_unit.test",
        "http_requests_total{group=\"canary\"} / ignoring(group) http_requests_total{group=\"production\"}",
    ),
];

/// Whether a failure is that of an evaluation in [`ANSWERED_ANEW`].
fn is_answered_anew(failure: &str) -> bool {
    let mut lines = failure.lines();
    let (place, query) = (lines.next().unwrap_or_default(), lines.next().unwrap_or_default().trim());
    ANSWERED_ANEW.iter().any(|(script, known)| place.contains(&format!("/{script}:")) && query == *known)
}

fn answers_alike(directory: &Path, places: &[Place], runs: Runs) -> usize {
    let (mut evals, mut failures) = (0, Vec::new());
    for file in scripts(directory).unwrap_or_else(|e| panic!("{e}")) {
        let report = run_file(&file, places, runs).unwrap_or_else(|e| panic!("{e}"));
        println!("{report}");
        evals += report.evals;
        failures.extend(report.failures.into_iter().filter(|failure| !is_answered_anew(failure)));
    }
    assert!(failures.is_empty(), "{} of {evals} evals failed:\n{}", failures.len(), failures.join("\n"));
    evals
}

#[test]
fn scripts_of_prometheus_pass_in_memory() {
    let Some(directory) = corpus() else { return };
    let evals = answers_alike(&directory, &[Place::Memory], Runs::Again);
    assert!(evals >= 2214, "only {evals} evals: are all scripts there?");
}

#[test]
fn scripts_of_prometheus_pass_on_blocks() {
    let Some(directory) = corpus() else { return };
    let evals = answers_alike(&directory, &[Place::Flushed], Runs::Once);
    assert!(evals >= 2214, "only {evals} evals: are all scripts there?");
}

#[test]
fn own_scripts_pass_in_every_place() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("cases/promql");
    let places = [Place::Memory, Place::Head, Place::Flushed, Place::Compacted];
    assert!(answers_alike(&directory, &places, Runs::Again) > 0);
}

#[test]
fn expressions_of_prometheus_are_unchanged_by_writing_and_parsing() {
    let Some(directory) = corpus() else { return };
    let mut count = 0;
    for file in scripts(&directory).unwrap_or_else(|e| panic!("{e}")) {
        for expr in expressions(&file).unwrap_or_else(|e| panic!("{e}")) {
            hostile::reread(&expr).unwrap_or_else(|e| panic!("{expr}: {e}"));
            count += 1;
        }
    }
    assert!(count >= 2214, "only {count} expressions");
}

/// Parts of the errors that name a limit.
const LIMITS: [&str; 7] = [
    "expected at most",
    "more than 100 levels",
    "more than 2000 operands",
    "too long",
    "too large",
    "out of range",
    "memory",
];

#[test]
fn a_query_of_any_length_and_depth_is_answered_or_refused() {
    on_a_small_stack(
        || {
            let source = hostile::source();
            let (mut answered, mut refused, mut rows) = (0, 0, 0);
            for (n, form) in forms().iter().enumerate() {
                // A form without meaning is refused for that reason at any length.
                let meaningless = hostile::everything(&source, &form.query(2)).err();
                for count in [&[10, 10_000][..], &[1000], &[100, 100_000], &[1998]][n % 4] {
                    let count = *count;
                    let Err(error) = hostile::everything(&source, &form.query(count)) else {
                        answered += 1;
                        rows += u32::from(count >= 1000 && form.name.starts_with("row of"));
                        continue;
                    };
                    refused += 1;
                    let named = LIMITS.iter().any(|limit| error.contains(limit));
                    assert!(named || meaningless.is_some(), "{} x {count}: {error:.300}", form.name);
                }
            }
            assert!(answered > 150 && refused > 150, "{answered} answered, {refused} refused");
            assert!(rows > 50, "only {rows} forms are answered with 1000 operands or more");
        },
        || {},
    );
}
