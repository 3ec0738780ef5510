//! `sandur cluster`: shows the nodes that share a store, and lets one of them leave.

use std::io::Write;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Arg, ArgAction, ArgMatches, Command};
use reqwest::Method;
use sandur_base::units::{ByteSize, format_duration};
use sandur_runtime::Env;
use sandur_terminal::Failed;
use serde::Deserialize;

use super::client::{self, Ask, Client};
use super::escape::escaped;
use super::outcome::written;

const PATH: &str = "/sandur/cluster";
const DRAIN: &str = "/sandur/cluster/drain";

/// The command.
pub fn command() -> Command {
    let json = Arg::new("json").long("json").action(ArgAction::SetTrue).help("Print the server's JSON");
    let status = Command::new("status").about("Show the nodes: zones, roles, versions, freshness, shares");
    let node =
        Arg::new("node").value_name("NODE").help("The id of the node; by default the one that answers");
    let undo = Arg::new("undo").long("undo").action(ArgAction::SetTrue).help("The node stays");
    let drain = Command::new("drain")
        .about("Let a node leave: others take over its work, it flushes, and its /ready answers 503")
        .args([node, undo]);
    Command::new("cluster")
        .about("Show the nodes that share a store, and let one leave")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommand(client::arguments(status.arg(json)))
        .subcommand(client::arguments(drain))
}

/// Runs the command.
pub async fn run(env: Env, matches: &ArgMatches) -> Result<ExitCode, Failed> {
    match matches.subcommand() {
        Some(("status", m)) => status(env, m).await,
        Some(("drain", m)) => drain(m).await,
        _ => unreachable!("clap requires a subcommand"),
    }
}

#[derive(Deserialize)]
struct Cluster {
    node: String,
    catalog: u64,
    catalog_age_ms: u64,
    writes: String,
    held: bool,
    unowned_roles: Vec<String>,
    nodes: Vec<Node>,
}

#[derive(Deserialize)]
struct Node {
    id: String,
    zone: String,
    roles: Vec<String>,
    state: String,
    version: String,
    address: String,
    incarnation: String,
    started_ms: i64,
    cache_bytes: u64,
    silent_ms: Option<u64>,
    catalog: Option<u64>,
    member: bool,
    shares_percent: std::collections::BTreeMap<String, f64>,
    windows: u64,
}

async fn status(env: Env, matches: &ArgMatches) -> Result<ExitCode, Failed> {
    let body = Client::from_arguments(matches)?.get(PATH, &[]).await?;
    let mut out = std::io::stdout().lock();
    if matches.get_flag("json") {
        return written(out.write_all(&body).and_then(|()| writeln!(out)));
    }
    let cluster: Cluster = serde_json::from_slice(&body)
        .map_err(|error| Failed::new(format!("the server's answer cannot be read: {error}")))?;
    written(out.write_all(shown(&cluster, env.now_ns() / 1_000_000).as_bytes()))
}

