//! `sandur delete create` for metrics: hides the samples of series.

use clap::ArgMatches;
use reqwest::Method;
use sandur_terminal::Failed;

use super::client::{Ask, Client};
use super::metrics_query::explain;
use super::moment::{Window, Zone};
use super::samples::{self, Data};

const PATH: &str = "/api/v1/admin/tsdb/delete_series";

/// Whether the query selects series: requested, or because it is PromQL and no LogQL.
pub fn is_for_metrics(matches: &ArgMatches, query: &str) -> bool {
    let is_promql = || sandur_logql::diagnose(query).is_some() && sandur_promql::mistake(query).is_none();
    matches.get_flag("metrics") || is_promql()
}

/// The number of samples and series that match now, as a text; `None` if they cannot be counted.
pub async fn count(client: &Client, selector: &str, window: &Window) -> Result<Option<String>, Failed> {
    let range = format!("count_over_time({selector} [{}s])", (window.end - window.start) / 1_000_000_000);
    let mut found = Vec::new();
    for query in [format!("sum({range})"), format!("count({range})")] {
        let time = (window.end / 1_000_000_000).to_string();
        match client.get("/api/v1/query", &[("query", query), ("time", time)]).await {
            Ok(body) => found.push(number(&samples::read(&body)?.data)),
            // Only an invalid selector stops a delete; a limit on queries does not.
            Err(refusal) if refusal.status.is_none() => return Err(refusal.into()),
            Err(refusal) if refusal.status.is_some_and(|status| status.as_u16() == 400) => {
                return Err(refused(selector, refusal));
            }
            Err(_) => return Ok(None),
        }
    }
    let samples = if found[0] == "1" { "sample" } else { "samples" };
    Ok(Some(format!("{} {samples} of {} series", found[0], found[1])))
}

fn number(data: &Data) -> String {
    let first = data.rows().first().and_then(|row| row.values.first());
    first.map_or_else(|| "0".to_owned(), |(_, value)| value.clone())
}

/// Requests the delete.
pub async fn create(
    client: &Client,
    selector: &str,
    window: &Window,
    found: Option<String>,
) -> Result<(), Failed> {
    let instant = |ns: i64| Zone::utc().show_exactly(ns);
    let pairs =
        [("match[]", selector.to_owned()), ("start", instant(window.start)), ("end", instant(window.end))];
    let asked = client.ask(Ask { method: Method::POST, path: PATH, pairs: &pairs, ..Ask::default() }).await;
    asked.map_err(|refusal| refused(selector, refusal))?;
    let found = found.unwrap_or_else(|| "the samples".to_owned());
    eprintln!(
        "hidden: {found}; samples are removed from the store after compaction.delete_request_cancel_period \
         (24 h by default); a delete of samples cannot be cancelled and is not in `sandur delete list`"
    );
    Ok(())
}

fn refused(selector: &str, mut refusal: super::client::Refusal) -> Failed {
    refusal.text = samples::error_text(&refusal.text);
    explain(selector, refusal)
}
