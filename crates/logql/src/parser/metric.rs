//! Parses metric expressions: range and vector aggregations, operators, literals.

use std::cmp::Ordering;

use sandur_model::go_text::parse_float;

use crate::ast::{
    BinaryOp, Cardinality, Chain, Conversion, Expr, LabelReplace, Link, LogExpr, Matching, MetricExpr,
    OPERATORS, RangeAggregation, Unwrap, VectorAggregation,
};
use crate::binary;
use crate::error::ParseError;
use crate::go_regex;
use crate::grouping::Grouping;
use crate::lexer::{Kind, Token};
use crate::parser::cursor::Parser;
use crate::parser::matchers::validate_matchers;
use crate::range::{self, Argument, UnwrapUse};
use crate::stage::label_filter;
use crate::vector::{self, VectorFunction};

/// Checks what the grammar cannot: no selector selects every stream.
pub fn validate(expr: &Expr) -> Result<(), ParseError> {
    match expr {
        Expr::Log(log) => validate_matchers(&log.matchers),
        Expr::Metric(metric) => validate_metric(metric),
    }
}

fn validate_metric(expr: &MetricExpr) -> Result<(), ParseError> {
    match expr {
        MetricExpr::Range(range) => validate_matchers(&range.log.matchers),
        // Loki refuses to aggregate a number, with this error.
        MetricExpr::Vector(vector) if matches!(vector.inner, MetricExpr::Literal(_)) => {
            validate_matchers(&[])
        }
        MetricExpr::Vector(vector) => validate_metric(&vector.inner),
        MetricExpr::LabelReplace(replace) => validate_metric(&replace.inner),
        MetricExpr::Literal(_) | MetricExpr::VectorOf(_) => Ok(()),
        MetricExpr::Chain(chain) => {
            validate_metric(&chain.first)?;
            chain.links.iter().try_for_each(|link| validate_metric(&link.right))
        }
    }
}

/// A range expression while it is parsed; its parts come in several orders.
struct Ranged {
    log: LogExpr,
    unwrap: Option<Unwrap>,
    range_ns: Option<i64>,
    offset_ns: Option<i64>,
}

/// A construct that was parsed before an operand and waits for it.
enum Pending {
    /// This many opening parentheses.
    Open(usize),
    /// An operator with its left operand.
    Operator { left: Expr, op: BinaryOp, return_bool: bool, matching: Matching },
    /// A vector aggregation, up to its vector.
    Aggregation { function: &'static VectorFunction, grouping: Option<Grouping>, parameter: Option<Token> },
    /// `label_replace(`
    LabelReplace,
}

impl Pending {
    /// Whether the next operator takes the preceding operand before this construct does.
    fn yields_to(&self, next: BinaryOp) -> bool {
        let Self::Operator { op, .. } = self else { return true };
        match op.spec().strength.cmp(&next.spec().strength) {
            Ordering::Less => true,
            Ordering::Equal => op.is_right_associative(),
            Ordering::Greater => false,
        }
    }
}

impl Parser {
    /// Parses an expression with all its operators. Constructs that wait for an operand are on a list, so
    /// that nested parentheses and functions use no stack.
    pub fn expr(&mut self) -> Result<Expr, ParseError> {
        let mut pending = Vec::new();
        loop {
            self.open(&mut pending)?;
            let operand = self.operand()?;
            let left = self.close(operand, &mut pending)?;
            let Some(op) = self.operator() else { return Ok(left) };
            self.take();
            let (return_bool, matching) = self.modifiers()?;
            self.enter()?;
            pending.push(Pending::Operator { left, op, return_bool, matching });
        }
    }