async fn drain(matches: &ArgMatches) -> Result<ExitCode, Failed> {
    let client = Client::from_arguments(matches)?;
    let (node, undo) = (matches.get_one::<String>("node"), matches.get_flag("undo"));
    let mut pairs: Vec<(&str, String)> = node.map(|node| ("node", node.clone())).into_iter().collect();
    if undo {
        pairs.push(("undo", "true".to_owned()));
    }
    client.ask(Ask { method: Method::POST, path: DRAIN, pairs: &pairs, ..Ask::default() }).await?;
    let node = node.map_or_else(|| format!("the node at {}", client.base()), |node| format!("node {node}"));
    match undo {
        true => eprintln!("{node} stays"),
        false => {
            eprintln!("{node} drains; stop it with SIGTERM when `sandur cluster status` shows 0 windows")
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// The report as a table.
fn shown(cluster: &Cluster, now_ms: i64) -> String {
    let heads = [
        "NODE", "ZONE", "STATE", "ROLES", "VERSION", "UP", "SEEN", "BEHIND", "CACHE", "SHARE", "WINDOWS",
        "ADDRESS",
    ];
    let mut rows = vec![heads.map(str::to_owned)];
    rows.extend(cluster.nodes.iter().map(|node| row(cluster, node, now_ms)));
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..heads.len()).map(width).collect();
    let mut text = String::new();
    for row in &rows {
        let cells: Vec<String> =
            row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
        text.push_str(cells.join("  ").trim_end());
        text.push('\n');
    }
    let age = format_duration(Duration::from_millis(cluster.catalog_age_ms));
    let (entry, node) = (cluster.catalog, escaped(&cluster.node));
    text.push_str(&format!(
        "\nanswered by {node}: catalog entry {entry}, {age} old; writes {}\n",
        cluster.writes
    ));
    if cluster.held {
        text.push_str(
            "fewer than half of the nodes seem to be alive: the last known nodes keep their work\n",
        );
    }
    for role in &cluster.unowned_roles {
        text.push_str(&format!("no live node has the role '{}': its work waits\n", escaped(role)));
    }
    text
}

fn row(cluster: &Cluster, node: &Node, now_ms: i64) -> [String; 12] {
    let all = ["ingest", "query", "compact", "cache", "rules"];
    let dash = |text: &str| if text.is_empty() { "-".to_owned() } else { escaped(text).into_owned() };
    let seconds = |ms: u64| format_duration(Duration::from_secs(ms / 1_000));
    let up = u64::try_from(now_ms.saturating_sub(node.started_ms)).unwrap_or(0);
    let share = node.shares_percent.get("compact");
    let state = if node.member { node.state.clone() } else { format!("{} (out)", node.state) };
    [
        // A program that states no id is known by its process.
        if node.id == node.incarnation { format!("({})", dash(&node.id)) } else { dash(&node.id) },
        dash(&node.zone),
        dash(&state),
        if all.iter().all(|role| node.roles.iter().any(|own| own == role)) {
            "all".to_owned()
        } else {
            dash(&node.roles.join(","))
        },
        dash(&node.version),
        seconds(up),
        node.silent_ms.map_or_else(|| "ended".to_owned(), |ms| format!("{} ago", seconds(ms))),
        node.catalog.map_or_else(|| "?".to_owned(), |seen| cluster.catalog.saturating_sub(seen).to_string()),
        if node.cache_bytes == 0 { "-".to_owned() } else { ByteSize(node.cache_bytes).to_string() },
        share.map_or_else(|| "0 %".to_owned(), |share| format!("{share:.0} %")),
        node.windows.to_string(),
        dash(&node.address),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_shows_every_node_and_what_is_wrong() {
        let json = r#"{"node":"sandur-0","catalog":120,"catalog_age_ms":800,
            "writes":"log blocks 6, sample blocks 7",
            "held":true,"unowned_roles":["rules"],"nodes":[
            {"id":"sandur-0","zone":"a","roles":["ingest","query","compact","cache","rules"],
             "state":"serving",
             "version":"0.1.0","address":"10.0.0.1:3100","incarnation":"01X","started_ms":1000,
             "cache_bytes":1073741824,"silent_ms":0,"catalog":120,"member":true,
             "shares_percent":{"compact":51.2,"ingest":50.0},"windows":12},
            {"id":"01Y","zone":"","roles":["query"],"state":"draining","version":"","address":"",
             "incarnation":"01Y",
             "started_ms":2000,"cache_bytes":0,"silent_ms":null,"catalog":null,"member":false,
             "shares_percent":{},"windows":0}]}"#;
        let cluster: Cluster = serde_json::from_str(json).unwrap();
        let text = shown(&cluster, 3_601_000);
        let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(
            lines[1],
            [
                "sandur-0",
                "a",
                "serving",
                "all",
                "0.1.0",
                "1h",
                "0s",
                "ago",
                "0",
                "1GiB",
                "51",
                "%",
                "12",
                "10.0.0.1:3100"
            ]
        );
        assert_eq!(&lines[2][..5], ["(01Y)", "-", "draining", "(out)", "query"]);
        for part in ["fewer than half", "role 'rules'", "entry 120, 800ms old"] {
            assert!(text.contains(part), "{text}");
        }
    }
}
