//! `slo`: the share of points in each interval that are above or below a value.

use futures_util::FutureExt;

use super::objectives::{INTERVAL, METHOD, objectives};
use crate::function::{Body, Function, Group, Origin};
use crate::parameter::{Kind, required};

pub(super) const FUNCTION: Function = Function {
    name: "slo",
    aliases: &[],
    group: Group::Transform,
    origin: Origin::Carbonapi,
    aggregates: false,
    parameters: &[required("seriesList", Kind::SeriesList), INTERVAL, METHOD, required("value", Kind::Float)],
    doc: "The share of points in each interval that are above or below a value.",
    body: Body::Again(|again| objectives(again, false).boxed()),
};
