//! Aggregation rules: one rule computes one or more series from the points of many.

use std::time::Duration;

use regex::bytes::Regex;

use super::matcher::Matcher;
use super::template::Template;

/// What is computed from the values of an interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Function {
    /// The sum.
    Sum,
    /// The mean.
    Average,
    /// The smallest value.
    Min,
    /// The largest value.
    Max,
    /// The number of values.
    Count,
    /// The value that arrived last.
    Last,
    /// The largest value minus the smallest.
    Delta,
    /// The difference of the values with the newest and the oldest timestamp, per second.
    Derive,
    /// The population variance.
    Variance,
    /// The population standard deviation.
    Deviation,
    /// A quantile from 0 to 1, interpolated between ranks, as carbon computes it.
    Quantile(f64),
    /// A percentile from 0 to 100 by nearest rank, as carbon-c-relay computes it.
    NearestRank(u8),
    /// A percentile from 0 to 100 at rank `p * (n + 1)`, interpolated between ranks, as carbon-relay-ng
    /// computes it.
    Exclusive(f64),
}

/// Which timestamp of an interval the computed point gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Stamp {
    /// The start of the interval.
    #[default]
    Start,
    /// The middle of the interval.
    Middle,
    /// The end of the interval.
    End,
}

/// When the points of an interval are computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Closing {
    /// Once, at this time after the interval's start. Later points are dropped and counted.
    After(Duration),
    /// Periodically, as carbon does, while new values arrived since the last computation.
    Repeated {
        /// Time between two computations.
        every: Duration,
        /// Number of intervals that are kept after they were computed.
        intervals: u32,
    },
}

/// Where computed points are sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// To the stages, from the one with this index on.
    Stage(usize),
    /// To the clusters with these indexes.
    Clusters(Vec<usize>),
}

/// One series that a rule computes.
#[derive(Clone, Debug, PartialEq)]
pub struct Compute {
    /// The aggregation function.
    pub function: Function,
    /// The name of the computed series.
    pub name: Template,
}

/// An aggregation rule.
#[derive(Clone, Debug)]
pub struct Aggregate {
    /// Only names that match are aggregated; they must also match one of `expressions`.
    pub matcher: Matcher,
    /// Expressions over names. Computed names may use the groups of the first one that matches.
    pub expressions: Vec<Regex>,
    /// Length of an interval in seconds, at least 1.
    pub interval: u32,
    /// When an interval is computed.
    pub closing: Closing,
    /// Which timestamp the computed point gets.
    pub stamp: Stamp,
    /// The series to compute.
    pub computes: Vec<Compute>,
    /// Where computed points are sent.
    pub output: Output,
    /// Whether an aggregated point skips the stages that follow.
    pub stops: bool,
}
