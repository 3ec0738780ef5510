//! Tests of the memory of requests, measured by the allocator: the budget of the query bounds names and
//! other texts that a request repeats for each series, as it bounds values.

use std::alloc::System;
use std::time::Duration;

use sandur_memory::MemoryBudget;
use sandur_memory::account::Counting;
use sandur_model::TenantId;
use sandur_query::QueryContext;
use sandur_runtime::Env;

use crate::error::{Error, Result};
use crate::find::{ExpandRequest, FindRequest, expand, find};
use crate::render::{RenderRequest, render};
use crate::source::testing::Made;
use crate::zone::Zone;

#[global_allocator]
static ALLOCATOR: Counting<System> = Counting(System);

const MIB: u64 = 1 << 20;
/// The memory of each query; the account may exceed it by 8 MiB.
const BUDGET: u64 = 8 * MIB;

/// Runs a request in its own query. Returns the answer and the peak of allocated bytes.
fn run<T>(request: impl AsyncFnOnce(&Made, &QueryContext) -> Result<T>) -> (Result<T>, u64) {
    let (env, tenant) = (Env::system(1), TenantId::default_tenant());
    let budget = MemoryBudget::root("query", BUDGET);
    let context = QueryContext::new(env, tenant, budget.clone(), Duration::from_secs(3_600));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let source = Made { series: 3_000, nodes: 3_000 };
    let work = context.account().charge(request(&source, &context));
    let answer = runtime.block_on(work);
    assert_eq!(budget.used(), 0);
    (answer, context.account().peak())
}

