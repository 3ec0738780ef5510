//! Label filters: `| status >= 500 and (method="GET" or duration > 1s)`.
//!
//! A string filter sees an absent label as empty. The others drop a row without the label; a value that they
//! cannot read marks the row with `LabelFilterErr` and keeps it.

use std::fmt;
use std::sync::Arc;

use sandur_model::{MatchOp, Matcher};

use crate::ast::MatcherText;
use crate::error::ParseError;
use crate::lexer::Kind;
use crate::names::{NameId, Names};
use crate::parser::{Parser, new_matcher};
use crate::row::{ERROR_DETAILS_ID, Row};
use crate::stage::ip::IpSet;
use crate::stage::{Effect, Stage, StageNode, stage_error};
use crate::units::{
    format_bytes, format_float, format_go_duration, parse_bytes, parse_float, parse_go_duration, quote,
};

/// What `__error__` says of a value that a filter cannot read.
const FILTER_ERROR: &str = "LabelFilterErr";

/// A condition on labels.
#[derive(Clone, Debug)]
pub enum Condition {
    /// `name="text"`
    Text(Matcher),
    /// `name > 5`
    Number(String, Comparison, f64),
    /// `name > 5s`
    Duration(String, Comparison, i64),
    /// `name > 5KB`
    Bytes(String, Comparison, u64),
    /// `name = ip("10.0.0.0/8")`
    Ip { name: String, negated: bool, set: IpSet, text: String },
    /// Both.
    And(Box<Condition>, Box<Condition>),
    /// Either.
    Or(Box<Condition>, Box<Condition>),
}

/// How two values compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // the names are the operators
pub enum Comparison {
    Equal,
    NotEqual,
    Greater,
    GreaterOrEqual,
    Less,
    LessOrEqual,
}

impl Comparison {
    fn holds<T: PartialOrd>(self, left: T, right: T) -> bool {
        match self {
            Self::Equal => left == right,
            Self::NotEqual => left != right,
            Self::Greater => left > right,
            Self::GreaterOrEqual => left >= right,
            Self::Less => left < right,
            Self::LessOrEqual => left <= right,
        }
    }

    fn as_str(self) -> &'static str {
        match self {
            Self::Equal => "==",
            Self::NotEqual => "!=",
            Self::Greater => ">",
            Self::GreaterOrEqual => ">=",
            Self::Less => "<",
            Self::LessOrEqual => "<=",
        }
    }
}

/// Reads `| condition`.
pub fn parse_piped(parser: &mut Parser) -> Result<Arc<dyn StageNode>, ParseError> {
    parser.expect_word("|")?;
    Ok(Arc::new(LabelFilter { condition: condition(parser, 0)? }))
}

/// Reads conditions joined by `or` (1), `and` (2), and by `,` or nothing, which take all that follows.
fn condition(parser: &mut Parser, strength: u8) -> Result<Condition, ParseError> {
    parser.deeper(|parser| {
        let mut left = operand(parser)?;
        loop {
            let and = |left, right| Condition::And(Box::new(left), Box::new(right));
            match parser.kind() {
                Kind::Word("or") if strength <= 1 => {
                    parser.take();
                    left = Condition::Or(Box::new(left), Box::new(condition(parser, 2)?));
                }
                Kind::Word("and") if strength <= 2 => {
                    parser.take();
                    left = and(left, condition(parser, 3)?);
                }
                Kind::Word(",") => {
                    parser.take();
                    left = and(left, condition(parser, 0)?);
                }
                Kind::Identifier | Kind::Word("(") => left = and(left, condition(parser, 0)?),
                _ => return Ok(left),
            }
        }
    })
}

fn operand(parser: &mut Parser) -> Result<Condition, ParseError> {
    if parser.take_word("(") {
        let inner = condition(parser, 0)?;
        parser.expect_word_of(")", &[])?;
        return Ok(inner);
    }
    let name = parser.expect(Kind::Identifier, &[])?.text;
    let Kind::Word(operator) = parser.kind() else { return Err(parser.unexpected(&[])) };
    let comparison = match operator {
        "=~" | "!~" => {
            parser.take();
            let op = if operator == "=~" { MatchOp::Regex } else { MatchOp::NotRegex };
            return Ok(Condition::Text(new_matcher(name, op, parser.string()?)?));
        }
        "=" | "==" => Comparison::Equal,
        "!=" => Comparison::NotEqual,
        ">" => Comparison::Greater,
        ">=" => Comparison::GreaterOrEqual,
        "<" => Comparison::Less,
        "<=" => Comparison::LessOrEqual,
        _ => return Err(parser.unexpected(&[])),
    };
    parser.take();
    value(parser, name, operator, comparison)
}

