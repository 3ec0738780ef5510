//! `json`: extracts every member of the line's object as a label; names of nested members are joined with
//! `_`.

use std::fmt;
use std::sync::Arc;

use sandur_model::LineReducer;

use crate::error::ParseError;
use crate::lexer::Kind;
use crate::names::{NameId, Names};
use crate::parser::cursor::Parser;
use crate::row::{Row, Stage, Wanted};
use crate::stage::json_expressions;
use crate::stage::json_reduce::JsonReducer;
use crate::stage::json_scan::{Flow, Malformed, Value, append_unescaped, each_member};
use crate::stage::json_value::{JSON_ERROR, set_value};
use crate::stage::keys::{append_sanitized, key_name, known_name};
use crate::stage::node::{Effect, StageNode, StageSpec};
use crate::stage::reduce::WantedNames;

/// The deepest nesting that is read, which bounds the recursion.
const DEPTH_MAX: usize = 64;

pub const SPEC: StageSpec = StageSpec {
    name: "json",
    syntax: "| json [label[=\"path\"], ..]",
    doc: "Extracts labels from a JSON object: all members, or those at the given paths.",
    examples: &["| json", "| json n=\"a\""],
    parse,
};

fn parse(parser: &mut Parser) -> Result<Arc<dyn StageNode>, ParseError> {
    if parser.kind() == Kind::Identifier {
        return json_expressions::parse(parser);
    }
    Ok(Arc::new(Json))
}

#[derive(Debug)]
struct Json;

impl fmt::Display for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("| json")
    }
}

impl StageNode for Json {
    fn effect(&self) -> Effect {
        Effect { reads_line: true, only_extracts: true, changes_labels: true, ..Effect::default() }
    }

    fn start(&self, _names: &mut Names) -> Box<dyn Stage> {
        Box::new(Json)
    }

    fn reducer(&self, wanted: &[String]) -> Option<Arc<dyn LineReducer>> {
        Some(Arc::new(JsonReducer::Labels(WantedNames::of_labels(wanted))))
    }
}

impl Stage for Json {
    fn process(&mut self, row: &mut Row<'_>) -> bool {
        if row.wanted().nothing() || row.has_all_wanted() {
            return true;
        }
        row.with_line(|row, line| {
            let mut path = std::mem::take(&mut row.scratch.path);
            path.clear();
            let outcome = members(row, line, &mut path, 0);
            row.scratch.path = path;
            if let Err(reason) = outcome {
                row.fail(JSON_ERROR, reason);
            }
        });
        !row.is_rejected()
    }
}

fn members(row: &mut Row<'_>, object: &[u8], path: &mut Vec<u8>, depth: usize) -> Result<Flow, Malformed> {
    each_member(object, &mut |key, value| {
        let mut plain = Vec::new();
        let key = if key.escaped {
            append_unescaped(&mut plain, key.raw);
            &plain
        } else {
            key.raw
        };
        let length = path.len();
        let flow = match value {
            Value::Null | Value::Array(_) => Flow::Continue,
            Value::Object(inner) => {
                append_key(path, key);
                if depth < DEPTH_MAX && wants_prefix(row, path) {
                    members(row, inner, path, depth + 1)?
                } else {
                    Flow::Continue
                }
            }
            Value::String(_) | Value::Number(_) | Value::Bool(_) => {
                let name = if length == 0 {
                    key_name(row, key)
                } else {
                    append_key(path, key);
                    known_name(row, path)
                };
                name.map_or(Flow::Continue, |name| extract(row, name, value))
            }
        };
        path.truncate(length);
        Ok(flow)
    })
}

fn append_key(path: &mut Vec<u8>, key: &[u8]) {
    if key.iter().all(u8::is_ascii_whitespace) {
        return;
    }
    if !path.is_empty() {
        path.push(b'_');
    }
    append_sanitized(path, key);
}

fn wants_prefix(row: &Row<'_>, prefix: &[u8]) -> bool {
    match row.wanted() {
        Wanted::All => true,
        Wanted::Only(names) => {
            names.ids().iter().any(|&n| row.scratch.names.name(n).as_bytes().starts_with(prefix))
        }
    }
}

fn extract(row: &mut Row<'_>, name: NameId, value: Value<'_>) -> Flow {
    let name = row.free_name(name);
    if !row.wants(name) {
        return Flow::Continue;
    }
    set_value(row, name, value);
    if !row.passes_early(name) || row.has_all_wanted() { Flow::Stop } else { Flow::Continue }
}

#[cfg(test)]
mod tests {
    use crate::stage::testing::{labels, run_wanting};

    #[test]
    fn members_become_labels() {
        for (line, expected) in [
            (r#"{"a":1,"b":"x","c":true,"d":null,"e":[1]}"#, "a=1 b=x c=true"),
            (r#"{"obj":{"x":1,"y":{"z":2}}}"#, "obj_x=1 obj_y_z=2"),
            (r#"{"a.b":1,"9":2,"dup":1,"dup":2}"#, "_9=2 a_b=1 dup=1"),
            (r#"{"app":"p"}"#, "app_extracted=p"),
            (r#"{"o":{"app":1},"app":2}"#, "app_extracted=2 o_app=1"),
            (r#"{"k\"ey":"v\n"}"#, "k_ey=v\n"),
            (r#"{"a":1,"b":}"#, "__error__=JSONParserErr a=1"),
            ("plain", "__error__=JSONParserErr"),
            ("", "__error__=JSONParserErr"),
            ("{}", ""),
        ] {
            assert_eq!(labels(r#"{app="s"} | json"#, line), expected, "{line}");
        }
    }

    #[test]
    fn only_what_is_wanted_is_extracted() {
        let line = r#"{"a":1,"o":{"x":{"y":2},"z":3},"p":{"x":4},"b":5"#;
        let out = run_wanting(r#"{s="s"} | json"#, line, Some(&["o_x_y", "p_x"])).unwrap();
        let names: Vec<&str> = out.parsed.iter().map(|(n, _)| n.as_str()).collect();
        assert_eq!(names, ["o_x_y", "p_x"], "stops before the malformed end");
        let out = run_wanting(r#"{s="s"} | json"#, line, Some(&["o_x_y", "s"])).unwrap();
        let names: Vec<&str> = out.parsed.iter().map(|(n, _)| n.as_str()).collect();
        assert_eq!(names, ["__error__", "o_x_y"], "for a missing label the line is read to its end");
    }
}
