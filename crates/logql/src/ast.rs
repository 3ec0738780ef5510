//! The syntax tree. Its text form, by `Display`, parses to the same tree.

use std::fmt;
use std::sync::Arc;

use sandur_model::Matcher;

use crate::range::RangeFunction;
use crate::stage::StageNode;
use crate::units::{format_float, format_prometheus_duration, quote};
use crate::vector::VectorFunction;

/// A query.
#[derive(Clone, Debug)]
pub enum Expr {
    /// Answers lines.
    Log(LogExpr),
    /// Answers numbers.
    Metric(MetricExpr),
}

/// A selector and the stages that its lines go through.
#[derive(Clone, Debug)]
pub struct LogExpr {
    /// Conditions on the stream.
    pub matchers: Vec<Matcher>,
    /// Stages in their order.
    pub stages: Vec<Arc<dyn StageNode>>,
}

/// An expression that has a vector at each instant.
#[derive(Clone, Debug)]
pub enum MetricExpr {
    /// `rate({..}[5m])` and its like.
    Range(Box<RangeAggregation>),
    /// `sum by (x) (..)` and its like.
    Vector(Box<VectorAggregation>),
    /// `a + b` and its like.
    Binary(Box<BinaryExpr>),
    /// A number.
    Literal(f64),
    /// `vector(n)`.
    VectorOf(f64),
    /// `label_replace(..)`.
    LabelReplace(Box<LabelReplace>),
}

impl MetricExpr {
    /// The range aggregations in it, which read all that it reads.
    pub fn range_aggregations(&self) -> Vec<&RangeAggregation> {
        match self {
            Self::Range(range) => vec![range],
            Self::Literal(_) | Self::VectorOf(_) => Vec::new(),
            Self::Vector(vector) => vector.inner.range_aggregations(),
            Self::LabelReplace(replace) => replace.inner.range_aggregations(),
            Self::Binary(binary) => {
                let mut all = binary.left.range_aggregations();
                all.extend(binary.right.range_aggregations());
                all
            }
        }
    }
}

impl Expr {
    /// The log expressions in it, each with its selector.
    pub fn log_expressions(&self) -> Vec<&LogExpr> {
        match self {
            Self::Log(log) => vec![log],
            Self::Metric(metric) => metric.range_aggregations().into_iter().map(|r| &r.log).collect(),
        }
    }
}

/// A function over the rows of a window.
#[derive(Clone, Debug)]
pub struct RangeAggregation {
    /// Which function.
    pub function: &'static RangeFunction,
    /// Its number, as `quantile_over_time` takes one.
    pub parameter: Option<f64>,
    /// The rows.
    pub log: LogExpr,
    /// The label whose value is taken as the number, and what follows it.
    pub unwrap: Option<Unwrap>,
    /// Length of the window in nanoseconds.
    pub range_ns: i64,
    /// How much earlier the window lies, in nanoseconds.
    pub offset_ns: i64,
    /// Which labels the result keeps.
    pub grouping: Option<Grouping>,
}

/// `| unwrap label` with its conversion and the filters behind it.
#[derive(Clone, Debug)]
pub struct Unwrap {
    /// The label.
    pub label: String,
    /// How its text becomes a number.
    pub conversion: Conversion,
    /// Filters behind it; they see `__error__` of the conversion.
    pub filters: Vec<Arc<dyn StageNode>>,
}

/// How a label's text becomes a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Conversion {
    /// A number.
    Float,
    /// A Go duration, in seconds.
    Duration,
    /// The same, under its longer name.
    DurationSeconds,
    /// A size, in bytes.
    Bytes,
}

/// `by (..)` or `without (..)`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grouping {
    /// Whether the labels are the ones to leave out.
    pub without: bool,
    /// The labels.
    pub labels: Vec<String>,
}

/// A function over the vectors of each instant.
#[derive(Clone, Debug)]
pub struct VectorAggregation {
    /// Which function.
    pub function: &'static VectorFunction,
    /// Its number, as `topk` takes one.
    pub parameter: Option<i64>,
    /// Over what.
    pub inner: MetricExpr,
    /// Which series belong together.
    pub grouping: Option<Grouping>,
}

/// Two expressions and an operator.
#[derive(Clone, Debug)]
pub struct BinaryExpr {
    /// The operator.
    pub op: BinaryOp,
    /// Left side.
    pub left: MetricExpr,
    /// Right side.
    pub right: MetricExpr,
    /// Comparisons answer 0 and 1 in place of filtering.
    pub return_bool: bool,
    /// Which series meet.
    pub matching: Matching,
}

/// An operator between two vectors or numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // the names are the operators
pub enum BinaryOp {
    Or,
    And,
    Unless,
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    Add,
    Subtract,
    Multiply,
    Divide,
    Modulo,
    Power,
}

/// Which series of two vectors meet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Matching {
    /// How many series may meet one.
    pub cardinality: Cardinality,
    /// Whether `labels` are the ones to compare; otherwise the ones to ignore.
    pub on: bool,
    /// The labels.
    pub labels: Vec<String>,
    /// Labels taken over from the side with one series.
    pub include: Vec<String>,
    /// Whether `on` or `ignoring` was written at all.
    pub explicit: bool,
}

/// How many series may meet one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Cardinality {
    /// One each.
    #[default]
    OneToOne,
    /// `group_left`: many on the left.
    ManyToOne,
    /// `group_right`: many on the right.
    OneToMany,
}

