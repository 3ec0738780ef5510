//! Finds the series of a Pushgateway group that have not ended.
//!
//! No state is kept between pushes, so the series are searched among the samples of the last minutes.
//! Every push writes all its samples with one timestamp, and also `push_time_seconds` with only the
//! labels of the group. The timestamps of that series are therefore those of the pushes to the group. **A
//! series belongs to the group if it has all labels of the group and its last sample has the timestamp of
//! a push to the group.** Series with the same labels that were scraped or sent otherwise have other
//! timestamps. If a group with more labels, all of which the series has, was pushed in the same
//! millisecond, the series belongs to that group.

use std::collections::{BTreeMap, BTreeSet};

use sandur_memory::Reservation;
use sandur_model::{Labels, MatchOp, Matcher, is_stale};
use sandur_query::{Error, QueryContext, SampleSelection, SampleSource, Samples};

/// Metric with the time of the last successful push; it has only the labels of the group.
pub const PUSH_TIME: &str = "push_time_seconds";
/// Metric with the time of the last refused push.
pub const FAILURE_TIME: &str = "push_failure_time_seconds";
/// The label with the name of the metric.
pub const NAME: &str = "__name__";

/// Bytes of a series in addition to its strings, and of the timestamp of a push.
const SERIES_BYTES: u64 = 128;
const TIME_BYTES: u64 = 16;

/// A group as the samples of the last minutes show it.
pub struct Group {
    /// Its series that have not ended, without the two metrics of the group itself.
    pub series: Vec<Labels>,
    /// Last value of `push_time_seconds`, unless it has ended.
    pub push_time: Option<f64>,
    /// Last value of `push_failure_time_seconds`, unless it has ended.
    pub failure_time: Option<f64>,
    /// Timestamp of its last sample, milliseconds.
    pub last_ms: Option<i64>,
    /// Memory of the series.
    _memory: Reservation,
}

/// A series that may belong to the group.
struct Candidate {
    labels: Labels,
    /// Timestamp of its last sample, which is not a stale marker.
    time_ms: i64,
}

/// What was read of the series that have all labels of the group.
struct Found {
    candidates: Vec<Candidate>,
    /// Timestamps of pushes, by the labels of the group that was pushed to.
    pushes: BTreeMap<Labels, BTreeSet<i64>>,
    /// Last values of the two metrics of each group.
    times: BTreeMap<Labels, f64>,
    last_ms: Option<i64>,
    memory: Reservation,
}

/// Finds the group with these labels, from samples between two timestamps (milliseconds, inclusive).
pub async fn find(
    source: &dyn SampleSource,
    context: &QueryContext,
    group: &BTreeMap<String, String>,
    (first_ms, last_ms): (i64, i64),
) -> Result<Group, Error> {
    let matchers =
        group.iter().map(|(name, value)| Matcher::new(name.clone(), MatchOp::Equal, value.clone()));
    let matchers =
        matchers.collect::<Result<Vec<_>, _>>().map_err(|error| Error::Invalid(error.to_string()))?;
    let mut found = Found {
        candidates: Vec::new(),
        pushes: BTreeMap::new(),
        times: BTreeMap::new(),
        last_ms: None,
        memory: context.budget().reserve(0)?,
    };
    let mut scan = source.select(context, SampleSelection::all(matchers, first_ms, last_ms)).await?;
    while let Some(batch) = scan.next().await? {
        context.check()?;
        for (n, samples) in batch.samples.iter().enumerate() {
            found.add(Labels::from_pairs(batch.pairs(n)), samples, (first_ms, last_ms))?;
        }
    }
    Ok(found.of(&Labels::from_pairs(group.iter().map(|(name, value)| (name.as_str(), value.as_str())))))
}

impl Found {
    fn add(&mut self, labels: Labels, samples: &Samples, within: (i64, i64)) -> Result<(), Error> {
        let Some(name) = labels.get(NAME) else { return Ok(()) };
        let is_own = name == PUSH_TIME || name == FAILURE_TIME;
        let is_push_time = name == PUSH_TIME;
        let times = || samples.times.iter().copied().filter(|time| (within.0..=within.1).contains(time));
        let last = times().next_back();
        self.last_ms = self.last_ms.max(last);
        let at = samples.times.partition_point(|time| *time <= within.1).checked_sub(1);
        let last_value = last.and(at).and_then(|at| samples.values.get(at).copied());
        let histogram = samples.histogram_times.last().copied();
        self.memory.grow(2 * labels.text_bytes() as u64 + SERIES_BYTES)?;
        if is_push_time {
            self.memory.grow(times().count() as u64 * TIME_BYTES)?;
            self.pushes.insert(without_name(&labels), times().collect());
        }
        let Some(value) = last_value.filter(|value| !is_stale(*value)) else { return Ok(()) };
        let Some(time_ms) = last.filter(|last| histogram.is_none_or(|histogram| histogram <= *last)) else {
            return Ok(());
        };
        match is_own {
            true => drop(self.times.insert(labels, value)),
            false => self.candidates.push(Candidate { labels, time_ms }),
        }
        Ok(())
    }

