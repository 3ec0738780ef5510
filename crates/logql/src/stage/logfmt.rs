//! `logfmt`: extracts the pairs of a logfmt line as labels, all of them or the named ones.

use std::fmt;
use std::sync::Arc;

use sandur_model::LineReducer;

use crate::error::ParseError;
use crate::lexer::Kind;
use crate::names::{NameId, Names};
use crate::parser::cursor::Parser;
use crate::row::{Row, Stage};
use crate::stage::json_expressions::{Expression, join, parse_list};
use crate::stage::keys::{append_sanitized, key_name};
use crate::stage::logfmt_reduce::LogfmtReducer;
use crate::stage::logfmt_scan::{Pair, Pairs};
use crate::stage::node::{Effect, StageNode, StageSpec};
use crate::stage::reduce::WantedNames;

/// The `__error__` of a line that is not valid logfmt.
pub const LOGFMT_ERROR: &str = "LogfmtParserErr";

pub const SPEC: StageSpec = StageSpec {
    name: "logfmt",
    syntax: "| logfmt [--strict] [--keep-empty] [label[=\"key\"], ..]",
    doc: "Extracts labels from `key=value` pairs: all of them, or the named ones. Skips malformed pairs; \
          with --strict, they are an error. Skips empty values, except with --keep-empty.",
    examples: &["| logfmt", "| logfmt --strict --keep-empty n=\"m\""],
    parse,
};

fn parse(parser: &mut Parser) -> Result<Arc<dyn StageNode>, ParseError> {
    let (mut strict, mut keep_empty) = (false, false);
    while parser.kind() == Kind::Flag {
        match parser.take().text.as_str() {
            "--strict" => strict = true,
            _ => keep_empty = true,
        }
    }
    let expressions = if parser.kind() == Kind::Identifier { parse_list(parser)? } else { Vec::new() };
    for expression in &expressions {
        let text = expression.text.trim();
        let begins = |c: char| c.is_alphanumeric() || matches!(c, '_' | '"' | '-' | '.');
        if !text.starts_with(begins) {
            let message =
                format!("cannot parse expression [{}]: syntax error: unexpected $end", expression.text);
            return Err(ParseError::whole(message));
        }
    }
    Ok(Arc::new(Logfmt { strict, keep_empty, expressions }))
}

#[derive(Debug)]
struct Logfmt {
    strict: bool,
    keep_empty: bool,
    expressions: Vec<Expression>,
}

impl fmt::Display for Logfmt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("| logfmt")?;
        if self.strict {
            f.write_str(" --strict")?;
        }
        if self.keep_empty {
            f.write_str(" --keep-empty")?;
        }
        if !self.expressions.is_empty() {
            write!(f, " {}", join(&self.expressions))?;
        }
        Ok(())
    }
}

impl StageNode for Logfmt {
    fn effect(&self) -> Effect {
        Effect { reads_line: true, only_extracts: true, changes_labels: true, ..Effect::default() }
    }

    fn start(&self, names: &mut Names) -> Box<dyn Stage> {
        if self.expressions.is_empty() {
            return Box::new(All { strict: self.strict, keep_empty: self.keep_empty });
        }
        let named = self.expressions.iter().map(|e| {
            let key = key_of(&e.text);
            NamedLabel { id: names.id(&e.label), name: e.label.clone().into_bytes(), key }
        });
        Box::new(Named { strict: self.strict, labels: named.collect(), key: Vec::new() })
    }

    fn reducer(&self, wanted: &[String]) -> Option<Arc<dyn LineReducer>> {
        let is_named = !self.expressions.is_empty();
        let wanted = match is_named {
            false => WantedNames::of_labels(wanted),
            true => {
                let names = |e: &Expression| [key_of(&e.text), e.label.clone().into_bytes()];
                WantedNames::new(self.expressions.iter().flat_map(names))
            }
        };
        Some(Arc::new(LogfmtReducer { wanted, keeps_empty: self.keep_empty || is_named }))
    }
}

/// The label name that an expression selects: the text within its quotes, of which the last may be missing,
/// or the label name of the expression.
fn key_of(expression: &str) -> Vec<u8> {
    if let Some(quoted) = expression.trim().strip_prefix('"') {
        let (name, rest) = quoted.split_once(['"', ']']).unwrap_or((quoted, ""));
        if rest.trim().is_empty() {
            return name.as_bytes().to_vec();
        }
    }
    let mut name = Vec::new();
    append_sanitized(&mut name, expression.as_bytes());
    name
}

struct All {
    strict: bool,
    keep_empty: bool,
}

