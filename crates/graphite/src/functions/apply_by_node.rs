//! `applyByNode`: evaluates a target once for each distinct path up to a node; `%` in the target stands
//! for this path.

use std::sync::Arc;

use futures_util::FutureExt;

use super::keys::bound_in;
use crate::error::{Error, Result};
use crate::function::{Again, Body, Function, Group, Origin};
use crate::grammar::TARGET_BYTES_MAX;
use crate::parameter::{Kind, optional, required};
use crate::pattern::{REPLACED_BYTES_MAX, replaced};
use crate::series::Series;

pub(super) const FUNCTION: Function = Function {
    name: "applyByNode",
    aliases: &[],
    group: Group::Combine,
    origin: Origin::Graphite,
    aggregates: false,
    parameters: &[
        required("seriesList", Kind::SeriesList),
        required("nodeNum", Kind::Node),
        required("templateFunction", Kind::Text),
        optional("newName", Kind::Text),
    ],
    doc: "Evaluates a target once for each distinct path up to a node; `%` in the target stands for \
          this path.",
    body: Body::Again(|again| run(again).boxed()),
};

async fn run(mut again: Again<'_>) -> Result<Vec<Series>> {
    let call = &mut again.call;
    let (list, place, target, name) = (call.series()?, call.integer(1)?, call.text(2)?, call.maybe_text(3)?);
    let mut prefixes = std::collections::BTreeSet::new();
    for series in &list {
        let nodes: Vec<&str> = series.name.split('.').collect();
        if usize::try_from(place).is_ok_and(|place| place >= nodes.len()) {
            return Err(Error::invalid(format!("{} has no node {place}", series.name)));
        }
        prefixes.insert(nodes[..bound_in(nodes.len(), place.saturating_add(1))].join("."));
    }
    let Some(times) = list.last().map(|series| (series.start, series.end)) else { return Ok(Vec::new()) };
    let scope = again.call.scope.written();
    let mut results = Vec::new();
    for prefix in prefixes {
        let written = replaced(&target, "%", &prefix, TARGET_BYTES_MAX)?;
        let name = name.as_ref().filter(|name| !name.is_empty());
        let name = name.map(|name| replaced(name, "%", &prefix, REPLACED_BYTES_MAX)).transpose()?;
        let prefix: Arc<str> = prefix.into();
        for mut series in again.written(&written, &scope).await? {
            again.evaluator.check()?;
            if let Some(name) = &name {
                series.name.clone_from(name);
            }
            series.path_expression = Arc::clone(&prefix);
            (series.start, series.end) = times;
            results.push(series);
        }
    }
    Ok(results)
}
