//! `timeShiftByMetric`: shifts series by version, so that the last marks of all versions coincide; a node
//! of the path is the version.

use crate::call::Call;
use crate::error::{Error, Result};
use crate::function::{Body, Function, Group, Origin};
use crate::parameter::{Kind, required};
use crate::pattern::python_regex;
use crate::series::Series;
use sandur_base::job::spend;

pub(super) const FUNCTION: Function = Function {
    name: "timeShiftByMetric",
    aliases: &[],
    group: Group::Transform,
    origin: Origin::Carbonapi,
    aggregates: false,
    parameters: &[
        required("seriesList", Kind::SeriesList),
        required("markSource", Kind::SeriesList),
        required("versionRankIndex", Kind::Integer),
    ],
    doc: "Shifts series by version, so that the last marks of all versions coincide; a node of the \
          path is the version.",
    body: Body::Series(run),
};

/// The last mark of a version, such as `65_4`.
struct Mark {
    version: String,
    number: (u64, u64),
    place: usize,
}

fn run(mut call: Call) -> Result<Vec<Series>> {
    let (list, marks, rank) = (call.list(0)?, call.list(1)?, call.integer(2)?);
    for (what, list) in [("metrics", &list), ("marks", &marks)] {
        if list.len() < 2 {
            let count = list.len();
            let message = format!("bad data: need at least 2 {what} data sets to process, got {count}");
            return Err(Error::invalid(message));
        }
    }
    let (count, step) = list.first().map_or((0, 0), |series| (series.values.len(), series.step));
    if let Some(other) = list.iter().chain(&marks).find(|series| series.values.len() != count) {
        let message = format!("bad data: length of Values for series {} differs from others", other.name);
        return Err(Error::invalid(message));
    }
    let marks = latest(&marks)?;
    let Some(newest) = marks.first().map(|mark| mark.place) else { return Ok(Vec::new()) };
    let mut results = Vec::new();
    for mut series in list {
        spend(marks.len())?;
        let name = series.tags.get("name").unwrap_or_default();
        let node = usize::try_from(rank).ok().and_then(|rank| name.split('.').nth(rank));
        let Some(node) = node else { continue };
        let exact = marks.iter().find(|mark| mark.version == node);
        let Some(mark) = exact.or_else(|| marks.iter().find(|mark| mark.version.starts_with(node))) else {
            continue;
        };
        let moved = (newest as i64 - mark.place as i64).saturating_mul(step);
        series.rename(format!("timeShiftByMetric({})", series.name));
        series.start = series.start.saturating_add(moved);
        series.end = series.end.saturating_add(moved);
        results.push(series);
    }
    Ok(results)
}

/// For each first number of versions, the last mark of the highest version; the newest version first.
fn latest(series: &[Series]) -> Result<Vec<Mark>> {
    let version = python_regex(r"(\d+)_(\d+)")?;
    let mut marks = Vec::new();
    for series in series {
        spend(series.values.len())?;
        let name = series.tags.get("name").unwrap_or_default();
        let node = name.rsplit('.').next().unwrap_or_default();
        let number = version.captures(node).and_then(|found| {
            Some((found.get(1)?.as_str().parse().ok()?, found.get(2)?.as_str().parse().ok()?))
        });
        let place = (0..series.values.len()).rev().find(|place| series.values.get(*place).is_some());
        if let (Some(number), Some(place)) = (number, place) {
            marks.push(Mark { version: node.to_owned(), number, place });
        }
    }
    marks.sort_by_key(|mark| std::cmp::Reverse(mark.number));
    marks.dedup_by(|next, kept| next.number.0 == kept.number.0);
    match marks.len() {
        0 | 1 => {
            let count = marks.len();
            Err(Error::invalid(format!("bad data: could not find 2 marks, only {count} found")))
        }
        _ => Ok(marks),
    }
}
