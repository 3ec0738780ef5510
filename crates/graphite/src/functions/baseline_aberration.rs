//! `baselineAberration`: each series as a multiple of its median over earlier times.

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
    doc: "Each series as a multiple of its median over earlier times.",
    body: Body::Again(|again| baselines(again, true).boxed()),
};
