//! The syntax tree. Its `Display` text parses to the same tree.
//!
//! Nodes link to each other through [`Nested`], which bounds the height and the size of a tree.

use sandur_base::nesting::{Extent, Nested, Node, TooNested};
use sandur_model::Matcher;

use crate::functions::Function;
use crate::span::Span;
use crate::timing::Extension;
use crate::token::Kind;
use crate::value_type::Type;

/// An expression.
#[derive(Clone, Debug)]
pub enum Expr {
    /// `1`, `5m`
    Number(Box<Number>),
    /// `"text"`
    String(Box<StringLiteral>),
    /// `a{b="c"}`
    Selector(Box<Selector>),
    /// `a[5m]`
    Matrix(Box<MatrixSelector>),
    /// `a[5m:1m]`
    Subquery(Box<Subquery>),
    /// `(a)`
    Paren(Box<Paren>),
    /// `-a`
    Unary(Box<Unary>),
    /// `a + b - c`
    Chain(Box<Chain>),
    /// `rate(a[5m])`
    Call(Box<Call>),
    /// `sum(a)`
    Aggregate(Box<Aggregate>),
}

/// One operand of another expression.
#[derive(Clone, Debug)]
pub struct Operand(pub Expr);

/// The operands of another expression.
#[derive(Clone, Debug)]
pub struct Operands(pub Vec<Expr>);

impl Node for Operand {
    fn children(&self) -> impl Iterator<Item = Extent> {
        std::iter::once(self.0.extent())
    }
}

impl Node for Operands {
    fn children(&self) -> impl Iterator<Item = Extent> {
        self.0.iter().map(Expr::extent)
    }
}

/// A number literal.
#[derive(Clone, Copy, Debug)]
pub struct Number {
    /// The value; of a duration, its seconds.
    pub value: f64,
    /// Whether it was written as a duration.
    pub is_duration: bool,
    /// Its place in the query.
    pub span: Span,
}

/// A string literal.
#[derive(Clone, Debug)]
pub struct StringLiteral {
    /// The content without quotes; bytes that are not UTF-8 are replaced.
    pub value: String,
    /// The content's bytes, if they are not UTF-8.
    pub bytes: Option<Box<[u8]>>,
    /// Its place in the query.
    pub span: Span,
}

impl std::fmt::Display for StringLiteral {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.bytes {
            Some(bytes) => f.write_str(&crate::text::quote_bytes(bytes)),
            None => f.write_str(&crate::text::quote(&self.value)),
        }
    }
}

/// The argument of the `@` modifier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum At {
    /// Milliseconds since the epoch.
    Time(i64),
    /// The first step of the query.
    Start,
    /// The last step of the query.
    End,
}

/// The argument of `offset`: nanoseconds, or an expression for them.
#[derive(Clone, Debug)]
pub enum Offset {
    /// Nanoseconds.
    Fixed(i64),
    /// Computed when the query's times are known.
    Expr(Box<DurationExpr>),
}

/// A duration: nanoseconds, or an expression for them.
#[derive(Clone, Debug)]
pub enum Length {
    /// Nanoseconds.
    Fixed(i64),
    /// Computed when the query's times are known.
    Expr(Box<DurationExpr>),
}

/// A selector of the samples at an instant.
#[derive(Clone, Debug)]
pub struct Selector {
    /// The metric's name, if it stands before the braces; else empty.
    pub name: String,
    /// The conditions; the one on the name comes last.
    pub matchers: Vec<Matcher>,
    /// How far it looks back from the evaluation time.
    pub offset: Offset,
    /// The evaluation time, if it is not that of the step.
    pub at: Option<At>,
    /// How a window treats the samples around it.
    pub extension: Extension,
    /// Whether it is only a list of labels: the second argument of `info`.
    pub is_label_list: bool,
    /// Its place in the query.
    pub span: Span,
}

/// A selector of the samples in a window.
#[derive(Clone, Debug)]
pub struct MatrixSelector {
    /// The series.
    pub selector: Selector,
    /// The length of the window.
    pub range: Length,
    /// The byte offset of its end in the query's text, exclusive.
    pub end: u32,
}

