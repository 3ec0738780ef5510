//! Parameters of functions: their types, accepted values and arguments.

use crate::aggregation::Aggregation;
use crate::attime::parse_offset;
use crate::error::{Error, Result};
use crate::number::{self, Number};
use crate::series::Series;

/// The type of a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Any value.
    Any,
    /// The name of an aggregation function.
    AggFunc,
    /// The name of an aggregation function, or of a function that reduces several series to one.
    AggOrSeriesFunc,
    /// A boolean.
    Boolean,
    /// A time.
    Date,
    /// A float.
    Float,
    /// An integer.
    Integer,
    /// An integer or infinity.
    IntOrInf,
    /// An integer or a duration.
    IntOrInterval,
    /// A duration.
    Interval,
    /// The index of a node in a path.
    Node,
    /// The index of a node, or the name of a tag.
    NodeOrTag,
    /// Series.
    SeriesList,
    /// Lists of series.
    SeriesLists,
    /// A text.
    Text,
    /// A regular expression; its type in Graphite is text. Functions with one run on the CPU pool even for
    /// few values.
    Regex,
    /// The name of a tag.
    Tag,
}

impl Kind {
    /// The name of the type in Graphite.
    pub fn name(self) -> &'static str {
        match self {
            Self::Any => "any",
            Self::AggFunc => "aggFunc",
            Self::AggOrSeriesFunc => "aggOrSeriesFunc",
            Self::Boolean => "boolean",
            Self::Date => "date",
            Self::Float => "float",
            Self::Integer => "integer",
            Self::IntOrInf => "intOrInf",
            Self::IntOrInterval => "intOrInterval",
            Self::Interval => "interval",
            Self::Node => "node",
            Self::NodeOrTag => "nodeOrTag",
            Self::SeriesList => "seriesList",
            Self::SeriesLists => "seriesLists",
            Self::Text | Self::Regex => "string",
            Self::Tag => "tag",
        }
    }
}

/// The default of a parameter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Preset {
    /// An integer.
    Int(i64),
    /// A float.
    Float(f64),
    /// A text.
    Text(&'static str),
    /// A boolean.
    Flag(bool),
}

/// A parameter of a function.
#[derive(Clone, Copy, Debug)]
pub struct Parameter {
    /// The name.
    pub name: &'static str,
    /// The name in graphite-web's code, by which named arguments may refer to it, if it is different.
    pub code_name: Option<&'static str>,
    /// The type.
    pub kind: Kind,
    /// Whether an argument is required.
    pub required: bool,
    /// Whether it takes all following arguments; only the last parameter may.
    pub multiple: bool,
    /// The default, if there is one.
    pub preset: Option<Preset>,
    /// The suggested values.
    pub options: &'static [&'static str],
}

/// The series of a function of one list.
pub(crate) const SERIES: Parameter = required("seriesList", Kind::SeriesList);

/// A required parameter.
pub(crate) const fn required(name: &'static str, kind: Kind) -> Parameter {
    Parameter { required: true, ..optional(name, kind) }
}

/// An optional parameter.
pub(crate) const fn optional(name: &'static str, kind: Kind) -> Parameter {
    Parameter { name, code_name: None, kind, required: false, multiple: false, preset: None, options: &[] }
}

impl Parameter {
    /// Takes all following arguments.
    pub(crate) const fn many(self) -> Self {
        Self { multiple: true, ..self }
    }

    /// Sets the default.
    pub(crate) const fn or(self, preset: Preset) -> Self {
        Self { preset: Some(preset), ..self }
    }

    /// Adds an alternative name for named arguments.
    pub(crate) const fn or_named(self, code_name: &'static str) -> Self {
        Self { code_name: Some(code_name), ..self }
    }

    /// Whether a named argument of this name is for this parameter.
    pub(crate) fn is_named(&self, name: &str) -> bool {
        self.name == name || self.code_name == Some(name)
    }

    /// Sets the suggested values.
    pub(crate) const fn of(self, options: &'static [&'static str]) -> Self {
        Self { options, ..self }
    }
}

/// The value of an argument.
#[derive(Debug)]
pub enum Argument {
    /// None, or no argument.
    None,
    /// A boolean.
    Flag(bool),
    /// A number.
    Number(Number),
    /// A text.
    Text(String),
    /// Series.
    Series(Vec<Series>),
    /// Lists of series.
    Lists(Vec<Vec<Series>>),
}

