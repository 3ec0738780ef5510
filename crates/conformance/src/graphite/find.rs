//! Paths and tags: `/metrics/find`, `/metrics/expand`, `/metrics/index.json` and everything below `/tags`.

use std::path::Path;
use std::time::Duration;

use sandur_base::{Env, MemoryBudget};
use sandur_graphite::{
    Error, ExpandRequest, FindRequest, Rendered, Zone, complete_tags, complete_values, delete_series, expand,
    find, find_series, index, list_tags, tag_details, tag_multi_series, tag_series,
};
use sandur_model::TenantId;
use sandur_query::QueryContext;
use serde_json::Value;

use super::memory::Stored;
use super::{Report, cases, string, text};

/// The clock of the recorded server.
const NOW: i64 = 1_615_809_637;

/// Bytes of a text that were recorded.
const RECORDED_BYTES: usize = 400;

pub(super) fn run(folder: &Path) -> Result<Report, String> {
    let stored = Stored::read(&text(&folder.join("stored.json.gz"))?)?;
    let cases = cases(&folder.join("find.jsonl"))?;
    let runtime = tokio::runtime::Builder::new_current_thread().build().map_err(|error| error.to_string())?;
    let mut failures = Vec::new();
    for case in &cases {
        let alone = [case.clone()];
        let steps = case["steps"].as_array().map_or(alone.as_slice(), Vec::as_slice);
        let wrong = steps.iter().find_map(|step| runtime.block_on(wrong_in(&stored, step)));
        if let Some(wrong) = wrong {
            failures.push(format!("{}: {}\n  {wrong}", string(case, "id"), case["params"]));
        }
    }
    Ok(Report::new("find, tags", cases.len(), failures))
}

/// What is wrong with the answer to one request.
async fn wrong_in(stored: &Stored, case: &Value) -> Option<String> {
    let budget = MemoryBudget::root("query", 16 << 20);
    let tenant = TenantId::default_tenant();
    let context = QueryContext::new(Env::simulated(1, 0), tenant, budget.clone(), Duration::from_secs(60));
    let answer = answer(stored, &context, case).await;
    if budget.used() > 0 {
        return Some(format!("{} bytes stay reserved", budget.used()));
    }
    let rendered = match (answer, case["status"].as_i64()) {
        (None, Some(404 | 405)) => return None,
        (None, _) => return Some("no such request".to_owned()),
        (Some(Err(_)), Some(status)) if status >= 400 => return None,
        (Some(Err(error)), _) => return Some(format!("failed: {error}")),
        (Some(Ok(rendered)), Some(200)) => rendered,
        (Some(Ok(_)), status) => return Some(format!("answered, where status {status:?} is due")),
    };
    let body = String::from_utf8_lossy(&rendered.body);
    if let Some(expected) = case["body"].as_str() {
        // Texts were recorded up to a length.
        let same = body == expected || (expected.len() >= RECORDED_BYTES && body.starts_with(expected));
        return (!same).then(|| format!("the body {body}, not {expected}"));
    }
    let found = match serde_json::from_str(&body) {
        Ok(found) => found,
        Err(error) => return Some(format!("no JSON: {error}")),
    };
    let (found, expected) = (comparable(found), comparable(case["json"].clone()));
    (found != expected).then(|| format!("{found}, not {expected}"))
}

/// An answer without the folders in which whisper keeps tagged series, and without intervals.
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

/// What the library answers; nothing where it knows no such request.
async fn answer(stored: &Stored, context: &QueryContext, case: &Value) -> Option<Result<Rendered, Error>> {
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
        "/metrics/index.json" => index(stored, context, pairs).await,
        "/tags" => list_tags(stored, context, pairs).await,
        "/tags/findSeries" => find_series(stored, context, pairs).await,
        "/tags/autoComplete/tags" => complete_tags(stored, context, pairs).await,
        "/tags/autoComplete/values" => complete_values(stored, context, pairs).await,
        "/tags/tagSeries" if is_post => tag_series(stored, context, pairs).await,
        "/tags/tagMultiSeries" if is_post => tag_multi_series(stored, context, pairs).await,
        "/tags/delSeries" if is_post => delete_series(stored, context, pairs).await,
        "/tags/tagSeries" | "/tags/tagMultiSeries" | "/tags/delSeries" => return None,
        path => {
            return match path.strip_prefix("/tags/") {
                Some(tag) => Some(tag_details(stored, context, tag, pairs).await),
                None => None,
            };
        }
    })
}
