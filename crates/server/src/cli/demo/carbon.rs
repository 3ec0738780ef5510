//! Metrics of the generated services as carbon lines: log lines and bytes of each slot. A slot is sent
//! when it has ended.

use std::fmt::Write;

use axum::http::Method;
use sandur_cli::client::{Ask, Client};
use sandur_runtime::Env;
use sandur_terminal::Failed;

use super::metrics::Counted;

/// The path that receives carbon lines.
const CARBON: &str = "/graphite/carbon";
/// A find and a target that return something.
const FIND: &str = "shop.*.*";
const TARGET: &str = "sumSeriesWithWildcards(shop.*.*.lines, 2)";

/// Slots that were not sent yet.
#[derive(Debug, Default)]
pub struct CarbonLines(Counted);

impl CarbonLines {
    /// Adds counts of services.
    pub fn count(&mut self, new: &Counted) {
        for (slot, instances) in &new.lines {
            let slot = self.0.lines.entry(*slot).or_default();
            for (instance, (lines, bytes)) in instances {
                let counts = slot.entry(instance.clone()).or_default();
                *counts = (counts.0 + lines, counts.1 + bytes);
            }
        }
    }

    /// Takes the lines of the slots that are over at this second.
    fn take(&mut self, second: i64) -> String {
        let later = self.0.lines.split_off(&(second + 1));
        let mut text = String::new();
        for (slot, instances) in std::mem::replace(&mut self.0.lines, later) {
            for ((app, instance), (lines, bytes)) in instances {
                // Writing to a String cannot fail.
                let _ = writeln!(text, "shop.{app}.{instance}.lines {lines} {slot}");
                let _ = writeln!(text, "shop.{app}.{instance}.bytes {bytes} {slot}");
            }
        }
        text
    }

    /// Sends the slots that are over at this second.
    pub async fn send(&mut self, client: &Client, second: i64) -> Result<(), Failed> {
        let text = self.take(second);
        if text.is_empty() {
            return Ok(());
        }
        let ask = Ask { method: Method::POST, path: CARBON, pairs: &[], headers: &[], body: text.into() };
        client.ask(ask).await?;
        Ok(())
    }
}

/// Runs a find and a render, and describes each by a comment and a command.
pub async fn propose(
    env: &Env,
    client: &Client,
    (address, program, named): (&str, &str, &str),
) -> Result<Vec<[String; 2]>, Failed> {
    let mut proposals = Vec::new();
    let began = env.monotonic();
    let nodes = items(&client.get("/metrics/find", &[("query", FIND.to_owned())]).await?);
    let took = (env.monotonic() - began).as_millis();
    if nodes > 0 {
        proposals.push([
            format!("# which instances tell Graphite of them (a find): {nodes} nodes in {took} ms"),
            format!("curl -s '{address}/metrics/find?query={FIND}'"),
        ]);
    }
    let pairs = [("target", TARGET.to_owned()), ("from", "-1h".to_owned()), ("format", "json".to_owned())];
    let began = env.monotonic();
    let series = items(&client.get("/render", &pairs).await?);
    let took = (env.monotonic() - began).as_millis();
    if series > 0 {
        proposals.push([
            format!("# lines by service, drawn (a target of Graphite's): {series} series in {took} ms"),
            format!("{program} query{named} --graphite '{TARGET}'"),
        ]);
    }
    Ok(proposals)
}

/// The number of elements of a JSON array.
fn items(body: &[u8]) -> usize {
    serde_json::from_slice::<Vec<serde_json::Value>>(body).map_or(0, |list| list.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_slot_is_sent_once_it_is_over() {
        let mut counted = Counted::default();
        let instance = ("api".to_owned(), "api-0".to_owned());
        for slot in [15, 30] {
            counted.lines.entry(slot).or_default().insert(instance.clone(), (2, 20));
        }
        let mut carbon = CarbonLines::default();
        carbon.count(&counted);
        carbon.count(&counted);
        assert_eq!(carbon.take(14), "");
        assert_eq!(carbon.take(29), "shop.api.api-0.lines 4 15\nshop.api.api-0.bytes 40 15\n");
        assert_eq!((carbon.take(45).lines().count(), carbon.take(60)), (2, String::new()));
    }
}
