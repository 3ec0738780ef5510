//! Checks times and durations.

use std::path::Path;

use sandur_graphite::{Unit, Zone, parse_offset, parse_time};
use serde_json::Value;

use super::cases::{cases, string};
use super::report::Report;
use crate::world::Place;

pub(super) fn run(folder: &Path) -> Result<Report, String> {
    let cases = cases(&folder.join("attime.jsonl"))?;
    let failures = cases.iter().filter_map(difference).collect();
    Ok(Report::new("attime", Place::Memory, cases.len(), failures))
}

fn difference(case: &Value) -> Option<String> {
    let text = string(case, "s");
    let (expected, found) = match string(case, "kind") {
        "offset" => (case["seconds"].as_i64(), parse_offset(text).ok()),
        "unit" => {
            let found = Unit::parse(text).map(Unit::name);
            let same = found == case["unit"].as_str();
            return (!same).then(|| format!("{}: {text:?} is {found:?}", string(case, "id")));
        }
        _ => {
            let zone = Zone::named(string(case, "tz")).unwrap_or_else(Zone::utc);
            let now = case["now"].as_i64().unwrap_or(0);
            (case["epoch"].as_i64(), parse_time(text, &zone, now).ok().map(|moment| moment.epoch))
        }
    };
    (expected != found)
        .then(|| format!("{}: {text:?} is {found:?}, expected {expected:?}", string(case, "id")))
}
