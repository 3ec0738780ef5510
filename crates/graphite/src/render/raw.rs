//! `raw`: a line for each series, name, start, end and step, then its values.

use std::io::Write;

use super::request::{Format, RenderRequest};
use crate::error::Result;
use crate::number::repr;
use crate::series::Series;
use sandur_memory::job::spend;

pub(super) const FORMAT: Format = Format {
    name: "raw",
    content_type: "text/plain",
    is_json: false,
    bytes: super::request::with_name,
    write,
};

fn write(_: &RenderRequest, list: &mut [Series], out: &mut Vec<u8>) -> Result<()> {
    for series in list.iter() {
        spend(series.values.len())?;
        let (start, end, step) = (series.start, series.end, series.step);
        // Writing to memory cannot fail.
        let _ = write!(out, "{},{start},{end},{step}|", series.name);
        for (place, value) in series.points().enumerate() {
            let comma = if place > 0 { "," } else { "" };
            let _ = write!(out, "{comma}{}", shown(series, value));
        }
        out.push(b'\n');
    }
    Ok(())
}

/// A value in Python's form.
pub(super) fn shown(series: &Series, value: Option<f64>) -> String {
    match value {
        None => "None".to_owned(),
        Some(value) if series.values.is_whole() => format!("{value:.0}"),
        Some(value) => repr(value),
    }
}
