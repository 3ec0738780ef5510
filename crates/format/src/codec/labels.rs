//! A label set: number of labels (LEB128), then length and text of each name and value, in ascending
//! order of names.

use sandur_model::Labels;

use super::reader::Reader;
use super::varint::{put_blob, put_varint};
use crate::error::Error;

/// Appends a label set.
pub(crate) fn put_labels(out: &mut Vec<u8>, labels: &Labels) {
    put_varint(out, labels.len() as u64);
    for (name, value) in labels.iter() {
        put_blob(out, name.as_bytes());
        put_blob(out, value.as_bytes());
    }
}

/// Reads a label set.
pub(crate) fn get_labels(reader: &mut Reader<'_>) -> Result<Labels, Error> {
    let count = reader.count("labels of a stream", reader.remaining())?;
    let mut pairs = Vec::new();
    for _ in 0..count {
        let (name, value) = (reader.text()?, reader.text()?);
        if value.is_empty() || pairs.last().is_some_and(|(before, _)| *before >= name) {
            return Err(reader.malformed("labels are not sorted, or one is empty"));
        }
        pairs.push((name, value));
    }
    Ok(Labels::from_pairs(pairs))
}
