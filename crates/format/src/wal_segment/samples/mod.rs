//! The columns of a batch of samples.
//!
//! If the decoder kept the body of the request, the batch is written as spans of that body: those of the
//! labels of each series and of the bytes of each value ([`Form::Messages`], [`Form::References`],
//! [`Form::Names`]). For any other batch an arena is built: each label name and value once, and then the
//! sample values ([`Form::Own`]).
//!
//! Layout: form (u8); numbers of series, labels (of all series, only in the own form), symbols, float
//! samples, histograms, exemplars and metadata (LEB128 each); the labels ([`labels`]); packed numbers of
//! float samples of each series; packed timestamps, each as zigzag difference from the one before; value
//! offsets, if the form has them; whether there are start times (u8), and if so these, packed, as zigzag
//! differences from the timestamps; [`histograms`]; exemplars and metadata ([`annotations`]).
//!
//! **Invariants.** A written batch is read back unchanged, floats bit for bit. Spans of an arena ascend
//! and do not overlap; all text of labels together is at most [`head::LABEL_BYTES_MAX`].

mod annotations;
mod head;
mod histograms;
mod labels;

use bytes::Bytes;
use sandur_model::{Arena, LabelText, SampleBatch, SeriesSamples, TenantId};

use crate::codec::Reader;
use crate::codec::bitpack::{get_packed, get_packed_u32, put_packed};
use crate::codec::varint::{put_varint, unzigzag, zigzag};
use crate::error::Error;
use head::{Counts, Form, VALUE_BYTES};

/// Bytes of a decoded series in addition to its text: itself, and a set of ten labels.
const SERIES_BYTES: u64 = size_of::<SeriesSamples>() as u64 + 700;
/// Bytes of a label of the own form while it is read, in addition to its text.
const LABEL_BYTES: u64 = 64;
/// Bytes that one byte of columns may become: a bucket of a histogram takes twelve.
const GROWTH: u64 = 16;
/// Bytes that a byte of a Graphite name may become: a node of one letter is a label.
const NAME_GROWTH: u64 = 8;

impl Form {
    /// Returns the form in which a batch is written.
    fn of(batch: &SampleBatch) -> Self {
        let form = match &batch.label_text {
            LabelText::None => return Self::Own,
            LabelText::Messages => Self::Messages,
            LabelText::References { .. } => Self::References,
            LabelText::Names => Self::Names,
        };
        match labels::spans_fit(batch) && values_fit(batch) {
            true => form,
            false => Self::Own,
        }
    }
}

/// Whether each value has eight bytes of the arena.
fn values_fit(batch: &SampleBatch) -> bool {
    let last = batch.arena.bytes.len().checked_sub(VALUE_BYTES);
    batch.value_offsets.len() == batch.values.len()
        && batch.value_offsets.iter().all(|offset| last.is_some_and(|last| *offset as usize <= last))
}

/// Returns the arena and the columns of a batch.
pub(crate) fn put_batch(batch: &SampleBatch) -> Result<(Arena, Vec<u8>), Error> {
    let form = Form::of(batch);
    let mut out = Vec::with_capacity(64 + batch.series.len() * 4);
    out.push(form as u8);
    let (arena, labels) = match form {
        Form::Own => {
            let labels = labels::own(batch)?;
            (own_arena(&labels.texts, batch), labels.counted)
        }
        Form::Messages | Form::References | Form::Names => (batch.arena.clone(), labels::spans(batch)?),
    };
    let SampleBatch { series, values, histograms, exemplars, metadata, .. } = batch;
    let counts = [series.len(), labels.labels, labels.symbols];
    let further = [values.len(), histograms.len(), exemplars.len(), metadata.len()];
    counts.into_iter().chain(further).for_each(|count| put_varint(&mut out, count as u64));
    out.extend_from_slice(&labels.columns);
    put_packed(&mut out, &series.iter().map(|s| s.samples.len() as u64).collect::<Vec<u64>>());
    let mut before = 0i64;
    let distance = |at: &i64| zigzag(at.wrapping_sub(std::mem::replace(&mut before, *at)));
    put_packed(&mut out, &batch.timestamps.iter().map(distance).collect::<Vec<u64>>());
    if form != Form::Own {
        put_packed(&mut out, &offset_distances(batch));
    }
    put_starts(batch, &mut out);
    histograms::put(batch, &mut out)?;
    annotations::put(batch, &mut out);
    Ok((arena, out))
}

/// Returns the texts of labels followed by the values.
fn own_arena(texts: &[u8], batch: &SampleBatch) -> Arena {
    let mut bytes = Vec::with_capacity(texts.len() + batch.values.len() * VALUE_BYTES);
    bytes.extend_from_slice(texts);
    batch.values.iter().for_each(|value| bytes.extend_from_slice(&value.to_bits().to_le_bytes()));
    Arena { bytes: bytes.into(), compressed: None }
}

/// Returns differences of value offsets; for the first value of a series, from the end of its labels.
/// They are the same for most series.
fn offset_distances(batch: &SampleBatch) -> Vec<u64> {
    let mut distances = Vec::with_capacity(batch.values.len());
    for series in &batch.series {
        let mut end = series.text.end() as i64;
        for row in series.samples.start..series.samples.end {
            let offset = i64::from(batch.value_offsets[row as usize]);
            distances.push(zigzag(offset - end));
            end = offset + VALUE_BYTES as i64;
        }
    }
    distances
}