fn value(
    parser: &mut Parser,
    name: String,
    operator: &str,
    comparison: Comparison,
) -> Result<Condition, ParseError> {
    let textual = matches!(operator, "=" | "!=");
    match parser.kind() {
        Kind::String if textual => {
            let op = if operator == "=" { MatchOp::Equal } else { MatchOp::NotEqual };
            Ok(Condition::Text(new_matcher(name, op, parser.take().text)?))
        }
        Kind::Function("ip") if textual => {
            parser.take();
            parser.expect_word("(")?;
            let text = parser.string()?;
            parser.expect_word(")")?;
            let negated = operator == "!=";
            let set = IpSet::parse(&text)
                .map_err(|reason| stage_error(&format!("| {name}{operator}ip({})", quote(&text)), reason))?;
            Ok(Condition::Ip { name, negated, set, text })
        }
        Kind::Duration => Ok(Condition::Duration(name, comparison, parser.take().value)),
        Kind::Bytes => Ok(Condition::Bytes(name, comparison, parser.take().value as u64)),
        Kind::Number | Kind::Word("+" | "-") => Ok(Condition::Number(name, comparison, parser.literal()?)),
        _ => Err(parser.unexpected(&[])),
    }
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(matcher) => MatcherText(matcher).fmt(f),
            Self::Number(name, op, value) => write!(f, "{name}{}{}", op.as_str(), format_float(*value)),
            Self::Duration(name, op, ns) => write!(f, "{name}{}{}", op.as_str(), format_go_duration(*ns)),
            Self::Bytes(name, op, bytes) => match parse_bytes(&format_bytes(*bytes)) {
                Ok(same) if same == *bytes => write!(f, "{name}{}{}", op.as_str(), format_bytes(*bytes)),
                _ => write!(f, "{name}{}{bytes}B", op.as_str()),
            },
            Self::Ip { name, negated, text, .. } => {
                write!(f, "{name}{}ip({})", if *negated { "!=" } else { "=" }, quote(text))
            }
            Self::And(left, right) => write!(f, "( {left} , {right} )"),
            Self::Or(left, right) => write!(f, "( {left} or {right} )"),
        }
    }
}

impl Condition {
    fn names(&self, out: &mut Vec<String>) {
        match self {
            Self::Text(matcher) => out.push(matcher.name().to_owned()),
            Self::Number(name, ..)
            | Self::Duration(name, ..)
            | Self::Bytes(name, ..)
            | Self::Ip { name, .. } => {
                out.push(name.clone());
            }
            Self::And(left, right) | Self::Or(left, right) => {
                left.names(out);
                right.names(out);
            }
        }
    }

    fn compile(&self, names: &mut Names) -> Running {
        match self {
            Self::Text(matcher) => Running::Text(names.id(matcher.name()), matcher.clone()),
            Self::Number(name, op, value) => Running::Number(names.id(name), *op, *value),
            Self::Duration(name, op, value) => Running::Duration(names.id(name), *op, *value),
            Self::Bytes(name, op, value) => Running::Bytes(names.id(name), *op, *value),
            Self::Ip { name, negated, set, .. } => Running::Ip(names.id(name), *negated, *set),
            Self::And(left, right) => Running::And(Box::new((left.compile(names), right.compile(names)))),
            Self::Or(left, right) => Running::Or(Box::new((left.compile(names), right.compile(names)))),
        }
    }
}

#[derive(Debug)]
struct LabelFilter {
    condition: Condition,
}

impl fmt::Display for LabelFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "| {}", self.condition)
    }
}

impl StageNode for LabelFilter {
    fn effect(&self) -> Effect {
        Effect::default()
    }

    fn reads(&self) -> Vec<String> {
        let mut names = Vec::new();
        self.condition.names(&mut names);
        names
    }

    fn filtered_label(&self) -> Option<String> {
        match self.condition {
            Condition::And(..) | Condition::Or(..) => None,
            _ => self.reads().pop(),
        }
    }

    fn start(&self, names: &mut Names) -> Box<dyn Stage> {
        Box::new(self.condition.compile(names))
    }
}

