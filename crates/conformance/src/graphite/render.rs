//! Checks requests of `/render`.

use std::path::Path;
use std::time::Duration;

use sandur_graphite::{RenderRequest, Rendered, Zone, render};
use sandur_memory::MemoryBudget;
use sandur_query::QueryContext;
use serde_json::Value;

use super::binary::{is_same, msgpack, pickle};
use super::cases::{cases, string, text};
use super::compare::difference;
use super::place::World;
use super::report::Report;
use crate::world::Place;

/// Memory budget of a request in bytes.
pub(super) const BUDGET: u64 = 256 << 20;

pub(super) fn run(folder: &Path, place: Place) -> Result<Report, String> {
    let stored = text(&folder.join("stored.json.gz"))?;
    let cases = cases(&folder.join("render.jsonl.gz"))?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build();
    let runtime = runtime.map_err(|error| error.to_string())?;
    let failures = runtime.block_on(async {
        let world = World::open(place, &stored).await?;
        let mut failures = Vec::new();
        for case in &cases {
            if let Some(wrong) = wrong_in(case, &answer(&world, case).await) {
                let (target, params) = (&case["target"], &case["params"]);
                failures.push(format!("{}: {target} {params}\n  {wrong}", string(case, "id")));
            }
        }
        world.close().await?;
        Ok::<_, String>(failures)
    })?;
    Ok(Report::new("render", place, cases.len(), failures))
}

async fn answer(world: &World, case: &Value) -> Result<Rendered, String> {
    let mut pairs = Vec::new();
    for target in case["target"].as_array().into_iter().flatten() {
        pairs.push(("target".to_owned(), target.as_str().unwrap_or_default().to_owned()));
    }
    for (name, value) in case["params"].as_object().into_iter().flatten() {
        pairs.push((name.clone(), value.as_str().unwrap_or_default().to_owned()));
    }
    let request = RenderRequest::read(&pairs, 0, &Zone::utc()).map_err(|error| error.to_string())?;
    let budget = MemoryBudget::root("query", BUDGET);
    let context = QueryContext::new(world.env(), world.tenant(), budget.clone(), Duration::from_secs(3_600));
    let rendered = world.ask(async |series| render(series.source(), &context, &request).await).await;
    let answer = rendered.map_err(|error| error.to_string());
    match budget.used() {
        0 => answer,
        kept => Err(format!("{kept} bytes remain reserved")),
    }
}

/// Returns what is wrong with an answer, or `None` if it equals any of the recorded ones.
fn wrong_in(case: &Value, answer: &Result<Rendered, String>) -> Option<String> {
    let others = ["master", "enforced"].map(|name| &case[name]);
    let wrong = wrong_against(case, case, answer)?;
    let is_right = |other: &&Value| other.is_object() && wrong_against(case, other, answer).is_none();
    (!others.iter().any(is_right)).then_some(wrong)
}

fn wrong_against(case: &Value, expected: &Value, answer: &Result<Rendered, String>) -> Option<String> {
    let status = expected["status"].as_i64().unwrap_or(200);
    let rendered = match (status, answer) {
        (0, _) => return None,
        (200, Ok(rendered)) => rendered,
        (200, Err(error)) => return Some(format!("failed: {error}")),
        (_, Err(_)) => return None,
        (status, Ok(_)) => {
            return Some(format!("answered, expected status {status}: {}", expected["error"]));
        }
    };
    if expected["body_hex"].is_string() {
        let decoded = match rendered.content_type {
            "application/x-msgpack" => msgpack(&rendered.body),
            _ => pickle(&rendered.body),
        };
        let same = decoded.as_ref().is_some_and(|decoded| is_same(decoded, &expected["decoded"]));
        return (!same).then(|| format!("decoded {decoded:?}, expected {}", expected["decoded"]));
    }
    let body = String::from_utf8_lossy(&rendered.body);
    if let Some(text) = expected["body"].as_str() {
        return (body != text).then(|| format!("the body is {body:?}, expected {text:?}"));
    }
    let found = match json_of(rendered) {
        Ok(found) => found,
        Err(error) => return Some(error),
    };
    difference(case, &expected["series"], &found, string(case, "compare") == "shape")
}

/// Returns the series of an answer as JSON, with strings for the infinities.
pub(super) fn json_of(rendered: &Rendered) -> Result<Value, String> {
    let body = String::from_utf8_lossy(&rendered.body);
    let body = body.replace("-1e9999", "\"-inf\"").replace("1e9999", "\"inf\"");
    serde_json::from_str(&body).map_err(|error| format!("not JSON: {error}"))
}
