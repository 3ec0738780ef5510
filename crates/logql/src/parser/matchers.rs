//! Parses selectors and matchers.

use sandur_model::{MatchOp, Matcher};

use crate::error::ParseError;
use crate::go_regex;
use crate::lexer::Kind;
use crate::parser::cursor::Parser;

const ALL_STREAMS: &str = "queries require at least one regexp or equality matcher that does not have an \
    empty-compatible value. For instance, app=~\".*\" does not meet this requirement, but app=~\".+\" will";

/// Fails if the matchers would select every stream.
pub fn validate_matchers(matchers: &[Matcher]) -> Result<(), ParseError> {
    let narrows = |m: &Matcher| match m.op() {
        MatchOp::Equal | MatchOp::Regex => !m.matches_empty(),
        MatchOp::NotEqual | MatchOp::NotRegex => false,
    };
    if matchers.iter().any(narrows) { Ok(()) } else { Err(ParseError::whole(ALL_STREAMS)) }
}

impl Parser {
    /// Parses `{a="b", c=~"d"}`.
    pub fn selector(&mut self) -> Result<Vec<Matcher>, ParseError> {
        self.expect_word("{")?;
        let mut matchers = Vec::new();
        if self.take_word("}") {
            return Ok(matchers);
        }
        if self.kind() != Kind::Identifier {
            return Err(self.unexpected(&["IDENTIFIER", "}"]));
        }
        loop {
            matchers.push(self.matcher()?);
            if self.take_word("}") {
                return Ok(matchers);
            }
            self.expect_word_of(",", &["}", ","])?;
        }
    }

    /// Parses `name="value"`.
    pub fn matcher(&mut self) -> Result<Matcher, ParseError> {
        let name = self.expect(Kind::Identifier, &["IDENTIFIER"])?.text;
        let op = match self.kind() {
            Kind::Word("=") => MatchOp::Equal,
            Kind::Word("!=") => MatchOp::NotEqual,
            Kind::Word("=~") => MatchOp::Regex,
            Kind::Word("!~") => MatchOp::NotRegex,
            _ => return Err(self.unexpected(&["=", "=~", "!~", "!="])),
        };
        self.take();
        let value = self.string()?;
        new_matcher(name, op, value)
    }

    /// Parses the list of `drop` and `keep`: `a` or `a="b"`, separated by commas.
    pub fn named_matchers(&mut self) -> Result<Vec<NamedMatcher>, ParseError> {
        let mut list = Vec::new();
        loop {
            let compared = matches!(self.peek_second().kind, Kind::Word("=" | "!=" | "=~" | "!~"));
            list.push(if compared {
                NamedMatcher::Matcher(self.matcher()?)
            } else {
                NamedMatcher::Name(self.expect(Kind::Identifier, &["IDENTIFIER"])?.text)
            });
            if !self.take_word(",") {
                return Ok(list);
            }
        }
    }
}

/// A label, with any value or with a matching one.
#[derive(Clone, Debug)]
pub enum NamedMatcher {
    /// With any value.
    Name(String),
    /// With a value that matches.
    Matcher(Matcher),
}

impl NamedMatcher {
    /// Its bytes besides its text.
    pub fn memory_bytes(&self) -> u64 {
        match self {
            Self::Name(_) => 0,
            Self::Matcher(matcher) => matcher.memory_bytes(),
        }
    }
}

/// Compiles a matcher; the parse error if its regular expression is invalid.
pub fn new_matcher(name: String, op: MatchOp, value: String) -> Result<Matcher, ParseError> {
    let pattern = value.clone();
    Matcher::new(name, op, value)
        .map_err(|error| ParseError::whole(go_regex::reason(&pattern, &error.reason)))
}