/// An expression that is evaluated repeatedly over a window.
#[derive(Clone, Debug)]
pub struct Subquery {
    /// The expression.
    pub inner: Nested<Operand>,
    /// The length of the window.
    pub range: Length,
    /// The time between two evaluations; `None` is the default step.
    pub step: Option<Length>,
    /// How far it looks back from the evaluation time.
    pub offset: Offset,
    /// The evaluation time, if it is not that of the step.
    pub at: Option<At>,
    /// The byte offset of its end in the query's text, exclusive.
    pub end: u32,
}

/// An expression in parentheses.
#[derive(Clone, Debug)]
pub struct Paren {
    /// The expression in them.
    pub inner: Nested<Operand>,
    /// Its place in the query.
    pub span: Span,
}

/// A unary plus or minus and its operand.
#[derive(Clone, Debug)]
pub struct Unary {
    /// Whether it is a minus.
    pub negate: bool,
    /// The operand.
    pub inner: Nested<Operand>,
    /// The byte offset of the sign in the query's text.
    pub start: u32,
}

/// How many series of each side a match may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cardinality {
    /// One series of each side.
    OneToOne,
    /// Several series of the left side match one of the right side.
    ManyToOne,
    /// Several series of the right side match one of the left side.
    OneToMany,
    /// Any number on both sides, for the set operators.
    ManyToMany,
}

impl Cardinality {
    /// The name in the JSON form of syntax trees.
    pub fn name(self) -> &'static str {
        match self {
            Self::OneToOne => "one-to-one",
            Self::ManyToOne => "many-to-one",
            Self::OneToMany => "one-to-many",
            Self::ManyToMany => "many-to-many",
        }
    }
}

/// How the series of both sides of an operator are matched.
#[derive(Clone, Debug)]
pub struct Matching {
    /// How many series of each side a match may have.
    pub cardinality: Cardinality,
    /// The labels of `on` or `ignoring`.
    pub labels: Vec<String>,
    /// Whether series match on these labels (`on`), not on all others (`ignoring`).
    pub on: bool,
    /// The labels of `group_left` or `group_right`: copied from the "one" side to the result.
    pub include: Vec<String>,
    /// The values of `fill` for a missing series: on the left side, on the right side.
    pub fill: [Option<f64>; 2],
}

/// Binary operators and their operands, applied from left to right. A chain of operators is one node of
/// any length, so that code that walks the tree does not recurse deeper for a longer chain.
#[derive(Clone, Debug)]
pub struct Chain {
    /// The operands: at least two.
    pub operands: Nested<Operands>,
    /// The operators: one before each operand except the first.
    pub links: Vec<Link>,
}

/// A binary operator with its modifiers.
#[derive(Clone, Debug)]
pub struct Link {
    /// The operator.
    pub op: Kind,
    /// How both sides match, if both are vectors.
    pub matching: Matching,
    /// Whether a comparison yields 0 or 1 (`bool`) and does not filter.
    pub returns_bool: bool,
}

/// A link with both of its operands.
#[derive(Clone, Copy, Debug)]
pub struct Linked<'a> {
    /// The link.
    pub link: &'a Link,
    /// The type of the result of everything left of it.
    pub left: Type,
    /// The place of everything left of it.
    pub left_span: Span,
    /// The right operand.
    pub right: &'a Expr,
}

impl Linked<'_> {
    /// Whether both sides are vectors, whose series have to be matched.
    pub fn matches_series(&self) -> bool {
        self.left == Type::Vector && self.right.value_type() == Type::Vector
    }

    /// The place of both sides.
    pub fn span(&self) -> Span {
        self.left_span.to(self.right.span())
    }

    /// The type of the result.
    pub fn value_type(&self) -> Type {
        match (self.left, self.right.value_type()) {
            (Type::Scalar, Type::Scalar) => Type::Scalar,
            _ => Type::Vector,
        }
    }
}

