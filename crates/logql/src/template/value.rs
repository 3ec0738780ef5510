//! Values inside a template, and how Go prints them.

use std::collections::BTreeMap;

/// A value.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Nothing, as JSON's null.
    Nil,
    /// Text.
    Text(String),
    /// A whole number.
    Int(i64),
    /// A number.
    Float(f64),
    /// A truth value.
    Bool(bool),
    /// A point in time.
    Time(Instant),
    /// A list.
    List(Vec<Value>),
    /// Names and values.
    Map(BTreeMap<String, Value>),
}

/// A point in time with its distance to UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Instant {
    /// Nanoseconds since the epoch.
    pub ns: i64,
    /// Seconds east of UTC.
    pub offset: i32,
    /// Whether it is Go's zero time, the year 1.
    pub zero: bool,
}

impl Instant {
    /// An instant in UTC.
    pub fn utc(ns: i64) -> Self {
        Self { ns, offset: 0, zero: false }
    }

    /// Go's zero time.
    pub fn zero() -> Self {
        Self { ns: 0, offset: 0, zero: true }
    }
}

impl Value {
    /// Whether `if` takes it as true.
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

    /// The name of its type in Go.
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

    /// Its text as an action writes it: like `%v`, but nothing is `<no value>`.
    pub fn written(&self) -> String {
        if *self == Self::Nil { "<no value>".to_owned() } else { self.to_text() }
    }

    /// Its text as Go prints it with `%v`.
    pub fn to_text(&self) -> String {
        match self {
            Self::Nil => "<nil>".to_owned(),
            Self::Text(text) => text.clone(),
            Self::Int(n) => n.to_string(),
            Self::Float(n) => format_general(*n),
            Self::Bool(b) => b.to_string(),
            Self::Time(instant) => super::functions::time_text(*instant),
            Self::List(list) => {
                let items: Vec<String> = list.iter().map(Self::to_text).collect();
                format!("[{}]", items.join(" "))
            }
            Self::Map(map) => {
                let items: Vec<String> = map.iter().map(|(k, v)| format!("{k}:{}", v.to_text())).collect();
                format!("map[{}]", items.join(" "))
            }
        }
    }
}

/// Writes a number as Go's `%v`: the shortest digits, with an exponent below 1e-4 and from 1e6 on.
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
            (Value::List(vec![Value::Int(1), Value::Text("a".into()), Value::Nil]), "[1 a <nil>]"),
            (Value::Map([("k".to_owned(), Value::Bool(true))].into()), "map[k:true]"),
        ] {
            assert_eq!(value.to_text(), text);
        }
    }
}
