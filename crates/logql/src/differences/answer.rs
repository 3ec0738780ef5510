//! The answer of a comparison: fields with the values whose shares differ.
//!
//! Invariant: numbers of lines are multiplied by the rate of sampling of their side.

/// Numbers of rows: inside and outside of the box.
pub type Sides = [u64; 2];

/// Where a field comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FieldOrigin {
    /// A label of the stream.
    Label,
    /// Structured metadata.
    Metadata,
    /// A stage of the query.
    Parsed,
    /// A member of a JSON line.
    Json,
    /// A pair of a logfmt line.
    Logfmt,
}

impl FieldOrigin {
    /// The name in answers.
    pub fn name(self) -> &'static str {
        match self {
            Self::Label => "label",
            Self::Metadata => "metadata",
            Self::Parsed => "parsed",
            Self::Json => "json",
            Self::Logfmt => "logfmt",
        }
    }
}

/// A value with its numbers of lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValueShare {
    /// The value; `None`: the line does not have the field.
    pub value: Option<String>,
    /// Lines inside of the box.
    pub inside: u64,
    /// Lines outside of the box.
    pub outside: u64,
}

/// How a field differs.
#[derive(Clone, Debug, PartialEq)]
pub struct FieldDifference {
    /// The name, as the stage that extracts the field gives it.
    pub name: String,
    /// Where it comes from.
    pub origin: FieldOrigin,
    /// The largest difference between the share of a value inside and outside, from 0 to 1; 0 if chance
    /// explains all of them.
    pub score: f64,
    /// The number of values that were counted.
    pub number: u64,
    /// Lines with further values, inside and outside; `[0, 0]` if all values were counted.
    pub rest: Sides,
    /// Values whose difference chance does not explain, the largest difference first.
    pub values: Vec<ValueShare>,
    /// Further such values.
    pub values_left_out: u64,
}

/// The answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Differences {
    /// Lines that pass, inside and outside.
    pub lines: Sides,
    /// One of this many pages was read, inside and outside; 1 is all.
    pub every: Sides,
    /// Fields, the largest difference first.
    pub fields: Vec<FieldDifference>,
    /// Whether there were more fields than are counted.
    pub has_more: bool,
}
