//! Decodes one metric: its name, its description, and the points of its kind.
//!
//! `Metric{name=1, description=2, unit=3, gauge=5, sum=7, histogram=9, exponential_histogram=10,
//! summary=11}`; each kind is `{data_points=1, aggregation_temporality=2, is_monotonic=3}`.

use sandur_model::{MetricKind, MetricMetadata, STALE_BITS};
use sandur_protobuf::{Reader, Wire};

use super::export::LabelMap;
use super::names::{Naming, metric_name, unit_name};
use super::{Export, milliseconds};
use crate::error::Error;
use crate::refused::Reason;

const DELTA: u64 = 1;
const CUMULATIVE: u64 = 2;
/// The flag of a point without a value, which ends the series.
const NO_RECORDED_VALUE: u64 = 1;

/// The kinds of metrics; a discriminant is the number of the kind's field.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Gauge = 5,
    Sum = 7,
    Histogram = 9,
    Exponential = 10,
    Summary = 11,
}

/// The properties that all points of a metric share.
pub(super) struct Family {
    pub(super) name: String,
    /// Whether values are differences from the last point and are stored unchanged.
    pub(super) delta: bool,
    /// Whether values are differences from the last point and are added up before they are stored.
    pub(super) to_add_up: bool,
}

/// The fields that every kind of point has.
#[derive(Clone, Copy, Default)]
pub(super) struct PointHead {
    pub(super) time_ms: i64,
    pub(super) start_ms: i64,
    pub(super) flags: u64,
}

impl PointHead {
    /// Returns the bits of the point's value: those of the stale marker when it has none.
    pub(super) fn bits(self, value: f64) -> u64 {
        if self.is_stale() { STALE_BITS } else { value.to_bits() }
    }

    /// Whether the point has no recorded value.
    pub(super) fn is_stale(self) -> bool {
        self.flags & NO_RECORDED_VALUE != 0
    }
}

impl<'a> Export<'a> {
    pub(super) fn metric(&mut self, mut message: Reader<'a>) -> Result<(), Error> {
        let (mut name, mut help, mut unit) = (String::new(), String::new(), String::new());
        let mut data = None;
        while let Some(key) = message.key()? {
            let kind = match key.0 {
                5 => Some(Kind::Gauge),
                7 => Some(Kind::Sum),
                9 => Some(Kind::Histogram),
                10 => Some(Kind::Exponential),
                11 => Some(Kind::Summary),
                _ => None,
            };
            match (key, kind) {
                ((_, Wire::Bytes), Some(kind)) => data = Some((kind, message.message()?)),
                ((1, Wire::Bytes), _) => name = text(message.message()?),
                ((2, Wire::Bytes), _) => help = text(message.message()?),
                ((3, Wire::Bytes), _) => unit = text(message.message()?),
                ((_, wire), _) => message.skip(wire)?,
            }
        }
        let Some((kind, data)) = data else { return Ok(()) };
        let shape = shape(data)?;
        if shape.points == 0 {
            return Ok(());
        }
        let limits = &self.builder.limits().metrics;
        let has_temporality = !matches!(kind, Kind::Gauge | Kind::Summary);
        let delta = has_temporality && shape.temporality == DELTA;
        let to_add_up = delta && limits.otlp_delta_to_cumulative;
        let is_valid =
            shape.temporality == CUMULATIVE || to_add_up || (delta && limits.otel_native_delta_ingestion);
        if has_temporality && !is_valid {
            if !self.builder.takes_next() {
                return Ok(());
            }
            let why = if delta { " (limits.metrics.otlp_delta_to_cumulative)" } else { "" };
            let text = format!("invalid temporality and type combination for metric {name:?}{why}");
            self.builder.refuse_series((Reason::UnsupportedPoint, text), shape.points);
            return Ok(());
        }
        let naming = match kind {
            Kind::Gauge => Naming::Gauge,
            Kind::Sum if shape.monotonic => Naming::MonotonicCounter,
            _ => Naming::Other,
        };
        let Some(built) = metric_name(&name, &unit, naming, limits.otlp_translation_strategy) else {
            if !self.builder.takes_next() {
                return Ok(());
            }
            let text = format!("normalization for metric {name:?} resulted in empty name");
            self.builder.refuse_series((Reason::MetricNameInvalid, text), shape.points);
            return Ok(());
        };
        let delta = delta && !to_add_up;
        let described = match kind {
            _ if delta => MetricKind::Unknown,
            Kind::Gauge => MetricKind::Gauge,
            Kind::Sum if shape.monotonic => MetricKind::Counter,
            Kind::Sum => MetricKind::Gauge,
            Kind::Histogram | Kind::Exponential => MetricKind::Histogram,
            Kind::Summary => MetricKind::Summary,
        };
        if self.builder.takes_next() {
            let (family, unit) = (built.as_str().into(), unit_name(&unit).into());
            self.builder.metadata(MetricMetadata { family, kind: described, unit, help: help.into() })?;
        }
        self.points(kind, &Family { name: built, delta, to_add_up }, data)
    }

    fn points(&mut self, kind: Kind, family: &Family, mut data: Reader<'a>) -> Result<(), Error> {
        while let Some(key) = data.key()? {
            if key != (1, Wire::Bytes) || !self.builder.takes_next() {
                data.skip(key.1)?;
                continue;
            }
            let point = data.message()?;
            match kind {
                Kind::Gauge | Kind::Sum => self.number_point(family, point)?,
                Kind::Histogram => self.histogram_point(family, point)?,
                Kind::Exponential => self.exponential_point(family, point)?,
                Kind::Summary => self.summary_point(family, point)?,
            }
        }
        Ok(())
    }

    /// Begins a series of a point; false when it is refused. Points of a series are added up only while
    /// `shape` is the same.
    pub(super) fn begin_point(
        &mut self,
        family: &Family,
        labels: &LabelMap,
        shape: u32,
    ) -> Result<bool, Error> {
        let begun = self.begin(labels)?;
        if begun && family.to_add_up {
            self.builder.is_delta(shape)?;
        }
        Ok(begun)
    }

    /// Extends the time range of the resource's points, for `target_info`.
    pub(super) fn note_time(&mut self, time_ms: i64) {
        let (first, last) = self.times.unwrap_or((time_ms, time_ms));
        self.times = Some((first.min(time_ms), last.max(time_ms)));
    }
}

struct Shape {
    points: u64,
    temporality: u64,
    monotonic: bool,
}

fn shape(mut data: Reader<'_>) -> Result<Shape, Error> {
    let mut shape = Shape { points: 0, temporality: 0, monotonic: false };
    while let Some(key) = data.key()? {
        match key {
            (2, Wire::Varint) => shape.temporality = data.varint()?,
            (3, Wire::Varint) => shape.monotonic = data.varint()? != 0,
            (field, wire) => {
                shape.points += u64::from(field == 1);
                data.skip(wire)?;
            }
        }
    }
    Ok(shape)
}

fn text(message: Reader<'_>) -> String {
    String::from_utf8_lossy(message.rest()).into_owned()
}

/// Reads a time of a point and converts it to milliseconds.
pub(super) fn time(message: &mut Reader<'_>) -> Result<i64, Error> {
    Ok(milliseconds(message.fixed64()?))
}

/// Formats a number as the value of a label, without an exponent.
pub(super) fn decimal(number: f64) -> String {
    if number.is_infinite() {
        return if number > 0.0 { "+Inf" } else { "-Inf" }.to_owned();
    }
    number.to_string()
}
