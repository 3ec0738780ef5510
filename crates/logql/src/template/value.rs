//! The values in a template. Cheap to clone.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::results::{Results, Text, TextSink};

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
    /// A map of texts (Go's `map[string]string`), in which a missing key has the empty text.
    Texts(Arc<BTreeMap<Text, Text>>),
    /// A structure, which has certain fields and no others.
    Record(Arc<Record>),
}

/// The fields of a structure, in their order.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    /// The name of its type in Go.
    pub type_name: &'static str,
    /// Names and values.
    pub fields: Vec<(&'static str, Value)>,
}

impl Record {
    /// The value of a field.
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.fields.iter().find(|(field, _)| *field == name).map(|(_, value)| value)
    }
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
            Self::Texts(map) => !map.is_empty(),
            Self::Record(_) => true,
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
            Self::Texts(_) => "map[string]string",
            Self::Record(record) => record.type_name,
        }
    }
}

impl Results {
    /// Creates the text that `write` writes, as a value.
    pub fn text(&self, write: impl FnOnce(&mut TextSink<'_>) -> Result<(), String>) -> Result<Value, String> {
        self.make(write).map(Value::Text)
    }
}
