//! `json label="path", ..`: extracts the values at given paths as labels; a path without a value makes an
//! empty label.

use std::fmt;
use std::sync::Arc;

use sandur_model::LineReducer;
use sandur_model::go_text::quote;

use crate::error::ParseError;
use crate::lexer::Kind;
use crate::names::{NameId, Names};
use crate::parser::cursor::Parser;
use crate::row::{Row, Stage};
use crate::stage::json_reduce::JsonReducer;
use crate::stage::json_scan::{Step, find, parse_path};
use crate::stage::json_value::{JSON_ERROR, set_value};
use crate::stage::node::{Effect, StageNode, stage_error};
use crate::stage::reduce::WantedNames;

/// A label and the path of its value.
#[derive(Clone, Debug)]
pub struct Expression {
    /// The label.
    pub label: String,
    /// The text of the path.
    pub text: String,
}

impl fmt::Display for Expression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.label, quote(&self.text))
    }
}

/// Parses `a="x", b, c="y"`.
pub fn parse_list(parser: &mut Parser) -> Result<Vec<Expression>, ParseError> {
    let mut list = Vec::new();
    loop {
        let label = parser.expect(Kind::Identifier, &["IDENTIFIER"])?.text;
        let text = if parser.take_word("=") { parser.string()? } else { label.clone() };
        list.push(Expression { label, text });
        if !parser.take_word(",") {
            return Ok(list);
        }
    }
}

/// Formats expressions, separated by commas.
pub fn join(expressions: &[Expression]) -> String {
    expressions.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
}

pub fn parse(parser: &mut Parser) -> Result<Arc<dyn StageNode>, ParseError> {
    let expressions = parse_list(parser)?;
    let mut node = JsonExpressions { expressions, paths: Vec::new() };
    for n in 0..node.expressions.len() {
        let text = &node.expressions[n].text;
        let path = parse_path(text)
            .map_err(|reason| stage_error(&node, format!("cannot parse expression [{text}]: {reason}")))?;
        node.paths.push(path);
    }
    Ok(Arc::new(node))
}

#[derive(Debug)]
struct JsonExpressions {
    expressions: Vec<Expression>,
    paths: Vec<Vec<Step>>,
}

impl fmt::Display for JsonExpressions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "| json {}", join(&self.expressions))
    }
}

impl StageNode for JsonExpressions {
    fn effect(&self) -> Effect {
        Effect { reads_line: true, only_extracts: true, changes_labels: true, ..Effect::default() }
    }

    fn start(&self, names: &mut Names) -> Box<dyn Stage> {
        let labels = self.expressions.iter().map(|e| names.id(&e.label));
        Box::new(Running { wanted: labels.zip(self.paths.iter().cloned()).collect() })
    }

    fn reducer(&self, _wanted: &[String]) -> Option<Arc<dyn LineReducer>> {
        let key = |path: &Vec<Step>| match path.first() {
            Some(Step::Key(key)) => Some(key.clone().into_bytes()),
            Some(Step::Index(_)) | None => None,
        };
        let keys = self.paths.iter().map(key).collect::<Option<Vec<_>>>()?;
        Some(Arc::new(JsonReducer::Keys(WantedNames::new(keys))))
    }
}

struct Running {
    wanted: Vec<(NameId, Vec<Step>)>,
}

impl Stage for Running {
    fn process(&mut self, row: &mut Row<'_>) -> bool {
        if row.line().is_empty() || row.wanted().nothing() || row.has_all_wanted() {
            return true;
        }
        row.with_line(|row, line| {
            if !matches!(line[0], b'"' | b'{' | b'[') {
                row.fail_without_details(JSON_ERROR);
                return;
            }
            for (label, path) in &self.wanted {
                // Malformed JSON after the value does not matter.
                if let Ok(Some(value)) = find(line, path) {
                    let name = row.free_name(*label);
                    set_value(row, name, value);
                } else if row.get(*label).is_none() {
                    row.set(*label, "");
                }
            }
        });
        true
    }
}

#[cfg(test)]
mod tests {
    use crate::stage::testing::labels;

    #[test]
    fn values_at_paths_become_labels() {
        let line = r#"{"user":{"id":"u1","tags":["x","y"]},"app":"p","n":null}"#;
        for (stage, expected) in [
            (r#"json id="user.id""#, "id=u1"),
            (r#"json t="user.tags[1]", all="user.tags""#, r#"all=["x","y"] t=y"#),
            (r#"json u="user""#, r#"u={"id":"u1","tags":["x","y"]}"#),
            (r#"json miss="user.age", n"#, "miss= n="),
            ("json app", "app_extracted=p"),
        ] {
            assert_eq!(labels(&format!(r#"{{app="s"}} | {stage}"#), line), expected, "{stage}");
        }
        let cut = r#"{"a":1,"b":2,"c":{"d":"#;
        assert_eq!(labels(r#"{app="s"} | json a, z="b", c"#, cut), "a=1 c= z=2");
        assert_eq!(labels(r#"{app="s"} | json a="b""#, "nope"), "__error__=JSONParserErr");
    }

    #[test]
    fn an_invalid_path_is_a_parse_error() {
        let error = crate::parse(r#"{app="s"} | json bad="user[""#).unwrap_err();
        assert!(error.to_string().contains("cannot parse expression [user[]"), "{error}");
    }
}
