//! The series and timestamps of a batch of samples; the values are the record's arena, their bits in little
//! endian.
//!
//! Layout: number of series (LEB128); per series number of labels, names and values (length and text each),
//! number of samples (LEB128); then over all samples, bit packed: timestamps in milliseconds as zigzag
//! distances from the sample before.

use std::sync::Arc;

use bytes::Bytes;
use sandur_model::{SampleBatch, Span, TenantId};

use super::columns::{get_labels, put_labels};
use crate::codec::Reader;
use crate::codec::bitpack::{get_packed, put_packed};
use crate::codec::varint::{put_varint, unzigzag, zigzag};
use crate::error::Error;

/// Bytes of a value.
const VALUE_BYTES: usize = 8;

pub(crate) fn put_columns(batch: &SampleBatch) -> Vec<u8> {
    let mut out = Vec::new();
    put_varint(&mut out, batch.series.len() as u64);
    for series in &batch.series {
        put_labels(&mut out, &series.labels);
        put_varint(&mut out, series.samples.len() as u64);
    }
    let mut before = 0i64;
    let distance = |at: &i64| zigzag(at.wrapping_sub(std::mem::replace(&mut before, *at)));
    put_packed(&mut out, &batch.timestamps.iter().map(distance).collect::<Vec<u64>>());
    out
}

/// Reads a batch whose values are these bytes.
pub(crate) fn get_batch(
    reader: &mut Reader<'_>,
    tenant: TenantId,
    values: &Bytes,
) -> Result<SampleBatch, Error> {
    let (values, rest) = values.as_chunks::<VALUE_BYTES>();
    if !rest.is_empty() {
        return Err(reader.malformed("values are not of eight bytes each"));
    }
    let total = values.len();
    let series_count = reader.count("series of a batch", reader.remaining())?;
    let (mut batch, mut start) = (SampleBatch::new(tenant), 0usize);
    for _ in 0..series_count {
        let labels = Arc::new(get_labels(reader)?);
        let count = reader.count("samples of a batch", total - start)?;
        batch.begin_series(labels.stream_id(), labels, Span::default());
        if let Some(series) = batch.series.last_mut() {
            series.samples = start as u32..(start + count) as u32;
        }
        start += count;
    }
    if start != total {
        return Err(reader.malformed("there are more values than the series say"));
    }
    let mut at = 0i64;
    let distances = get_packed(reader, total, unzigzag)?;
    let step = |distance: i64| {
        at = at.wrapping_add(distance);
        at
    };
    batch.timestamps = distances.into_iter().map(step).collect();
    batch.values = values.iter().map(|bits| f64::from_bits(u64::from_le_bytes(*bits))).collect();
    Ok(batch)
}
