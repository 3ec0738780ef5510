//! `tukeyBelow`: the series with the most points far below what most points are.

use super::outliers::{PARAMETERS, outliers};
use crate::function::{Body, Function, Group, Origin};

pub(super) const FUNCTION: Function = Function {
    name: "tukeyBelow",
    aliases: &[],
    group: Group::Transform,
    origin: Origin::Carbonapi,
    aggregates: false,
    parameters: &PARAMETERS,
    doc: "The series with the most points far below what most points are.",
    body: Body::Series(|call| outliers(call, false)),
};
