//! `sloErrorBudget`: computes the error budget of an objective that is left in each interval, in seconds;
//! negative if it is exceeded.

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
    doc: "Computes the error budget of an objective that is left in each interval, in seconds; \
          negative if it is exceeded.",
    body: Body::Again(|again| objectives(again, true).boxed()),
};
