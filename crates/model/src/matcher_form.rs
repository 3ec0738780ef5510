//! The values that a matcher's pattern accepts, as far as they are known without testing each value.

/// The set of values that a matcher's pattern describes, before the operator negates it. It allows
/// finding values in a sorted list without testing each one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MatcherForm<'a> {
    /// One of these values, sorted.
    Values(&'a [Box<str>]),
    /// Values with this prefix.
    Start(&'a str),
    /// Every value.
    Anything,
    /// Every value but the empty one.
    NotEmpty,
    /// Values that must be tested one by one.
    Other,
}
