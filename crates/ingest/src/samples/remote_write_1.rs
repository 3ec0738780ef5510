//! Decodes remote write 1.0.
//!
//! `WriteRequest{timeseries=1:{labels=1:{name=1, value=2}, samples=2:{value=1, timestamp=2}, exemplars=3:
//! {labels=1, value=2, timestamp=3}, histograms=4}, metadata=3:{type=1, metric_family_name=2, help=4,
//! unit=5}}`. The labels are at the beginning of a series, and a sender repeats the same bytes in every
//! request. So a known series is found by a hash of these bytes, without parsing them.

use sandur_model::{MetricKind, MetricMetadata, Span};
use sandur_protobuf::{Reader, Wire};

use super::builder::{LABELS_MAX, SampleBuilder, too_many_labels};
use super::labels_check::Refusal;
use super::native_histogram;
use super::series_cache::KnownSeries;
use super::series_key::SeriesNaming;
use crate::error::Error;

/// The tag of the value of a sample: field 1, eight bytes.
const VALUE_TAG: u8 = 1 << 3 | 1;
/// The tag of the time of a sample: field 2, an integer.
const TIME_TAG: u8 = 2 << 3;

/// Reads a complete request.
pub(crate) fn request(builder: &mut SampleBuilder<'_>, plain: &[u8]) -> Result<(), Error> {
    let mut request = Reader::new(plain);
    let (mut is_own, mut is_other) = (false, false);
    while let Some(key) = request.key()? {
        is_own |= matches!(key.0, 1 | 3);
        match key {
            (1 | 3, wire @ Wire::Bytes) if !builder.takes_next() => request.skip(wire)?,
            (1, Wire::Bytes) => series(builder, request.message()?)?,
            (3, Wire::Bytes) => metadata(builder, request.message()?)?,
            (field, wire) => {
                is_other |= matches!(field, 4 | 5);
                request.skip(wire)?;
            }
        }
    }
    match is_other && !is_own {
        true => Err(other_version("2.0", "proto=io.prometheus.write.v2.Request")),
        false => Ok(()),
    }
}

/// The error for a body that has only fields of the version that the content type does not name.
#[cold]
pub(super) fn other_version(version: &str, parameter: &str) -> Error {
    let what = format!("the body is of remote write {version}: send the content type with {parameter}");
    Error::malformed("protobuf", 0, what)
}

fn series(builder: &mut SampleBuilder<'_>, message: Reader<'_>) -> Result<(), Error> {
    let mut rest = message;
    let block = label_block(&mut rest)?;
    let (known, text) = match known_series(builder, message, block, rest)? {
        (Ok(known), text) => (known, text),
        (Err(refusal), _) => {
            builder.refuse_series(refusal, count_samples(rest)?);
            return Ok(());
        }
    };
    builder.begin(known, text)?;
    while let Some(key) = rest.key()? {
        match key {
            (2, Wire::Bytes) => sample(builder, rest.message()?)?,
            (3, Wire::Bytes) => exemplar(builder, rest.message()?)?,
            (4, Wire::Bytes) => native_histogram::read(builder, rest.message()?)?,
            (_, wire) => rest.skip(wire)?,
        }
    }
    builder.end();
    Ok(())
}

/// A series, and the span of its labels in the body.
type Found = (Result<KnownSeries, Refusal>, Option<Span>);

#[inline]
fn known_series(
    builder: &mut SampleBuilder<'_>,
    message: Reader<'_>,
    block: Span,
    rest: Reader<'_>,
) -> Result<Found, Error> {
    if has_labels(rest)? {
        return Ok((scattered(builder, message)?, None));
    }
    let bytes = message.bytes_of(block);
    let key = builder.cache().key(SeriesNaming::LabelMessages, bytes);
    Ok((builder.series(key, bytes.len(), || pairs_of(message))?, Some(block)))
}

