//! `isNotNull`: carbonapi's name of `isNonNull`.

use crate::function::{Function, Origin};

pub(super) const FUNCTION: Function = Function {
    name: "isNotNull",
    aliases: &[],
    origin: Origin::Carbonapi,
    aggregates: false,
    ..super::is_non_null::FUNCTION
};
