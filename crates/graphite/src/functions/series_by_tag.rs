//! `seriesByTag`: series whose tags fit all expressions: `tag=value`, `tag!=value`, `tag=~regex`,
//! `tag!=~regex`.

use crate::function::{Body, Function, Group, Origin};
use crate::parameter::{Kind, required};

pub(super) const FUNCTION: Function = Function {
    name: "seriesByTag",
    aliases: &[],
    group: Group::Special,
    origin: Origin::Graphite,
    aggregates: false,
    parameters: &[required("tagExpressions", Kind::Text).many()],
    doc: "Series whose tags fit all expressions: `tag=value`, `tag!=value`, `tag=~regex`, \
        `tag!=~regex`.",
    body: Body::SeriesByTag,
};
