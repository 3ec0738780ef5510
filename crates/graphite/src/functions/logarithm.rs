//! `logarithm`: carbonapi's name of `log`.

use crate::function::{Function, Origin};

pub(super) const FUNCTION: Function = Function {
    name: "logarithm",
    aliases: &[],
    origin: Origin::Carbonapi,
    aggregates: false,
    ..super::log::FUNCTION
};
