//! Label filters: `| status >= 500 and (method="GET" or duration > 1s)`.
//!
//! A string filter sees an absent label as empty. Other filters drop a row without the label; if they
//! cannot parse its value, they keep the row and mark it with `LabelFilterErr`.
//!
//! A condition is a list, both in the syntax tree and when it runs, so that neither parentheses nor long
//! chains of `or` use stack.

use std::fmt;
use std::sync::Arc;

use sandur_model::go_text::{
    format_bytes, format_float, format_go_duration, parse_bytes, parse_float, parse_go_duration, quote,
};
use sandur_model::{MatchOp, Matcher};

use crate::ast::MatcherText;
use crate::error::ParseError;
use crate::ip::IpSet;
use crate::lexer::Kind;
use crate::names::{NameId, Names};
use crate::parser::cursor::Parser;
use crate::parser::matchers::new_matcher;
use crate::row::{ERROR_DETAILS_ID, Row, Stage};
use crate::stage::node::{Effect, StageNode, stage_error};

/// The `__error__` of a value that a filter cannot parse.
const FILTER_ERROR: &str = "LabelFilterErr";

/// A condition on one label.
#[derive(Clone, Debug)]
enum Test {
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
}

/// A node of a condition, in postfix order. The right side of a connective is the node before it.
#[derive(Clone, Debug)]
enum Part {
    Test(Test),
    /// `and`; the left side is the node at this index.
    And(usize),
    /// `or`; the left side is the node at this index.
    Or(usize),
}

/// A comparison of two values.
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

/// Parses `| condition`.
pub fn parse_piped(parser: &mut Parser) -> Result<Arc<dyn StageNode>, ParseError> {
    parser.expect_word("|")?;
    let mut reader = Reader::default();
    reader.read(parser)?;
    Ok(Arc::new(LabelFilter { parts: reader.parts }))
}

/// A construct that waits for the next test.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Waiting {
    Parenthesis,
    Or,
    And,
    /// `,` or white space: takes everything that follows as its right side.
    Comma,
}

/// A condition while it is parsed.
#[derive(Default)]
struct Reader {
    parts: Vec<Part>,
    /// The indexes of nodes that are not yet a side of another.
    sides: Vec<usize>,
    waiting: Vec<Waiting>,
}

impl Reader {
    fn read(&mut self, parser: &mut Parser) -> Result<(), ParseError> {
        loop {
            while parser.take_word("(") {
                self.waiting.push(Waiting::Parenthesis);
            }
            let test = test(parser)?;
            self.push(Part::Test(test));
            let Some(connective) = self.connective(parser)? else { return Ok(()) };
            self.waiting.push(connective);
        }
    }

    /// Parses the next connective, after it has completed everything before it with higher precedence, and
    /// closing parentheses. `None` at the end of the condition.
    fn connective(&mut self, parser: &mut Parser) -> Result<Option<Waiting>, ParseError> {
        loop {
            let (next, written) = match parser.kind() {
                Kind::Word("or") => (Some(Waiting::Or), true),
                Kind::Word("and") => (Some(Waiting::And), true),
                Kind::Word(",") => (Some(Waiting::Comma), true),
                Kind::Identifier | Kind::Word("(") => (Some(Waiting::Comma), false),
                _ => (None, false),
            };
            let waiting = self.waiting.last().copied();
            let is_complete = match (waiting, next) {
                (None | Some(Waiting::Parenthesis), _) | (_, Some(Waiting::Comma)) => false,
                (_, None) => true,
                (Some(Waiting::Comma), Some(_)) => false,
                (Some(Waiting::Or), Some(next)) => next == Waiting::Or,
                (Some(Waiting::And), Some(_)) => true,
            };
            match (waiting, next) {
                (Some(connective), _) if is_complete => {
                    self.waiting.pop();
                    self.join(connective);
                }
                (_, Some(next)) => {
                    if written {
                        parser.take();
                    }
                    return Ok(Some(next));
                }
                (None, None) => return Ok(None),
                (Some(_), None) => {
                    parser.expect_word_of(")", &[])?;
                    self.waiting.pop();
                }
            }
        }
    }

    fn push(&mut self, part: Part) {
        self.sides.push(self.parts.len());
        self.parts.push(part);
    }

    /// Joins the last two sides with a connective.
    fn join(&mut self, connective: Waiting) {
        self.sides.pop();
        let left = self.sides.pop().expect("a connective is parsed after its left side");
        self.push(if connective == Waiting::Or { Part::Or(left) } else { Part::And(left) });
    }
}

