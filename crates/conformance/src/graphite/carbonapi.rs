//! Checks against carbonapi's answers to its own tests, on the series of each test.

use std::path::Path;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use sandur_graphite::{
    Evaluator, Fetched, Found, Moment, Pattern, Scope, Selector, Series, Source, TagExpression, Window, Zone,
};
use sandur_memory::MemoryBudget;
use sandur_model::TenantId;
use sandur_query::{Error, QueryContext};
use sandur_runtime::Env;
use serde_json::Value;

use super::cases::{cases, string};
use super::recorded::{column, difference};
use super::render::BUDGET;
use super::report::Report;
use super::second::{Verdict, report};

/// The clock of the graphite-web that was given the same tests, seconds since the epoch.
const NOW: i64 = 1_615_809_637;

pub(super) fn run(folder: &Path) -> Result<Report, String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
    let runtime = runtime.map_err(|error| error.to_string())?;
    let mut judged = Vec::new();
    for case in cases(&folder.join("carbonapi.jsonl.gz"))? {
        let verdict = judge(&case, runtime.block_on(answer(&case)));
        judged.push((case, verdict));
    }
    Ok(report("carbonapi", judged))
}

/// The input series of one test, by path and window.
struct Given<'a>(&'a Value);

impl Given<'_> {
    fn series(&self, path: &str, window: Window) -> &[Value] {
        let inputs = self.0["input"].as_array().map(Vec::as_slice).unwrap_or_default();
        let of_path = |input: &&Value| string(input, "metric") == path;
        let of_window = |input: &&Value| {
            input["from"].as_i64() == Some(window.from) && input["until"].as_i64() == Some(window.until)
        };
        let exact = inputs.iter().filter(of_path).find(of_window);
        let found = exact.or_else(|| inputs.iter().find(of_path));
        found.and_then(|input| input["series"].as_array()).map(Vec::as_slice).unwrap_or_default()
    }
}

impl Source for Given<'_> {
    fn fetch<'a>(
        &'a self,
        _: &'a QueryContext,
        selector: Selector<'a>,
        window: Window,
    ) -> BoxFuture<'a, Result<Vec<Fetched>, Error>> {
        let path = match selector {
            Selector::Path(pattern) => pattern.text().to_owned(),
            Selector::Name(name) => name.to_owned(),
            Selector::Tags(expressions) => {
                let quoted: Vec<String> = expressions.iter().map(|one| format!("'{one}'")).collect();
                format!("seriesByTag({})", quoted.join(", "))
            }
        };
        let number = |series: &Value, name: &str| series[name].as_i64().unwrap_or(0);
        let fetched = self.series(&path, window).iter().filter_map(|series| {
            let [start, end, step] = ["start", "end", "step"].map(|name| number(series, name));
            Some(Fetched {
                name: string(series, "name").to_owned(),
                start,
                end,
                step,
                values: column(series)?,
            })
        });
        let fetched = fetched.collect();
        async move { Ok(fetched) }.boxed()
    }

    fn nodes<'a>(
        &'a self,
        _: &'a QueryContext,
        _: &'a Pattern,
        _: Option<(i64, i64)>,
    ) -> BoxFuture<'a, Result<Vec<Found>, Error>> {
        async { Ok(Vec::new()) }.boxed()
    }

    fn tagged<'a>(
        &'a self,
        _: &'a QueryContext,
        _: &'a [TagExpression],
    ) -> BoxFuture<'a, Result<Vec<String>, Error>> {
        async { Ok(Vec::new()) }.boxed()
    }
}

async fn answer(case: &Value) -> Result<Vec<Series>, String> {
    let budget = MemoryBudget::root("query", BUDGET);
    let tenant = TenantId::default_tenant();
    let context = QueryContext::new(Env::simulated(1, 0), tenant, budget, Duration::from_secs(3_600));
    let time = |name: &str| Moment::utc(case[name].as_i64().unwrap_or(0));
    let (from, until) = (time("from"), time("until"));
    let scope = Scope::new(from, until, NOW, Zone::utc(), 0.0);
    let source = Given(case);
    let evaluator = Evaluator::new(&source, &context, &[]);
    evaluator.series(string(case, "target"), &scope).await.map_err(|error| error.to_string())
}

/// Sorts recorded series by name, the order in which the series of a path are returned.
fn by_name(expected: &[Value]) -> Vec<Value> {
    let mut sorted = expected.to_vec();
    sorted.sort_by(|a, b| string(a, "name").cmp(string(b, "name")));
    sorted
}

/// Whether only carbonapi has a function of the target, so that graphite-web's answer does not count.
fn is_own(case: &Value) -> bool {
    string(&case["graphite_web"], "error").contains("unknown function")
}

fn judge(case: &Value, answer: Result<Vec<Series>, String>) -> Verdict {
    let web = &case["graphite_web"];
    let found = match answer {
        Err(_) if case["error"].is_string() => return Verdict::Equal,
        Err(_) if web["error"].is_string() && !is_own(case) => return Verdict::Followed,
        Err(error) => return Verdict::Wrong(format!("failed: {error}")),
        Ok(found) => found,
    };
    let found: Vec<&Series> = found.iter().collect();
    let mut sorted = found.clone();
    sorted.sort_by(|a, b| a.name.cmp(&b.name));
    let target = string(case, "target");
    let wrong = |expected: &Value| {
        let expected = expected.as_array()?;
        let wrong = difference(target, expected, &found)?;
        difference(target, &by_name(expected), &sorted).map(|_| wrong)
    };
    let is_like = |expected: &Value| expected.is_array() && wrong(expected).is_none();
    if is_like(&case["expected"]) {
        return Verdict::Equal;
    }
    if is_like(&web["series"]) {
        return Verdict::Followed;
    }
    let nearest = if web["series"].is_array() { &web["series"] } else { &case["expected"] };
    Verdict::Wrong(wrong(nearest).unwrap_or_else(|| "answered, expected an error".to_owned()))
}