impl Chain {
    /// The first operand.
    pub fn first(&self) -> &Expr {
        &self.operands.0[0]
    }

    /// The links with their operands, from left to right.
    pub fn linked(&self) -> impl Iterator<Item = Linked<'_>> {
        let (mut left, mut left_span) = (self.first().value_type(), self.first().span());
        self.links.iter().zip(&self.operands.0[1..]).map(move |(link, right)| {
            let linked = Linked { link, left, left_span, right };
            (left, left_span) = (linked.value_type(), linked.span());
            linked
        })
    }
}

/// A function call.
#[derive(Clone, Debug)]
pub struct Call {
    /// The function.
    pub function: &'static Function,
    /// The arguments.
    pub args: Nested<Operands>,
    /// Its place in the query.
    pub span: Span,
}

/// An aggregation.
#[derive(Clone, Debug)]
pub struct Aggregate {
    /// The aggregation operator.
    pub op: Kind,
    /// The parameter, if there is one, then the vector.
    pub args: Nested<Operands>,
    /// The labels of `by` or `without`.
    pub grouping: Vec<String>,
    /// Whether the labels are those of `without`.
    pub without: bool,
    /// Its place in the query.
    pub span: Span,
}

impl Aggregate {
    /// The aggregated vector.
    pub fn inner(&self) -> &Expr {
        &self.args.0[self.args.0.len() - 1]
    }

    /// The parameter, if there is one.
    pub fn param(&self) -> Option<&Expr> {
        if self.args.0.len() > 1 { self.args.0.first() } else { None }
    }
}

/// A duration that has to be computed.
#[derive(Clone, Debug)]
pub struct DurationExpr {
    /// The operator or function.
    pub op: Kind,
    /// The operands: none, one (unary sign), or two.
    pub args: Nested<Durations>,
    /// Whether it stands in parentheses.
    pub wrapped: bool,
    /// Its place in the query.
    pub span: Span,
}

impl DurationExpr {
    /// Whether it is written as a function call.
    pub fn is_call(&self) -> bool {
        matches!(self.op, Kind::Step | Kind::Range | Kind::MaxOf | Kind::MinOf)
    }
}

/// The operands of a computed duration.
#[derive(Clone, Debug)]
pub struct Durations(pub Vec<DurationPart>);

/// An operand of a computed duration.
#[derive(Clone, Debug)]
pub enum DurationPart {
    /// A number of seconds.
    Number(Number),
    /// An expression that has to be computed.
    Expr(Box<DurationExpr>),
}

impl DurationPart {
    /// Its place in the query.
    pub fn span(&self) -> Span {
        match self {
            Self::Number(number) => number.span,
            Self::Expr(expr) => expr.span,
        }
    }
}

impl Node for Durations {
    fn children(&self) -> impl Iterator<Item = Extent> {
        self.0.iter().map(|part| match part {
            DurationPart::Number(_) => Extent::LEAF,
            DurationPart::Expr(expr) => expr.args.extent(),
        })
    }
}

impl Expr {
    /// Height and size of the tree.
    pub fn extent(&self) -> Extent {
        match self {
            Self::Number(_) | Self::String(_) | Self::Selector(_) | Self::Matrix(_) => Extent::LEAF,
            Self::Subquery(subquery) => subquery.inner.extent(),
            Self::Paren(paren) => paren.inner.extent(),
            Self::Unary(unary) => unary.inner.extent(),
            Self::Chain(chain) => chain.operands.extent(),
            Self::Call(call) => call.args.extent(),
            Self::Aggregate(aggregate) => aggregate.args.extent(),
        }
    }

    /// The type of its value.
    pub fn value_type(&self) -> Type {
        match self {
            Self::Number(_) => Type::Scalar,
            Self::String(_) => Type::String,
            Self::Selector(_) | Self::Aggregate(_) => Type::Vector,
            Self::Matrix(_) | Self::Subquery(_) => Type::Matrix,
            Self::Paren(paren) => paren.inner.0.value_type(),
            Self::Unary(unary) => unary.inner.0.value_type(),
            Self::Call(call) => call.function.returns,
            Self::Chain(chain) => {
                let scalars = chain.operands.0.iter().all(|operand| operand.value_type() == Type::Scalar);
                if scalars { Type::Scalar } else { Type::Vector }
            }
        }
    }