/// Parses a condition on one label.
fn test(parser: &mut Parser) -> Result<Test, ParseError> {
    let name = parser.expect(Kind::Identifier, &[])?.text;
    let Kind::Word(operator) = parser.kind() else { return Err(parser.unexpected(&[])) };
    let comparison = match operator {
        "=~" | "!~" => {
            parser.take();
            let op = if operator == "=~" { MatchOp::Regex } else { MatchOp::NotRegex };
            return Ok(Test::Text(new_matcher(name, op, parser.string()?)?));
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
) -> Result<Test, ParseError> {
    let textual = matches!(operator, "=" | "!=");
    match parser.kind() {
        Kind::String if textual => {
            let op = if operator == "=" { MatchOp::Equal } else { MatchOp::NotEqual };
            Ok(Test::Text(new_matcher(name, op, parser.take().text)?))
        }
        Kind::Function("ip") if textual => {
            parser.take();
            parser.expect_word("(")?;
            let text = parser.string()?;
            parser.expect_word(")")?;
            let negated = operator == "!=";
            let set = IpSet::parse(&text)
                .map_err(|reason| stage_error(&format!("| {name}{operator}ip({})", quote(&text)), reason))?;
            Ok(Test::Ip { name, negated, set, text })
        }
        Kind::Duration => Ok(Test::Duration(name, comparison, parser.take().value)),
        Kind::Bytes => Ok(Test::Bytes(name, comparison, parser.take().value as u64)),
        Kind::Number | Kind::Word("+" | "-") => Ok(Test::Number(name, comparison, parser.literal()?)),
        _ => Err(parser.unexpected(&[])),
    }
}

impl fmt::Display for Test {
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
        }
    }
}

impl Test {
    fn name(&self) -> &str {
        match self {
            Self::Text(matcher) => matcher.name(),
            Self::Number(name, ..)
            | Self::Duration(name, ..)
            | Self::Bytes(name, ..)
            | Self::Ip { name, .. } => name,
        }
    }

    fn compile(&self, names: &mut Names) -> Check {
        match self {
            Self::Text(matcher) => Check::Text(names.id(matcher.name()), matcher.clone()),
            Self::Number(name, op, value) => Check::Number(names.id(name), *op, *value),
            Self::Duration(name, op, value) => Check::Duration(names.id(name), *op, *value),
            Self::Bytes(name, op, value) => Check::Bytes(names.id(name), *op, *value),
            Self::Ip { name, negated, set, .. } => Check::Ip(names.id(name), *negated, *set),
        }
    }
}

/// A condition; the last node is the root.
#[derive(Debug)]
struct LabelFilter {
    parts: Vec<Part>,
}

/// A position in a traversal of a condition from left to right.
enum Visit<'a> {
    Test(&'a Test),
    /// Before the left side of a connective.
    Before,
    /// Between the sides of the connective at this index.
    Between(usize, &'a Part),
    /// After the right side of the connective at this index.
    After(usize, &'a Part),
}

impl LabelFilter {
    fn walk<'a, E>(&'a self, mut f: impl FnMut(Visit<'a>) -> Result<(), E>) -> Result<(), E> {
        enum Task<'a> {
            Enter(usize),
            Visit(Visit<'a>),
        }
        let mut tasks = vec![Task::Enter(self.parts.len() - 1)];
        while let Some(task) = tasks.pop() {
            let place = match task {
                Task::Visit(visit) => {
                    f(visit)?;
                    continue;
                }
                Task::Enter(place) => place,
            };
            match &self.parts[place] {
                Part::Test(test) => f(Visit::Test(test))?,
                part @ (Part::And(left) | Part::Or(left)) => {
                    f(Visit::Before)?;
                    tasks.extend([
                        Task::Visit(Visit::After(place, part)),
                        Task::Enter(place - 1),
                        Task::Visit(Visit::Between(place, part)),
                        Task::Enter(*left),
                    ]);
                }
            }
        }
        Ok(())
    }

    fn tests(&self) -> impl Iterator<Item = &Test> {
        self.parts.iter().filter_map(|part| match part {
            Part::Test(test) => Some(test),
            Part::And(_) | Part::Or(_) => None,
        })
    }
}

impl fmt::Display for LabelFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("| ")?;
        self.walk(|visit| match visit {
            Visit::Test(test) => test.fmt(f),
            Visit::Before => f.write_str("( "),
            Visit::Between(_, Part::Or(_)) => f.write_str(" or "),
            Visit::Between(..) => f.write_str(" , "),
            Visit::After(..) => f.write_str(" )"),
        })
    }
}

