//! `cargo xtask compliance PATH`: runs the alert generator compliance suite of Prometheus against our server.
//!
//! PATH is a checkout of github.com/prometheus/compliance. The suite writes samples to the server, receives
//! its alerts, and asks for its rules and alerts. It takes about 40 minutes, in which it mostly waits.

use std::fs;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::local_server::LocalServer;
use crate::process::{cargo, require, root, run as run_command};

/// Folder of the suite in the checkout.
const SUITE: &str = "alert_generator";
/// What the suite says at the end of each group of rules, and before its name.
const FINISHED: &str = "Test finished successfully for a rule group";
const GROUP: &str = "rulegroup=";

/// Runs the suite and prints a line for each group of rules.
pub fn run(arguments: &[String]) -> Result<()> {
    let [path] = arguments else { bail!("usage: cargo xtask compliance PATH (of prometheus/compliance)") };
    require("go", "the suite is a program in Go")?;
    let suite = fs::canonicalize(Path::new(path).join(SUITE)).with_context(|| format!("{path}/{SUITE}"))?;
    let folder = root().join("target/compliance");
    let _ = fs::remove_dir_all(&folder); // of an earlier run
    fs::create_dir_all(&folder)?;
    let tester = folder.join("tester");
    let mut build = Command::new("go");
    build.args(["build", "-o"]).arg(&tester).arg("./cmd/alert_generator_compliance_tester");
    run_command(build.current_dir(&suite))?;
    run_command(cargo().args(["build", "--package", "sandur-server"]))?;
    let receiver = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
    let rules = suite.join("rules.yaml").display().to_string();
    let alertmanager = format!("http://{receiver}");
    let more = |_| vec!["--rules".to_owned(), rules, "--alertmanager-url".to_owned(), alertmanager];
    let store = format!("file://{}", folder.join("data").display());
    let server = LocalServer::start(&root().join("target/debug/sandur"), &store, &folder, more)?;
    let url = format!("http://{}", server.address);
    let settings = format!(
        "settings:\n  remote_write_url: {url}/api/v1/write\n  query_base_url: {url}\n  \
         rules_and_alerts_api_base_url: {url}\n  alert_reception_server_port: {}\n  \
         alert_message_parser: default\n",
        receiver.port()
    );
    let config = folder.join("settings.yml");
    fs::write(&config, settings)?;
    println!("the suite runs for about 40 minutes; its log is {}", folder.join("suite.log").display());
    judge(&tester, &config, &folder.join("suite.log"))
}

fn judge(tester: &Path, config: &Path, log: &Path) -> Result<()> {
    let output = fs::File::create(log)?;
    let mut command = Command::new(tester);
    command.arg("-config-file").arg(config).stdin(Stdio::null());
    let status = command.stdout(output.try_clone()?).stderr(output).status()?;
    let text = fs::read_to_string(log)?;
    let groups = text.lines().filter(|line| line.contains(FINISHED));
    for group in groups.filter_map(|line| line.split_once(GROUP)) {
        println!("{}: passed", group.1);
    }
    if !status.success() {
        let end: Vec<&str> = text.lines().rev().take(20).collect();
        bail!("the suite failed:\n{}", end.into_iter().rev().collect::<Vec<_>>().join("\n"));
    }
    Ok(())
}
