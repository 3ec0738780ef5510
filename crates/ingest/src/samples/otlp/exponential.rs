//! Converts points of exponential histograms to native histograms: `{attributes=1, start_time=2, time=3,
//! count=4, sum=5, scale=6, zero_count=7, positive=8:{offset=1, bucket_counts=2}, negative=9, flags=10,
//! exemplars=11}`.
//!
//! Bucket 0 of a native histogram ends at 1, that of an exponential histogram begins at 1, so the indices
//! differ by one. Scales finer than the finest schema are made coarser by merging buckets.

use sandur_model::FloatHistogram;
use sandur_model::histogram::{Buckets, CounterReset, SCHEMA_MAX, SCHEMA_MIN};
use sandur_protobuf::{Reader, Wire, unzigzag};

use super::Export;
use super::metric::{Family, PointHead, time};
use crate::error::Error;

/// Most bytes of memory per byte of a point: a count of one byte is eight bytes in a list that doubles,
/// and a bucket of twelve bytes in lists that double.
const EXPANSION: u64 = 40;
/// Observations closer to zero than this are in the zero bucket, as Prometheus assumes.
const ZERO_THRESHOLD: f64 = 1e-128;

#[derive(Default)]
struct Side {
    offset: i64,
    counts: Vec<u64>,
}

#[derive(Default)]
struct Point {
    head: PointHead,
    count: u64,
    sum: f64,
    scale: i64,
    zero_count: u64,
    positive: Side,
    negative: Side,
}

impl<'a> Export<'a> {
    pub(super) fn exponential_point(&mut self, family: &Family, message: Reader<'a>) -> Result<(), Error> {
        let most = message.rest().len() as u64 * EXPANSION;
        self.builder.memory().take(most)?;
        let point = read(message)?;
        self.note_time(point.head.time_ms);
        let attributes = self.read_attributes(message, 1)?;
        let labels = self.labels(&family.name, &attributes);
        if self.begin_point(family, &labels, 0)? {
            let head = point.head;
            match point.histogram(family.delta) {
                Ok(histogram) => self.point_histogram(head, histogram)?,
                Err(why) => self.builder.refuse_histogram(&why),
            }
            self.exemplars(message, 11)?;
            self.builder.end();
        }
        self.builder.memory().give(most);
        Ok(())
    }
}

impl Point {
    fn histogram(self, delta: bool) -> Result<FloatHistogram, String> {
        if self.scale < i64::from(SCHEMA_MIN) {
            return Err(format!(
                "cannot convert exponential to native histogram. Scale must be >= {SCHEMA_MIN}, was {}",
                self.scale
            ));
        }
        let schema = self.scale.min(i64::from(SCHEMA_MAX));
        // Indices have 32 bits: after 32 merges all buckets of one sign are one.
        let merged = (self.scale - schema).min(32) as u32;
        Ok(FloatHistogram {
            reset: if delta { CounterReset::Gauge } else { CounterReset::Unknown },
            schema: schema as i32,
            zero_threshold: ZERO_THRESHOLD,
            zero_count: self.zero_count as f64,
            count: self.count as f64,
            sum: self.sum,
            positive: self.positive.buckets(merged)?,
            negative: self.negative.buckets(merged)?,
            ..FloatHistogram::default()
        })
    }
}

impl Side {
    fn buckets(self, merged: u32) -> Result<Buckets, String> {
        let mut buckets = Buckets::default();
        for (n, count) in self.counts.iter().enumerate().filter(|(_, count)| **count > 0) {
            let index = ((self.offset + n as i64) >> merged) + 1;
            let index = i32::try_from(index).ok().filter(|index| *index < i32::MAX);
            let index = index.ok_or("an exponential histogram has a bucket whose index is too large")?;
            if buckets.indices.last() == Some(&index) {
                let last = buckets.counts.len() - 1;
                buckets.counts[last] += *count as f64;
            } else {
                buckets.indices.push(index);
                buckets.counts.push(*count as f64);
            }
        }
        Ok(buckets)
    }
}

fn read(mut fields: Reader<'_>) -> Result<Point, Error> {
    let mut point = Point::default();
    while let Some(key) = fields.key()? {
        match key {
            (2, Wire::Fixed64) => point.head.start_ms = time(&mut fields)?,
            (3, Wire::Fixed64) => point.head.time_ms = time(&mut fields)?,
            (4, Wire::Fixed64) => point.count = fields.fixed64()?,
            (5, Wire::Fixed64) => point.sum = fields.double()?,
            (6, Wire::Varint) => point.scale = i64::from(unzigzag(fields.varint()?) as i32),
            (7, Wire::Fixed64) => point.zero_count = fields.fixed64()?,
            (8, Wire::Bytes) => point.positive = side(fields.message()?)?,
            (9, Wire::Bytes) => point.negative = side(fields.message()?)?,
            (10, Wire::Varint) => point.head.flags = fields.varint()?,
            (_, wire) => fields.skip(wire)?,
        }
    }
    Ok(point)
}

fn side(mut message: Reader<'_>) -> Result<Side, Error> {
    let mut side = Side::default();
    while let Some(key) = message.key()? {
        match key {
            (1, Wire::Varint) => side.offset = i64::from(unzigzag(message.varint()?) as i32),
            (2, Wire::Varint) => side.counts.push(message.varint()?),
            (2, Wire::Bytes) => {
                let mut packed = message.message()?;
                while !packed.is_at_end() {
                    side.counts.push(packed.varint()?);
                }
            }
            (_, wire) => message.skip(wire)?,
        }
    }
    Ok(side)
}
