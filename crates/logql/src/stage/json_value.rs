//! Sets labels to values of a JSON line.

use crate::names::NameId;
use crate::row::Row;
use crate::stage::json_scan::{Value, append_unescaped};

/// The `__error__` of a line that is not JSON.
pub const JSON_ERROR: &str = "JSONParserErr";

/// Sets a label to the text of a value: of a string, without escapes; of any other value, unchanged.
pub fn set_value(row: &mut Row<'_>, name: NameId, value: Value<'_>) {
    match value {
        Value::String(raw) => row.set_with(name, raw.len(), |text| {
            let start = text.len();
            if !append_unescaped(text, raw) {
                text.truncate(start);
            }
        }),
        Value::Null => row.set(name, ""),
        Value::Number(text) | Value::Bool(text) | Value::Object(text) | Value::Array(text) => {
            row.set_with(name, text.len(), |out| out.extend_from_slice(text));
        }
    }
}
