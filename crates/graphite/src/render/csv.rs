//! `csv`: a line for each value, with local time in the zone of the request.

use std::io::Write;

use super::raw::shown;
use super::request::{Format, RenderRequest};
use crate::error::Result;
use crate::series::Series;
use sandur_memory::job::spend;

pub(super) const FORMAT: Format = Format {
    name: "csv",
    content_type: "text/csv",
    is_json: false,
    bytes: |_, series| super::request::bytes_of(series, 48 + series.name.len()),
    write,
};

fn write(request: &RenderRequest, list: &mut [Series], out: &mut Vec<u8>) -> Result<()> {
    for series in list.iter() {
        spend(series.values.len().saturating_mul(20))?;
        let needs_quotes = series.name.contains([',', '"', '\r', '\n']);
        let name = match needs_quotes {
            true => format!("\"{}\"", series.name.replace('"', "\"\"")),
            false => series.name.clone(),
        };
        for (place, value) in series.points().enumerate() {
            spend(name.len())?;
            let epoch = series.start.saturating_add(series.step.saturating_mul(place as i64));
            let time = request.zone.moment(epoch).civil();
            let time = time.map_or_else(String::new, |time| time.strftime("%Y-%m-%d %H:%M:%S").to_string());
            let value = value.map(|value| shown(series, Some(value))).unwrap_or_default();
            // Writing to memory cannot fail.
            let _ = write!(out, "{name},{time},{value}\r\n");
        }
    }
    Ok(())
}
