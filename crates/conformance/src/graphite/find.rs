//! Paths and tagged series: `/metrics/expand` and `/tags/findSeries`.
//!
//! The other requests of the recordings answer with the same nodes and series in forms of HTTP.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

use sandur_base::{Env, MemoryBudget};
use sandur_graphite::{Pattern, Source, TagExpression};
use sandur_model::TenantId;
use sandur_query::QueryContext;
use serde_json::{Value, json};

use super::memory::Stored;
use super::{Report, cases, string, text};

pub(super) fn run(folder: &Path) -> Result<Report, String> {
    let stored = Stored::read(&text(&folder.join("stored.json.gz"))?)?;
    let mut cases = cases(&folder.join("find.jsonl"))?;
    cases.retain(|case| matches!(string(case, "path"), "/metrics/expand" | "/tags/findSeries"));
    let runtime = tokio::runtime::Builder::new_current_thread().build().map_err(|error| error.to_string())?;
    let budget = MemoryBudget::root("query", 1 << 20);
    let tenant = TenantId::default_tenant();
    let context = QueryContext::new(Env::simulated(1, 0), tenant, budget, Duration::from_secs(60));
    let mut failures = Vec::new();
    for case in &cases {
        let found = runtime.block_on(answer(&stored, &context, case));
        let is_right = match (&found, case["status"].as_i64()) {
            (Ok(found), Some(200)) => *found == without_tagged(case),
            (Err(_), Some(status)) => status >= 400,
            _ => false,
        };
        if !is_right {
            let (id, expected) = (string(case, "id"), without_tagged(case));
            failures.push(format!("{id}: {} is {found:?}, not {expected}", case["params"]));
        }
    }
    Ok(Report::new("expand, findSeries", cases.len(), failures))
}

/// The recorded answer without the folders in which whisper keeps tagged series.
fn without_tagged(case: &Value) -> Value {
    let mut answer = case["json"].clone();
    let Some(results) = answer.get_mut("results") else { return answer };
    let lists: Vec<&mut Value> = match results {
        Value::Object(groups) => groups.values_mut().collect(),
        list => vec![list],
    };
    for list in lists.into_iter().filter_map(Value::as_array_mut) {
        list.retain(|path| !path.as_str().is_some_and(|path| path.starts_with("_tagged")));
    }
    answer
}

fn all<'a>(case: &'a Value, name: &str) -> Vec<&'a str> {
    match &case["params"][name] {
        Value::String(one) => vec![one],
        Value::Array(many) => many.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    }
}

async fn answer(stored: &Stored, context: &QueryContext, case: &Value) -> Result<Value, String> {
    if string(case, "path") == "/tags/findSeries" {
        let texts = [all(case, "expr"), all(case, "expr[]")].concat();
        let expressions = TagExpression::parse_all(texts).map_err(|error| error.to_string())?;
        let names = stored.tagged(context, &expressions).await.map_err(|error| error.to_string())?;
        return Ok(json!(names));
    }
    let is_set = |name: &str| all(case, name).last().is_some_and(|value| *value != "0");
    let mut groups: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    for query in all(case, "query") {
        let pattern = Pattern::parse(query).map_err(|error| error.to_string())?;
        let nodes = stored.find(context, &pattern, None).await.map_err(|error| error.to_string())?;
        let wanted = nodes.into_iter().filter(|node| node.is_leaf || !is_set("leavesOnly"));
        groups.entry(query).or_default().extend(wanted.map(|node| pattern.shown(&node.path)));
    }
    Ok(match is_set("groupByExpr") {
        true => json!({ "results": groups }),
        false => json!({ "results": groups.into_values().flatten().collect::<BTreeSet<_>>() }),
    })
}