    /// Parses everything that opens before an operand.
    fn open(&mut self, pending: &mut Vec<Pending>) -> Result<(), ParseError> {
        loop {
            let name = match self.kind() {
                Kind::Word("(") => {
                    self.take();
                    match pending.last_mut() {
                        Some(Pending::Open(count)) => *count += 1,
                        _ => pending.push(Pending::Open(1)),
                    }
                    continue;
                }
                Kind::Function(name) => name,
                _ => return Ok(()),
            };
            let opened = match vector::find(name) {
                Some(function) => self.open_aggregation(function)?,
                None if name == "label_replace" => {
                    self.take();
                    self.expect_word("(")?;
                    Pending::LabelReplace
                }
                None => return Ok(()),
            };
            self.enter()?;
            pending.push(opened);
        }
    }

    /// Passes an operand to the constructs that wait for it, and parses closing parentheses, as far as the
    /// following tokens allow. Afterwards either an operator follows, or nothing waits any more.
    fn close(&mut self, mut operand: Expr, pending: &mut Vec<Pending>) -> Result<Expr, ParseError> {
        while let Some(waiting) = pending.pop() {
            let next = self.operator();
            operand = match waiting {
                waiting if next.is_some_and(|next| waiting.yields_to(next)) => {
                    pending.push(waiting);
                    break;
                }
                Pending::Operator { left, op, return_bool, matching } => {
                    self.leave();
                    Expr::Metric(self.linked(left, op, (return_bool, matching), operand)?)
                }
                Pending::Aggregation { function, grouping, parameter } => {
                    self.leave();
                    let inner = self.metric(operand)?;
                    Expr::Metric(self.close_aggregation(function, (grouping, parameter), inner)?)
                }
                Pending::LabelReplace => {
                    self.leave();
                    let inner = self.metric(operand)?;
                    Expr::Metric(self.close_label_replace(inner)?)
                }
                Pending::Open(count) => {
                    self.expect_word_of(")", &[])?;
                    if count > 1 {
                        pending.push(Pending::Open(count - 1));
                    }
                    operand
                }
            };
        }
        Ok(operand)
    }

    fn operator(&self) -> Option<BinaryOp> {
        let Kind::Word(word) = self.kind() else { return None };
        OPERATORS.iter().find(|spec| spec.text == word).map(|spec| spec.op)
    }

    fn modifiers(&mut self) -> Result<(bool, Matching), ParseError> {
        let return_bool = self.take_word("bool");
        let mut matching = Matching::default();
        if !self.is_word("on") && !self.is_word("ignoring") {
            return Ok((return_bool, matching));
        }
        matching.explicit = true;
        matching.on = self.is_word("on");
        self.take();
        matching.labels = self.label_list()?;
        for (word, cardinality) in
            [("group_left", Cardinality::ManyToOne), ("group_right", Cardinality::OneToMany)]
        {
            if self.take_word(word) {
                matching.cardinality = cardinality;
                // As in Loki, a parenthesis here begins a list of labels even if only an operand could
                // follow.
                if self.is_word("(") {
                    matching.include = self.label_list()?;
                }
                break;
            }
        }
        Ok((return_bool, matching))
    }

    /// Parses `(a, b)`.
    fn label_list(&mut self) -> Result<Vec<String>, ParseError> {
        self.expect_word("(")?;
        let mut labels = Vec::new();
        if self.take_word(")") {
            return Ok(labels);
        }
        if self.kind() != Kind::Identifier {
            return Err(self.unexpected(&["IDENTIFIER", ")"]));
        }
        loop {
            labels.push(self.expect(Kind::Identifier, &["IDENTIFIER"])?.text);
            if self.take_word(")") {
                return Ok(labels);
            }
            self.expect_word_of(",", &[",", ")"])?;
        }
    }