    /// Its place in the query.
    pub fn span(&self) -> Span {
        match self {
            Self::Number(number) => number.span,
            Self::String(string) => string.span,
            Self::Selector(selector) => selector.span,
            Self::Matrix(matrix) => Span { start: matrix.selector.span.start, end: matrix.end },
            Self::Subquery(subquery) => Span { start: subquery.inner.0.span().start, end: subquery.end },
            Self::Paren(paren) => paren.span,
            Self::Unary(unary) => Span { start: unary.start, end: unary.inner.0.span().end },
            Self::Chain(chain) => {
                let operands = &chain.operands.0;
                operands[0].span().to(operands[operands.len() - 1].span())
            }
            Self::Call(call) => call.span,
            Self::Aggregate(aggregate) => aggregate.span,
        }
    }

    /// The direct subexpressions.
    pub fn children(&self) -> &[Expr] {
        match self {
            Self::Number(_) | Self::String(_) | Self::Selector(_) | Self::Matrix(_) => &[],
            Self::Subquery(subquery) => std::slice::from_ref(&subquery.inner.0),
            Self::Paren(paren) => std::slice::from_ref(&paren.inner.0),
            Self::Unary(unary) => std::slice::from_ref(&unary.inner.0),
            Self::Chain(chain) => &chain.operands.0,
            Self::Call(call) => &call.args.0,
            Self::Aggregate(aggregate) => &aggregate.args.0,
        }
    }

    /// The expression without parentheses around it.
    pub fn unwrapped(&self) -> &Expr {
        let mut expr = self;
        while let Self::Paren(paren) = expr {
            expr = &paren.inner.0;
        }
        expr
    }

    /// All selectors in it.
    pub fn selectors(&self) -> Vec<&Selector> {
        let (mut found, mut open) = (Vec::new(), vec![self]);
        while let Some(expr) = open.pop() {
            match expr {
                Self::Selector(selector) => found.push(&**selector),
                Self::Matrix(matrix) => found.push(&matrix.selector),
                _ => open.extend(expr.children().iter().rev()),
            }
        }
        found
    }

    /// Sets the evaluation time of every selector and subquery that names no fixed time. The content of a
    /// subquery stays as it is. Never fails in practice: the tree does not grow.
    pub fn pin(&mut self, at: At) -> Result<(), TooNested> {
        let set = |slot: &mut Option<At>| {
            if !matches!(slot, Some(At::Time(_))) {
                *slot = Some(at);
            }
        };
        let each = |operands: &mut Nested<Operands>| -> Result<(), TooNested> {
            let mut inner = operands.0.clone();
            inner.iter_mut().try_for_each(|expr| expr.pin(at))?;
            *operands = Nested::new(Operands(inner))?;
            Ok(())
        };
        let one = |operand: &mut Nested<Operand>| -> Result<(), TooNested> {
            let mut inner = operand.0.clone();
            inner.pin(at)?;
            *operand = Nested::new(Operand(inner))?;
            Ok(())
        };
        match self {
            Self::Number(_) | Self::String(_) => Ok(()),
            Self::Selector(selector) => {
                set(&mut selector.at);
                Ok(())
            }
            Self::Matrix(matrix) => {
                set(&mut matrix.selector.at);
                Ok(())
            }
            Self::Subquery(subquery) => {
                set(&mut subquery.at);
                Ok(())
            }
            Self::Paren(paren) => one(&mut paren.inner),
            Self::Unary(unary) => one(&mut unary.inner),
            Self::Chain(chain) => each(&mut chain.operands),
            Self::Call(call) => each(&mut call.args),
            Self::Aggregate(aggregate) => each(&mut aggregate.args),
        }
    }
}
