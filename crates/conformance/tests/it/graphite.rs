//! Goal: targets and times have the same meaning as in Graphite.
//!
//! Method: the recorded requests to a real Graphite, if available, are run again on the same series, and
//! the answers are compared.

use std::path::Path;

use sandur_conformance::graphite::run;
use sandur_conformance::world::Place;

#[test]
fn answers_equal_the_recorded_answers_of_graphite() {
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
