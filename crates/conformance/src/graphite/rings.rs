//! Checks `rings.jsonl.gz`: the members of a cluster to which names are assigned.

use std::path::Path;

use sandur_relay::node::Node;
use sandur_relay::replicas::{Distribution, Rule};
use sandur_relay::ring::Kind;
use serde_json::Value;

use super::cases::{cases, string, text};
use super::report::Report;
use crate::world::Place;

/// Runs the cases of a folder.
pub(super) fn run(folder: &Path) -> Result<Report, String> {
    let names = text(&folder.join("rings-names.json"))?;
    let names: Vec<String> = serde_json::from_str(&names).map_err(|error| error.to_string())?;
    let cases = cases(&folder.join("rings.jsonl.gz"))?;
    let failed = |case: &Value| {
        let wrong = check(case, &names).err()?;
        Some(format!("{}: {wrong}", string(case, "id")))
    };
    let failures = cases.iter().filter_map(failed).collect();
    Ok(Report::new("rings.jsonl.gz", Place::Memory, cases.len(), failures))
}

fn check(case: &Value, names: &[String]) -> Result<(), String> {
    let origin = match string(case, "implementation") {
        "carbon-fast-hashing" => "carbon-fast",
        other => other,
    };
    let kind = Kind::named(origin, string(case, "hash")).ok_or("no such ring")?;
    let copies = case["replication"].as_u64().unwrap_or(1) as usize;
    let rule = if case["diverse"] == true { Rule::Hosts } else { Rule::Ring };
    let nodes: Vec<Node> = case["nodes"].as_array().into_iter().flatten().map(node).collect();
    let distribution = Distribution::new(kind, nodes, copies, rule).map_err(|error| error.to_string())?;
    check_positions(case, &distribution.ring().positions())?;
    let mut chosen = Vec::new();
    let recorded = case["destinations"].as_array().ok_or("no destinations")?;
    for (name, expected) in names.iter().zip(recorded).filter(|(_, expected)| !expected.is_null()) {
        distribution.choose(name.as_bytes(), &mut chosen);
        if Value::from(chosen.clone()) != *expected {
            return Err(format!("{name}: {chosen:?}, expected {expected}"));
        }
    }
    Ok(())
}

fn node(recorded: &Value) -> Node {
    Node {
        host: string(recorded, "host").to_owned(),
        port: recorded["port"].as_u64().unwrap_or_default() as u16,
        instance: recorded["instance"].as_str().map(str::to_owned),
        zone: None,
    }
}

/// Checks the recorded positions of the ring: their number, the first and the last ones.
fn check_positions(case: &Value, positions: &[(i64, usize)]) -> Result<(), String> {
    let Some(length) = case["ring_len"].as_u64() else { return Ok(()) };
    if positions.len() as u64 != length {
        return Err(format!("{} positions, expected {length}", positions.len()));
    }
    let pair = |(position, node): &(i64, usize)| Value::from(vec![*position, *node as i64]);
    let first = case["ring_first"].as_array().into_iter().flatten();
    let last = case["ring_last"].as_array().into_iter().flatten();
    let own_first = positions.iter().map(pair);
    let own_last = positions.iter().rev().map(pair);
    let differs = |(expected, own): (&Value, Value)| {
        (*expected != own).then(|| format!("position and node {own}, expected {expected}"))
    };
    let wrong = first.zip(own_first).find_map(differs);
    wrong.or_else(|| last.rev().zip(own_last).find_map(differs)).map_or(Ok(()), Err)
}
