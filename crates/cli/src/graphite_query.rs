//! `sandur query --graphite`: queries the values of a target and prints them like those of PromQL.

use std::io::Write;
use std::process::ExitCode;

use clap::ArgMatches;
use sandur_terminal::Failed;
use serde_json::Value;

use super::client::Client;
use super::metrics_query::{Form, show};
use super::moment::Window;
use super::outcome::{Wanted, nothing, written};
use super::samples::{Data, Row};

/// Maximum number of points per series.
const POINTS: u32 = 250;

/// Runs the query and prints the answer.
pub async fn run(
    client: &Client,
    target: &str,
    window: &Window,
    matches: &ArgMatches,
) -> Result<ExitCode, Failed> {
    let seconds = |ns: i64| ns.div_euclid(1_000_000_000).to_string();
    let pairs = [
        ("target", target.to_owned()),
        ("from", seconds(window.start)),
        ("until", seconds(window.end)),
        ("format", "json".to_owned()),
        ("maxDataPoints", POINTS.to_string()),
    ];
    let data = read(&client.get("/render", &pairs).await?)?;
    if data.rows().is_empty() {
        nothing("series", Wanted::Paths, window);
        return Ok(ExitCode::SUCCESS);
    }
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    let shown = show(&mut out, &data, Form::from_arguments(matches), window);
    written(shown.and_then(|()| out.flush()))
}

/// Parses series, without the points that have no value.
fn read(body: &[u8]) -> Result<Data, Failed> {
    let unreadable = |why: String| Failed::new(format!("the server's answer cannot be read: {why}"));
    // JSON has no infinity; Graphite writes a number that overflows instead.
    let body =
        String::from_utf8_lossy(body).replace("[1e9999,", "[\"+Inf\",").replace("[-1e9999,", "[\"-Inf\",");
    let list: Vec<Value> = serde_json::from_str(&body).map_err(|error| unreadable(error.to_string()))?;
    let rows = list.into_iter().map(row).collect::<Option<Vec<Row>>>();
    rows.map(Data::Range).ok_or_else(|| unreadable("a series has no target or no points".to_owned()))
}

fn row(source: Value) -> Option<Row> {
    let name = source.get("target")?.as_str()?.to_owned();
    let point = |point: &Value| {
        let value = match point.get(0)? {
            Value::Number(number) => number.to_string(),
            Value::String(text) => text.clone(),
            _ => return None,
        };
        Some((point.get(1)?.as_i64()?.saturating_mul(1_000_000_000), value))
    };
    let values = source.get("datapoints")?.as_array()?.iter().filter_map(point).collect();
    Some(Row { metric: [("__name__".to_owned(), name)].into_iter().collect(), values, source })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::moment::Zone;

    #[test]
    fn points_without_a_value_are_left_out() {
        let body = br#"[{"target": "scale(a.b,2)", "tags": {}, "datapoints":
            [[1, 60], [null, 120], [1e9999, 180], [2.5, 240]]}]"#;
        let mut out = Vec::new();
        let window = Window { start: 0, end: 300_000_000_000, zone: Zone::utc() };
        show(&mut out, &read(body).unwrap(), Form::Csv, &window).unwrap();
        let shown = String::from_utf8(out).unwrap();
        assert_eq!(
            shown,
            "timestamp,labels,value\n1970-01-01T00:01:00Z,\"scale(a.b,2)\",1\n\
             1970-01-01T00:03:00Z,\"scale(a.b,2)\",+Inf\n1970-01-01T00:04:00Z,\"scale(a.b,2)\",2.5\n"
        );
        assert!(read(b"{}").is_err() && read(br#"[{"target": "a"}]"#).is_err());
    }
}
