//! Goal: targets and times mean what they mean to Graphite.
//!
//! Method: answers that a real Graphite gave, where they are at hand, are asked for again over the same
//! series in memory.

use std::path::Path;

use sandur_conformance::graphite::run;
use sandur_conformance::world::Place;

#[test]
fn every_recorded_answer_of_graphite_is_given_again() {
    let places = ["../../../shared/conformance/graphite", "../../../../shared/conformance/graphite"];
    let folders = places.map(|place| Path::new(env!("CARGO_MANIFEST_DIR")).join(place));
    let Some(folder) = folders.into_iter().find(|folder| folder.is_dir()) else {
        println!("skipped: no conformance data (../shared/conformance/graphite)");
        return;
    };
    for report in run(&folder, &[Place::Memory]).unwrap_or_else(|error| panic!("{error}")) {
        assert!(report.cases > 0, "{}: no case", report.name);
        let (name, count) = (format!("{} ({})", report.name, report.place.name()), report.failures.len());
        assert!(report.failures.is_empty(), "{name}: {count} failed:\n{}", report.failures.join("\n"));
    }
}
