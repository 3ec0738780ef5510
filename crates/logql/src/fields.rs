//! Detects fields in a line: the members of a JSON object, or else the pairs of logfmt.

use crate::row::ERROR;
use crate::stage::json_scan::{Flow, Malformed, Value, append_unescaped, each_member};
use crate::stage::keys::append_sanitized;
use crate::stage::logfmt_scan::Pairs;

/// The parser that found a line's fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FieldParser {
    /// `| json`
    Json,
    /// `| logfmt`
    Logfmt,
}

impl FieldParser {
    /// The name of the stage.
    pub fn name(self) -> &'static str {
        match self {
            Self::Json => "json",
            Self::Logfmt => "logfmt",
        }
    }
}

/// A field of a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// The label name that the parser gives it.
    pub name: String,
    /// The value.
    pub value: String,
    /// The path in a JSON object, outermost key first; empty for logfmt.
    pub path: Vec<String>,
}

/// The deepest nesting that is read, which bounds the recursion.
const DEPTH_MAX: usize = 64;

/// The fields of a line and the parser that found them. A line that is not a JSON object is parsed as
/// logfmt, which accepts every line but finds fields in few.
pub fn line_fields(line: &[u8]) -> (FieldParser, Vec<Field>) {
    let mut fields = Vec::new();
    if members(line, &mut Vec::new(), &mut fields).is_ok() {
        return (FieldParser::Json, first_of_each(fields));
    }
    fields.clear();
    for pair in Pairs::new(line).flatten().filter(|pair| !pair.value.is_empty()) {
        let mut value = Vec::new();
        pair.append_value(&mut value);
        let mut name = Vec::new();
        append_sanitized(&mut name, pair.key);
        if !name.is_empty() {
            fields.push(Field { name: text(&name), value: text(&value), path: Vec::new() });
        }
    }
    (FieldParser::Logfmt, first_of_each(fields))
}

/// Keeps the first of several fields with the same name.
fn first_of_each(mut fields: Vec<Field>) -> Vec<Field> {
    fields.sort_by(|a, b| a.name.cmp(&b.name));
    fields.dedup_by(|later, earlier| later.name == earlier.name);
    // The error label of a failed stage is not a field.
    fields.retain(|field| field.name != ERROR);
    fields
}

fn members(object: &[u8], path: &mut Vec<String>, fields: &mut Vec<Field>) -> Result<Flow, Malformed> {
    each_member(object, &mut |key, value| {
        let mut plain = Vec::new();
        if key.escaped {
            append_unescaped(&mut plain, key.raw);
        } else {
            plain.extend_from_slice(key.raw);
        }
        path.push(text(&plain));
        match value {
            Value::Object(inner) if path.len() < DEPTH_MAX => {
                members(inner, path, fields)?;
            }
            Value::String(raw) => {
                let mut unescaped = Vec::new();
                if !append_unescaped(&mut unescaped, raw) {
                    unescaped.clear();
                }
                fields.extend(field(path, &unescaped));
            }
            Value::Number(raw) | Value::Bool(raw) => fields.extend(field(path, raw)),
            Value::Object(_) | Value::Array(_) | Value::Null => {}
        }
        path.pop();
        Ok(Flow::Continue)
    })
}

fn field(path: &[String], value: &[u8]) -> Option<Field> {
    let mut name = Vec::new();
    for key in path.iter().filter(|key| !key.trim().is_empty()) {
        if !name.is_empty() {
            name.push(b'_');
        }
        append_sanitized(&mut name, key.as_bytes());
    }
    (!name.is_empty()).then(|| Field { name: text(&name), value: text(value), path: path.to_vec() })
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(line: &str) -> String {
        let (parser, fields) = line_fields(line.as_bytes());
        let fields = fields.iter().map(|f| format!(" {}={}@{}", f.name, f.value, f.path.join("/")));
        format!("{}:{}", parser.name(), fields.collect::<String>())
    }

    #[test]
    fn fields_have_names_values_and_paths() {
        for (line, expected) in [
            (
                r#"{"a":1,"user":{"id":"x","deep":{"b.c":true}},"l":[1],"n":null,"a":2}"#,
                "json: a=1@a user_deep_b_c=true@user/deep/b.c user_id=x@user/id",
            ),
            (r#"level=info msg="a b" empty= flag x-y=1"#, "logfmt: level=info@ msg=a b@ x_y=1@"),
            (r#"{"a":1"#, r#"logfmt:"#),
            ("plain text", "logfmt:"),
            ("{}", "json:"),
        ] {
            assert_eq!(shown(line), expected, "{line}");
        }
    }
}