enum Running {
    Text(NameId, Matcher),
    Number(NameId, Comparison, f64),
    Duration(NameId, Comparison, i64),
    Bytes(NameId, Comparison, u64),
    Ip(NameId, bool, IpSet),
    And(Box<(Running, Running)>),
    Or(Box<(Running, Running)>),
}

impl Stage for Running {
    fn process(&mut self, row: &mut Row<'_>) -> bool {
        match self {
            // The details of a failure are no label to a filter, as in Loki.
            Self::Text(ERROR_DETAILS_ID, matcher) => matcher.matches(row.get(ERROR_DETAILS_ID).unwrap_or("")),
            Self::Text(name, matcher) => matcher.matches(row.value(*name)),
            Self::Number(name, op, value) => compare(row, *name, *op, *value, parse_float),
            Self::Duration(name, op, value) => compare(row, *name, *op, *value, parse_go_duration),
            Self::Bytes(name, op, value) => compare(row, *name, *op, *value, parse_bytes),
            Self::Ip(name, negated, set) => {
                // After an error only string filters decide.
                if row.error().is_some() {
                    return true;
                }
                row.get(*name).is_some_and(|text| set.found_in(text.as_bytes()) != *negated)
            }
            // Both sides run even when the first fails: either may mark the row.
            Self::And(sides) => {
                let left = sides.0.process(row);
                sides.1.process(row) && left
            }
            Self::Or(sides) => sides.0.process(row) || sides.1.process(row),
        }
    }
}

fn compare<T: PartialOrd>(
    row: &mut Row<'_>,
    name: NameId,
    op: Comparison,
    value: T,
    read: impl Fn(&str) -> Result<T, String>,
) -> bool {
    let Some(text) = row.get(name) else { return false };
    match read(text) {
        Ok(found) => op.holds(found, value),
        Err(reason) => {
            row.fail_first(FILTER_ERROR, reason);
            true
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::stage::testing::run;

    const LINE: &str = r#"status=503 took=1.5s size=2KiB ip=10.1.2.3 word=abc"#;

    #[test]
    fn conditions_keep_and_drop_rows() {
        for (condition, kept) in [
            ("status >= 500", true),
            ("status = 503", true),
            ("status == 503", true),
            ("status != 503", false),
            ("status < -1", false),
            ("took > 1s", true),
            ("took <= 1s", false),
            ("size >= 2KiB", true),
            ("size > 2KB", true),
            ("size < 2KB", false),
            (r#"ip = ip("10.0.0.0/8")"#, true),
            (r#"ip != ip("10.0.0.0/8")"#, false),
            (r#"word = "abc""#, true),
            (r#"word =~ "a.*""#, true),
            (r#"word =~ "b""#, false),
            (r#"word !~ "b""#, true),
            (r#"missing = """#, true),
            (r#"missing != "x""#, true),
            ("missing > 1", false),
            ("missing != 1", false),
            (r#"missing = ip("::1")"#, false),
            (r#"word="x" or status=503"#, true),
            (r#"word="abc" and status=1"#, false),
            (r#"word="x" or word="abc" and status=503"#, true),
            (r#"(word="abc" or word="x") and status=1"#, false),
            (r#"word="abc", status=503"#, true),
            (r#"word="abc" status=503"#, true),
            (r#"word="x" or word="abc", status=1"#, false),
            (r#"word="abc" or word="x", status=1"#, true),
        ] {
            let query = format!(r#"{{app="s"}} | logfmt | {condition}"#);
            assert_eq!(run(&query, LINE).is_some(), kept, "{condition}");
        }
    }

    #[test]
    fn a_value_that_cannot_be_read_marks_the_row() {
        for condition in ["word > 1", "word > 1s", "word > 1KB", "status > 1s"] {
            let out = run(&format!(r#"{{app="s"}} | logfmt | {condition}"#), LINE).unwrap();
            let error = out.parsed.iter().find(|(n, _)| n == "__error__");
            assert_eq!(error.map(|(_, v)| v.as_str()), Some("LabelFilterErr"), "{condition}");
        }
        assert!(run(r#"{app="s"} | logfmt | word > 1 | __error__="""#, LINE).is_none());
        assert!(run(r#"{app="s"} | logfmt | word > 1 | __error__="LabelFilterErr""#, LINE).is_some());
    }
}
