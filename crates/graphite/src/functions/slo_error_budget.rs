//! `sloErrorBudget`: the seconds of each interval that are left, or below zero missing, to meet an objective.

use futures_util::FutureExt;

use super::objectives::{INTERVAL, METHOD, objectives};
use crate::function::{Body, Function, Group, Origin};
use crate::parameter::{Kind, required};

pub(super) const FUNCTION: Function = Function {
    name: "sloErrorBudget",
    aliases: &[],
    group: Group::Transform,
    origin: Origin::Carbonapi,
    aggregates: false,
    parameters: &[
        required("seriesList", Kind::SeriesList),
        INTERVAL,
        METHOD,
        required("value", Kind::Float),
        required("objective", Kind::Float),
    ],
    doc: "The seconds of each interval that are left, or below zero missing, to meet an objective.",
    body: Body::Again(|again| objectives(again, true).boxed()),
};
