//! Line filters: `|= "text"`, `!=`, `|~ "regex"`, `!~`, `|> "pattern"`, `!>`, with `or` and `ip("..")`.
//!
//! The filters before any stage that changes the line also search complete pages (see
//! [`crate::page_filter`]).

use std::sync::Arc;

use memchr::memmem::Finder;

use crate::error::ParseError;
use crate::go_regex::{compile_hir, parse_hir};
use crate::ip::IpSet;
use crate::lexer::Kind;
use crate::line_filter::LineFilter;
use crate::line_test::LineTest;
use crate::names::Names;
use crate::parser::cursor::Parser;
use crate::pattern_text::Pattern;
use crate::row::{Row, Stage};
use crate::stage::node::{Effect, StageNode, stage_error};

/// The operators of line filters.
pub const LINE_FILTERS: &[&str] = &["|=", "!=", "|~", "!~", "|>", "!>"];

/// Parses a filter with its alternatives.
pub fn parse(parser: &mut Parser) -> Result<Arc<dyn StageNode>, ParseError> {
    let Kind::Word(operator) = parser.kind() else { return Err(parser.unexpected(&[])) };
    parser.take();
    let mut filter = LineFilter::new(operator);
    loop {
        let ip = parser.kind() == Kind::Function("ip");
        let text = if ip {
            parser.take();
            parser.expect_word("(")?;
            let text = parser.string()?;
            parser.expect_word(")")?;
            text
        } else {
            parser.expect(Kind::String, &["STRING", "ip"])?.text
        };
        let test = new_test(operator, ip, &text);
        filter.texts.push((ip, text));
        filter.tests.push(test.map_err(|reason| stage_error(&filter, reason))?);
        if !parser.take_word("or") {
            return Ok(Arc::new(filter));
        }
    }
}

fn new_test(operator: &str, ip: bool, text: &str) -> Result<LineTest, String> {
    match (operator, ip) {
        ("|=" | "!=", true) => Ok(LineTest::Ip(IpSet::parse(text)?)),
        (_, true) => Err("ip: invalid operation".to_owned()),
        ("|=" | "!=", false) => Ok(literal(text.as_bytes())),
        ("|~" | "!~", false) => {
            let hir = parse_hir(text)?;
            // An expression without meta-characters is a literal, whose search is faster.
            if let regex_syntax::hir::HirKind::Literal(found) = hir.kind() {
                return Ok(literal(&found.0));
            }
            if matches!(text, "" | ".*" | ".*.*") {
                return Ok(literal(b""));
            }
            let regex = compile_hir(&hir).map_err(|error| error.to_string())?;
            Ok(LineTest::Regex { hir, regex })
        }
        _ => {
            let pattern = Pattern::parse(text)?;
            if let Some(name) = pattern.names().next() {
                return Err(format!("named captures are not allowed: found '<{name}>'"));
            }
            Ok(LineTest::Pattern(pattern))
        }
    }
}

fn literal(needle: &[u8]) -> LineTest {
    LineTest::Literal(Box::new(Finder::new(needle).into_owned()))
}

impl StageNode for LineFilter {
    fn effect(&self) -> Effect {
        Effect { reads_line: true, ..Effect::default() }
    }

    fn memory_bytes(&self) -> u64 {
        // Compiled twice: for lines and for pages.
        let bytes = |test: &LineTest| match test {
            LineTest::Regex { regex, .. } => 2 * regex.memory_bytes(),
            LineTest::Literal(finder) => 64 * finder.needle().len() as u64,
            LineTest::Pattern(_) | LineTest::Ip(_) => 0,
        };
        self.tests.iter().map(bytes).sum()
    }

    fn start(&self, _names: &mut Names) -> Box<dyn Stage> {
        Box::new(self.clone())
    }

    fn line_filter(&self) -> Option<&LineFilter> {
        Some(self)
    }
}

impl Stage for LineFilter {
    fn process(&mut self, row: &mut Row<'_>) -> bool {
        self.passes(row.line())
    }
}

#[cfg(test)]
mod tests {
    use crate::stage::testing::run;

    #[test]
    fn filters_select_lines() {
        for (filter, line, kept) in [
            (r#"|= "ell""#, "hello", true),
            (r#"|= "elx""#, "hello", false),
            (r#"|= """#, "hello", true),
            (r#"!= """#, "hello", false),
            (r#"!= "ell""#, "hello", false),
            (r#"|= "x" or "ell""#, "hello", true),
            (r#"!= "x" or "ell""#, "hello", false),
            (r#"!= "x" or "y""#, "hello", true),
            (r#"|= "h" |= "o" != "x""#, "hello", true),
            (r#"|~ "^h.*o$""#, "hello", true),
            (r#"|~ "(?i)HELLO""#, "hello", true),
            (r#"|~ "l{3}""#, "hello", false),
            (r#"!~ "l+" or "z""#, "hello", false),
            (r#"|~ "a.c""#, "abc", true),
            (r#"|~ "ell""#, "hello", true),
            (r#"|~ ".*""#, "hello", true),
            (r#"|> "he<_>o""#, "hello", true),
            (r#"!> "he<_>o""#, "hello", false),
            (r#"|> "hello""#, "hello!", false),
            (r#"|= ip("10.0.0.0/8")"#, "from 10.1.2.3", true),
            (r#"!= ip("10.0.0.0/8")"#, "from 10.1.2.3", false),
            (r#"|= ip("10.0.0.0/8") or "none""#, "none", true),
        ] {
            assert_eq!(run(&format!(r#"{{a="b"}} {filter}"#), line).is_some(), kept, "{filter} on {line}");
        }
    }

    #[test]
    fn invalid_filters_are_refused() {
        for (filter, reason) in [
            (r#"|~ "(""#, "error parsing regexp"),
            (r#"|~ ip("1.2.3.4")"#, "ip: invalid operation"),
            (r#"|= ip("x")"#, "ip: invalid pattern"),
            (r#"|> "<name>""#, "named captures are not allowed: found '<name>'"),
        ] {
            let error = crate::parse(&format!(r#"{{a="b"}} {filter}"#)).unwrap_err().to_string();
            assert!(error.contains(reason), "{filter}: {error}");
        }
    }
}