/// Finds a series whose labels are not contiguous, by its pairs.
#[cold]
fn scattered(
    builder: &mut SampleBuilder<'_>,
    message: Reader<'_>,
) -> Result<Result<KnownSeries, Refusal>, Error> {
    let pairs = pairs_of(message)?;
    builder.series_of_pairs(pairs)
}

/// Returns the span of the labels at the beginning of a series, and moves the reader after them.
#[inline]
fn label_block(message: &mut Reader<'_>) -> Result<Span, Error> {
    let start = message.position();
    let mut ahead = *message;
    while let Some((1, Wire::Bytes)) = ahead.key()? {
        ahead.span()?;
        *message = ahead;
    }
    Ok(Span { start, len: message.position() - start })
}

/// Whether there are further labels after the samples that follow directly.
fn has_labels(mut rest: Reader<'_>) -> Result<bool, Error> {
    rest.skip_all(2)?;
    while let Some((field, wire)) = rest.key()? {
        if field == 1 {
            return Ok(true);
        }
        rest.skip(wire)?;
    }
    Ok(false)
}

/// Reads the names and values of all labels of a series.
fn pairs_of(mut message: Reader<'_>) -> Result<Vec<(&[u8], &[u8])>, Error> {
    let mut pairs = Vec::new();
    while let Some(key) = message.key()? {
        match key {
            (1, Wire::Bytes) => pairs.push(label(message.message()?)?),
            (_, wire) => message.skip(wire)?,
        }
        if pairs.len() > LABELS_MAX {
            return Err(too_many_labels());
        }
    }
    Ok(pairs)
}

fn label(mut message: Reader<'_>) -> Result<(&[u8], &[u8]), Error> {
    let (mut name, mut value) = (&b""[..], &b""[..]);
    while let Some(key) = message.key()? {
        match key {
            (1, Wire::Bytes) => name = message.bytes()?,
            (2, Wire::Bytes) => value = message.bytes()?,
            (_, wire) => message.skip(wire)?,
        }
    }
    Ok((name, value))
}

#[inline]
fn sample(builder: &mut SampleBuilder<'_>, message: Reader<'_>) -> Result<(), Error> {
    match usual_sample(message.rest()) {
        Some((bits, time_ms)) => builder.sample(time_ms, bits, Some(message.position() + 1)).map(|_| ()),
        None => any_sample(builder, message),
    }
}

/// Reads a sample with both fields in the order in which every known sender writes them. A request has some
/// 50,000 samples.
#[inline]
fn usual_sample(message: &[u8]) -> Option<(u64, i64)> {
    let (value, time) = message.split_first_chunk::<10>()?;
    let [VALUE_TAG, bits @ .., TIME_TAG] = value else { return None };
    // A time after 1971 and before 2109 in milliseconds has six bytes.
    let six: &[u8; 6] = time.try_into().ok()?;
    let is_whole = six[..5].iter().all(|byte| *byte >= 0x80) && six[5] < 0x80;
    let time_ms = six.iter().rev().fold(0, |time, byte| time << 7 | i64::from(byte & 0x7F));
    is_whole.then_some((u64::from_le_bytes(*bits), time_ms))
}

/// Reads a sample with any fields.
fn any_sample(builder: &mut SampleBuilder<'_>, mut message: Reader<'_>) -> Result<(), Error> {
    let (mut bits, mut offset, mut time_ms) = (0, None, 0);
    while let Some(key) = message.key()? {
        match key {
            (1, Wire::Fixed64) => {
                offset = Some(message.position());
                bits = message.fixed64()?;
            }
            (2, Wire::Varint) => time_ms = message.varint()? as i64,
            (_, wire) => message.skip(wire)?,
        }
    }
    builder.sample(time_ms, bits, offset)?;
    Ok(())
}

