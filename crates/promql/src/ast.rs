//! The syntax tree. Its text form, by `Display`, parses to the same tree.
//!
//! Links between nodes are [`Nested`], so that a tree which is too high or too large cannot be made.

use sandur_base::nesting::{Extent, Nested, Node, TooNested};
use sandur_model::Matcher;

use crate::functions::Function;
use crate::span::Span;
use crate::token::Kind;

/// What an expression answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Type {
    /// A number at each step.
    Scalar,
    /// Series with a sample at each step.
    Vector,
    /// Series with the samples of a window.
    Matrix,
    /// A text.
    String,
}

impl Type {
    /// The name that documentation uses.
    pub fn documented(self) -> &'static str {
        match self {
            Self::Scalar => "scalar",
            Self::Vector => "instant vector",
            Self::Matrix => "range vector",
            Self::String => "string",
        }
    }

    /// The name in syntax trees.
    pub fn name(self) -> &'static str {
        match self {
            Self::Scalar => "scalar",
            Self::Vector => "vector",
            Self::Matrix => "matrix",
            Self::String => "string",
        }
    }
}

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

/// One expression within another.
#[derive(Clone, Debug)]
pub struct Operand(pub Expr);

/// Expressions within another.
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

/// A number.
#[derive(Clone, Copy, Debug)]
pub struct Number {
    /// Its value; seconds of a duration.
    pub value: f64,
    /// Whether it was written as a duration.
    pub is_duration: bool,
    /// Where.
    pub span: Span,
}

/// A text.
#[derive(Clone, Debug)]
pub struct StringLiteral {
    /// Without its quotes; what is not UTF-8 is replaced.
    pub value: String,
    /// Its bytes, when they are not UTF-8.
    pub bytes: Option<Box<[u8]>>,
    /// Where.
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

/// What `@` names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum At {
    /// Milliseconds since the epoch.
    Time(i64),
    /// The first step of the query.
    Start,
    /// The last step of the query.
    End,
}

/// How samples around a window count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Extension {
    /// They do not.
    #[default]
    None,
    /// The last sample before the window is its first.
    Anchored,
    /// Values at the borders are interpolated.
    Smoothed,
}

/// `offset`: nanoseconds, or an expression for them.
#[derive(Clone, Debug)]
pub enum Offset {
    /// Nanoseconds.
    Fixed(i64),
    /// What is known when the query's times are.
    Expr(Box<DurationExpr>),
}

/// A length of time: nanoseconds, or an expression for them.
#[derive(Clone, Debug)]
pub enum Length {
    /// Nanoseconds.
    Fixed(i64),
    /// What is known when the query's times are.
    Expr(Box<DurationExpr>),
}

/// Series at an instant.
#[derive(Clone, Debug)]
pub struct Selector {
    /// The metric's name, if it stands before the braces.
    pub name: String,
    /// Conditions, that on the name last.
    pub matchers: Vec<Matcher>,
    /// How much earlier.
    pub offset: Offset,
    /// At which time, instead of the step's.
    pub at: Option<At>,
    /// How samples around count.
    pub extension: Extension,
    /// Whether it is only a list of labels for `info`.
    pub is_label_list: bool,
    /// Where.
    pub span: Span,
}

/// Series over a window.
#[derive(Clone, Debug)]
pub struct MatrixSelector {
    /// Which.
    pub selector: Selector,
    /// Length of the window.
    pub range: Length,
    /// Byte after it.
    pub end: u32,
}

/// An expression over a window.
#[derive(Clone, Debug)]
pub struct Subquery {
    /// What.
    pub inner: Nested<Operand>,
    /// Length of the window.
    pub range: Length,
    /// Time between two evaluations.
    pub step: Option<Length>,
    /// How much earlier.
    pub offset: Offset,
    /// At which time, instead of the step's.
    pub at: Option<At>,
    /// Byte after it.
    pub end: u32,
}

/// An expression in parentheses.
#[derive(Clone, Debug)]
pub struct Paren {
    /// What is in them.
    pub inner: Nested<Operand>,
    /// Where.
    pub span: Span,
}

/// A sign before an expression.
#[derive(Clone, Debug)]
pub struct Unary {
    /// Whether it is a minus.
    pub negate: bool,
    /// What follows.
    pub inner: Nested<Operand>,
    /// First byte.
    pub start: u32,
}

/// How series of both sides find each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cardinality {
    /// One of each.
    OneToOne,
    /// Several of the left side.
    ManyToOne,
    /// Several of the right side.
    OneToMany,
    /// Sets.
    ManyToMany,
}