impl Stage for All {
    fn process(&mut self, row: &mut Row<'_>) -> bool {
        if row.wanted().nothing() || row.has_all_wanted() {
            return true;
        }
        row.with_line(|row, line| {
            for pair in Pairs::new(line) {
                match pair {
                    Ok(pair) => {
                        self.extract(row, &pair);
                        if row.is_rejected() || row.has_all_wanted() {
                            return;
                        }
                    }
                    Err(broken) if self.strict => {
                        row.fail(LOGFMT_ERROR, broken);
                        return;
                    }
                    Err(_) => {}
                }
            }
        });
        !row.is_rejected()
    }
}

impl All {
    fn extract(&self, row: &mut Row<'_>, pair: &Pair<'_>) {
        if pair.value.is_empty() && !self.keep_empty {
            return;
        }
        let Some(name) = key_name(row, pair.key) else { return };
        let name = row.free_name(name);
        if row.wants(name) {
            row.set_with(name, pair.value_bytes_max(), |text| pair.append_value(text));
            row.passes_early(name);
        }
    }
}

struct Named {
    strict: bool,
    labels: Vec<NamedLabel>,
    key: Vec<u8>,
}

/// A label, and its key converted to a label name.
struct NamedLabel {
    id: NameId,
    name: Vec<u8>,
    key: Vec<u8>,
}

impl Stage for Named {
    fn process(&mut self, row: &mut Row<'_>) -> bool {
        if row.wanted().nothing() || row.has_all_wanted() {
            return true;
        }
        for label in &self.labels {
            if !row.base_has(label.id) {
                row.set(label.id, "");
            }
        }
        row.with_line(|row, line| {
            for pair in Pairs::new(line) {
                match pair {
                    Ok(pair) => {
                        if !self.extract(row, &pair) {
                            return;
                        }
                    }
                    Err(broken) if self.strict => {
                        row.fail(LOGFMT_ERROR, broken);
                        return;
                    }
                    Err(_) => {}
                }
            }
        });
        true
    }
}

impl Named {
    /// Sets the label of a pair. Returns false if, as in Loki, the rest of the line does not matter: all
    /// wanted labels are set, or a label that was already stored with `_extracted` occurs again.
    fn extract(&mut self, row: &mut Row<'_>, pair: &Pair<'_>) -> bool {
        self.key.clear();
        append_sanitized(&mut self.key, pair.key);
        // As in Loki, a key that equals the label's own name sets it too.
        let by_key = self.labels.iter().find(|label| label.key == self.key);
        if let Some(label) = by_key.or_else(|| self.labels.iter().find(|label| label.name == self.key)) {
            // As in Loki, a key with another label name is not read again if a stage has already extracted
            // it.
            if label.name != self.key && row.was_extracted(&self.key) {
                return true;
            }
            let name = row.free_name(label.id);
            if name != label.id && !row.wants(name) {
                return false;
            }
            row.set_with(name, pair.value_bytes_max(), |text| {
                let start = text.len();
                pair.append_value(text);
                // When all pairs are extracted, invalid UTF-8 becomes spaces; here the value becomes empty.
                if std::str::from_utf8(&text[start..]).is_err() {
                    text.truncate(start);
                }
            });
            return !row.has_all_wanted();
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use crate::stage::testing::labels;

    #[test]
    fn pairs_become_labels() {
        let line = r#"level=info a-b=1 9x=2 dup=1 dup=2 msg="hi \"there\"" empty= app=p bad"x"#;
        for (stage, expected) in [
            ("logfmt", r#"_9x=2 a_b=1 app_extracted=p dup=1 level=info msg=hi "there""#),
            ("logfmt --keep-empty", r#"_9x=2 a_b=1 app_extracted=p dup=1 empty= level=info msg=hi "there""#),
            (r#"logfmt level, code="a-b", none"#, "code=1 level=info none="),
            ("logfmt app", "app_extracted=p"),
            (
                r#"logfmt code="\"a_b\"", open="\"level", two="\"level\"x", dashed="\"a-b\"""#,
                "code=1 dashed= open=info two=",
            ),
            // The last value of a repeated key counts, unless the name is taken.
            ("logfmt dup", "dup=2"),
            (r#"logfmt level="nothing""#, "level=info"),
        ] {
            assert_eq!(labels(&format!(r#"{{app="s"}} | {stage}"#), line), expected, "{stage}");
        }
    }

    #[test]
    fn strict_fails_at_the_first_malformed_pair() {
        let query = r#"{app="s"} | logfmt --strict"#;
        assert_eq!(labels(query, r#"good=1 bad="open"#), "__error__=LogfmtParserErr good=1");
        assert_eq!(labels(query, "a=1 b=2"), "a=1 b=2");
        assert_eq!(labels(r#"{app="s"} | logfmt --strict a"#, "b=c=d a=1"), "__error__=LogfmtParserErr a=");
    }
}
