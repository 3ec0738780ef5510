//! `tukeyAbove`: keeps the `n` series with the most points at or above the upper Tukey fence: the third
//! quartile plus `basis` times the interquartile range.

use super::outliers::{PARAMETERS, outliers};
use crate::function::{Body, Function, Group, Origin};

pub(super) const FUNCTION: Function = Function {
    name: "tukeyAbove",
    aliases: &[],
    group: Group::Transform,
    origin: Origin::Carbonapi,
    aggregates: false,
    parameters: &PARAMETERS,
    doc: "Keeps the `n` series with the most points at or above the upper Tukey fence: the third \
          quartile plus `basis` times the interquartile range.",
    body: Body::Series(|call| outliers(call, true)),
};
