//! Converts points of histograms with explicit bounds, `{start_time=2, time=3, count=4, sum=5,
//! bucket_counts=6, explicit_bounds=7, exemplars=8, attributes=9, flags=10}`, to `_sum`, `_count` and a
//! `_bucket` for each bound, or to one native histogram with custom buckets.

use std::sync::Arc;

use sandur_model::histogram::{Buckets, CUSTOM_SCHEMA, CounterReset};
use sandur_model::{FloatHistogram, STALE_BITS};
use sandur_protobuf::{Reader, Wire};

use super::Export;
use super::export::LabelMap;
use super::metric::{Family, PointHead, decimal, time};
use crate::error::Error;
use crate::samples::builder::NewHistogram;
use crate::samples::labels_check::METRIC_NAME;
use crate::samples::native_histogram::{check_count, doubles};

/// Most bytes of memory per byte of a point: eight bytes in a list that doubles, and a bucket.
const EXPANSION: u64 = 4;

#[derive(Default)]
struct Point {
    head: PointHead,
    count: u64,
    sum: Option<f64>,
    counts: Vec<u64>,
    bounds: Vec<f64>,
}

impl<'a> Export<'a> {
    pub(super) fn histogram_point(&mut self, family: &Family, message: Reader<'a>) -> Result<(), Error> {
        let most = message.rest().len() as u64 * EXPANSION;
        self.builder.memory().take(most)?;
        let point = read(message)?;
        self.note_time(point.head.time_ms);
        let attributes = self.read_attributes(message, 9)?;
        let labels = self.labels(&family.name, &attributes);
        match self.builder.limits().metrics.otel_convert_histograms_to_nhcb {
            true => self.custom_buckets(family, &labels, point, message)?,
            false => self.classic(family, labels, &point, message)?,
        }
        self.builder.memory().give(most);
        Ok(())
    }

    fn classic(
        &mut self,
        family: &Family,
        mut labels: LabelMap,
        point: &Point,
        message: Reader<'a>,
    ) -> Result<(), Error> {
        let (count, shape) = (point.count as f64, shape(&point.bounds));
        for (suffix, value) in [("_sum", point.sum), ("_count", Some(count))] {
            let Some(value) = value else { continue };
            labels.insert(METRIC_NAME.to_owned(), format!("{}{suffix}", family.name));
            if self.begin_point(family, &labels, shape)? {
                self.point_sample(point.head, value)?;
                self.builder.end();
            }
        }
        labels.insert(METRIC_NAME.to_owned(), format!("{}_bucket", family.name));
        let exemplars = self.read_exemplars(message, 8)?;
        let mut exemplars = exemplars.iter().peekable();
        let mut cumulative = 0u64;
        for (bound, bucket) in point.bounds.iter().zip(&point.counts) {
            cumulative = cumulative.saturating_add(*bucket);
            labels.insert("le".to_owned(), decimal(*bound));
            if self.begin_point(family, &labels, shape)? {
                self.point_sample(point.head, cumulative as f64)?;
                while let Some(exemplar) = exemplars.next_if(|exemplar| exemplar.value <= *bound) {
                    self.add_exemplar(exemplar)?;
                }
                self.builder.end();
            }
        }
        labels.insert("le".to_owned(), "+Inf".to_owned());
        if self.begin_point(family, &labels, shape)? {
            self.point_sample(point.head, count)?;
            for exemplar in exemplars {
                self.add_exemplar(exemplar)?;
            }
            self.builder.end();
        }
        Ok(())
    }

    fn custom_buckets(
        &mut self,
        family: &Family,
        labels: &LabelMap,
        point: Point,
        message: Reader<'a>,
    ) -> Result<(), Error> {
        if !self.begin_point(family, labels, 0)? {
            return Ok(());
        }
        let buckets = point.counts.iter().enumerate().filter(|(_, count)| **count > 0);
        let (indices, counts) = buckets.map(|(n, count)| (n as i32, *count as f64)).unzip();
        let histogram = FloatHistogram {
            reset: if family.delta { CounterReset::Gauge } else { CounterReset::Unknown },
            schema: CUSTOM_SCHEMA,
            count: point.count as f64,
            sum: point.sum.unwrap_or(0.0),
            positive: Buckets { indices, counts },
            bounds: Arc::from(point.bounds),
            ..FloatHistogram::default()
        };
        self.point_histogram(point.head, histogram)?;
        self.exemplars(message, 8)?;
        self.builder.end();
        Ok(())
    }

    /// Adds a histogram of a point to the open series.
    pub(super) fn point_histogram(
        &mut self,
        head: PointHead,
        mut histogram: FloatHistogram,
    ) -> Result<(), Error> {
        if head.is_stale() {
            let bounds = Arc::clone(&histogram.bounds);
            let schema = histogram.schema;
            let sum = f64::from_bits(STALE_BITS);
            histogram = FloatHistogram { schema, bounds, sum, ..FloatHistogram::default() };
        }
        if let Err(why) = check_count(&histogram) {
            self.builder.refuse_histogram(&why);
            return Ok(());
        }
        let PointHead { time_ms, start_ms, .. } = head;
        self.builder.histogram(NewHistogram { time_ms, start_ms, integer: true, histogram })
    }
}

/// Returns a hash of the bounds: buckets with different bounds cannot be added.
fn shape(bounds: &[f64]) -> u32 {
    let mut hasher = xxhash_rust::xxh3::Xxh3Default::new();
    bounds.iter().for_each(|bound| hasher.update(&bound.to_bits().to_le_bytes()));
    hasher.digest() as u32
}

fn read(mut fields: Reader<'_>) -> Result<Point, Error> {
    let mut point = Point::default();
    while let Some(key) = fields.key()? {
        match key {
            (2, Wire::Fixed64) => point.head.start_ms = time(&mut fields)?,
            (3, Wire::Fixed64) => point.head.time_ms = time(&mut fields)?,
            (4, Wire::Fixed64) => point.count = fields.fixed64()?,
            (5, Wire::Fixed64) => point.sum = Some(fields.double()?),
            (6, Wire::Fixed64) => point.counts.push(fields.fixed64()?),
            (6, Wire::Bytes) => {
                let mut packed = fields.message()?;
                while !packed.is_at_end() {
                    point.counts.push(packed.fixed64()?);
                }
            }
            (7, wire) => doubles(&mut fields, wire, &mut point.bounds)?,
            (10, Wire::Varint) => point.head.flags = fields.varint()?,
            (_, wire) => fields.skip(wire)?,
        }
    }
    Ok(point)
}
