//! `baseline`: computes the median of each series over several earlier periods.

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
    doc: "Computes the median of each series over several earlier periods.",
    body: Body::Again(|again| baselines(again, false).boxed()),
};