/// `label_replace(v, "dst", "replacement", "src", "regex")`.
#[derive(Clone, Debug)]
pub struct LabelReplace {
    /// Over what.
    pub inner: MetricExpr,
    /// The label that is set.
    pub destination: String,
    /// Its value, with `$1` for groups.
    pub replacement: String,
    /// The label that is looked at.
    pub source: String,
    /// What its whole value must match.
    pub pattern: String,
    /// The pattern, compiled and anchored.
    pub regex: regex::Regex,
}

impl BinaryOp {
    /// The operator as it is written.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Or => "or",
            Self::And => "and",
            Self::Unless => "unless",
            Self::Equal => "==",
            Self::NotEqual => "!=",
            Self::Less => "<",
            Self::LessOrEqual => "<=",
            Self::Greater => ">",
            Self::GreaterOrEqual => ">=",
            Self::Add => "+",
            Self::Subtract => "-",
            Self::Multiply => "*",
            Self::Divide => "/",
            Self::Modulo => "%",
            Self::Power => "^",
        }
    }

    /// Whether it works on sets of series, not on values.
    pub fn is_set(self) -> bool {
        matches!(self, Self::Or | Self::And | Self::Unless)
    }

    /// Whether it compares values.
    pub fn is_comparison(self) -> bool {
        use BinaryOp::{Equal, Greater, GreaterOrEqual, Less, LessOrEqual, NotEqual};
        matches!(self, Equal | NotEqual | Less | LessOrEqual | Greater | GreaterOrEqual)
    }
}

impl fmt::Display for Expr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Log(log) => log.fmt(f),
            Self::Metric(metric) => metric.fmt(f),
        }
    }
}

impl fmt::Display for LogExpr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("{")?;
        for (n, matcher) in self.matchers.iter().enumerate() {
            let comma = if n == 0 { "" } else { ", " };
            write!(f, "{comma}{}", MatcherText(matcher))?;
        }
        f.write_str("}")?;
        for stage in &self.stages {
            write!(f, " {stage}")?;
        }
        Ok(())
    }
}

/// A matcher with its value quoted as Go does it.
pub struct MatcherText<'a>(pub &'a Matcher);

impl fmt::Display for MatcherText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}{}", self.0.name(), self.0.op().as_str(), quote(self.0.value()))
    }
}

impl fmt::Display for MetricExpr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Range(range) => range.fmt(f),
            Self::Vector(vector) => vector.fmt(f),
            Self::Binary(binary) => binary.fmt(f),
            Self::Literal(value) => f.write_str(&format_float(*value)),
            Self::VectorOf(value) => write!(f, "vector({})", format_float(*value)),
            Self::LabelReplace(replace) => replace.fmt(f),
        }
    }
}

impl fmt::Display for RangeAggregation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}(", self.function.name)?;
        if let Some(parameter) = self.parameter {
            write!(f, "{},", format_float(parameter))?;
        }
        self.log.fmt(f)?;
        if let Some(unwrap) = &self.unwrap {
            write!(f, " {unwrap}")?;
        }
        write!(f, "[{}]", format_prometheus_duration(self.range_ns))?;
        if self.offset_ns != 0 {
            let sign = if self.offset_ns < 0 { "-" } else { "" };
            write!(f, " offset {sign}{}", format_prometheus_duration(self.offset_ns.abs()))?;
        }
        f.write_str(")")?;
        match &self.grouping {
            Some(grouping) => write!(f, " {grouping}"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for Unwrap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.conversion.function() {
            None => write!(f, "| unwrap {}", self.label)?,
            Some(function) => write!(f, "| unwrap {function}({})", self.label)?,
        }
        for filter in &self.filters {
            write!(f, " {filter}")?;
        }
        Ok(())
    }
}

impl Conversion {
    /// The function that names the conversion.
    pub fn function(self) -> Option<&'static str> {
        match self {
            Self::Float => None,
            Self::Duration => Some("duration"),
            Self::DurationSeconds => Some("duration_seconds"),
            Self::Bytes => Some("bytes"),
        }
    }
}

impl fmt::Display for Grouping {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = if self.without { "without" } else { "by" };
        write!(f, "{word} ({})", self.labels.join(","))
    }
}

impl fmt::Display for VectorAggregation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.function.name)?;
        if let Some(grouping) = &self.grouping {
            write!(f, " {grouping} ")?;
        }
        f.write_str("(")?;
        if let Some(parameter) = self.parameter {
            write!(f, "{parameter},")?;
        }
        write!(f, "{})", self.inner)
    }
}

impl fmt::Display for BinaryExpr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "({} {}", self.left, self.op.as_str())?;
        if self.return_bool {
            f.write_str(" bool")?;
        }
        let matching = &self.matching;
        if matching.explicit {
            let word = if matching.on { "on" } else { "ignoring" };
            write!(f, " {word} ({})", matching.labels.join(","))?;
            match matching.cardinality {
                Cardinality::OneToOne => {}
                Cardinality::ManyToOne => write!(f, " group_left ({})", matching.include.join(","))?,
                Cardinality::OneToMany => write!(f, " group_right ({})", matching.include.join(","))?,
            }
        }
        write!(f, " {})", self.right)
    }
}

impl fmt::Display for LabelReplace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let arguments = [&self.destination, &self.replacement, &self.source, &self.pattern];
        write!(f, "label_replace({}", self.inner)?;
        for argument in arguments {
            write!(f, ",{}", quote(argument))?;
        }
        f.write_str(")")
    }
}
