//! `seriesByTag`: selects the series whose tags match all expressions: `tag=value`, `tag!=value`,
//! `tag=~regex`, `tag!=~regex`.

use crate::function::{Body, Function, Group, Origin};
use crate::parameter::{Kind, required};

pub(super) const FUNCTION: Function = Function {
    name: "seriesByTag",
    aliases: &[],
    group: Group::Special,
    origin: Origin::Graphite,
    aggregates: false,
    parameters: &[required("tagExpressions", Kind::Text).many()],
    doc: "Selects the series whose tags match all expressions: `tag=value`, `tag!=value`, \
          `tag=~regex`, `tag!=~regex`.",
    body: Body::SeriesByTag,
};
