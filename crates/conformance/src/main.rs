//! `cargo xtask conformance logql PATH...`: runs scripts on rows in memory, in a head, in flushed and in
//! compacted blocks;
//! `cargo xtask conformance promql PATH...`: runs Prometheus's acceptance tests in the same places;
//! `cargo xtask conformance graphite DIRECTORY`: compares with recorded answers of Graphite in the same
//! places;
//! `cargo xtask rings`: compares the relay's rings with those of the programs that they come from.
//!
//! Prints a line for each script and one for the total, then all failures. The exit code is 0 when there
//! are none.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use sandur_conformance::graphite;
use sandur_conformance::graphite::originals::{self, Programs};
use sandur_conformance::promql::{self, Passed, Runs};
use sandur_conformance::run::{run_file, scripts};
use sandur_conformance::world::Place;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let outcome = match arguments.split_first() {
        Some((language, paths)) if language == "logql" && !paths.is_empty() => run(paths),
        Some((language, paths)) if language == "promql" && !paths.is_empty() => run_promql(paths),
        Some((language, paths)) if language == "graphite" && !paths.is_empty() => run_graphite(paths),
        Some((suite, arguments)) if suite == "rings" => run_rings(arguments),
        _ => Err("usage: sandur-conformance logql|promql|graphite PATH... | rings ...".to_owned()),
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

/// Returns the number of failures.
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

/// Returns the number of failures.
fn run_graphite(paths: &[String]) -> Result<usize, String> {
    let mut failures = Vec::new();
    for path in paths {
        for report in graphite::run(Path::new(path), &Place::EVERY)? {
            let (cases, failed, explained) = (report.cases, report.failures.len(), report.explained.len());
            let right = cases - failed - explained;
            let name = format!("{} ({})", report.name, report.place.name());
            println!("{name:<28} {cases:>5} cases   {right:>5} right   {explained:>3} explained");
            report.explained.iter().for_each(|(id, why)| println!("  {id}: {why}"));
            failures.extend(report.failures);
        }
    }
    for failure in &failures {
        println!("\n{failure}");
    }
    Ok(failures.len())
}

/// Returns the number of rings that differ.
fn run_rings(arguments: &[String]) -> Result<usize, String> {
    let mut programs = Programs::default();
    let (mut folder, mut clusters, mut seed) = (PathBuf::from("rings"), 200, 1);
    for pair in arguments.chunks(2) {
        let [name, value] = pair else { return Err(format!("{} needs a value", pair[0])) };
        let number = || value.parse::<u64>().map_err(|_| format!("{name}: '{value}' is not a number"));
        match name.as_str() {
            "--python" => programs.python = Some(value.into()),
            "--relay-ng" => programs.relay_ng = Some(value.into()),
            "--c-relay" => programs.c_relay = Some(value.into()),
            "--folder" => folder = value.into(),
            "--clusters" => clusters = number()?.min(256) as usize,
            "--seed" => seed = number()?,
            _ => return Err(format!("unknown option '{name}'")),
        }
    }
    let mut different = 0;
    for compared in originals::compare(&programs, &folder, clusters, seed)? {
        println!("{:<40} {:>10} places {:>8} differ", compared.ring, compared.places, compared.different);
        compared.differences.iter().for_each(|one| println!("  {one}"));
        different += usize::from(compared.different > 0);
    }
    Ok(different)
}

/// Returns the number of failures.
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