    fn of(self, group: &Labels) -> Group {
        let Self { candidates, pushes, times, last_ms, memory } = self;
        let own = pushes.get(group);
        let mut larger: BTreeMap<i64, Vec<&Labels>> = BTreeMap::new();
        for (labels, times) in pushes.iter().filter(|(labels, _)| labels.len() > group.len()) {
            times.iter().for_each(|time| larger.entry(*time).or_default().push(labels));
        }
        let is_member = |candidate: &Candidate| {
            let has = |(name, value)| candidate.labels.get(name) == Some(value);
            let of_larger =
                || larger.get(&candidate.time_ms).into_iter().flatten().any(|l| l.iter().all(has));
            own.is_some_and(|times| times.contains(&candidate.time_ms)) && !of_larger()
        };
        let series = candidates.iter().filter(|candidate| is_member(candidate));
        let series = series.map(|candidate| candidate.labels.clone()).collect();
        let time = |name| times.get(&with_name(group, name)).copied();
        let (push_time, failure_time) = (time(PUSH_TIME), time(FAILURE_TIME));
        Group { series, push_time, failure_time, last_ms, _memory: memory }
    }
}

/// The labels of a group with the name of a metric.
pub fn with_name(group: &Labels, name: &str) -> Labels {
    Labels::from_pairs(group.iter().chain([(NAME, name)]))
}

fn without_name(labels: &Labels) -> Labels {
    Labels::from_pairs(labels.iter().filter(|(name, _)| *name != NAME))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use sandur_memory::MemoryBudget;
    use sandur_model::{STALE_BITS, TenantId};
    use sandur_query::MemorySeries;
    use sandur_runtime::Env;

    use super::*;

    fn source(series: &[(&[(&str, &str)], &[(i64, f64)])]) -> MemorySeries {
        let mut source = MemorySeries::default();
        for (labels, samples) in series {
            source.edit(&Labels::from_pairs(labels.iter().copied()), |into| {
                into.times.extend(samples.iter().map(|(time, _)| *time));
                into.values.extend(samples.iter().map(|(_, value)| *value));
            });
        }
        source
    }

    async fn group(source: MemorySeries, labels: &[(&str, &str)], budget: u64) -> Result<Group, Error> {
        let env = Env::simulated(1, 0);
        let budget = MemoryBudget::root("query", budget);
        let context = QueryContext::new(env, TenantId::default_tenant(), budget, Duration::from_secs(9));
        let labels = labels.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        find(&source, &context, &labels, (100, 1_000)).await
    }

    const NO_LABELS: &[(&str, &str)] = &[];

    fn names(group: &Group) -> Vec<&str> {
        let mut names: Vec<&str> = group.series.iter().filter_map(|labels| labels.get(NAME)).collect();
        names.sort_unstable();
        names
    }

    #[tokio::test]
    async fn a_series_belongs_to_the_group_whose_push_wrote_it_last() {
        let end = f64::from_bits(STALE_BITS);
        let job = ("job", "a");
        let all = || {
            source(&[
                (&[(NAME, PUSH_TIME), job], &[(200, 0.2), (300, 0.3), (500, 0.5)]),
                (&[(NAME, FAILURE_TIME), job], &[(500, 0.4)]),
                (&[(NAME, PUSH_TIME), job, ("x", "1")], &[(300, 0.3), (400, 0.4)]),
                (&[(NAME, "old"), job], &[(200, 1.0)]),
                (&[(NAME, "last"), job, ("y", "2")], &[(200, 1.0), (500, 1.0)]),
                (&[(NAME, "ended"), job], &[(200, 1.0), (500, end)]),
                (&[(NAME, "scraped"), job], &[(200, 1.0), (501, 1.0)]),
                (&[(NAME, "before"), job], &[(50, 1.0)]),
                (&[(NAME, "of_x"), job, ("x", "1")], &[(400, 1.0)]),
                (&[(NAME, "of_x_too"), job, ("x", "1"), ("z", "1")], &[(300, 1.0)]),
                (&[(NAME, "own_x"), job, ("x", "1")], &[(500, 1.0)]),
                (&[(NAME, "other"), ("job", "b")], &[(500, 1.0)]),
            ])
        };
        let of_job = group(all(), &[job], 1 << 20).await.unwrap();
        assert_eq!(names(&of_job), ["last", "old", "own_x"]);
        assert_eq!(
            (of_job.push_time, of_job.failure_time, of_job.last_ms),
            (Some(0.5), Some(0.4), Some(501))
        );
        let of_x = group(all(), &[job, ("x", "1")], 1 << 20).await.unwrap();
        assert_eq!((names(&of_x), of_x.failure_time), (vec!["of_x", "of_x_too"], None));
        let without = group(all(), &[job, ("x", "")], 1 << 20).await.unwrap();
        assert_eq!(names(&without), ["last", "old"], "series must not have a label with an empty value");
        let unknown = group(all(), &[job, ("x", "2")], 1 << 20).await.unwrap();
        assert!(unknown.series.is_empty() && unknown.push_time.is_none() && unknown.last_ms.is_none());
        let none = group(source(&[(NO_LABELS, &[(500, 1.0)])]), &[job], 1 << 20).await.unwrap();
        assert!(none.series.is_empty());
    }

    #[tokio::test]
    async fn series_are_reserved_from_the_budget() {
        let names: Vec<String> = (0..1_000).map(|n| format!("m{n}")).collect();
        let labels: Vec<[(&str, &str); 2]> =
            names.iter().map(|name| [(NAME, name.as_str()), ("job", "a")]).collect();
        let series: Vec<(&[(&str, &str)], &[(i64, f64)])> =
            labels.iter().map(|labels| (&labels[..], &[(500, 1.0)][..])).collect();
        let short = group(source(&series), &[("job", "a")], 20 << 10).await;
        assert!(matches!(short, Err(Error::OverBudget(_))));
    }
}
