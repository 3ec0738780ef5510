//! Remote write 1.0.
//!
//! `WriteRequest{timeseries=1:{labels=1:{name=1, value=2}, samples=2:{value=1, timestamp=2}}}`. The labels of a
//! series stand at its beginning, and their bytes are the same in every request of a sender, so that a known
//! series is found by a hash of them without looking into them.

use super::builder::SampleBuilder;
use super::series_cache::{KnownSeries, SeriesNaming};
use crate::error::Error;
use crate::protobuf::{Reader, Wire};

/// Reads a whole request.
pub(crate) fn request(builder: &mut SampleBuilder<'_>, plain: &[u8]) -> Result<(), Error> {
    let mut request = Reader::new(plain);
    while let Some(key) = request.key()? {
        match key {
            (1, Wire::Bytes) => series(builder, request.message()?)?,
            (_, wire) => request.skip(wire)?,
        }
    }
    Ok(())
}

fn series(builder: &mut SampleBuilder<'_>, message: Reader<'_>) -> Result<(), Error> {
    let mut rest = message;
    let block = label_block(&mut rest)?;
    let known = match known_series(builder, message, block, rest)? {
        Ok(known) => known,
        Err(refusal) => {
            builder.refuse_series(refusal, count_samples(rest)?);
            return Ok(());
        }
    };
    while let Some(key) = rest.key()? {
        match key {
            (2, Wire::Bytes) => sample(builder, &known, rest.message()?)?,
            (_, wire) => rest.skip(wire)?,
        }
    }
    builder.end_series(known)
}

type Found = Result<KnownSeries, super::labels_check::Refusal>;

#[inline]
fn known_series(
    builder: &mut SampleBuilder<'_>,
    message: Reader<'_>,
    block: &[u8],
    rest: Reader<'_>,
) -> Result<Found, Error> {
    if has_labels(rest)? {
        return scattered(builder, message);
    }
    let key = builder.cache().key(SeriesNaming::LabelMessages, block);
    builder.series(key, block.len(), || pairs_of(message))
}

/// A series whose labels do not stand together: found by its pairs.
#[cold]
fn scattered(builder: &mut SampleBuilder<'_>, message: Reader<'_>) -> Result<Found, Error> {
    let pairs = pairs_of(message)?;
    let size = pairs.iter().map(|(name, value)| name.len() + value.len() + 2).sum();
    builder.memory().take(size as u64)?;
    let mut name = Vec::with_capacity(size);
    for (label, value) in &pairs {
        name.extend_from_slice(label);
        name.push(0xFF);
        name.extend_from_slice(value);
        name.push(0xFF);
    }
    let key = builder.cache().key(SeriesNaming::Pairs, &name);
    let found = builder.series(key, size, || Ok(pairs));
    builder.memory().give(size as u64);
    found
}

/// The bytes of the labels at the beginning of a series; the reader stands behind them.
#[inline]
fn label_block<'a>(message: &mut Reader<'a>) -> Result<&'a [u8], Error> {
    let start = *message;
    let mut ahead = start;
    while let Some((1, Wire::Bytes)) = ahead.key()? {
        ahead.span()?;
        *message = ahead;
    }
    Ok(start.until(message))
}

fn has_labels(mut rest: Reader<'_>) -> Result<bool, Error> {
    while let Some((field, wire)) = rest.key()? {
        if field == 1 {
            return Ok(true);
        }
        rest.skip(wire)?;
    }
    Ok(false)
}

/// Names and values of all labels of a series.
fn pairs_of(mut message: Reader<'_>) -> Result<Vec<(&[u8], &[u8])>, Error> {
    let mut pairs = Vec::new();
    while let Some(key) = message.key()? {
        match key {
            (1, Wire::Bytes) => pairs.push(label(message.message()?)?),
            (_, wire) => message.skip(wire)?,
        }
    }
    Ok(pairs)
}

fn label(mut message: Reader<'_>) -> Result<(&[u8], &[u8]), Error> {
    let (mut name, mut value) = (&b""[..], &b""[..]);
    while let Some(key) = message.key()? {
        match key {
            (1, Wire::Bytes) => name = message.message()?.rest(),
            (2, Wire::Bytes) => value = message.message()?.rest(),
            (_, wire) => message.skip(wire)?,
        }
    }
    Ok((name, value))
}

#[inline]
fn sample(
    builder: &mut SampleBuilder<'_>,
    series: &KnownSeries,
    mut message: Reader<'_>,
) -> Result<(), Error> {
    let (mut value, mut time_ms) = (0, 0);
    while let Some(key) = message.key()? {
        match key {
            (1, Wire::Fixed64) => value = message.fixed64()?,
            (2, Wire::Varint) => time_ms = message.varint()? as i64,
            (_, wire) => message.skip(wire)?,
        }
    }
    builder.sample(series, time_ms, f64::from_bits(value))
}

/// Samples and histograms of a series.
fn count_samples(mut message: Reader<'_>) -> Result<u64, Error> {
    let mut count = 0;
    while let Some((field, wire)) = message.key()? {
        count += u64::from(matches!(field, 2 | 4));
        message.skip(wire)?;
    }
    Ok(count)
}
