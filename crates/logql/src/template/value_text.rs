//! The forms of values in Go's output.

use super::functions::time::write_time;
use super::results::TextSink;
use super::value::Value;

impl Value {
    /// Writes the value as Go's `%v` does.
    pub fn write(&self, out: &mut TextSink<'_>) -> Result<(), String> {
        match self {
            Self::Nil => out.write("<nil>"),
            Self::Text(text) => out.write(text),
            Self::Int(n) => out.print(format_args!("{n}")),
            Self::Float(n) => out.write(&format_general(*n)),
            Self::Bool(b) => out.print(format_args!("{b}")),
            Self::Time(instant) => write_time(*instant, out),
            Self::List(list) => {
                out.write("[")?;
                for (n, item) in list.iter().enumerate() {
                    out.write(if n > 0 { " " } else { "" })?;
                    item.write(out)?;
                }
                out.write("]")
            }
            Self::Map(map) => {
                out.write("map[")?;
                for (n, (key, value)) in map.iter().enumerate() {
                    out.write(if n > 0 { " " } else { "" })?;
                    out.write(key)?;
                    out.write(":")?;
                    value.write(out)?;
                }
                out.write("]")
            }
            Self::Texts(map) => {
                out.write("map[")?;
                for (n, (key, value)) in map.iter().enumerate() {
                    out.write(if n > 0 { " " } else { "" })?;
                    out.write(key)?;
                    out.write(":")?;
                    out.write(value)?;
                }
                out.write("]")
            }
            Self::Record(record) => {
                out.write("{")?;
                for (n, (_, value)) in record.fields.iter().enumerate() {
                    out.write(if n > 0 { " " } else { "" })?;
                    value.write(out)?;
                }
                out.write("}")
            }
        }
    }
}

/// Formats a float as Go's `%v`: the shortest digits, with an exponent below 1e-4 and from 1e6 on.
pub fn format_general(value: f64) -> String {
    if value.is_nan() {
        return "NaN".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { "+Inf" } else { "-Inf" }.to_owned();
    }
    let size = value.abs();
    if size != 0.0 && !(1e-4..1e6).contains(&size) {
        let text = format!("{value:e}");
        let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
        let (sign, digits) = match exponent.strip_prefix('-') {
            Some(digits) => ('-', digits),
            None => ('+', exponent),
        };
        return format!("{mantissa}e{sign}{digits:0>2}");
    }
    format!("{value}")
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::template::results::Text;

    #[test]
    fn values_print_as_in_go() {
        for (value, text) in [
            (Value::Float(1.0), "1"),
            (Value::Float(1.5), "1.5"),
            (Value::Float(1e6), "1e+06"),
            (Value::Float(999999.5), "999999.5"),
            (Value::Float(123456789.5), "1.234567895e+08"),
            (Value::Float(0.00001), "1e-05"),
            (Value::Int(-3), "-3"),
            (Value::Nil, "<nil>"),
            (
                Value::List(Arc::new(vec![
                    Value::Int(1),
                    Value::Text(Text::constant("a".into())),
                    Value::Nil,
                ])),
                "[1 a <nil>]",
            ),
            (Value::Map(Arc::new([(Text::constant("k".into()), Value::Bool(true))].into())), "map[k:true]"),
        ] {
            let results = super::super::results::Results::default();
            assert_eq!(&*results.make(|out| value.write(out)).unwrap(), text);
        }
    }
}
