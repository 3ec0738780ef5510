//! `json`: series with tags and points of value and time.
//!
//! Answers have millions of points, so points are written directly to the body, and the times of series
//! with the same steps are formatted once. Indented JSON is joined from parts.

use super::consolidate::consolidate;
use super::request::{Format, RenderRequest};
use crate::encoding::json::{Layout, push_value, quoted, value};
use crate::error::{Error, Result};
use crate::series::Series;
use sandur_memory::job::{JobMemory, spend};
use sandur_model::decimal::push_signed;

pub(super) const FORMAT: Format = Format {
    name: "json",
    content_type: "application/json",
    is_json: true,
    bytes: super::request::with_name,
    write,
};

fn write(request: &RenderRequest, list: &mut [Series], out: &mut Vec<u8>) -> Result<()> {
    if list.iter().all(|series| series.values.is_empty()) {
        out.extend_from_slice(b"[]");
        return Ok(());
    }
    if let Some(most) = request.max_data_points {
        consolidate(list, most)?;
    }
    match request.pretty {
        true => in_lines(request, list, out),
        false => in_one_line(request, list, out),
    }
}

fn in_one_line(request: &RenderRequest, list: &[Series], out: &mut Vec<u8>) -> Result<()> {
    let mut times = Times::default();
    out.push(b'[');
    let mut is_first = true;
    for series in list {
        let begin = out.len();
        out.extend_from_slice(if is_first { b"{\"target\": " } else { b", {\"target\": " });
        out.extend_from_slice(quoted(&series.name).as_bytes());
        out.extend_from_slice(b", \"tags\": {");
        for (n, (tag, value)) in series.tags.iter().enumerate() {
            out.extend_from_slice(if n == 0 { b"" } else { b", " });
            out.extend_from_slice(quoted(tag).as_bytes());
            out.extend_from_slice(b": ");
            out.extend_from_slice(quoted(value).as_bytes());
        }
        out.extend_from_slice(b"}, \"datapoints\": [");
        let points = push_points(request, series, &mut times, out)?;
        if points == 0 && request.no_null_points {
            out.truncate(begin);
            continue;
        }
        out.extend_from_slice(b"]}");
        is_first = false;
    }
    out.push(b']');
    Ok(())
}

/// Appends the points of a series; returns their number.
fn push_points(
    request: &RenderRequest,
    series: &Series,
    times: &mut Times,
    out: &mut Vec<u8>,
) -> Result<usize> {
    let is_whole = is_whole(series);
    times.begin(series.start, step_of(series)?, series.points().len())?;
    let mut count = 0;
    for (place, point) in series.points().enumerate() {
        let Some(ending) = times.after_value(place, series.end) else { break };
        if request.no_null_points && point.is_none_or(f64::is_nan) {
            continue;
        }
        out.extend_from_slice(if count == 0 { b"[" } else { b", [" });
        push_value(out, point, is_whole);
        out.extend_from_slice(ending);
        count += 1;
    }
    Ok(count)
}

/// The bytes of the text after a value, with its end and room for growth.
const ENDING_BYTES: u64 = 40;

/// The texts after the values of a series's points: `, 1700000000]` and so on.
#[derive(Default)]
struct Times {
    start: i64,
    step: i64,
    /// The next time that is not formatted yet.
    next: i64,
    text: Vec<u8>,
    ends: Vec<u32>,
    held: JobMemory,
}

impl Times {
    /// Starts a series with points at these times.
    fn begin(&mut self, start: i64, step: i64, points: usize) -> Result<()> {
        self.held.at_least(points as u64 * ENDING_BYTES)?;
        if (start, step) != (self.start, self.step) {
            self.text.clear();
            self.ends.clear();
            (self.start, self.step, self.next) = (start, step, start);
        }
        Ok(())
    }

    /// The text after the value at a place; places are visited in order. `None` if its time is after the
    /// end.
    fn after_value(&mut self, place: usize, end: i64) -> Option<&[u8]> {
        if place >= self.ends.len() {
            self.text.extend_from_slice(b", ");
            push_signed(&mut self.text, self.next);
            self.text.push(b']');
            self.ends.push(self.text.len() as u32);
            self.next = self.next.saturating_add(self.step);
        }
        let time = self.start.saturating_add(self.step.saturating_mul(place as i64));
        let from = place.checked_sub(1).map_or(0, |before| self.ends[before] as usize);
        (time <= end).then(|| &self.text[from..self.ends[place] as usize])
    }
}

/// The distance of two points, in seconds.
fn step_of(series: &Series) -> Result<i64> {
    spend(series.values.len())?;
    if series.step <= 0 {
        return Err(Error::invalid(format!("{} has no step: the time is too short", series.name)));
    }
    Ok(series.step.saturating_mul(i64::try_from(series.values_per_point).unwrap_or(i64::MAX)).max(1))
}

/// Whether points are integers.
fn is_whole(series: &Series) -> bool {
    series.values.is_whole() && series.values_per_point == 1
}

fn in_lines(request: &RenderRequest, list: &[Series], out: &mut Vec<u8>) -> Result<()> {
    let layout = Layout::new(request.pretty);
    let mut parts = Vec::new();
    for series in list {
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

/// The points of a series.
fn points(request: &RenderRequest, series: &Series, layout: Layout) -> Result<Vec<String>> {
    let (step, is_whole) = (step_of(series)?, is_whole(series));
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::column::Column;

    /// Series with values of all kinds, at different times.
    fn series_of(seed: u64) -> Vec<Series> {
        let mut bits = seed;
        let mut next = move || {
            bits = bits.wrapping_mul(0xd129_0d3d_1d8f_5e75).wrapping_add(0x9e37_79b9_7f4a_7c15);
            bits ^ bits >> 29
        };
        let value = |bits: u64| match bits % 8 {
            0 => None,
            1 => Some(f64::from_bits(bits)),
            2 => Some((bits >> 50) as f64 / 3.0),
            3 => Some((bits >> 40) as f64 * 1e-9),
            4 => Some(f64::NAN),
            5 => Some([f64::INFINITY, f64::NEG_INFINITY, -0.0, 1e15][(bits >> 8) as usize % 4]),
            _ => Some((bits >> 45) as f64 - 1000.0),
        };
        let mut one = |n: i64| {
            let (count, step) = (next() % 20, (next() % 3 * 30) as i64 + 30);
            let values = Column::collect(20, (0..count).map(|_| value(next()))).unwrap();
            let whole = next().is_multiple_of(4);
            let values = if whole { values.of_integers() } else { values };
            let start = if next().is_multiple_of(2) { 1_700_000_000 } else { n - 40 };
            // In some series the end is before the last values.
            let end = start + step * (count as i64 - (next() % 3) as i64);
            let mut series = Series::new(format!("a.\"{n}\".é;b=c"), start, end, step, values);
            series.consolidate(if next().is_multiple_of(3) { 2 } else { 1 });
            series
        };
        (0..12).map(&mut one).collect()
    }

    #[test]
    fn compact_json_equals_indented_json_without_white_space() {
        for seed in 0..300 {
            let request = RenderRequest {
                no_null_points: seed % 2 == 0,
                ..RenderRequest::read(&[], 0, &crate::Zone::utc()).unwrap()
            };
            let list = series_of(seed);
            let (mut quick, mut joined) = (Vec::new(), Vec::new());
            in_one_line(&request, &list, &mut quick).unwrap();
            in_lines(&request, &list, &mut joined).unwrap();
            assert_eq!(String::from_utf8(quick).unwrap(), String::from_utf8(joined).unwrap(), "{seed}");
        }
    }
}
