//! `diff`: carbonapi's name of `diffSeries`.

use crate::function::{Function, Origin};

pub(super) const FUNCTION: Function = Function {
    name: "diff",
    aliases: &[],
    origin: Origin::Carbonapi,
    aggregates: false,
    ..super::diff_series::FUNCTION
};
