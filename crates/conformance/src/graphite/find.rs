//! Checks path and tag requests: `/metrics/find`, `/metrics/expand`, `/metrics/index.json` and
//! everything below `/tags`.

use std::path::Path;
use std::time::Duration;

use sandur_graphite::{
    Error, ExpandRequest, FindRequest, Rendered, Zone, complete_tags, complete_values, delete_series, expand,
    find, find_series, index, list_tags, tag_details, tag_multi_series, tag_series,
};
use sandur_memory::MemoryBudget;
use sandur_query::QueryContext;
use serde_json::Value;

use super::cases::{cases, string, text};
use super::place::{Series, World};
use super::report::Report;
use crate::world::Place;

/// The clock of the recorded server, seconds since the epoch.
const NOW: i64 = 1_615_809_637;

/// Length in bytes to which the body of a text answer was truncated when it was recorded.
const RECORDED_BYTES: usize = 400;

pub(super) fn run(folder: &Path, place: Place) -> Result<Report, String> {
    let stored = text(&folder.join("stored.json.gz"))?;
    let cases = cases(&folder.join("find.jsonl"))?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build();
    let runtime = runtime.map_err(|error| error.to_string())?;
    let failures = runtime.block_on(async {
        let world = World::open(place, &stored).await?;
        let mut failures = Vec::new();
        for case in &cases {
            let alone = [case.clone()];
            for step in case["steps"].as_array().map_or(alone.as_slice(), Vec::as_slice) {
                if let Some(wrong) = wrong_in(&world, step).await {
                    failures.push(format!("{}: {}\n  {wrong}", string(case, "id"), step["params"]));
                    break;
                }
            }
        }
        world.close().await?;
        Ok::<_, String>(failures)
    })?;
    Ok(Report::new("find, tags", place, cases.len(), failures))
}

/// Returns what is wrong with the answer to one request.
async fn wrong_in(world: &World, case: &Value) -> Option<String> {
    let budget = MemoryBudget::root("query", 16 << 20);
    let context = QueryContext::new(world.env(), world.tenant(), budget.clone(), Duration::from_secs(3_600));
    let answer = world.ask(async |series| answer(series, &context, case).await).await;
    if budget.used() > 0 {
        return Some(format!("{} bytes remain reserved", budget.used()));
    }
    let rendered = match (answer, case["status"].as_i64()) {
        (None, Some(404 | 405)) => return None,
        (None, _) => return Some("no such request".to_owned()),
        (Some(Err(_)), Some(status)) if status >= 400 => return None,
        (Some(Err(error)), _) => return Some(format!("failed: {error}")),
        (Some(Ok(rendered)), Some(200)) => rendered,
        (Some(Ok(_)), status) => return Some(format!("answered, expected status {status:?}")),
    };
    let body = String::from_utf8_lossy(&rendered.body);
    if let Some(expected) = case["body"].as_str() {
        // Recorded texts are truncated.
        let same = body == expected || (expected.len() >= RECORDED_BYTES && body.starts_with(expected));
        return (!same).then(|| format!("the body is {body}, expected {expected}"));
    }
    let found = match serde_json::from_str(&body) {
        Ok(found) => found,
        Err(error) => return Some(format!("not JSON: {error}")),
    };
    let (found, expected) = (comparable(found), comparable(case["json"].clone()));
    (found != expected).then(|| format!("{found}, expected {expected}"))
}

/// Removes from an answer the folders in which whisper stores tagged series, and the intervals.
fn comparable(value: Value) -> Value {
    let is_tagged = |value: &Value| {
        let path = value.as_str().or(value["path"].as_str()).or(value["id"].as_str());
        path.is_some_and(|path| path.starts_with("_tagged"))
    };
    match value {
        Value::Array(parts) => parts.into_iter().filter(|part| !is_tagged(part)).map(comparable).collect(),
        Value::Object(mut members) => {
            members.remove("intervals");
            members.into_iter().map(|(name, value)| (name, comparable(value))).collect()
        }
        other => other,
    }
}

fn pairs(case: &Value) -> Vec<(String, String)> {
    let mut pairs = Vec::new();
    for (name, value) in case["params"].as_object().into_iter().flatten() {
        let alone = [value.clone()];
        let values = value.as_array().map_or(alone.as_slice(), Vec::as_slice);
        pairs.extend(values.iter().filter_map(Value::as_str).map(|value| (name.clone(), value.to_owned())));
    }
    pairs
}

/// Returns the library's answer, or `None` if there is no such request.
async fn answer(
    series: &Series<'_>,
    context: &QueryContext,
    case: &Value,
) -> Option<Result<Rendered, Error>> {
    let (stored, names) = (series.source(), series.names());
    let pairs = &pairs(case);
    let is_post = string(case, "method") == "POST";
    Some(match string(case, "path") {
        "/metrics/find" => match FindRequest::read(pairs, NOW, &Zone::utc()) {
            Ok(request) => find(stored, context, &request).await,
            Err(error) => Err(error),
        },
        "/metrics/expand" => match ExpandRequest::read(pairs) {
            Ok(request) => expand(stored, context, &request).await,
            Err(error) => Err(error),
        },
        "/metrics/index.json" => index(names, context, pairs).await,
        "/tags" => list_tags(names, context, pairs).await,
        "/tags/findSeries" => find_series(stored, context, pairs).await,
        "/tags/autoComplete/tags" => complete_tags(names, context, pairs).await,
        "/tags/autoComplete/values" => complete_values(names, context, pairs).await,
        "/tags/tagSeries" if is_post => tag_series(names, context, pairs).await,
        "/tags/tagMultiSeries" if is_post => tag_multi_series(names, context, pairs).await,
        "/tags/delSeries" if is_post => delete_series(names, context, pairs).await,
        "/tags/tagSeries" | "/tags/tagMultiSeries" | "/tags/delSeries" => return None,
        path => {
            return match path.strip_prefix("/tags/") {
                Some(tag) => Some(tag_details(names, context, tag, pairs).await),
                None => None,
            };
        }
    })
}
