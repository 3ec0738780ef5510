//! How long rows are kept, as data.
//!
//! A dataset has a period, and may have rules. The first rule that names a series decides how long it is
//! kept, otherwise its labels do ([`LabelRetention`]), otherwise the period of the dataset. An
//! [`Expiry`] is the retention of a dataset at one moment: it decides which blocks and series are past
//! their periods.

use std::fmt;
use std::sync::Arc;

use sandur_format::catalog_entry::BlockMeta;
use sandur_model::{Labels, Matcher, RetentionRules};
use xxhash_rust::xxh3::Xxh3;

/// A period that never ends.
const FOR_EVER: i64 = i64::MAX;

/// How long the rows of a dataset are kept.
#[derive(Clone, Default)]
pub struct Retention {
    /// The period of series without any other one, in nanoseconds; 0 means forever.
    pub period_ns: i64,
    /// The periods of series that selectors name.
    pub rules: RetentionRules,
    /// The periods of series that no selector names, by their labels.
    pub of_labels: Option<Arc<dyn LabelRetention>>,
}

/// Retention of series that their labels decide.
pub trait LabelRetention: Send + Sync {
    /// Changes whenever a result of the other functions changes.
    fn version(&self) -> u64;

    /// Every period that a series may have, in nanoseconds.
    fn periods_ns(&self) -> &[i64];

    /// Only series that match one of these lists have a period.
    fn any_of(&self) -> Vec<Vec<Matcher>>;

    /// The period of a series in nanoseconds, if it has one.
    fn period_ns(&self, labels: &Labels) -> Option<i64>;
}

impl Retention {
    /// Keeps every row for this time, in nanoseconds; 0 means forever.
    pub fn uniform(period_ns: i64) -> Self {
        Self { period_ns, ..Self::default() }
    }

    pub(crate) fn is_uniform(&self) -> bool {
        self.rules.is_empty() && self.of_labels.is_none()
    }

    /// Every period that a series may have, in nanoseconds, ascending.
    fn periods_ns(&self) -> Vec<i64> {
        let of_labels = self.of_labels.iter().flat_map(|of_labels| of_labels.periods_ns().iter().copied());
        let of_rules = self.rules.iter().map(|rule| rule.period_ns());
        let mut all: Vec<i64> = of_rules.chain(of_labels).chain([self.period_ns]).map(or_for_ever).collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    /// How long a series is kept, in nanoseconds.
    fn of(&self, labels: &Labels) -> i64 {
        let of_labels = || self.of_labels.as_ref()?.period_ns(labels);
        let of_rule = self.rules.of(labels).map(|rule| rule.period_ns());
        or_for_ever(of_rule.or_else(of_labels).unwrap_or(self.period_ns))
    }

    /// A hash that differs when other series are kept, or for other times.
    fn version(&self) -> u64 {
        let mut hash = Xxh3::new();
        hash.update(&self.period_ns.to_le_bytes());
        for rule in self.rules.iter() {
            hash.update(&(rule.selector().len() as u64).to_le_bytes());
            hash.update(rule.selector().as_bytes());
            hash.update(&rule.priority().to_le_bytes());
            hash.update(&rule.period_ns().to_le_bytes());
        }
        if let Some(of_labels) = &self.of_labels {
            hash.update(&of_labels.version().to_le_bytes());
        }
        hash.digest()
    }
}

impl fmt::Debug for Retention {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut fields = f.debug_struct("Retention");
        fields.field("period_ns", &self.period_ns).field("rules", &self.rules.len()).finish_non_exhaustive()
    }
}

fn or_for_ever(period_ns: i64) -> i64 {
    if period_ns <= 0 { FOR_EVER } else { period_ns }
}

/// The retention of a dataset at one moment.
#[derive(Debug)]
pub(crate) struct Expiry {
    retention: Retention,
    pub(crate) version: u64,
    now_ns: i64,
    /// Ascending.
    periods_ns: Vec<i64>,
}

impl Expiry {
    pub(crate) fn new(retention: Retention, now_ns: i64) -> Self {
        let (version, periods_ns) = (retention.version(), retention.periods_ns());
        Self { retention, version, now_ns, periods_ns }
    }

    /// Whether rows with this period are past it, if the newest of them has this time.
    pub(crate) fn is_over(&self, period_ns: i64, newest_ns: i64) -> bool {
        period_ns != FOR_EVER && newest_ns < self.now_ns.saturating_sub(period_ns)
    }

    /// Does the same for series that only the dataset's period concerns.
    pub(crate) fn is_over_for_others(&self, newest_ns: i64) -> bool {
        self.is_over(or_for_ever(self.retention.period_ns), newest_ns)
    }

    /// How many of the periods are over for a block, the shortest first.
    fn over(&self, block: &BlockMeta) -> usize {
        self.periods_ns.partition_point(|period_ns| self.is_over(*period_ns, block.max_ts))
    }

    /// Whether a period is over for the first of these instants but not for the last one.
    pub(crate) fn ends_between(&self, first_ns: i64, last_ns: i64) -> bool {
        self.periods_ns
            .iter()
            .any(|period| self.is_over(*period, first_ns) && !self.is_over(*period, last_ns))
    }

    /// Whether every row of a block is past its period, in whatever series it is.
    pub(crate) fn ends_block(&self, block: &BlockMeta) -> bool {
        self.over(block) == self.periods_ns.len()
    }

    /// Whether series of a block may be past their own periods.
    pub(crate) fn may_end_series(&self, block: &BlockMeta) -> bool {
        self.over(block) > 0 && !self.retention.is_uniform()
    }

    /// Identifies the set of series of a block that are past their periods; `None` if no series can be,
    /// or all are.
    pub(crate) fn set_of(&self, block: &BlockMeta) -> Option<ExpiredPeriods> {
        let over = self.over(block);
        let is_part = self.may_end_series(block) && over < self.periods_ns.len();
        is_part.then_some(ExpiredPeriods { version: self.version, over })
    }

    /// Whether an exemplar or metadata of a series, if this time is its newest, is past the series' period.
    pub(crate) fn ends(&self, labels: &Labels, newest_ns: i64) -> bool {
        self.is_over(self.retention.of(labels), newest_ns)
    }

    pub(crate) fn retention(&self) -> &Retention {
        &self.retention
    }
}

/// Identifies which periods are over for a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ExpiredPeriods {
    version: u64,
    over: usize,
}
