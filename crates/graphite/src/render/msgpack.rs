//! `msgpack`: what a series is, as maps.

use super::{Format, RenderRequest};
use crate::error::{Error, Result};
use crate::series::Series;
use sandur_base::job::spend;

pub(super) const FORMAT: Format =
    Format { name: "msgpack", content_type: "application/x-msgpack", is_json: false, write };

fn write(_: &RenderRequest, list: &mut [Series], out: &mut Vec<u8>) -> Result<()> {
    head(out, list.len(), 0x90, 0xdc)?;
    for series in list.iter() {
        spend(series.values.len())?;
        head(out, 9, 0x80, 0xde)?;
        text(out, "name")?;
        text(out, &series.name)?;
        for (name, number) in [("start", series.start), ("end", series.end), ("step", series.step)] {
            text(out, name)?;
            integer(out, number);
        }
        text(out, "values")?;
        head(out, series.points().len(), 0x90, 0xdc)?;
        for value in series.points() {
            match value {
                None => out.push(0xc0),
                Some(value) if series.values.is_whole() => integer(out, value as i64),
                Some(value) => float(out, value),
            }
        }
        text(out, "pathExpression")?;
        text(out, &series.path_expression)?;
        text(out, "valuesPerPoint")?;
        integer(out, series.values_per_point as i64);
        text(out, "consolidationFunc")?;
        text(out, series.consolidation.name())?;
        text(out, "xFilesFactor")?;
        float(out, series.x_files_factor);
    }
    Ok(())
}

/// The head of a list or a map: up to 15 parts, or with the length in two or four bytes.
fn head(out: &mut Vec<u8>, count: usize, short: u8, long: u8) -> Result<()> {
    match (u16::try_from(count), u32::try_from(count)) {
        (Ok(few @ ..16), _) => out.push(short | few as u8),
        (Ok(many), _) => {
            out.push(long);
            out.extend_from_slice(&many.to_be_bytes());
        }
        (_, Ok(many)) => {
            out.push(long + 1);
            out.extend_from_slice(&many.to_be_bytes());
        }
        _ => return Err(Error::Limit(format!("msgpack has no lists of {count} parts"))),
    }
    Ok(())
}

fn text(out: &mut Vec<u8>, text: &str) -> Result<()> {
    match (u8::try_from(text.len()), u16::try_from(text.len()), u32::try_from(text.len())) {
        (Ok(short @ ..32), _, _) => out.push(0xa0 | short),
        (Ok(short), _, _) => out.extend_from_slice(&[0xd9, short]),
        (_, Ok(long), _) => {
            out.push(0xda);
            out.extend_from_slice(&long.to_be_bytes());
        }
        (_, _, Ok(long)) => {
            out.push(0xdb);
            out.extend_from_slice(&long.to_be_bytes());
        }
        _ => return Err(Error::Limit("a name is longer than msgpack can say".to_owned())),
    }
    out.extend_from_slice(text.as_bytes());
    Ok(())
}

fn integer(out: &mut Vec<u8>, value: i64) {
    match (u8::try_from(value), u16::try_from(value), u32::try_from(value)) {
        (Ok(small @ ..128), _, _) => out.push(small),
        (Ok(small), _, _) => out.extend_from_slice(&[0xcc, small]),
        (_, Ok(middle), _) => {
            out.push(0xcd);
            out.extend_from_slice(&middle.to_be_bytes());
        }
        (_, _, Ok(large)) => {
            out.push(0xce);
            out.extend_from_slice(&large.to_be_bytes());
        }
        _ => {
            out.push(0xd3);
            out.extend_from_slice(&value.to_be_bytes());
        }
    }
}

fn float(out: &mut Vec<u8>, value: f64) {
    out.push(0xcb);
    out.extend_from_slice(&value.to_be_bytes());
}