    fn operand(&mut self) -> Result<Expr, ParseError> {
        match self.kind() {
            Kind::Word("{") => Ok(Expr::Log(self.log()?)),
            Kind::Number | Kind::Word("+" | "-") => Ok(Expr::Metric(MetricExpr::Literal(self.literal()?))),
            Kind::Function("vector") => {
                self.take();
                self.expect_word("(")?;
                let number = self.expect(Kind::Number, &["NUMBER"])?;
                self.expect_word(")")?;
                Ok(Expr::Metric(MetricExpr::VectorOf(self.number_value(&number))))
            }
            Kind::Function(name) => match range::find(name) {
                Some(function) => Ok(Expr::Metric(self.range_aggregation(function)?)),
                None => Err(self.unexpected(&[])),
            },
            _ => Err(self.unexpected(&[])),
        }
    }

    /// Parses a number with its sign.
    pub fn literal(&mut self) -> Result<f64, ParseError> {
        let negative = self.is_word("-");
        if negative || self.is_word("+") {
            self.take();
        }
        let number = self.expect(Kind::Number, &["NUMBER"])?;
        let number = self.number_value(&number);
        Ok(if negative { -number } else { number })
    }

    /// The argument of a function, which must be a metric expression.
    fn metric(&self, inner: Expr) -> Result<MetricExpr, ParseError> {
        match inner {
            Expr::Metric(metric) => Ok(metric),
            // A log expression inside an aggregation lacks its range.
            Expr::Log(_) => Err(self.unexpected(&[])),
        }
    }

    /// Parses the rest of `label_replace(` after its vector.
    fn close_label_replace(&mut self, inner: MetricExpr) -> Result<MetricExpr, ParseError> {
        let mut arguments: [String; 4] = Default::default();
        for argument in &mut arguments {
            self.expect_word_of(",", &[","])?;
            *argument = self.string()?;
        }
        self.expect_word(")")?;
        let [destination, replacement, source, pattern] = arguments;
        let regex = go_regex::compile_text(&format!("^(?:{pattern})$"))
            .map_err(|reason| ParseError::whole(format!("invalid regex in label_replace: {reason}")))?;
        let replace = LabelReplace { inner, destination, replacement, source, pattern, regex };
        self.nested(replace).map(MetricExpr::LabelReplace)
    }

    fn grouping(&mut self) -> Result<Option<Grouping>, ParseError> {
        let without = self.is_word("without");
        if !without && !self.is_word("by") {
            return Ok(None);
        }
        self.take();
        Ok(Some(Grouping { without, labels: self.label_list()? }))
    }

    /// Parses a vector aggregation up to its vector.
    fn open_aggregation(&mut self, function: &'static VectorFunction) -> Result<Pending, ParseError> {
        self.take();
        let grouping = self.grouping()?;
        self.expect_word("(")?;
        let mut parameter = None;
        if self.kind() == Kind::Number && self.peek_second().kind == Kind::Word(",") {
            parameter = Some(self.take());
            self.take();
        }
        Ok(Pending::Aggregation { function, grouping, parameter })
    }

    /// Parses the rest of a vector aggregation after its vector.
    fn close_aggregation(
        &mut self,
        function: &'static VectorFunction,
        (before, parameter): (Option<Grouping>, Option<Token>),
        inner: MetricExpr,
    ) -> Result<MetricExpr, ParseError> {
        self.expect_word_of(")", &[])?;
        let grouping = match before {
            Some(grouping) => Some(grouping),
            None => self.grouping()?,
        };
        let parameter = vector_parameter(function, parameter.as_ref())?;
        if function.name == "approx_topk" && grouping.is_some() {
            return Err(ParseError::whole("grouping not allowed for approx_topk aggregation"));
        }
        if function.sorts && grouping.as_ref().is_some_and(|g| !g.labels.is_empty()) {
            return Err(ParseError::whole("sort and sort_desc doesn't allow grouping by "));
        }
        self.nested(VectorAggregation { function, parameter, inner, grouping }).map(MetricExpr::Vector)
    }