impl From<Preset> for Argument {
    fn from(preset: Preset) -> Self {
        match preset {
            Preset::Int(value) => Self::Number(Number::Int(value)),
            Preset::Float(value) => Self::Number(Number::Float(value)),
            Preset::Text(text) => Self::Text(text.to_owned()),
            Preset::Flag(flag) => Self::Flag(flag),
        }
    }
}

impl Argument {
    /// A description for error messages.
    fn shown(&self) -> String {
        match self {
            Self::None => "None".to_owned(),
            Self::Flag(flag) => (if *flag { "True" } else { "False" }).to_owned(),
            Self::Number(number) => number.to_string(),
            Self::Text(text) => format!("'{}'", text.chars().take(80).collect::<String>()),
            Self::Series(list) => format!("{} series", list.len()),
            Self::Lists(lists) => format!("{} lists of series", lists.len()),
        }
    }

    fn integer(self) -> std::result::Result<Self, Self> {
        let value = match &self {
            Self::Flag(flag) => Some(i64::from(*flag)),
            Self::Number(Number::Int(value)) => Some(*value),
            Self::Text(text) => number::parse_int(text),
            _ => None,
        };
        value.map(|value| Self::Number(Number::Int(value))).ok_or(self)
    }

    fn float(self) -> std::result::Result<Self, Self> {
        let value = match &self {
            Self::Flag(flag) => Some(f64::from(u8::from(*flag))),
            Self::Number(number) => Some(number.value()),
            Self::Text(text) => number::parse_float(text),
            _ => None,
        };
        value.map(|value| Self::Number(Number::Float(value))).ok_or(self)
    }

    fn flag(self) -> std::result::Result<Self, Self> {
        let value = match &self {
            Self::Flag(flag) => Some(*flag),
            Self::None => Some(false),
            Self::Number(number) if number.value() == 0.0 => Some(false),
            Self::Number(number) if number.value() == 1.0 => Some(true),
            Self::Text(text) if text.eq_ignore_ascii_case("true") => Some(true),
            Self::Text(text) if text.eq_ignore_ascii_case("false") => Some(false),
            Self::Series(list) => Some(!list.is_empty()),
            _ => None,
        };
        value.map(Self::Flag).ok_or(self)
    }

    /// Checks and converts the value for a parameter.
    pub(crate) fn checked(self, function: &str, parameter: &Parameter) -> Result<Self> {
        if matches!(self, Self::None) && !parameter.required {
            return Ok(self);
        }
        let infinity = |value: Self| match value.float() {
            Ok(Self::Number(Number::Float(f64::INFINITY))) => Ok(Self::Number(Number::Float(f64::INFINITY))),
            Ok(other) | Err(other) => Err(other),
        };
        let fits = match (parameter.kind, self) {
            (Kind::Float, value) => value.float(),
            (Kind::Integer | Kind::Node, value) => value.integer(),
            (Kind::IntOrInf, value) => value.integer().or_else(infinity),
            (Kind::Boolean, value) => value.flag(),
            (Kind::SeriesList, value @ Self::Series(_)) | (Kind::SeriesLists, value @ Self::Lists(_)) => {
                Ok(value)
            }
            (Kind::SeriesLists, Self::Series(list)) if list.is_empty() => Ok(Self::Lists(Vec::new())),
            (Kind::SeriesList, Self::Lists(lists)) if lists.is_empty() => Ok(Self::Series(Vec::new())),
            (Kind::SeriesList | Kind::SeriesLists, value) => Err(value),
            (Kind::Interval, Self::Text(text)) if !text.is_empty() => {
                let read = parse_offset(&text).is_ok();
                if read { Ok(Self::Text(text)) } else { Err(Self::Text(text)) }
            }
            (Kind::Interval, value) => Err(value),
            (Kind::AggFunc, Self::Text(text)) => match Aggregation::of_series(&text) {
                Ok(_) => Ok(Self::Text(text)),
                Err(_) => Err(Self::Text(text)),
            },
            (Kind::AggFunc | Kind::AggOrSeriesFunc, value) if !matches!(value, Self::Text(_)) => Err(value),
            (_, value) => Ok(value),
        };
        fits.map_err(|value| {
            let (kind, name, value) = (parameter.kind.name(), parameter.name, value.shown());
            Error::invalid(format!(
                "Invalid \"{kind}\" value specified for function \"{function}\" parameter \"{name}\": {value}"
            ))
        })
    }
}
