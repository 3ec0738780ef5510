//! `slo`: computes the fraction of points in each interval that meet a condition: above or below a value.

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
    doc: "Computes the fraction of points in each interval that meet a condition: above or below a \
          value.",
    body: Body::Again(|again| objectives(again, false).boxed()),
};
