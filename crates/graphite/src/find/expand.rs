//! `/metrics/expand`: the paths that match patterns.

use std::collections::{BTreeMap, BTreeSet};

use sandur_memory::job::reserve_exactly;
use sandur_query::QueryContext;

use crate::encoding::json::{Layout, quoted, wrapped};
use crate::error::{Error, Result};
use crate::glob::Pattern;
use crate::number::parse_int;
use crate::rendered::Rendered;
use crate::source::Source;

/// The most patterns of a request.
const PATTERNS_MAX: usize = 1000;

/// The parameters of a request.
#[derive(Clone, Debug)]
pub struct ExpandRequest {
    /// The patterns.
    pub queries: Vec<String>,
    /// Whether branches are omitted.
    pub leaves_only: bool,
    /// Whether each pattern has its own list in the answer.
    pub by_query: bool,
    /// The function that JSON is wrapped in (JSONP).
    pub jsonp: Option<String>,
    /// Whether JSON is indented.
    pub pretty: bool,
}

impl ExpandRequest {
    /// Parses parameters.
    pub fn read(pairs: &[(String, String)]) -> std::result::Result<Self, Error> {
        let last =
            |name: &str| pairs.iter().rev().find(|(own, _)| own == name).map(|(_, value)| value.as_str());
        let flag = |name: &str| match last(name) {
            None => Ok(false),
            Some(text) => parse_int(text)
                .map(|value| value != 0)
                .ok_or_else(|| Error::invalid(format!("Invalid int value '{text}' for param {name}"))),
        };
        let queries = pairs.iter().filter(|(name, _)| name == "query").map(|(_, value)| value.clone());
        let queries: Vec<String> = queries.collect();
        if queries.len() > PATTERNS_MAX {
            return Err(Error::Limit(format!("more than {PATTERNS_MAX} patterns; ask in several requests")));
        }
        Ok(Self {
            queries,
            leaves_only: flag("leavesOnly")?,
            by_query: flag("groupByExpr")?,
            jsonp: last("jsonp").filter(|name| !name.is_empty()).map(str::to_owned),
            pretty: last("pretty").is_some_and(|text| !text.is_empty()),
        })
    }
}

/// Finds the paths of all patterns and writes the answer.
pub async fn expand(
    source: &dyn Source,
    context: &QueryContext,
    request: &ExpandRequest,
) -> std::result::Result<Rendered, Error> {
    let mut groups: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for query in &request.queries {
        let pattern = Pattern::parse(query)?;
        let found = source.find(context, &pattern, None).await?;
        let (leaves_only, mut group) = (request.leaves_only, groups.remove(query).unwrap_or_default());
        let job = move || {
            let wanted = found.into_iter().filter(|node| node.is_leaf || !leaves_only);
            group.extend(wanted.map(|node| pattern.shown(node.path)));
            Ok(group)
        };
        groups.insert(query.clone(), context.compute(job).await?);
    }
    let request = request.clone();
    context.compute(move || Ok(write(&request, groups))).await?
}

fn write(request: &ExpandRequest, groups: BTreeMap<String, BTreeSet<String>>) -> Result<Rendered> {
    let size = groups.values().flatten().map(|path| 64 + 3 * path.len()).sum::<usize>();
    let _held = reserve_exactly(size as u64)?;
    let layout = Layout::new(request.pretty);
    let list = |paths: BTreeSet<String>, depth| {
        let paths: Vec<String> = paths.iter().map(|path| quoted(path)).collect();
        layout.join(('[', ']'), depth, &paths)
    };
    let results = match request.by_query {
        true => {
            let group = |(query, paths): (String, BTreeSet<String>)| {
                format!("{}: {}", quoted(&query), list(paths, 2))
            };
            layout.join(('{', '}'), 1, &groups.into_iter().map(group).collect::<Vec<String>>())
        }
        false => list(groups.into_values().flatten().collect(), 1),
    };
    let body = layout.join(('{', '}'), 0, &[format!("\"results\": {results}")]);
    Ok(wrapped("application/json", body.into_bytes(), request.jsonp.as_deref()))
}