fn exemplar(builder: &mut SampleBuilder<'_>, message: Reader<'_>) -> Result<(), Error> {
    let (mut value, mut time_ms) = (0, 0);
    let mut fields = message;
    while let Some(key) = fields.key()? {
        match key {
            (2, Wire::Fixed64) => value = fields.fixed64()?,
            (3, Wire::Varint) => time_ms = fields.varint()? as i64,
            (_, wire) => fields.skip(wire)?,
        }
    }
    builder.exemplar(&pairs_of(message)?, f64::from_bits(value), time_ms)
}

fn metadata(builder: &mut SampleBuilder<'_>, mut message: Reader<'_>) -> Result<(), Error> {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned().into_boxed_str();
    let mut metadata = MetricMetadata::default();
    while let Some(key) = message.key()? {
        match key {
            (1, Wire::Varint) => {
                metadata.kind = MetricKind::from_number(message.varint()?).unwrap_or_default();
            }
            (2, Wire::Bytes) => metadata.family = text(message.bytes()?),
            (4, Wire::Bytes) => metadata.help = text(message.bytes()?),
            (5, Wire::Bytes) => metadata.unit = text(message.bytes()?),
            (_, wire) => message.skip(wire)?,
        }
    }
    builder.metadata(metadata)
}

/// Counts the samples and histograms of a series.
fn count_samples(mut message: Reader<'_>) -> Result<u64, Error> {
    let mut count = 0;
    while let Some((field, wire)) = message.key()? {
        count += u64::from(matches!(field, 2 | 4));
        message.skip(wire)?;
    }
    Ok(count)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads the fields of a sample one by one.
    fn fields(message: &[u8]) -> Option<(u64, i64)> {
        let (mut reader, mut bits, mut time_ms) = (Reader::new(message), 0, 0);
        while let Some(key) = reader.key().ok()? {
            match key {
                (1, Wire::Fixed64) => bits = reader.fixed64().ok()?,
                (2, Wire::Varint) => time_ms = reader.varint().ok()? as i64,
                (_, wire) => reader.skip(wire).ok()?,
            }
        }
        Some((bits, time_ms))
    }

    #[test]
    fn usual_samples_are_read_as_their_fields_are() {
        let mut usual = 0;
        for time_ms in [0, 1, -1, (1 << 35) - 1, 1 << 35, 1_795_132_800_123, (1 << 42) - 1, 1 << 42, i64::MIN]
        {
            for value in [0.0, -0.0, 1.5, f64::NAN] {
                let mut message = Vec::new();
                sandur_protobuf::prometheus::sample(&mut message, time_ms, value);
                let message = &message[2..];
                let read = usual_sample(message);
                assert_eq!(read.is_some(), (1 << 35..1 << 42).contains(&time_ms), "{time_ms}");
                for at in 0..message.len() {
                    for byte in [0, 0x01, 0x09, 0x10, 0x7F, 0x80, 0xFF] {
                        let mut changed = message.to_vec();
                        changed[at] = byte;
                        for changed in [&changed[..], &changed[..at], &[&changed[..], b"\x10\x01"].concat()] {
                            if let Some(read) = usual_sample(changed) {
                                usual += 1;
                                assert_eq!(fields(changed), Some(read), "{changed:?}");
                            }
                        }
                    }
                }
            }
        }
        assert!(usual > 500, "{usual}");
    }

    #[test]
    fn labels_after_samples_are_noticed() {
        let mut series = Vec::new();
        for time_ms in [0, 5, 1_795_132_800_123] {
            sandur_protobuf::prometheus::sample(&mut series, time_ms, 1.5);
        }
        assert_eq!(has_labels(Reader::new(&series)), Ok(false));
        assert_eq!(has_labels(Reader::new(b"")), Ok(false));
        let with_label = [&series[..], b"\x0a\x00"].concat();
        assert_eq!(has_labels(Reader::new(&with_label)), Ok(true));
        let between = [&with_label[..], &series].concat();
        assert_eq!(has_labels(Reader::new(&between)), Ok(true));
        assert!(has_labels(Reader::new(&series[..series.len() - 1])).is_err());
    }
}
