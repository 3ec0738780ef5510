//! `cargo xtask conformance logql PATH...`: runs scripts over memory, a head, flushed and compacted blocks;
//! `cargo xtask conformance promql PATH...`: runs Prometheus's acceptance tests over the same places;
//! `cargo xtask conformance graphite DIRECTORY`: compares with recorded answers of Graphite, over memory.
//!
//! Prints a line per script and one for all, then every failure; the exit code is 0 when there is none.

use std::path::Path;
use std::process::ExitCode;

use sandur_conformance::graphite;
use sandur_conformance::promql::{self, Passed, Runs};
use sandur_conformance::run::{run_file, scripts};
use sandur_conformance::world::Place;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let outcome = match arguments.split_first() {
        Some((language, paths)) if language == "logql" && !paths.is_empty() => run(paths),
        Some((language, paths)) if language == "promql" && !paths.is_empty() => run_promql(paths),
        Some((language, paths)) if language == "graphite" && !paths.is_empty() => run_graphite(paths),
        _ => Err("usage: sandur-conformance logql|promql|graphite PATH...".to_owned()),
    };
    match outcome {
        Ok(0) => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// Gives the number of failures.
fn run(paths: &[String]) -> Result<usize, String> {
    let (mut evals, mut failures) = (0, Vec::new());
    let mut passed = Place::EVERY.map(|place| (place, 0));
    for path in paths {
        for file in scripts(Path::new(path))? {
            let report = run_file(&file, &Place::EVERY)?;
            println!("{report}");
            evals += report.evals;
            for (total, (_, passed)) in passed.iter_mut().zip(&report.passed) {
                total.1 += passed;
            }
            failures.extend(report.failures);
        }
    }
    print!("{:<36} {evals:>5} evals", "total");
    for (place, passed) in &passed {
        print!("   {} {passed} of {evals}", place.name());
    }
    println!();
    for failure in &failures {
        println!("\n{failure}");
    }
    Ok(failures.len())
}

/// Gives the number of failures.
fn run_graphite(paths: &[String]) -> Result<usize, String> {
    let mut failures = Vec::new();
    for path in paths {
        for report in graphite::run(Path::new(path))? {
            let (cases, failed, explained) = (report.cases, report.failures.len(), report.explained.len());
            let right = cases - failed - explained;
            println!("{:<28} {cases:>5} cases   {right:>5} right   {explained:>3} explained", report.name);
            report.explained.iter().for_each(|(id, why)| println!("  {id}: {why}"));
            failures.extend(report.failures);
        }
    }
    for failure in &failures {
        println!("\n{failure}");
    }
    Ok(failures.len())
}

/// Gives the number of failures.
fn run_promql(paths: &[String]) -> Result<usize, String> {
    let (mut evals, mut failures) = (0, Vec::new());
    let mut totals = Place::EVERY.map(Passed::none);
    for path in paths {
        for file in promql::scripts(Path::new(path))? {
            let report = promql::run_file(&file, &Place::EVERY, Runs::Again)?;
            println!("{report}");
            evals += report.evals;
            for (total, passed) in totals.iter_mut().zip(&report.passed) {
                total.once += passed.once;
                total.again += passed.again;
                total.runs += passed.runs;
            }
            failures.extend(report.failures);
        }
    }
    print!("{:<28} {evals:>5} evals", "total");
    totals.iter().for_each(|passed| print!("{passed}"));
    println!();
    for failure in &failures {
        println!("\n{failure}");
    }
    Ok(failures.len())
}