impl Cardinality {
    /// The name in syntax trees.
    pub fn name(self) -> &'static str {
        match self {
            Self::OneToOne => "one-to-one",
            Self::ManyToOne => "many-to-one",
            Self::OneToMany => "one-to-many",
            Self::ManyToMany => "many-to-many",
        }
    }
}

/// The labels by which series of both sides find each other.
#[derive(Clone, Debug)]
pub struct Matching {
    /// How many.
    pub cardinality: Cardinality,
    /// The labels.
    pub labels: Vec<String>,
    /// Whether these labels count, rather than all others.
    pub on: bool,
    /// Labels that the many take from the one.
    pub include: Vec<String>,
    /// What stands for a missing left and right side.
    pub fill: [Option<f64>; 2],
}

/// Expressions with operators between them, which are done from left to right. A row of operators is one node
/// however long it is, so nobody who walks over a tree goes deeper for a longer row.
#[derive(Clone, Debug)]
pub struct Chain {
    /// At least two.
    pub operands: Nested<Operands>,
    /// What stands before each of them but the first.
    pub links: Vec<Link>,
}

/// An operator between what stands on its left and an operand.
#[derive(Clone, Debug)]
pub struct Link {
    /// The operator.
    pub op: Kind,
    /// How both sides match, when both are vectors.
    pub matching: Matching,
    /// Whether a comparison answers 0 or 1.
    pub returns_bool: bool,
}

/// A link with its sides.
#[derive(Clone, Copy, Debug)]
pub struct Linked<'a> {
    /// The link.
    pub link: &'a Link,
    /// What everything on the left of it answers.
    pub left: Type,
    /// Where that stands.
    pub left_span: Span,
    /// The operand on the right.
    pub right: &'a Expr,
}

impl Linked<'_> {
    /// Whether both sides have series, which have to find each other.
    pub fn matches_series(&self) -> bool {
        self.left == Type::Vector && self.right.value_type() == Type::Vector
    }

    /// Where both sides stand.
    pub fn span(&self) -> Span {
        self.left_span.to(self.right.span())
    }

    /// What it answers.
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

    /// The links, from left to right.
    pub fn linked(&self) -> impl Iterator<Item = Linked<'_>> {
        let (mut left, mut left_span) = (self.first().value_type(), self.first().span());
        self.links.iter().zip(&self.operands.0[1..]).map(move |(link, right)| {
            let linked = Linked { link, left, left_span, right };
            (left, left_span) = (linked.value_type(), linked.span());
            linked
        })
    }
}

/// A function with its arguments.
#[derive(Clone, Debug)]
pub struct Call {
    /// Which.
    pub function: &'static Function,
    /// With what.
    pub args: Nested<Operands>,
    /// Where.
    pub span: Span,
}

/// An aggregation.
#[derive(Clone, Debug)]
pub struct Aggregate {
    /// Which.
    pub op: Kind,
    /// The parameter, if there is one, and the vector.
    pub args: Nested<Operands>,
    /// The labels of `by` or `without`.
    pub grouping: Vec<String>,
    /// Whether it is `without`.
    pub without: bool,
    /// Where.
    pub span: Span,
}

impl Aggregate {
    /// The vector.
    pub fn inner(&self) -> &Expr {
        &self.args.0[self.args.0.len() - 1]
    }

    /// The parameter.
    pub fn param(&self) -> Option<&Expr> {
        if self.args.0.len() > 1 { self.args.0.first() } else { None }
    }
}

/// A length of time that has to be computed.
#[derive(Clone, Debug)]
pub struct DurationExpr {
    /// The operator or function.
    pub op: Kind,
    /// Its operands: none, one (a sign), or two.
    pub args: Nested<Durations>,
    /// Whether it stands in parentheses.
    pub wrapped: bool,
    /// Where.
    pub span: Span,
}

impl DurationExpr {
    /// Whether it is a function with its parentheses.
    pub fn is_call(&self) -> bool {
        matches!(self.op, Kind::Step | Kind::Range | Kind::MaxOf | Kind::MinOf)
    }
}

/// Operands of a length of time.
#[derive(Clone, Debug)]
pub struct Durations(pub Vec<DurationPart>);

/// An operand of a length of time.
#[derive(Clone, Debug)]
pub enum DurationPart {
    /// A number of seconds.
    Number(Number),
    /// What has to be computed.
    Expr(Box<DurationExpr>),
}

impl DurationPart {
    /// Where it stands.
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

    /// What it answers.
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

    /// Where it stands.
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

    /// The expressions directly in it.
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

    /// The selectors in it.
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

    /// Puts a time into every selector and subquery that names none, but not into what a subquery has in it.
    /// Fails when the tree would be too large, which it was not.
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