impl StageNode for LabelFilter {
    fn effect(&self) -> Effect {
        Effect::default()
    }

    fn reads(&self) -> Vec<String> {
        self.tests().map(|test| test.name().to_owned()).collect()
    }

    fn filtered_label(&self) -> Option<String> {
        match self.parts.as_slice() {
            [Part::Test(test)] => Some(test.name().to_owned()),
            _ => None,
        }
    }

    fn memory_bytes(&self) -> u64 {
        self.tests().map(|test| if let Test::Text(matcher) = test { matcher.memory_bytes() } else { 0 }).sum()
    }

    fn start(&self, names: &mut Names) -> Box<dyn Stage> {
        let mut steps = Vec::with_capacity(self.parts.len());
        // The index of the jump of each `or`, whose target is set later.
        let mut jumps = vec![0; self.parts.len()];
        let outcome: Result<(), std::convert::Infallible> = self.walk(|visit| {
            match visit {
                Visit::Before => {}
                Visit::Test(test) => steps.push(Step::Check(test.compile(names))),
                Visit::Between(place, Part::Or(_)) => {
                    jumps[place] = steps.len();
                    steps.push(Step::SkipWhenTrue(0));
                }
                Visit::Between(..) => steps.push(Step::Keep),
                Visit::After(place, Part::Or(_)) => {
                    let after = steps.len();
                    steps[jumps[place]] = Step::SkipWhenTrue(after);
                }
                Visit::After(..) => steps.push(Step::AndKept),
            }
            Ok(())
        });
        let Ok(()) = outcome;
        Box::new(Running { steps, kept: Vec::new() })
    }
}

/// A compiled condition: steps that update the outcome.
struct Running {
    steps: Vec<Step>,
    /// The saved outcomes of the left sides of `and`.
    kept: Vec<bool>,
}

enum Step {
    Check(Check),
    /// Saves the outcome of the left side of an `and`.
    Keep,
    /// Combines the outcome with the last saved one. Both sides of an `and` run even if the first is false,
    /// because either may mark the row.
    AndKept,
    /// Jumps to this step if the outcome is true.
    SkipWhenTrue(usize),
}

impl Stage for Running {
    fn process(&mut self, row: &mut Row<'_>) -> bool {
        let (mut outcome, mut at) = (true, 0);
        while let Some(step) = self.steps.get(at) {
            at += 1;
            match step {
                Step::Check(check) => outcome = check.holds(row),
                Step::Keep => self.kept.push(outcome),
                Step::AndKept => outcome &= self.kept.pop().unwrap_or(true),
                Step::SkipWhenTrue(after) if outcome => at = *after,
                Step::SkipWhenTrue(_) => {}
            }
        }
        outcome
    }
}

enum Check {
    Text(NameId, Matcher),
    Number(NameId, Comparison, f64),
    Duration(NameId, Comparison, i64),
    Bytes(NameId, Comparison, u64),
    Ip(NameId, bool, IpSet),
}

impl Check {
    fn holds(&self, row: &mut Row<'_>) -> bool {
        match self {
            // As in Loki, filters do not see the details of an error as a label.
            Self::Text(ERROR_DETAILS_ID, matcher) => matcher.matches(row.get(ERROR_DETAILS_ID).unwrap_or("")),
            Self::Text(name, matcher) => matcher.matches(row.value(*name)),
            Self::Number(name, op, value) => compare(row, *name, *op, *value, parse_float),
            Self::Duration(name, op, value) => compare(row, *name, *op, *value, parse_go_duration),
            Self::Bytes(name, op, value) => compare(row, *name, *op, *value, parse_bytes),
            Self::Ip(name, negated, set) => {
                // After an error, only string filters decide.
                if row.error().is_some() {
                    return true;
                }
                row.get(*name).is_some_and(|text| set.found_in(text.as_bytes()) != *negated)
            }
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
    fn conditions_filter_rows() {
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
    fn an_invalid_value_marks_the_row() {
        for condition in ["word > 1", "word > 1s", "word > 1KB", "status > 1s"] {
            let out = run(&format!(r#"{{app="s"}} | logfmt | {condition}"#), LINE).unwrap();
            let error = out.parsed.iter().find(|(n, _)| n == "__error__");
            assert_eq!(error.map(|(_, v)| v.as_str()), Some("LabelFilterErr"), "{condition}");
        }
        assert!(run(r#"{app="s"} | logfmt | word > 1 | __error__="""#, LINE).is_none());
        assert!(run(r#"{app="s"} | logfmt | word > 1 | __error__="LabelFilterErr""#, LINE).is_some());
    }
}
