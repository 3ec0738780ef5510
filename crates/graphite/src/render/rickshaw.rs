//! `rickshaw`: series with points of `x`, the time, and `y`, the value.

use super::request::{Format, RenderRequest};
use crate::encoding::json::{Layout, quoted};
use crate::error::Result;
use crate::number::repr;
use crate::series::Series;
use sandur_memory::job::spend;

pub(super) const FORMAT: Format = Format {
    name: "rickshaw",
    content_type: "application/json",
    is_json: true,
    bytes: |_, series| super::request::bytes_of(series, 250),
    write,
};

fn write(request: &RenderRequest, list: &mut [Series], out: &mut Vec<u8>) -> Result<()> {
    let layout = Layout::new(request.pretty);
    let mut parts = Vec::with_capacity(list.len());
    for series in list.iter() {
        let mut points = Vec::with_capacity(series.points().len());
        let mut time = series.start;
        for point in series.points() {
            if time >= series.end {
                break;
            }
            spend(1)?;
            let y = match point {
                None => "null".to_owned(),
                Some(value) if value.is_nan() => "NaN".to_owned(),
                Some(value) if value.is_infinite() => {
                    (if value > 0.0 { "Infinity" } else { "-Infinity" }).to_owned()
                }
                Some(value) if series.values.is_whole() => format!("{value:.0}"),
                Some(value) => repr(value),
            };
            points.push(layout.join(('{', '}'), 3, &[format!("\"x\": {time}"), format!("\"y\": {y}")]));
            time = time.saturating_add(series.step.max(1));
        }
        let members = [
            format!("\"target\": {}", quoted(&series.name)),
            format!("\"datapoints\": {}", layout.join(('[', ']'), 2, &points)),
        ];
        parts.push(layout.join(('{', '}'), 1, &members));
    }
    out.extend_from_slice(layout.join(('[', ']'), 0, &parts).as_bytes());
    Ok(())
}
