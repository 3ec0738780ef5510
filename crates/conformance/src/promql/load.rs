//! Loads series, and converts classic histograms to native histograms with custom bounds.

use std::collections::BTreeMap;
use std::sync::Arc;

use sandur_model::histogram::{Buckets, CUSTOM_SCHEMA};
use sandur_model::{FloatHistogram, Labels};
use sandur_query::MemorySeries;

use super::script::Load;
use super::store::{Accepted, Added, add};
use sandur_promql::series_text::Sample;

/// Loads the series of a command. Returns the samples that were accepted.
pub fn load(store: &mut MemorySeries, load: &Load) -> Result<Accepted, String> {
    let mut accepted = Accepted::new();
    let mut classic: BTreeMap<Labels, BTreeMap<i64, Classic>> = BTreeMap::new();
    for (n, (labels, samples, starts)) in load.series.iter().enumerate() {
        // Of two descriptions of one series, the later one counts.
        if load.series[n + 1..].iter().any(|(later, _, _)| later == labels) {
            continue;
        }
        let mut added = Vec::new();
        for (n, sample) in samples.iter().enumerate() {
            let time = n as i64 * load.gap_ms;
            let start = starts.as_ref().and_then(|starts| starts[n]).map_or(0, |offset| time + offset);
            match sample {
                Sample::Omitted => {}
                Sample::Float(value) => added.push(Added { time, start, value: *value, histogram: None }),
                Sample::Histogram(histogram, _) => {
                    let histogram = Some(Arc::clone(histogram));
                    added.push(Added { time, start, value: 0.0, histogram });
                }
            }
        }
        accepted.push((labels.clone(), add(store, labels, &added)));
        if load.with_nhcb {
            collect(labels, &added, &mut classic);
        }
    }
    for (labels, by_time) in classic {
        let mut added = Vec::new();
        for (time, classic) in by_time {
            let histogram = Some(Arc::new(classic.convert().map_err(|e| format!("{labels}: {e}"))?));
            added.push(Added { time, start: 0, value: 0.0, histogram });
        }
        let kept = add(store, &labels, &added);
        accepted.push((labels, kept));
    }
    Ok(accepted)
}

/// The series values of a classic histogram at one time.
#[derive(Default)]
struct Classic {
    buckets: Vec<(f64, f64)>,
    count: Option<f64>,
    sum: f64,
}

fn collect(labels: &Labels, added: &[Added], classic: &mut BTreeMap<Labels, BTreeMap<i64, Classic>>) {
    let name = labels.get("__name__").unwrap_or_default();
    let (base, part) =
        match ["_bucket", "_count", "_sum"].iter().find_map(|s| Some((name.strip_suffix(s)?, *s))) {
            Some(found) => found,
            None => return,
        };
    let upper = match labels.get("le").unwrap_or_default().parse::<f64>() {
        Ok(upper) if !upper.is_nan() => upper,
        _ if part == "_bucket" => return,
        _ => 0.0,
    };
    let kept = labels.iter().filter(|(n, _)| !matches!(*n, "le" | "__name__"));
    let base = Labels::from_pairs(kept.chain([("__name__", base)]));
    let by_time = classic.entry(base).or_default();
    for sample in added.iter().filter(|sample| sample.histogram.is_none()) {
        let at = by_time.entry(sample.time).or_default();
        match part {
            "_bucket" => at.buckets.push((upper, sample.value)),
            "_count" => at.count = Some(sample.value),
            _ => at.sum = sample.value,
        }
    }
}

impl Classic {
    fn convert(mut self) -> Result<FloatHistogram, String> {
        self.buckets.sort_by(|a, b| a.0.total_cmp(&b.0));
        self.buckets.dedup_by(|a, b| a.0 == b.0);
        let count = self.count.or(self.buckets.last().map(|(_, count)| *count)).unwrap_or(0.0);
        if self.buckets.last().is_none_or(|(upper, _)| *upper != f64::INFINITY) {
            self.buckets.push((f64::INFINITY, count));
        }
        let (mut before, mut indices, mut counts) = (0.0, Vec::new(), Vec::new());
        for (index, (_, cumulative)) in (0i32..).zip(&self.buckets) {
            if *cumulative < before {
                return Err("the count is not cumulative".to_owned());
            }
            indices.push(index);
            counts.push(cumulative - before);
            before = *cumulative;
        }
        if before != count {
            return Err(format!("count {count} differs from that of the last bucket, {before}"));
        }
        let bounds: Vec<f64> =
            self.buckets.iter().map(|(upper, _)| *upper).filter(|u| u.is_finite()).collect();
        let mut made = FloatHistogram {
            schema: CUSTOM_SCHEMA,
            count,
            sum: self.sum,
            positive: Buckets { indices, counts },
            bounds: bounds.into(),
            ..FloatHistogram::default()
        };
        made.compact();
        Ok(made)
    }
}
