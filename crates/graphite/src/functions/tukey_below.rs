//! `tukeyBelow`: keeps the `n` series with the most points at or below the lower Tukey fence: the first
//! quartile minus `basis` times the interquartile range.

use super::outliers::{PARAMETERS, outliers};
use crate::function::{Body, Function, Group, Origin};

pub(super) const FUNCTION: Function = Function {
    name: "tukeyBelow",
    aliases: &[],
    group: Group::Transform,
    origin: Origin::Carbonapi,
    aggregates: false,
    parameters: &PARAMETERS,
    doc: "Keeps the `n` series with the most points at or below the lower Tukey fence: the first \
          quartile minus `basis` times the interquartile range.",
    body: Body::Series(|call| outliers(call, false)),
};
