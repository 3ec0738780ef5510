//! Checks against VictoriaMetrics's expectations of its own Graphite functions: expressions that need no
//! stored series.

use std::path::Path;
use std::time::Duration;

use sandur_graphite::{RenderRequest, Zone, render};
use sandur_memory::MemoryBudget;
use sandur_model::TenantId;
use sandur_query::QueryContext;
use sandur_runtime::Env;
use serde_json::Value;

use super::cases::{cases, string};
use super::compare::difference;
use super::memory::Stored;
use super::render::{BUDGET, json_of};
use super::report::Report;
use super::second::{Verdict, report};

pub(super) fn run(folder: &Path) -> Result<Report, String> {
    let stored = Stored::default();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
    let runtime = runtime.map_err(|error| error.to_string())?;
    let env = Env::simulated(1, 0);
    let mut judged = Vec::new();
    for case in cases(&folder.join("vm.jsonl"))? {
        let target = string(&case, "target");
        let mut verdict = judge(&case, runtime.block_on(answer(&stored, &env, &case, target)));
        // Where VictoriaMetrics accepts more than graphite-web's grammar, the case also has the target
        // that graphite-web was given.
        if let (Verdict::Wrong(_), Some(target)) = (&verdict, case["graphite_web_target"].as_str()) {
            verdict = judge(&case, runtime.block_on(answer(&stored, &env, &case, target)));
        }
        judged.push((case, verdict));
    }
    Ok(report("VictoriaMetrics", judged))
}

async fn answer(stored: &Stored, env: &Env, case: &Value, target: &str) -> Result<Value, String> {
    let mut pairs = vec![("target".to_owned(), target.to_owned()), ("format".to_owned(), "json".to_owned())];
    pairs.extend(["from", "until", "now"].map(|name| (name.to_owned(), case[name].to_string())));
    let request = RenderRequest::read(&pairs, 0, &Zone::utc()).map_err(|error| error.to_string())?;
    let budget = MemoryBudget::root("query", BUDGET);
    let tenant = TenantId::default_tenant();
    let context = QueryContext::new(env.clone(), tenant, budget, Duration::from_secs(3_600));
    let rendered = render(stored, &context, &request).await.map_err(|error| error.to_string())?;
    json_of(&rendered)
}

/// Returns the expected series with graphite-web's tags.
fn with_tags(case: &Value) -> Value {
    let mut expected = case["expected"].clone();
    let tags = case["tags_differ_in_graphite_web"].as_array().cloned().unwrap_or_default();
    let series = expected.as_array_mut().into_iter().flatten();
    series.zip(tags).for_each(|(series, tags)| series["tags"] = tags);
    expected
}

fn judge(case: &Value, answer: Result<Value, String>) -> Verdict {
    let web = &case["graphite_web"];
    let found = match answer {
        Err(_) if case["expected_error"] == true => return Verdict::Equal,
        Err(_) if web["status"].as_i64().is_some_and(|status| status >= 400) => return Verdict::Followed,
        Err(error) => return Verdict::Wrong(format!("failed: {error}")),
        Ok(found) => found,
    };
    let is_like =
        |expected: &Value| expected.is_array() && difference(case, expected, &found, false).is_none();
    if is_like(&case["expected"]) || is_like(&with_tags(case)) {
        return Verdict::Equal;
    }
    if is_like(&web["series"]) {
        return Verdict::Followed;
    }
    let nearest = if web["series"].is_array() { &web["series"] } else { &with_tags(case) };
    let wrong = difference(case, nearest, &found, false);
    Verdict::Wrong(wrong.unwrap_or_else(|| "answered, expected an error".to_owned()))
}
