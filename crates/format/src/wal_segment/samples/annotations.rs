//! Exemplars and metadata of a batch.
//!
//! Layout: each exemplar: index of its series (LEB128), timestamp (signed LEB128, difference from the one
//! before), value (eight bytes), number of labels (LEB128), length and text of each name and value; then
//! all metadata: type (u8), family, unit and help text (length and text each).

use sandur_model::{Exemplar, MetricKind, MetricMetadata, SampleBatch, SeriesExemplar};

use crate::codec::Reader;
use crate::codec::labels::{get_labels, put_labels};
use crate::codec::varint::{put_blob, put_signed, put_varint};
use crate::error::Error;

/// Bytes of the shortest exemplar.
const EXEMPLAR_BYTES_MIN: usize = 11;
/// Bytes of the shortest metadata.
const METADATA_BYTES_MIN: usize = 4;

pub(super) fn put(batch: &SampleBatch, out: &mut Vec<u8>) {
    let mut before = 0i64;
    for SeriesExemplar { series, exemplar } in &batch.exemplars {
        put_varint(out, (*series).into());
        let distance = exemplar.timestamp.wrapping_sub(std::mem::replace(&mut before, exemplar.timestamp));
        put_signed(out, distance);
        out.extend_from_slice(&exemplar.value.to_bits().to_le_bytes());
        put_labels(out, &exemplar.labels);
    }
    for MetricMetadata { family, kind, unit, help } in &batch.metadata {
        out.push(kind.number());
        [family, unit, help].into_iter().for_each(|text| put_blob(out, text.as_bytes()));
    }
}

/// Reads these numbers of exemplars and metadata.
pub(super) fn get(
    reader: &mut Reader<'_>,
    exemplars: usize,
    metadata: usize,
    batch: &mut SampleBatch,
) -> Result<(), Error> {
    if exemplars.saturating_mul(EXEMPLAR_BYTES_MIN) > reader.remaining() {
        return Err(reader.malformed("there are fewer exemplars than the record states"));
    }
    let mut before = 0i64;
    for _ in 0..exemplars {
        let series = reader.varint32()?;
        if series as usize >= batch.series.len() {
            return Err(reader.malformed("an exemplar names a series that does not exist"));
        }
        before = before.wrapping_add(reader.signed()?);
        let (value, labels) = (f64::from_bits(reader.u64()?), get_labels(reader)?);
        let exemplar = Exemplar { labels, value, timestamp: before };
        batch.exemplars.push(SeriesExemplar { series, exemplar });
    }
    if metadata.saturating_mul(METADATA_BYTES_MIN) > reader.remaining() {
        return Err(reader.malformed("there are less metadata than the record states"));
    }
    for _ in 0..metadata {
        let kind = MetricKind::from_number(reader.u8()?.into());
        let kind = kind.ok_or_else(|| reader.malformed("the type of a metric is unknown"))?;
        let (family, unit, help) = (reader.text()?.into(), reader.text()?.into(), reader.text()?.into());
        batch.metadata.push(MetricMetadata { family, kind, unit, help });
    }
    Ok(())
}