    fn range_aggregation(
        &mut self,
        function: &'static range::RangeFunction,
    ) -> Result<MetricExpr, ParseError> {
        self.take();
        self.expect_word("(")?;
        let mut parameter = None;
        if self.kind() == Kind::Number {
            parameter = Some(self.take());
            self.expect_word(",")?;
        } else if !self.is_word("{") && !self.is_word("(") {
            return Err(self.unexpected(&["NUMBER", "{", "("]));
        }
        let ranged = self.ranged()?;
        let Some(range_ns) = ranged.range_ns else { return Err(self.unexpected(&[])) };
        self.expect_word_of(")", &[])?;
        let grouping = self.grouping()?;
        let parameter = range_parameter(function, parameter.as_ref())?;
        let aggregation = RangeAggregation {
            function,
            parameter,
            log: ranged.log,
            unwrap: ranged.unwrap,
            range_ns,
            offset_ns: ranged.offset_ns.unwrap_or(0),
            grouping,
        };
        check_range(&aggregation)?;
        Ok(MetricExpr::Range(Box::new(aggregation)))
    }

    /// Parses selector, stages, unwrap, range and offset, in any order that Loki accepts.
    fn ranged(&mut self) -> Result<Ranged, ParseError> {
        let mut open = 0;
        while self.take_word("(") {
            open += 1;
        }
        let log = LogExpr { matchers: self.selector()?, stages: Vec::new() };
        let mut ranged = Ranged { log, unwrap: None, range_ns: None, offset_ns: None };
        loop {
            self.stages_and_unwrap(&mut ranged)?;
            if ranged.range_ns.is_none() && self.kind() == Kind::Range {
                ranged.range_ns = Some(self.take().value);
                if self.take_word("offset") {
                    ranged.offset_ns = Some(self.expect(Kind::Duration, &["DURATION"])?.value);
                }
                self.stages_and_unwrap(&mut ranged)?;
            }
            if open == 0 {
                return Ok(ranged);
            }
            self.expect_word_of(")", &[])?;
            open -= 1;
        }
    }

    fn stages_and_unwrap(&mut self, ranged: &mut Ranged) -> Result<(), ParseError> {
        if ranged.unwrap.is_none() {
            ranged.log.stages.extend(self.stages()?);
            if self.is_word("|") {
                ranged.unwrap = Some(self.unwrap()?);
            }
        }
        Ok(())
    }

    fn unwrap(&mut self) -> Result<Unwrap, ParseError> {
        self.expect_word("|")?;
        self.expect_word("unwrap")?;
        let conversion = match self.kind() {
            Kind::Function("bytes") => Conversion::Bytes,
            Kind::Function("duration") => Conversion::Duration,
            Kind::Function("duration_seconds") => Conversion::DurationSeconds,
            Kind::Identifier => Conversion::Float,
            _ => {
                return Err(self.unexpected(&[
                    "IDENTIFIER",
                    "BYTES_CONV",
                    "DURATION_CONV",
                    "DURATION_SECONDS_CONV",
                ]));
            }
        };
        let label = if conversion == Conversion::Float {
            self.take().text
        } else {
            self.take();
            self.expect_word("(")?;
            let label = self.expect(Kind::Identifier, &["IDENTIFIER"])?.text;
            self.expect_word(")")?;
            label
        };
        let mut filters = Vec::new();
        while self.is_word("|") {
            filters.push(label_filter::parse_piped(self)?);
        }
        Ok(Unwrap { label, conversion, filters })
    }

