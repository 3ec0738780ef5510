//! The samples of one series for functions over windows, without stale markers.

use std::sync::Arc;

use sandur_memory::Stopped;
use sandur_memory::job::spend;
use sandur_model::{FloatHistogram, is_stale};
use sandur_query::{SampleSelection, Samples};

use crate::column::{Column, Grid};
use crate::run::{LeafId, Run, Scratch};

/// The bytes of a copied sample: timestamp, value or histogram, start timestamp. A growing list has room
/// for twice that.
const SAMPLE_BYTES: usize = 48;

/// The samples of one series. Stale markers are absent after [`Self::cleaned`].
pub enum Points {
    /// As stored, possibly with stale markers.
    Raw(Arc<Samples>),
    /// As stored, without stale markers.
    Stored(Arc<Samples>),
    /// A copy, without stale markers.
    Own(Samples),
}

impl Points {
    /// Stored samples, which are copied only if there are stale markers among them.
    pub fn of_samples(samples: &Arc<Samples>, scratch: &mut Scratch) -> Result<Self, Stopped> {
        let (floats, histograms) = (samples.times.len(), samples.histogram_times.len());
        spend(16 + floats / 4 + histograms)?;
        let stale_float = has_stale(&samples.values);
        let stale_histogram = samples.histograms.iter().any(|histogram| is_stale(histogram.sum));
        if !stale_float && !stale_histogram {
            return Ok(Self::Stored(Arc::clone(samples)));
        }
        spend((floats + histograms) * 4)?;
        scratch.add(((floats + histograms) * SAMPLE_BYTES) as u64)?;
        let (mut own, mut times) = (Samples::default(), Vec::new());
        for (n, value) in samples.values.iter().enumerate().filter(|(_, value)| !is_stale(**value)) {
            times.push(samples.times[n]);
            own.values.push(*value);
            own.starts.extend(samples.starts.get(n));
        }
        own.times = times.into();
        for (n, histogram) in samples.histograms.iter().enumerate().filter(|(_, h)| !is_stale(h.sum)) {
            own.histogram_times.push(samples.histogram_times[n]);
            own.histograms.push(Arc::clone(histogram));
            own.histogram_starts.extend(samples.histogram_starts.get(n));
        }
        Ok(Self::Own(own))
    }

    /// The result of a subquery. The counter reset hints of stored histograms are dropped: they do not hold
    /// between these samples.
    pub fn of_column(column: &Column, grid: &Grid, scratch: &mut Scratch) -> Result<Self, Stopped> {
        use sandur_model::histogram::CounterReset;
        let (count, bytes) = (column.count(), column.histogram_bytes());
        spend(grid.steps / 64 + count * 4 + bytes as usize)?;
        scratch.add((count * SAMPLE_BYTES) as u64 + bytes)?;
        let (mut own, mut times) = (Samples::default(), Vec::with_capacity(count));
        for step in column.steps() {
            let time = grid.time(step);
            match column.histogram(step) {
                None => {
                    times.push(time);
                    own.values.push(column.values[step]);
                }
                Some(histogram) => {
                    let mut histogram = Arc::clone(histogram);
                    if matches!(histogram.reset, CounterReset::Reset | CounterReset::NotReset) {
                        let plain = FloatHistogram { reset: CounterReset::Unknown, ..(*histogram).clone() };
                        histogram = Arc::new(plain);
                    }
                    own.histogram_times.push(time);
                    own.histograms.push(histogram);
                }
            }
        }
        own.times = times.into();
        Ok(Self::Own(own))
    }

    /// The samples without stale markers.
    pub fn cleaned(self, scratch: &mut Scratch) -> Result<Self, Stopped> {
        match self {
            Self::Raw(samples) => Self::of_samples(&samples, scratch),
            clean => Ok(clean),
        }
    }

    /// The samples.
    pub fn get(&self) -> &Samples {
        match self {
            Self::Raw(samples) | Self::Stored(samples) => samples,
            Self::Own(samples) => samples,
        }
    }
}

/// Whether there is a stale marker among the values.
pub fn has_stale(values: &[f64]) -> bool {
    // Pieces are tested without a branch for each value.
    let of_piece = |piece: &[f64]| piece.iter().fold(false, |stale, value| stale | is_stale(*value));
    values.chunks(256).any(of_piece)
}

/// The samples of a stored series as the query reads them: without buckets if it does not read buckets.
pub fn looked_at(
    run: &Run,
    LeafId(n): LeafId,
    samples: &Arc<Samples>,
    scratch: &mut Scratch,
) -> Result<Arc<Samples>, Stopped> {
    let SampleSelection { first_ms, last_ms, statistics_only, .. } = run.leaves[n].query;
    match statistics_only {
        true => statistics_of(samples, (first_ms, last_ms), scratch),
        false => Ok(Arc::clone(samples)),
    }
}

/// The samples between two times, inclusive, with histograms reduced to count and sum, for functions that
/// read only these. Each histogram has a hint whether the counter was reset before it; the first one's hint
/// is unchanged.
fn statistics_of(
    samples: &Arc<Samples>,
    (first_ms, last_ms): (i64, i64),
    scratch: &mut Scratch,
) -> Result<Arc<Samples>, Stopped> {
    use sandur_model::histogram::CounterReset;
    if samples.histograms.is_empty() {
        return Ok(Arc::clone(samples));
    }
    let bytes = samples.histograms.len() * (SAMPLE_BYTES + size_of::<FloatHistogram>());
    scratch.add((bytes + samples.times.len() * SAMPLE_BYTES) as u64)?;
    let mut own = Samples {
        times: samples.times.clone(),
        values: samples.values.clone(),
        starts: samples.starts.clone(),
        ..Samples::default()
    };
    let mut last: Option<&FloatHistogram> = None;
    for (n, time) in samples.histogram_times.iter().enumerate() {
        if !(first_ms..=last_ms).contains(time) {
            continue;
        }
        let histogram = &samples.histograms[n];
        spend(histogram.memory_bytes() as usize)?;
        let reset = match (histogram.reset, last) {
            (CounterReset::Unknown, Some(last)) if !is_stale(histogram.sum) => {
                if histogram.detect_reset(last) { CounterReset::Reset } else { CounterReset::NotReset }
            }
            (known, _) => known,
        };
        if !is_stale(histogram.sum) {
            last = Some(histogram);
        }
        let (schema, count, sum) = (histogram.schema, histogram.count, histogram.sum);
        own.histogram_times.push(*time);
        own.histograms.push(Arc::new(FloatHistogram {
            reset,
            schema,
            count,
            sum,
            ..FloatHistogram::default()
        }));
        own.histogram_starts.extend(samples.histogram_starts.get(n));
    }
    Ok(Arc::new(own))
}
