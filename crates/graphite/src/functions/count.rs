//! `count`: carbonapi's name of `countSeries`.

use crate::function::{Function, Origin};

pub(super) const FUNCTION: Function = Function {
    name: "count",
    aliases: &[],
    origin: Origin::Carbonapi,
    aggregates: false,
    ..super::count_series::FUNCTION
};
