//! `json`: series with tags and points of value and time.

use super::consolidate::consolidate;
use super::{Format, RenderRequest};
use crate::encoding::json::{Layout, quoted, value};
use crate::error::{Error, Result};
use crate::series::Series;
use sandur_base::job::spend;

pub(super) const FORMAT: Format =
    Format { name: "json", content_type: "application/json", is_json: true, write };

fn write(request: &RenderRequest, list: &mut [Series], out: &mut Vec<u8>) -> Result<()> {
    if list.iter().all(|series| series.values.is_empty()) {
        out.extend_from_slice(b"[]");
        return Ok(());
    }
    if let Some(most) = request.max_data_points {
        consolidate(list, most)?;
    }
    let layout = Layout::new(request.pretty);
    let mut parts = Vec::new();
    for series in list.iter() {
        let points = points(request, series, layout)?;
        if points.is_empty() && request.no_null_points {
            continue;
        }
        let tags: Vec<String> =
            series.tags.iter().map(|(tag, value)| format!("{}: {}", quoted(tag), quoted(value))).collect();
        let members = [
            format!("\"target\": {}", quoted(&series.name)),
            format!("\"tags\": {}", layout.join(('{', '}'), 2, &tags)),
            format!("\"datapoints\": {}", layout.join(('[', ']'), 2, &points)),
        ];
        parts.push(layout.join(('{', '}'), 1, &members));
    }
    out.extend_from_slice(layout.join(('[', ']'), 0, &parts).as_bytes());
    Ok(())
}

/// Points from the start to the end of a series.
fn points(request: &RenderRequest, series: &Series, layout: Layout) -> Result<Vec<String>> {
    spend(series.values.len())?;
    if series.step <= 0 {
        return Err(Error::invalid(format!("{} has no step: the time is too short", series.name)));
    }
    let step = series.step.saturating_mul(i64::try_from(series.values_per_point).unwrap_or(i64::MAX)).max(1);
    let is_whole = series.values.is_whole() && series.values_per_point == 1;
    let mut time = series.start;
    let mut points = Vec::with_capacity(series.points().len());
    for point in series.points() {
        if time > series.end {
            break;
        }
        if !request.no_null_points || point.is_some_and(|value| !value.is_nan()) {
            points.push(layout.join(('[', ']'), 3, &[value(point, is_whole), time.to_string()]));
        }
        time = time.saturating_add(step);
    }
    Ok(points)
}
