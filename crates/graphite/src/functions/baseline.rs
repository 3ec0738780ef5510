//! `baseline`: the median of each series over earlier times.

use futures_util::FutureExt;

use super::baselines::{PARAMETERS, baselines};
use crate::function::{Body, Function, Group, Origin};

pub(super) const FUNCTION: Function = Function {
    name: "baseline",
    aliases: &[],
    group: Group::Calculate,
    origin: Origin::Carbonapi,
    aggregates: false,
    parameters: &PARAMETERS,
    doc: "The median of each series over earlier times.",
    body: Body::Again(|again| baselines(again, false).boxed()),
};
