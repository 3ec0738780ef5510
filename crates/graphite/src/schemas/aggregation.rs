//! `storage-aggregation.conf`: how values of an archive are aggregated to those of the next.

use regex::Regex;

use super::file::{RulesError, Section, pattern_of};

/// The aggregation of several values to one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// The mean.
    Average,
    /// The sum.
    Sum,
    /// The last value.
    Last,
    /// The maximum.
    Max,
    /// The minimum.
    Min,
    /// The mean, with 0 for missing values.
    AvgZero,
    /// The value with the largest absolute value.
    AbsMax,
    /// The value with the smallest absolute value.
    AbsMin,
}

impl Method {
    /// All methods with their names.
    pub const NAMED: [(&'static str, Self); 8] = [
        ("average", Self::Average),
        ("sum", Self::Sum),
        ("last", Self::Last),
        ("max", Self::Max),
        ("min", Self::Min),
        ("avg_zero", Self::AvgZero),
        ("absmax", Self::AbsMax),
        ("absmin", Self::AbsMin),
    ];

    /// The name.
    pub fn name(self) -> &'static str {
        Self::NAMED.iter().find(|(_, own)| *own == self).map_or("average", |(name, _)| name)
    }
}

/// A section of the file.
#[derive(Debug)]
pub(super) struct Aggregation {
    pub(super) pattern: Regex,
    method: Method,
    x_files_factor: f64,
}

impl Aggregation {
    pub(super) fn of(section: &Section<'_>) -> Result<Self, RulesError> {
        let pattern = pattern_of(section)?;
        let method = match section.option("aggregationMethod") {
            None => Method::Average,
            Some(given) => {
                let named = Method::NAMED.iter().find(|(name, _)| *name == given.value);
                let (_, method) = named.ok_or_else(|| {
                    let names: Vec<&str> = Method::NAMED.iter().map(|(name, _)| *name).collect();
                    given.wrong(format!(
                        "the aggregationMethod '{}' is not known; known are {}",
                        given.value,
                        names.join(", ")
                    ))
                })?;
                *method
            }
        };
        let x_files_factor = match section.option("xFilesFactor") {
            None => 0.5,
            Some(given) => {
                let share = given.value.trim().parse().ok().filter(|share| (0.0..=1.0).contains(share));
                share.ok_or_else(|| {
                    given.wrong(format!("the xFilesFactor '{}' is not a number from 0 to 1", given.value))
                })?
            }
        };
        Ok(Self { pattern, method, x_files_factor })
    }

    /// The method and the xFilesFactor of the section.
    pub(super) fn rule(&self) -> (Method, f64) {
        (self.method, self.x_files_factor)
    }
}