fn pairs(all: &[(&str, &str)]) -> Vec<(String, String)> {
    all.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

fn rendered(target: &str, others: &[(&str, &str)]) -> (Result<usize>, u64) {
    let mut all = vec![("target", target), ("from", "40"), ("until", "100"), ("format", "json")];
    all.extend(others);
    let all = pairs(&all);
    run(async move |source, context| {
        let request = RenderRequest::read(&all, 200, &Zone::utc())?;
        Ok(render(source, context, &request).await?.body.len())
    })
}

/// Goal: no function that repeats names exceeds the memory of the query.
#[test]
fn texts_repeated_for_each_series_are_bounded() {
    let long = "A".repeat(400_000);
    let words = vec!["'last'"; 1_500].join(",");
    let matchers: Vec<String> = (0..1_900).map(|n| format!("'m{n}'")).collect();
    let matchers = matchers.join(",");
    let zeros = vec!["0"; 1_900].join(",");
    let percents = "%".repeat(20_000);
    for (target, others) in [
        (format!("alias(a.*,'{long}')"), &[][..]),
        (format!("asPercent(a.*,alias(constantLine(1),'{long}'))"), &[]),
        (format!("divideSeries(a.*,alias(constantLine(1),'{long}'))"), &[]),
        (format!("legendValue(a.*,{words})"), &[]),
        (format!("aliasSub(a.*,'(.*)','{}')", "x".repeat(60_000)), &[]),
        (
            format!(
                "aliasSub(alias(constantLine(1),'{}'),'(.*)','{}')",
                "A".repeat(200_000),
                r"\1".repeat(30_000)
            ),
            &[],
        ),
        (format!("applyByNode(alias(constantLine(1),'{}'),0,'b','{percents}')", &long[..30_000]), &[]),
        (format!("applyByNode(a.*,0,'a.*','{}')", &long[..60_000]), &[]),
        (format!("applyByNode(alias(constantLine(1),'{}'),0,'{percents}')", &long[..30_000]), &[]),
        (
            format!("reduceSeries(mapSeries(aliasSub(a.*,'a.(.*)','\\1.a'),0),'sumSeries',1,'a',{matchers})"),
            &[],
        ),
        ("asPercent(scale(a.*,1))".to_owned(), &[]),
        (format!("aliasByNode(alias(constantLine(1),'{long}'),{zeros})"), &[]),
        (format!("aliasByTags(alias(constantLine(1),'{long}'),{zeros})"), &[]),
        (format!("groupByNodes(alias(constantLine(1),'{long}'),'sum',{zeros})"), &[]),
        (format!("cactiStyle(group(a.*,alias(constantLine(1),'{long}')))"), &[]),
        (format!("cactiStyle(a.*,'si','{}')", &long[..70_000]), &[]),
        (format!("seriesByTag('name=a',{}'name=b')", " ".repeat(400_000)), &[("format", "pickle")]),
        (
            format!("alias(constantLine(1),'{long}')|group({})", vec!["time('x',1)"; 500].join(",")),
            &[("format", "csv")],
        ),
        (format!("template('{}')", "$x".repeat(100_000)), &[("template[x]", &long)]),
        (format!("template({})", "$x".repeat(100_000)), &[("template[x]", &long)]),
    ] {
        let (answer, peak) = rendered(&target, others);
        assert!(peak < 32 * MIB, "{peak} bytes for {:.60}", target);
        if let Err(error) = answer {
            let is_memory =
                matches!(error, Error::Query(sandur_query::Error::OverBudget(_)) | Error::Limit(_));
            assert!(is_memory || matches!(error, Error::Invalid(_)), "{target:.60}: {error:.300}");
        }
    }
    for (target, format) in
        [(format!("alias(time('x',1),'{}')", &long[..60_000]), "csv"), ("time('x',1)".to_owned(), "dygraph")]
    {
        let (answer, peak) = rendered(&target, &[("format", format), ("from", "0"), ("until", "40000")]);
        let is_memory = |error: &Error| matches!(error, Error::Query(_) | Error::Limit(_));
        assert!(answer.as_ref().is_err_and(is_memory), "{format}: {answer:?}");
        assert!(peak < 32 * MIB, "{peak} bytes for {format}");
    }
}

/// Goal: a pattern that lists many hosts, as in dashboards, is stored once, not for each series.
#[test]
fn a_long_pattern_of_many_series_is_stored_once() {
    let hosts: Vec<String> = (0..3_000).map(|n| format!("host{n}")).collect();
    let (answer, peak) = rendered(&format!("a.{{{}}}", hosts.join(",")), &[]);
    assert!(answer.unwrap() > 100_000);
    assert!(peak < 14 * MIB, "{peak}");
}

#[test]
fn nodes_with_escaped_characters_are_bounded() {
    let pattern = format!("a.{{\\*{},*}}", "A".repeat(60_000));
    let (answer, peak) = run(async |source, context| {
        let request = FindRequest::read(&pairs(&[("query", &pattern)]), 200, &Zone::utc())?;
        find(source, context, &request).await
    });
    assert!(matches!(answer, Err(Error::Query(sandur_query::Error::OverBudget(_)))));
    assert!(peak < 32 * MIB, "{peak}");
    // All of these nodes have the same text.
    let (answer, peak) = run(async |source, context| {
        expand(source, context, &ExpandRequest::read(&pairs(&[("query", &pattern)]))?).await
    });
    assert!(answer.is_ok_and(|answer| answer.body.len() < 70_000));
    assert!(peak < 32 * MIB, "{peak}");
}

#[test]
fn tag_expressions_are_charged_to_the_query() {
    let many = |count| -> Vec<(String, String)> {
        let one = |n| ("expr".to_owned(), format!("name=~(a|b|c)*[a-z]{{1,40}}x{n}\\w{{20}}"));
        (0..count).map(one).collect()
    };
    let (answer, peak) = run(async |source, context| crate::find_series(source, context, &many(3_000)).await);
    assert!(matches!(answer, Err(Error::Query(sandur_query::Error::OverBudget(_)))));
    assert!(peak < 32 * MIB, "{peak}");
    let (answer, _) = run(async |source, context| crate::find_series(source, context, &many(1)).await);
    assert!(answer.is_ok());
}

/// Goal: a width beyond the limit of format strings does not panic.
#[test]
fn names_of_any_length_are_padded() {
    let (answer, _) = rendered(&format!("cactiStyle(alias(constantLine(1),'{}'))", "A".repeat(70_000)), &[]);
    assert!(answer.unwrap() > 70_000);
    let (answer, _) = rendered(&format!("cactiStyle(constantLine(1),'si','{}')", "M".repeat(70_000)), &[]);
    assert!(answer.unwrap() > 70_000);
}

/// Goal: an expensive search in few names does not run on an I/O thread.
#[test]
fn searches_in_names_run_on_the_cpu_pool() {
    for target in [
        "aliasSub(constantLine(1),'x*y|x','')",
        "grep(constantLine(1),'[ab]*a[ab]{400}[^ab]')",
        "exclude(constantLine(1),'[ab]*a[ab]{400}[^ab]')",
        "aliasQuery(constantLine(1),'x*y|x','','%d')",
        "useSeriesAbove(constantLine(1),0,'x*y|x','')",
    ] {
        let pairs = pairs(&[("target", target), ("from", "40"), ("until", "100")]);
        let (answer, _) = run(async |source, context| {
            let request = RenderRequest::read(&pairs, 200, &Zone::utc())?;
            let mut rendering = std::pin::pin!(render(source, context, &request));
            let is_away = futures_util::poll!(&mut rendering).is_pending();
            context.cancel();
            assert!(is_away, "{target}");
            rendering.await
        });
        assert!(matches!(answer, Err(Error::Query(sandur_query::Error::Cancelled))), "{target}");
    }
}
