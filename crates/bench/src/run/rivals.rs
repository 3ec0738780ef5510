//! Measures our server and rivals alternately with an external program.
//!
//! The program (`dbmeasure`) and its scripts (`servers.sh`, `bench-one.sh`) push to a server, query and
//! observe it. A `peer` command starts and stops the rivals. Their paths are options: nothing here
//! builds or fetches a rival. Each round measures every server once, so that all of them share the
//! machine's good and bad minutes. Only figures of the same machine and hour are comparable.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::report::{Column, median};
use super::server::Place;

/// The name of our server in result files.
const OURS: &str = "sandur";

/// The options of the measurement.
#[derive(Clone, Debug)]
pub struct Rivals {
    /// Our server.
    pub place: Place,
    /// The data set, which must be one of the measuring program, because of its queries.
    pub data: PathBuf,
    /// Path of the measuring program.
    pub dbm: PathBuf,
    /// The directory of `servers.sh`.
    pub scripts: PathBuf,
    /// Names of rivals that `servers.sh` supports.
    pub rivals: Vec<String>,
    /// The command that starts and stops rivals, and the directory of their process ids and data.
    pub peer: Option<(String, PathBuf)>,
    /// Path of this program, which starts and stops our server.
    pub this: PathBuf,
    /// The directory of results.
    pub out: PathBuf,
    /// The number of rounds.
    pub runs: usize,
}

/// Runs the measurement and returns a column of figures per server. `report` is called with progress
/// messages.
pub fn rivals(plan: &Rivals, mut report: impl FnMut(&str)) -> Result<Vec<Column>> {
    if !plan.rivals.is_empty() && plan.peer.is_none() {
        bail!("rivals need --peer and --peers: the command that starts them, and its directory");
    }
    let names: Vec<&str> = std::iter::once(OURS).chain(plan.rivals.iter().map(String::as_str)).collect();
    let mut columns: Vec<Column> = names.iter().map(|name| Column::new(name)).collect();
    for run in 1..=plan.runs {
        let out = plan.out.join(format!("run-{run}"));
        fs::create_dir_all(&out)?;
        for n in 0..names.len() {
            // the first server changes from round to round
            let at = (n + run - 1) % names.len();
            report(&format!("run {run} of {}: {}", plan.runs, names[at]));
            measure(plan, names[at], &out)?;
            gather(&out, names[at], &mut columns[at])?;
        }
    }
    Ok(columns)
}

fn measure(plan: &Rivals, name: &str, out: &Path) -> Result<()> {
    let mut command = Command::new(fs::canonicalize(plan.scripts.join("servers.sh"))?);
    command.args([if name == OURS { "custom" } else { name }, "push", "query"]);
    command.env("DBM", fs::canonicalize(&plan.dbm)?).env("DATA", fs::canonicalize(&plan.data)?);
    command.env("OUT", fs::canonicalize(out)?);
    if let Some((peer, directory)) = &plan.peer {
        command.env("PEER", peer).env("PEERS", directory);
    }
    if name == OURS {
        let place = &plan.place;
        fs::create_dir_all(&place.directory)?;
        let directory = fs::canonicalize(&place.directory)?;
        let url = format!("http://{}", place.address);
        let ours = |verb: &str| {
            let this = plan.this.display();
            let (program, directory) = (place.program.display(), directory.display());
            format!(
                "'{this}' server {verb} --server '{program}' --dir '{directory}' --address {}",
                place.address
            )
        };
        command.env("NAME", OURS).env("UP", ours("up")).env("DOWN", ours("down")).env("WIPE", ours("wipe"));
        command.env("KIND", "loki").env("PUSH", format!("{url}/loki/api/v1/push"));
        command
            .env("FLUSH", format!("{url}/flush"))
            .env("PIDS", format!("@{}", directory.join("pid").display()));
        command
            .env("DISK", directory.join("data"))
            .env("SUITE", "logs")
            .env("DIALECT", "loki")
            .env("URL", url);
        command.env("CHUNKS", "all").env("COLD", "");
    }
    let log = out.join(format!("{name}.log"));
    command.stdout(fs::File::create(&log)?).stderr(fs::File::create(out.join(format!("{name}.err")))?);
    let status = command.status().context("cannot run servers.sh")?;
    stop(plan, name);
    if !status.success() {
        bail!("measuring {name} failed ({status}); see {} and the .err file in its directory", log.display());
    }
    Ok(())
}