fn put_starts(batch: &SampleBatch, out: &mut Vec<u8>) {
    let has_starts = batch.starts.iter().any(|start| *start != 0);
    out.push(has_starts.into());
    if has_starts {
        let pairs = batch.starts.iter().zip(&batch.timestamps);
        put_packed(out, &pairs.map(|(start, time)| zigzag(start.wrapping_sub(*time))).collect::<Vec<u64>>());
    }
}

/// Returns the bytes of the decoded batch with these columns.
pub(crate) fn memory_bytes(columns: &[u8], plain_len: usize) -> u64 {
    let mut reader = Reader::new("WAL record", 0, columns);
    let fixed = plain_len as u64 + columns.len() as u64 * GROWTH;
    match Form::get(&mut reader).and_then(|form| Ok((form, Counts::get(&mut reader)?))) {
        Ok((form, Counts { series, labels, symbols, floats, .. })) => {
            let fixed = fixed + if form == Form::Names { plain_len as u64 * NAME_GROWTH } else { 0 };
            let labels = labels as u64 * LABEL_BYTES + symbols as u64 * size_of::<&str>() as u64;
            fixed + labels + series as u64 * SERIES_BYTES + floats as u64 * 4 * VALUE_BYTES as u64
        }
        // Reading it will fail.
        Err(_) => fixed,
    }
}

/// Reads a batch with this arena.
pub(crate) fn get_batch(
    reader: &mut Reader<'_>,
    tenant: TenantId,
    arena: &Bytes,
) -> Result<SampleBatch, Error> {
    let form = Form::get(reader)?;
    let counts = Counts::get(reader)?;
    let own_values = match form {
        Form::Own => counts.floats * VALUE_BYTES,
        Form::Messages | Form::References | Form::Names => 0,
    };
    let Some(texts) = arena.len().checked_sub(own_values) else {
        return Err(reader.malformed("there are fewer values than the record states"));
    };
    let mut batch = SampleBatch::new(tenant);
    labels::get(reader, form, &arena[..texts], counts, &mut batch)?;
    get_ranges(reader, &counts, &mut batch.series)?;
    let mut at = 0i64;
    let step = |distance: i64| {
        at = at.wrapping_add(distance);
        at
    };
    let distances = get_packed(reader, counts.floats, unzigzag)?;
    batch.timestamps = distances.into_iter().map(step).collect();
    batch.values = match form {
        Form::Own => arena[texts..].as_chunks::<VALUE_BYTES>().0.iter().map(value).collect(),
        Form::Messages | Form::References | Form::Names => {
            get_values(reader, &batch.series, arena, counts.floats)?
        }
    };
    get_starts(reader, &mut batch)?;
    histograms::get(reader, counts.histograms, &mut batch)?;
    annotations::get(reader, counts.exemplars, counts.metadata, &mut batch)?;
    // The spans of the labels are meaningless without the text.
    batch.series.iter_mut().for_each(|series| series.text = sandur_model::Span::default());
    Ok(batch)
}

fn value(bits: &[u8; VALUE_BYTES]) -> f64 {
    f64::from_bits(u64::from_le_bytes(*bits))
}

/// Reads the range of float samples of each series.
fn get_ranges(reader: &mut Reader<'_>, counts: &Counts, series: &mut [SeriesSamples]) -> Result<(), Error> {
    let mut start = 0u32;
    for (series, count) in series.iter_mut().zip(get_packed_u32(reader, counts.series)?) {
        let end = start.checked_add(count).filter(|end| *end as usize <= counts.floats);
        let end = end.ok_or_else(|| reader.malformed("series have more samples than there are"))?;
        series.samples = start..end;
        start = end;
    }
    match start as usize == counts.floats {
        true => Ok(()),
        false => Err(reader.malformed("there are more samples than the series state")),
    }
}

fn get_values(
    reader: &mut Reader<'_>,
    series: &[SeriesSamples],
    arena: &[u8],
    count: usize,
) -> Result<Vec<f64>, Error> {
    let distances = get_packed(reader, count, unzigzag)?;
    let mut values = Vec::with_capacity(count);
    for series in series {
        let mut end = series.text.end() as i64;
        for row in series.samples.clone() {
            let start = end.checked_add(distances[row as usize]).and_then(|at| usize::try_from(at).ok());
            let bits = start.and_then(|start| arena.get(start..)?.first_chunk());
            let bits = bits.ok_or_else(|| reader.malformed("a value lies outside of its batch"))?;
            values.push(value(bits));
            end = (start.unwrap_or(0) + VALUE_BYTES) as i64;
        }
    }
    Ok(values)
}

fn get_starts(reader: &mut Reader<'_>, batch: &mut SampleBatch) -> Result<(), Error> {
    match reader.u8()? {
        0 => Ok(()),
        1 => {
            let distances = get_packed(reader, batch.timestamps.len(), unzigzag)?;
            let pairs = distances.into_iter().zip(&batch.timestamps);
            batch.starts = pairs.map(|(distance, time)| time.wrapping_add(distance)).collect();
            Ok(())
        }
        _ => Err(reader.malformed("the flag of start times is neither 0 nor 1")),
    }
}

#[cfg(test)]
mod tests;
