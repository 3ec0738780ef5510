//! The syntax tree. Its text form, by `Display`, parses to the same tree.
//!
//! Links between metric expressions are [`Nested`], so that a tree which is too high or too large cannot be
//! made; operators in a row are one node, whatever their number.

use std::fmt;
use std::sync::Arc;

use sandur_base::nesting::{Extent, Nested, Node};
use sandur_model::Matcher;

use crate::range::RangeFunction;
use crate::stage::StageNode;
use crate::units::{format_float, format_go_duration, format_prometheus_duration, quote};
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
    Vector(Nested<VectorAggregation>),
    /// `a + b - c` and its like.
    Chain(Nested<Chain>),
    /// A number.
    Literal(f64),
    /// `vector(n)`.
    VectorOf(f64),
    /// `label_replace(..)`.
    LabelReplace(Nested<LabelReplace>),
}

impl MetricExpr {
    /// Height and size of the tree.
    pub fn extent(&self) -> Extent {
        match self {
            Self::Range(_) | Self::Literal(_) | Self::VectorOf(_) => Extent::LEAF,
            Self::Vector(vector) => vector.extent(),
            Self::Chain(chain) => chain.extent(),
            Self::LabelReplace(replace) => replace.extent(),
        }
    }

    /// The range aggregations in it, which read all that it reads.
    pub fn range_aggregations(&self) -> Vec<&RangeAggregation> {
        let mut all = Vec::new();
        self.visit(&mut |expr| {
            if let Self::Range(range) = expr {
                all.push(&**range);
            }
        });
        all
    }

    /// Calls `f` with the expression and with each in it, from the left to the right.
    pub fn visit<'a>(&'a self, f: &mut impl FnMut(&'a Self)) {
        f(self);
        match self {
            Self::Range(_) | Self::Literal(_) | Self::VectorOf(_) => {}
            Self::Vector(vector) => vector.inner.visit(f),
            Self::LabelReplace(replace) => replace.inner.visit(f),
            Self::Chain(chain) => {
                chain.first.visit(f);
                chain.links.iter().for_each(|link| link.right.visit(f));
            }
        }
    }
}

impl Expr {
    /// Bytes that its compiled expressions take, twice: each thread has a copy of what changes.
    pub fn memory_bytes(&self) -> u64 {
        let logs = self.log_expressions();
        let of_log = |log: &&LogExpr| {
            let matchers: u64 = log.matchers.iter().map(Matcher::memory_bytes).sum();
            matchers + log.stages.iter().map(|stage| stage.memory_bytes()).sum::<u64>()
        };
        let mut bytes: u64 = logs.iter().map(of_log).sum();
        if let Self::Metric(metric) = self {
            metric.visit(&mut |expr| {
                if let MetricExpr::LabelReplace(replace) = expr {
                    bytes += replace.regex.memory_bytes();
                }
            });
        }
        2 * bytes
    }

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

impl RangeAggregation {
    /// Whether a template of it looks at the time of day.
    pub fn asks_for_time(&self) -> bool {
        let filters = self.unwrap.iter().flat_map(|unwrap| &unwrap.filters);
        self.log.stages.iter().chain(filters).any(|stage| stage.effect().asks_for_time)
    }
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

impl Node for VectorAggregation {
    fn children(&self) -> impl Iterator<Item = Extent> {
        std::iter::once(self.inner.extent())
    }
}

/// Expressions with operators between them, which work from the left to the right: `((a + b) - c)`.
#[derive(Clone, Debug)]
pub struct Chain {
    /// What the first operator has on its left.
    pub first: MetricExpr,
    /// The operators, at least one, each with its right side.
    pub links: Vec<Link>,
}

impl Node for Chain {
    fn children(&self) -> impl Iterator<Item = Extent> {
        std::iter::once(self.first.extent()).chain(self.links.iter().map(|link| link.right.extent()))
    }
}

/// An operator and its right side.
#[derive(Clone, Debug)]
pub struct Link {
    /// The operator.
    pub op: BinaryOp,
    /// Comparisons answer 0 and 1 in place of filtering.
    pub return_bool: bool,
    /// Which series meet.
    pub matching: Matching,
    /// Right side.
    pub right: MetricExpr,
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
    pub regex: sandur_model::BoundedRegex,
}

impl Node for LabelReplace {
    fn children(&self) -> impl Iterator<Item = Extent> {
        std::iter::once(self.inner.extent())
    }
}

/// An operator as it is written, and how strongly it binds.
pub struct OperatorSpec {
    /// The operator.
    pub op: BinaryOp,
    /// As it is written.
    pub text: &'static str,
    /// The operator that binds more strongly than its neighbour takes the operand between them.
    pub strength: u8,
}

const fn operator(op: BinaryOp, text: &'static str, strength: u8) -> OperatorSpec {
    OperatorSpec { op, text, strength }
}

/// Every operator, in the order of [`BinaryOp`].
pub const OPERATORS: &[OperatorSpec] = &[
    operator(BinaryOp::Or, "or", 1),
    operator(BinaryOp::And, "and", 2),
    operator(BinaryOp::Unless, "unless", 2),
    operator(BinaryOp::Equal, "==", 3),
    operator(BinaryOp::NotEqual, "!=", 3),
    operator(BinaryOp::Less, "<", 3),
    operator(BinaryOp::LessOrEqual, "<=", 3),
    operator(BinaryOp::Greater, ">", 3),
    operator(BinaryOp::GreaterOrEqual, ">=", 3),
    operator(BinaryOp::Add, "+", 4),
    operator(BinaryOp::Subtract, "-", 4),
    operator(BinaryOp::Multiply, "*", 5),
    operator(BinaryOp::Divide, "/", 5),
    operator(BinaryOp::Modulo, "%", 5),
    operator(BinaryOp::Power, "^", 6),
];

impl BinaryOp {
    /// The operator's line of the table.
    pub fn spec(self) -> &'static OperatorSpec {
        &OPERATORS[self as usize]
    }

    /// The operator as it is written.
    pub fn as_str(self) -> &'static str {
        self.spec().text
    }

    /// Whether `a op b op c` is `a op (b op c)`.
    pub fn is_right_associative(self) -> bool {
        self == Self::Power
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
            Self::Chain(chain) => chain.fmt(f),
            // A query has no word for these numbers: it says how to get them.
            Self::Literal(value) if value.is_nan() => f.write_str("(1 / 0)"),
            Self::Literal(f64::INFINITY) => f.write_str("(10 ^ 999)"),
            Self::Literal(f64::NEG_INFINITY) => f.write_str("(-1 * 10 ^ 999)"),
            Self::Literal(value) => f.write_str(&format_float(*value)),
            Self::VectorOf(value) => write!(f, "vector({})", format_float(*value)),
            Self::LabelReplace(replace) => replace.fmt(f),
        }
    }
}

/// An offset as Prometheus writes it, or as Go does when there are parts of a millisecond.
pub fn offset_text(offset_ns: i64) -> String {
    match offset_ns % 1_000_000 {
        0 => format_prometheus_duration(offset_ns),
        _ => format_go_duration(offset_ns),
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
            write!(f, " offset {}", offset_text(self.offset_ns))?;
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

impl fmt::Display for Chain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (0..self.links.len()).try_for_each(|_| f.write_str("("))?;
        self.first.fmt(f)?;
        self.links.iter().try_for_each(|link| write!(f, " {link})"))
    }
}

impl fmt::Display for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.op.as_str())?;
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
        write!(f, " {}", self.right)
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
