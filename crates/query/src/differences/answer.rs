//! The answer of a comparison: fields with the values whose shares differ.
//!
//! Invariant: numbers of rows are multiplied by the rate of sampling of their side. Rows are lines or series.

/// Numbers of rows: inside and outside of the box.
pub type Sides = [u64; 2];

/// Where a field comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FieldOrigin {
    /// A label of the stream or of the series.
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

/// A value with its numbers of rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValueShare {
    /// The value; `None`: the row does not have the field.
    pub value: Option<String>,
    /// Rows inside of the box.
    pub inside: u64,
    /// Rows outside of the box.
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
    /// Rows with further values, inside and outside; `[0, 0]` if all values were counted.
    pub rest: Sides,
    /// The largest difference of shares that one of the further values can have; 0 if all were counted.
    pub rest_score_max: f64,
    /// Values whose difference chance does not explain, the largest difference first.
    pub values: Vec<ValueShare>,
    /// Further such values.
    pub values_left_out: u64,
}

/// The answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Differences {
    /// Rows that were compared, inside and outside.
    pub rows: Sides,
    /// One of this many pages of rows was read, inside and outside; 1 is all.
    pub every: Sides,
    /// Fields, the largest difference first.
    pub fields: Vec<FieldDifference>,
    /// Whether there were more fields than are counted.
    pub has_more: bool,
}
