//! `multiply`: carbonapi's name of `multiplySeries`.

use crate::function::{Function, Origin};

pub(super) const FUNCTION: Function = Function {
    name: "multiply",
    aliases: &[],
    origin: Origin::Carbonapi,
    aggregates: false,
    ..super::multiply_series::FUNCTION
};
