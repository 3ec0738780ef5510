//! `baselineAberration`: divides each series by its median over several earlier periods.

use futures_util::FutureExt;

use super::baselines::{PARAMETERS, baselines};
use crate::function::{Body, Function, Group, Origin};

pub(super) const FUNCTION: Function = Function {
    name: "baselineAberration",
    aliases: &[],
    group: Group::Calculate,
    origin: Origin::Carbonapi,
    aggregates: false,
    parameters: &PARAMETERS,
    doc: "Divides each series by its median over several earlier periods.",
    body: Body::Again(|again| baselines(again, true).boxed()),
};
