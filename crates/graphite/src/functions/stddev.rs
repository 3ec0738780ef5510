//! `stddev`: carbonapi's name of `stddevSeries`.

use crate::function::{Function, Origin};

pub(super) const FUNCTION: Function = Function {
    name: "stddev",
    aliases: &[],
    origin: Origin::Carbonapi,
    aggregates: false,
    ..super::stddev_series::FUNCTION
};
