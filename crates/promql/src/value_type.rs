//! The types of values, which expressions and the table of functions name.

/// The type of an expression's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Type {
    /// A number at each step.
    Scalar,
    /// Series with a sample at each step.
    Vector,
    /// Series with the samples of a window.
    Matrix,
    /// A string.
    String,
}

impl Type {
    /// The name in Prometheus's documentation and error messages.
    pub fn documented(self) -> &'static str {
        match self {
            Self::Scalar => "scalar",
            Self::Vector => "instant vector",
            Self::Matrix => "range vector",
            Self::String => "string",
        }
    }

    /// The name in the JSON form of syntax trees.
    pub fn name(self) -> &'static str {
        match self {
            Self::Scalar => "scalar",
            Self::Vector => "vector",
            Self::Matrix => "matrix",
            Self::String => "string",
        }
    }
}
