//! The syntax tree. Its `Display` text parses to the same tree.
//!
//! Metric expressions link to each other through [`Nested`], which bounds the height and the size of a
//! tree. A chain of binary operators is one node of any length.

use std::fmt;
use std::sync::Arc;

use sandur_base::nesting::{Extent, Nested, Node};
use sandur_model::Matcher;
use sandur_model::go_text::{format_float, format_go_duration, format_prometheus_duration, quote};

use crate::grouping::Grouping;
use crate::range::RangeFunction;
use crate::stage::node::StageNode;
use crate::vector::VectorFunction;

/// A query.
#[derive(Clone, Debug)]
pub enum Expr {
    /// Yields lines.
    Log(LogExpr),
    /// Yields numbers.
    Metric(MetricExpr),
}

/// A selector and the stages that its lines go through.
#[derive(Clone, Debug)]
pub struct LogExpr {
    /// The matchers of the stream selector.
    pub matchers: Vec<Matcher>,
    /// The stages in order.
    pub stages: Vec<Arc<dyn StageNode>>,
}

/// An expression that yields a vector at each instant.
#[derive(Clone, Debug)]
pub enum MetricExpr {
    /// A range aggregation, such as `rate({..}[5m])`.
    Range(Box<RangeAggregation>),
    /// A vector aggregation, such as `sum by (x) (..)`.
    Vector(Nested<VectorAggregation>),
    /// Binary operators, such as `a + b - c`.
    Chain(Nested<Chain>),
    /// A number literal.
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

    /// All range aggregations in it, which are all that it reads.
    pub fn range_aggregations(&self) -> Vec<&RangeAggregation> {
        let mut all = Vec::new();
        self.visit(&mut |expr| {
            if let Self::Range(range) = expr {
                all.push(&**range);
            }
        });
        all
    }

    /// Calls `f` with this expression and each one in it, from left to right.
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
    /// Twice the bytes of its compiled regular expressions: each thread copies their mutable part.
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

    /// All log expressions in it, each with its selector.
    pub fn log_expressions(&self) -> Vec<&LogExpr> {
        match self {
            Self::Log(log) => vec![log],
            Self::Metric(metric) => metric.range_aggregations().into_iter().map(|r| &r.log).collect(),
        }
    }
}

/// A function over the rows in a window.
#[derive(Clone, Debug)]
pub struct RangeAggregation {
    /// The function.
    pub function: &'static RangeFunction,
    /// The parameter of `quantile_over_time`.
    pub parameter: Option<f64>,
    /// The log expression that selects the rows.
    pub log: LogExpr,
    /// The `unwrap` stage, if the values come from a label.
    pub unwrap: Option<Unwrap>,
    /// The length of the window, in nanoseconds.
    pub range_ns: i64,
    /// How far the window is shifted back, in nanoseconds.
    pub offset_ns: i64,
    /// The labels that the result keeps.
    pub grouping: Option<Grouping>,
}

impl RangeAggregation {
    /// Whether one of its templates reads the current time.
    pub fn asks_for_time(&self) -> bool {
        let filters = self.unwrap.iter().flat_map(|unwrap| &unwrap.filters);
        self.log.stages.iter().chain(filters).any(|stage| stage.effect().asks_for_time)
    }
}

/// `| unwrap label` with its conversion and the following filters.
#[derive(Clone, Debug)]
pub struct Unwrap {
    /// The label.
    pub label: String,
    /// The conversion of the label's text to a number.
    pub conversion: Conversion,
    /// The filters after it; they see the `__error__` of the conversion.
    pub filters: Vec<Arc<dyn StageNode>>,
}

/// How the text of a label is converted to a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Conversion {
    /// As a number.
    Float,
    /// `duration(..)`: as a Go duration, in seconds.
    Duration,
    /// `duration_seconds(..)`: the same.
    DurationSeconds,
    /// `bytes(..)`: as a size, in bytes.
    Bytes,
}

/// A function over the vector at each instant.
#[derive(Clone, Debug)]
pub struct VectorAggregation {
    /// The function.
    pub function: &'static VectorFunction,
    /// The parameter of `topk` and similar functions.
    pub parameter: Option<i64>,
    /// The vector.
    pub inner: MetricExpr,
    /// The labels of groups.
    pub grouping: Option<Grouping>,
}

