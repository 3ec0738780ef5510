//! `pattern "<ip> - <user> ..."`: extracts the text between literals as labels.

use std::fmt;
use std::sync::Arc;

use sandur_model::go_text::quote;

use crate::error::ParseError;
use crate::names::{NameId, Names};
use crate::parser::cursor::Parser;
use crate::pattern_text::Pattern;
use crate::row::{Row, Stage};
use crate::stage::node::{Effect, StageNode, StageSpec};

pub const SPEC: StageSpec = StageSpec {
    name: "pattern",
    syntax: "| pattern \"<name> text <_>\"",
    doc: "Extracts labels from the text between literals; `<_>` skips text.",
    examples: &["| pattern \"<n> text <_>\""],
    parse,
};

fn parse(parser: &mut Parser) -> Result<Arc<dyn StageNode>, ParseError> {
    let text = parser.string()?;
    let invalid = |reason: String| ParseError::whole(format!("invalid pattern parser: {reason}"));
    let pattern = Pattern::parse(&text).map_err(invalid)?;
    let names: Vec<&str> = pattern.names().collect();
    if names.is_empty() {
        return Err(invalid("at least one capture is required".to_owned()));
    }
    if let Some((_, twice)) = names.iter().enumerate().find(|(n, name)| names[..*n].contains(name)) {
        return Err(invalid(format!("duplicate capture name ({twice}): invalid expression")));
    }
    Ok(Arc::new(PatternParser { text, pattern }))
}

#[derive(Debug)]
struct PatternParser {
    text: String,
    pattern: Pattern,
}

impl fmt::Display for PatternParser {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "| pattern {}", quote(&self.text))
    }
}

impl StageNode for PatternParser {
    fn effect(&self) -> Effect {
        Effect { reads_line: true, only_extracts: true, changes_labels: true, ..Effect::default() }
    }

    fn start(&self, names: &mut Names) -> Box<dyn Stage> {
        let names = self.pattern.names().map(|name| names.id(name)).collect();
        Box::new(Running { pattern: self.pattern.clone(), names })
    }
}

struct Running {
    pattern: Pattern,
    names: Vec<NameId>,
}

impl Stage for Running {
    fn process(&mut self, row: &mut Row<'_>) -> bool {
        if row.wanted().nothing() || row.has_all_wanted() {
            return true;
        }
        row.with_line(|row, line| {
            if line.is_empty() {
                return;
            }
            self.pattern.captures(line, |position, text| {
                let name = row.free_name(self.names[position]);
                if !row.is_rejected() && row.wants(name) {
                    row.set_with(name, text.len(), |out| out.extend_from_slice(text));
                    row.passes_early(name);
                }
            });
        });
        !row.is_rejected()
    }
}

#[cfg(test)]
mod tests {
    use crate::stage::testing::labels;

    #[test]
    fn captures_become_labels() {
        let line = r#"1.2.3.4 - - [now] "GET /x HTTP/1.1" 200"#;
        let query = r#"{app="s"} | pattern `<ip> - <_> [<_>] "<method> <path> <_>" <app>`"#;
        assert_eq!(labels(query, line), "app_extracted=200 ip=1.2.3.4 method=GET path=/x");
        assert_eq!(labels(r#"{app="s"} | pattern "x <a>""#, "y 1"), "");
    }

    #[test]
    fn invalid_patterns_are_refused() {
        for (pattern, reason) in [
            ("no capture", "at least one capture is required"),
            ("<_>", "at least one capture is required"),
            ("<a><b>", "found consecutive capture '<a><b>': invalid expression"),
            ("<a> <a>", "duplicate capture name (a): invalid expression"),
        ] {
            let error = crate::parse(&format!(r#"{{app="s"}} | pattern "{pattern}""#)).unwrap_err();
            assert_eq!(error.to_string(), format!("parse error : invalid pattern parser: {reason}"));
        }
    }
}
