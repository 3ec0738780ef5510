//! `add`: adds a constant to each point.

use super::series_of::transform;
use crate::call::Call;
use crate::error::{Error, Result};
use crate::function::{Body, Function, Group, Origin};
use crate::number::whole;
use crate::parameter::{Kind, required};
use crate::series::Series;

pub(super) const FUNCTION: Function = Function {
    name: "add",
    aliases: &[],
    group: Group::Transform,
    origin: Origin::Graphite,
    aggregates: false,
    parameters: &[required("seriesList", Kind::SeriesList), required("constant", Kind::Float)],
    doc: "Adds a constant to each point.",
    body: Body::Series(run),
};

fn run(mut call: Call) -> Result<Vec<Series>> {
    let (mut list, constant) = (call.series()?, call.number(1)?);
    let shown =
        whole(constant.value()).ok_or_else(|| Error::invalid(format!("add does not accept {constant}")))?;
    list.iter_mut().for_each(|series| series.tags.set("add", constant));
    transform(list, |name| format!("add({name},{shown})"), |value| Ok(Some(value + constant.value())))
}