impl Node for VectorAggregation {
    fn children(&self) -> impl Iterator<Item = Extent> {
        std::iter::once(self.inner.extent())
    }
}

/// Binary operators, applied from left to right: `((a + b) - c)`.
#[derive(Clone, Debug)]
pub struct Chain {
    /// The left operand of the first operator.
    pub first: MetricExpr,
    /// The operators, at least one, each with its right operand.
    pub links: Vec<Link>,
}

impl Node for Chain {
    fn children(&self) -> impl Iterator<Item = Extent> {
        std::iter::once(self.first.extent()).chain(self.links.iter().map(|link| link.right.extent()))
    }
}

/// A binary operator and its right operand.
#[derive(Clone, Debug)]
pub struct Link {
    /// The operator.
    pub op: BinaryOp,
    /// Whether a comparison yields 0 or 1 (`bool`) and does not filter.
    pub return_bool: bool,
    /// How series of both sides are matched.
    pub matching: Matching,
    /// The right operand.
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

/// How the series of two vectors are matched.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Matching {
    /// How many series of each side a match may have.
    pub cardinality: Cardinality,
    /// Whether series match on `labels`; if not, on all other labels.
    pub on: bool,
    /// The labels of `on` or `ignoring`.
    pub labels: Vec<String>,
    /// The labels that the result copies from the "one" side.
    pub include: Vec<String>,
    /// Whether `on` or `ignoring` is present in the text.
    pub explicit: bool,
}

/// How many series of each side a match may have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Cardinality {
    /// One series of each side.
    #[default]
    OneToOne,
    /// `group_left`: many series of the left side match one of the right side.
    ManyToOne,
    /// `group_right`: many series of the right side match one of the left side.
    OneToMany,
}

/// `label_replace(v, "dst", "replacement", "src", "regex")`.
#[derive(Clone, Debug)]
pub struct LabelReplace {
    /// The vector.
    pub inner: MetricExpr,
    /// The label that is set.
    pub destination: String,
    /// Its value, with `$1` for a group.
    pub replacement: String,
    /// The label that is matched.
    pub source: String,
    /// The regular expression that must match its complete value.
    pub pattern: String,
    /// The pattern, compiled and anchored.
    pub regex: sandur_model::BoundedRegex,
}

impl Node for LabelReplace {
    fn children(&self) -> impl Iterator<Item = Extent> {
        std::iter::once(self.inner.extent())
    }
}

/// The syntax and the precedence of a binary operator.
pub struct OperatorSpec {
    /// The operator.
    pub op: BinaryOp,
    /// Its text in queries.
    pub text: &'static str,
    /// The precedence; a higher number binds tighter.
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
    /// The operator's entry in the table.
    pub fn spec(self) -> &'static OperatorSpec {
        &OPERATORS[self as usize]
    }

    /// The operator's text in queries.
    pub fn as_str(self) -> &'static str {
        self.spec().text
    }

    /// Whether `a op b op c` is `a op (b op c)`.
    pub fn is_right_associative(self) -> bool {
        self == Self::Power
    }

    /// Whether it is a set operator.
    pub fn is_set(self) -> bool {
        matches!(self, Self::Or | Self::And | Self::Unless)
    }

    /// Whether it is a comparison.
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

/// A matcher with its value quoted as in Go.
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
            // Queries have no literals for these values, so they are written as expressions.
            Self::Literal(value) if value.is_nan() => f.write_str("(1 / 0)"),
            Self::Literal(f64::INFINITY) => f.write_str("(10 ^ 999)"),
            Self::Literal(f64::NEG_INFINITY) => f.write_str("(-1 * 10 ^ 999)"),
            Self::Literal(value) => f.write_str(&format_float(*value)),
            Self::VectorOf(value) => write!(f, "vector({})", format_float(*value)),
            Self::LabelReplace(replace) => replace.fmt(f),
        }
    }
}

/// An offset in Prometheus's form, or in Go's if it has fractions of a millisecond.
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
    /// The name of the conversion function, if there is one.
    pub fn function(self) -> Option<&'static str> {
        match self {
            Self::Float => None,
            Self::Duration => Some("duration"),
            Self::DurationSeconds => Some("duration_seconds"),
            Self::Bytes => Some("bytes"),
        }
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
