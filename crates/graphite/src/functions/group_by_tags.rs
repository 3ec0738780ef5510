//! `groupByTags`: aggregates the series that have the same values of tags.

use super::callback::with_callback;
use crate::call::Call;
use crate::combine::Groups;
use crate::error::{Error, Result};
use crate::function::{Body, Function, Group, Origin};
use crate::parameter::{Kind, required};
use crate::series::Series;
use crate::tags::parse_name;

pub(super) const FUNCTION: Function = Function {
    name: "groupByTags",
    aliases: &[],
    group: Group::Combine,
    origin: Origin::Graphite,
    aggregates: false,
    parameters: &[
        required("seriesList", Kind::SeriesList),
        required("callback", Kind::AggOrSeriesFunc),
        required("tags", Kind::Tag).many(),
    ],
    doc: "Aggregates the series that have the same values of tags.",
    body: Body::Series(run),
};

fn run(mut call: Call) -> Result<Vec<Series>> {
    let (list, callback, tags) = (call.series()?, call.text(1)?, call.texts()?);
    if tags.is_empty() {
        return Err(Error::invalid("groupByTags(): no tags specified"));
    }
    let named = |series: &Series| series.tags.get("name").unwrap_or_default().to_owned();
    let by_name = tags.iter().any(|tag| tag == "name");
    let mut names: Vec<String> = list.iter().map(named).collect();
    names.dedup();
    let common = if names.len() == 1 { names.remove(0) } else { callback.clone() };
    let mut groups = Groups::<Vec<Series>>::new();
    for series in list {
        let others = tags.iter().filter(|tag| *tag != "name");
        let value = |tag: &String| series.tags.get(tag).unwrap_or_default().to_owned();
        let mut parts: Vec<String> = others.map(|tag| format!(";{tag}={}", value(tag))).collect();
        parts.sort();
        let key = if by_name { named(&series) } else { common.clone() } + &parts.concat();
        groups.of(&key).push(series);
    }
    let one = |(key, group): (std::sync::Arc<str>, Vec<Series>)| {
        let mut series = with_callback(&call.scope, group, &callback)?;
        series.tags = parse_name(&key)?;
        series.rename(key.to_string());
        Ok(series)
    };
    groups.into_groups().map(one).collect()
}