    /// The value of a literal. As in Loki, an error in it is reported only if the rest of the query is
    /// valid.
    fn number_value(&mut self, token: &Token) -> f64 {
        parse_float(&token.text).unwrap_or_else(|reason| {
            self.defer(ParseError::whole(format!("unable to parse literal as a float: {reason}")));
            f64::NAN
        })
    }
}

fn range_parameter(
    function: &'static range::RangeFunction,
    parameter: Option<&Token>,
) -> Result<Option<f64>, ParseError> {
    match (function.argument, parameter) {
        (Argument::Number, None) => {
            Err(ParseError::whole(format!("parameter required for operation {}", function.name)))
        }
        (Argument::Number, Some(token)) => parse_float(&token.text).map(Some).map_err(|reason| {
            ParseError::whole(format!("invalid parameter for operation {}: {reason}", function.name))
        }),
        (_, Some(token)) => Err(ParseError::whole(format!(
            "parameter {} not supported for operation {}",
            token.text, function.name
        ))),
        (_, None) => Ok(None),
    }
}

fn vector_parameter(
    function: &'static VectorFunction,
    parameter: Option<&Token>,
) -> Result<Option<i64>, ParseError> {
    let name = function.name;
    match (function.takes_count, parameter) {
        (true, None) => Err(ParseError::whole(format!("parameter required for operation {name}"))),
        (true, Some(token)) => match token.text.parse::<i64>() {
            Err(_) => Err(ParseError::whole(format!("invalid parameter {name}({},", token.text))),
            Ok(count) if count <= 0 => Err(ParseError::whole(format!(
                "invalid parameter (must be greater than 0) {name}({}",
                token.text
            ))),
            Ok(count) => Ok(Some(count)),
        },
        (false, Some(token)) => {
            Err(ParseError::whole(format!("unsupported parameter for operation {name}({},", token.text)))
        }
        (false, None) => Ok(None),
    }
}

/// Returns the operand of a binary operator; fails if it is a log expression.
fn side(expr: Expr, op: BinaryOp, leg: &str) -> Result<MetricExpr, ParseError> {
    let log = match expr {
        Expr::Metric(metric) => return Ok(metric),
        Expr::Log(log) => log,
    };
    let name = if log.stages.is_empty() { "MatchersExpr" } else { "PipelineExpr" };
    let op = op.as_str();
    Err(ParseError::whole(format!(
        "unexpected type for {leg} leg of binary operation ({op}): *syntax.{name}"
    )))
}

impl Parser {
    /// Joins two operands and the operator between them; if the left operand is a chain, extends it.
    fn linked(
        &self,
        left: Expr,
        op: BinaryOp,
        (return_bool, matching): (bool, Matching),
        right: Expr,
    ) -> Result<MetricExpr, ParseError> {
        let (left, right) = (side(left, op, "left")?, side(right, op, "right")?);
        if op.is_set() {
            for (leg, expr) in [("left", &left), ("right", &right)] {
                if let MetricExpr::Literal(value) = expr {
                    let message = format!(
                        "unexpected literal for {leg} leg of logical/set binary operation ({}): {value:.6}",
                        op.as_str()
                    );
                    return Err(ParseError::whole(message));
                }
            }
        }
        if let (MetricExpr::Literal(l), MetricExpr::Literal(r)) = (&left, &right) {
            return Ok(MetricExpr::Literal(binary::apply(op, *l, *r)));
        }
        let extent = right.extent();
        let link = Link { op, return_bool, matching, right };
        let chain = match left {
            MetricExpr::Chain(chain) => {
                let longer = chain.with(extent, |chain| chain.links.push(link));
                longer.map_err(|limit| self.too_nested(limit))?
            }
            first => self.nested(Chain { first, links: vec![link] })?,
        };
        Ok(MetricExpr::Chain(chain))
    }
}

/// Fails if the function over windows is used incorrectly.
fn check_range(aggregation: &RangeAggregation) -> Result<(), ParseError> {
    let function = aggregation.function;
    let name = function.name;
    // `rate` may be grouped only if it takes unwrapped values.
    if aggregation.grouping.is_some() && !function.grouping {
        return Err(ParseError::whole(format!("grouping not allowed for {name} aggregation")));
    }
    match (function.unwrap, &aggregation.unwrap) {
        (UnwrapUse::Forbidden, Some(_)) => {
            Err(ParseError::whole(format!("invalid aggregation {name} with unwrap")))
        }
        (UnwrapUse::Required, None) => {
            Err(ParseError::whole(format!("invalid aggregation {name} without unwrap")))
        }
        _ => Ok(()),
    }
}
