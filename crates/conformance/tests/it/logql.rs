//! Goal: LogQL returns correct answers wherever the rows are stored.
//!
//! Method: every script in `cases/logql` runs on rows in memory, in a head, in flushed and in compacted
//! blocks.

use std::path::Path;

use sandur_conformance::run::{run_file, scripts};
use sandur_conformance::world::Place;

#[test]
fn every_script_passes_in_every_place() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("cases/logql");
    let (mut evals, mut failures) = (0, Vec::new());
    for file in scripts(&directory).unwrap_or_else(|e| panic!("{e}")) {
        let report = run_file(&file, &Place::EVERY).unwrap_or_else(|e| panic!("{e}"));
        println!("{report}");
        evals += report.evals;
        failures.extend(report.failures);
    }
    assert!(failures.is_empty(), "{} of {evals} evals failed:\n{}", failures.len(), failures.join("\n"));
    assert!(evals > 100, "only {evals} evals: are the scripts there?");
}
