//! The values in a template, and their forms in Go's output. Cheap to clone.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::results::{Text, TextSink};

/// A value.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Go's `nil`, or JSON's null.
    Nil,
    /// Text.
    Text(Text),
    /// An integer.
    Int(i64),
    /// A float.
    Float(f64),
    /// A boolean.
    Bool(bool),
    /// A time.
    Time(Instant),
    /// A list.
    List(Arc<Vec<Value>>),
    /// A map.
    Map(Arc<BTreeMap<Text, Value>>),
}

/// A time with its offset from UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Instant {
    /// Nanoseconds since the epoch.
    pub ns: i64,
    /// The offset, in seconds east of UTC.
    pub offset: i32,
    /// Whether it is Go's zero time, in the year 1.
    pub zero: bool,
}

impl Instant {
    /// A time in UTC.
    pub fn utc(ns: i64) -> Self {
        Self { ns, offset: 0, zero: false }
    }

    /// Go's zero time.
    pub fn zero() -> Self {
        Self { ns: 0, offset: 0, zero: true }
    }
}

impl Value {
    /// A constant in the template.
    pub fn constant(text: String) -> Self {
        Self::Text(Text::constant(text))
    }

    /// Whether `if` treats the value as true.
    pub fn is_true(&self) -> bool {
        match self {
            Self::Nil => false,
            Self::Text(text) => !text.is_empty(),
            Self::Int(n) => *n != 0,
            Self::Float(n) => *n != 0.0,
            Self::Bool(b) => *b,
            Self::Time(_) => true,
            Self::List(list) => !list.is_empty(),
            Self::Map(map) => !map.is_empty(),
        }
    }

    /// The name of the value's type in Go.
    pub fn type_name(&self) -> &'static str {
        match self {
            Self::Nil => "nil",
            Self::Text(_) => "string",
            Self::Int(_) => "int",
            Self::Float(_) => "float64",
            Self::Bool(_) => "bool",
            Self::Time(_) => "time.Time",
            Self::List(_) => "[]interface {}",
            Self::Map(_) => "map[string]interface {}",
        }
    }

    /// Writes the value as Go's `%v` does.
    pub fn write(&self, out: &mut TextSink<'_>) -> Result<(), String> {
        match self {
            Self::Nil => out.write("<nil>"),
            Self::Text(text) => out.write(text),
            Self::Int(n) => out.print(format_args!("{n}")),
            Self::Float(n) => out.write(&format_general(*n)),
            Self::Bool(b) => out.print(format_args!("{b}")),
            Self::Time(instant) => super::functions::write_time(*instant, out),
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
    use super::*;

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
