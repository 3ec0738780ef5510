//! A rule that makes one series of many.

use std::time::Duration;

use regex::bytes::Regex;

use super::matcher::Matcher;
use super::template::Template;

/// What is computed of the values of an interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Function {
    /// The sum.
    Sum,
    /// The mean.
    Average,
    /// The smallest.
    Min,
    /// The largest.
    Max,
    /// How many.
    Count,
    /// The last to arrive.
    Last,
    /// The largest less the smallest.
    Delta,
    /// The difference of the values with the newest and the oldest timestamp, per second.
    Derive,
    /// The variance of the whole.
    Variance,
    /// The standard deviation of the whole.
    Deviation,
    /// A quantile between ranks, of 0 to 1: carbon's.
    Quantile(f64),
    /// A percentile by nearest rank: carbon-c-relay's.
    NearestRank(u8),
    /// A percentile by the rank of one value more, between ranks: carbon-relay-ng's.
    Exclusive(f64),
}

/// Where in an interval the computed point stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Stamp {
    /// At its start.
    #[default]
    Start,
    /// In its middle.
    Middle,
    /// At its end.
    End,
}

/// When an interval is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Closing {
    /// Once, so long after its start; what comes later is dropped and counted.
    After(Duration),
    /// Every so long while values came since, and kept for so many intervals: carbon.
    Repeated {
        /// Time between two computations.
        every: Duration,
        /// Intervals that are kept after they were computed.
        intervals: u32,
    },
}

/// Where computed points go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// To the stages from this one on.
    Stage(usize),
    /// To clusters.
    Clusters(Vec<usize>),
}

/// One series that is computed.
#[derive(Clone, Debug, PartialEq)]
pub struct Compute {
    /// How.
    pub function: Function,
    /// Its name.
    pub name: Template,
}

/// Makes one series of many.
#[derive(Clone, Debug)]
pub struct Aggregate {
    /// Names it is for, beside the expressions.
    pub matcher: Matcher,
    /// Expressions of names, whose groups the computed names may use; the first that matches counts.
    pub expressions: Vec<Regex>,
    /// Length of an interval in seconds, at least 1.
    pub interval: u32,
    /// When intervals are computed.
    pub closing: Closing,
    /// Where the computed point stands.
    pub stamp: Stamp,
    /// What is computed.
    pub computes: Vec<Compute>,
    /// Where it goes.
    pub output: Output,
    /// Whether points that were taken go no further.
    pub stops: bool,
}
