//! `tukeyAbove`: the series with the most points far above what most points are.

use super::outliers::{PARAMETERS, outliers};
use crate::function::{Body, Function, Group, Origin};

pub(super) const FUNCTION: Function = Function {
    name: "tukeyAbove",
    aliases: &[],
    group: Group::Transform,
    origin: Origin::Carbonapi,
    aggregates: false,
    parameters: &PARAMETERS,
    doc: "The series with the most points far above what most points are.",
    body: Body::Series(|call| outliers(call, true)),
};