/// Stops a server after its turn, so that the next one has the machine to itself.
fn stop(plan: &Rivals, name: &str) {
    let stopped = match &plan.peer {
        Some((peer, _)) if name != OURS => {
            Command::new("sh").args(["-c", &format!("{peer} down {name} && {peer} wipe {name}")]).status()
        }
        _ => {
            let mut command = Command::new(&plan.this);
            command.args(["server", "down", "--address", &plan.place.address, "--server"]);
            command.arg(&plan.place.program).arg("--dir").arg(&plan.place.directory).status()
        }
    };
    if !stopped.is_ok_and(|status| status.success()) {
        eprintln!("cannot stop {name}: it may disturb the next measurement");
    }
}

/// Reads the results of the measuring program for a server.
fn gather(out: &Path, name: &str, column: &mut Column) -> Result<()> {
    let push = read(&out.join(format!("push-{name}.json")))?;
    let figure = |key: &str| push[key].as_f64().unwrap_or(0.0);
    let raw = figure("raw_bytes");
    let cpu = figure("user_s") + figure("sys_s");
    column.add("push, s", figure("wall_s"));
    column.add("push, MB/s", raw / 1e6 / figure("wall_s").max(1e-9));
    column.add("processor time with settling, s", cpu);
    column.add("MB per processor second", raw / 1e6 / cpu.max(0.01));
    column.add("resident at most, MB", figure("rss_peak") / 1e6);
    let wal: f64 = push["disk_by"]
        .as_object()
        .into_iter()
        .flatten()
        .filter(|(path, _)| path.ends_with("/wal"))
        .filter_map(|(_, bytes)| bytes.as_f64())
        .sum();
    column.add("disk per raw byte, without WAL", (figure("disk_alloc") - wal) / raw.max(1.0));
    if figure("errors") > 0.0 {
        bail!("{name} refused pushes: {}", push["first_error"].as_str().unwrap_or("no reason given"));
    }
    for entry in fs::read_dir(out)? {
        let file = entry?.file_name().into_string().unwrap_or_default();
        let number = file.strip_prefix(&format!("query-{name}-")).and_then(|rest| rest.strip_suffix(".json"));
        if number.is_none_or(|number| number.parse::<u32>().is_err()) {
            continue;
        }
        let queries = read(&out.join(&file))?;
        for query in queries["queries"].as_array().into_iter().flatten() {
            let runs: Vec<f64> =
                query["runs_s"].as_array().into_iter().flatten().filter_map(Value::as_f64).collect();
            let (id, error) = (query["id"].as_str().unwrap_or_default(), query["error"].as_str());
            match (median(&runs), error) {
                (Some(seconds), None) => column.add(&format!("{id}, ms"), seconds * 1000.0),
                _ => eprintln!("{name} did not answer {id}: {}", error.unwrap_or("no run")),
            }
        }
    }
    column.rows.sort_by_key(|row| {
        (row.name.starts_with('L'), if row.name.starts_with('L') { row.name.clone() } else { String::new() })
    });
    Ok(())
}

fn read(path: &Path) -> Result<Value> {
    let bytes = fs::read(path).with_context(|| format!("no result at {}", path.display()))?;
    serde_json::from_slice(&bytes).with_context(|| format!("{} is not a result", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_collected_by_run() {
        let directory = tempfile::tempdir().unwrap();
        let out = directory.path();
        let push = r#"{"raw_bytes":2000000,"wall_s":2.0,"user_s":0.5,"sys_s":0.5,"rss_peak":1000000,
            "disk_alloc":1500000,"disk_by":{"loki/wal":500000,"loki/chunks":1000000},"errors":0}"#;
        fs::write(out.join("push-loki.json"), push).unwrap();
        let queries = r#"{"queries":[{"id":"L01","runs_s":[0.003,0.001,0.002]},
            {"id":"L02","error":"no","runs_s":[]}]}"#;
        fs::write(out.join("query-loki-1.json"), queries).unwrap();
        fs::write(out.join("query-loki-cold.json"), "{").unwrap();
        let mut column = Column::new("loki");
        gather(out, "loki", &mut column).unwrap();
        let figure = |name: &str| column.rows.iter().find(|row| row.name == name).map(|row| row.figures[0]);
        assert_eq!(figure("MB per processor second"), Some(2.0));
        assert_eq!(figure("disk per raw byte, without WAL"), Some(0.5));
        assert_eq!((figure("L01, ms"), figure("L02, ms")), (Some(2.0), None));
        assert!(gather(out, "absent", &mut column).is_err());
        fs::write(out.join("push-loki.json"), push.replace("\"errors\":0", "\"errors\":3")).unwrap();
        assert!(gather(out, "loki", &mut column).unwrap_err().to_string().contains("refused pushes"));
    }
}
