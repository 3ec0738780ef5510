//! `pickle`: what a series is, as dictionaries of Python, in protocol 3 that every Python 3 reads.

use super::{Format, RenderRequest};
use crate::error::Result;
use crate::series::Series;
use sandur_base::job::spend;

pub(super) const FORMAT: Format =
    Format { name: "pickle", content_type: "application/pickle", is_json: false, write };

const PROTOCOL: &[u8] = &[0x80, 3];
const MARK: u8 = b'(';
const EMPTY_LIST: u8 = b']';
const EMPTY_DICTIONARY: u8 = b'}';
const APPEND_ALL: u8 = b'e';
const SET_ALL: u8 = b'u';
const NONE: u8 = b'N';
const FLOAT: u8 = b'G';
const INT: u8 = b'J';
const LONG: &[u8] = &[0x8a, 8];
const TEXT: u8 = b'X';
const STOP: u8 = b'.';

fn write(_: &RenderRequest, list: &mut [Series], out: &mut Vec<u8>) -> Result<()> {
    out.extend_from_slice(PROTOCOL);
    out.extend_from_slice(&[EMPTY_LIST, MARK]);
    for series in list.iter() {
        spend(series.values.len())?;
        out.extend_from_slice(&[EMPTY_DICTIONARY, MARK]);
        text(out, "name");
        text(out, &series.name);
        for (name, number) in [("start", series.start), ("end", series.end), ("step", series.step)] {
            text(out, name);
            integer(out, number);
        }
        text(out, "values");
        out.extend_from_slice(&[EMPTY_LIST, MARK]);
        for value in series.points() {
            match value {
                None => out.push(NONE),
                Some(value) if series.values.is_whole() => integer(out, value as i64),
                Some(value) => float(out, value),
            }
        }
        out.push(APPEND_ALL);
        text(out, "pathExpression");
        text(out, &series.path_expression);
        text(out, "valuesPerPoint");
        integer(out, series.values_per_point as i64);
        text(out, "consolidationFunc");
        text(out, series.consolidation.name());
        text(out, "xFilesFactor");
        float(out, series.x_files_factor);
        out.push(SET_ALL);
    }
    out.extend_from_slice(&[APPEND_ALL, STOP]);
    Ok(())
}

fn text(out: &mut Vec<u8>, text: &str) {
    out.push(TEXT);
    // Names are far shorter than the four bytes can say.
    out.extend_from_slice(&(text.len() as u32).to_le_bytes());
    out.extend_from_slice(text.as_bytes());
}

fn integer(out: &mut Vec<u8>, value: i64) {
    match i32::try_from(value) {
        Ok(small) => {
            out.push(INT);
            out.extend_from_slice(&small.to_le_bytes());
        }
        Err(_) => {
            out.extend_from_slice(LONG);
            out.extend_from_slice(&value.to_le_bytes());
        }
    }
}

fn float(out: &mut Vec<u8>, value: f64) {
    out.push(FLOAT);
    out.extend_from_slice(&value.to_be_bytes());
}
