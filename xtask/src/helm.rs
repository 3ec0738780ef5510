//! `cargo xtask helm [--program FILE]`: checks the Helm chart in `packaging/helm`.
//!
//! For each file of values in `packaging/helm/ci`: `helm lint --strict` accepts the chart, the rendered
//! objects are decoded strictly into the types of the Kubernetes API and belong together (`kubecheck`),
//! every variable of the container is an option of `sandur serve`, and with `--program` a server accepts
//! the configuration. Values that cannot work are refused with a message that names them. Without Go or
//! its module registry nothing is checked, and the command says so.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use anyhow::{Context, Result, bail};

use crate::process::{find, require, root, run as run_command};
use crate::rivals;

/// The version of Kubernetes for which objects are rendered.
const KUBERNETES: &str = "1.34";

/// Values that are refused: the file that they change, the changes, and a part of the message.
const REFUSED: &[(&str, &[&str], &str)] = &[
    ("open", &["store="], "store must be set"),
    ("open", &["insecureListen=false"], "auth.existingSecret"),
    ("open", &["store=/data"], "set replicas to 1"),
    ("directory", &["store=/elsewhere"], "must be /data or below it"),
    ("bucket", &["carbon.enabled=true"], "needs insecureListen"),
    ("bucket", &["stroe=x"], "'stroe' not allowed"),
    ("bucket", &["auth.existingSercet=x"], "'existingSercet' not allowed"),
    ("bucket", &["readinessPath=/metrics"], "readinessPath"),
];

/// Checks the chart.
pub fn run(arguments: &[String]) -> Result<()> {
    let program = match arguments {
        [] => None,
        [name, program] if name == "--program" => Some(PathBuf::from(program)),
        _ => bail!("usage: cargo xtask helm [--program FILE]"),
    };
    if let Err(error) = have_tools() {
        println!("SKIPPED: the Helm chart is not checked: {error:#}");
        return Ok(());
    }
    rivals::ensure(&["kubecheck"])?;
    check_versions()?;
    for values in values()? {
        let name = values.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let lint = helm(&["lint", "--strict"], &values, &[])?;
        succeeded(&lint).with_context(|| format!("helm lint with {name}"))?;
        let objects = succeeded(&helm(&["template", "release"], &values, &[])?)?;
        let counted = kubecheck(&objects, &[]).with_context(|| format!("objects with {name}"))?;
        let variables = kubecheck(&objects, &["--environment"])?;
        check_variables(&variables).with_context(|| format!("variables with {name}"))?;
        let started = match &program {
            Some(program) => check_configuration(program, &kubecheck(&objects, &["--file", "sandur.toml"])?)?,
            None => "",
        };
        println!("{name}: {}{started}", counted.trim());
    }
    for (name, changes, wanted) in REFUSED {
        let values = root().join(format!("packaging/helm/ci/{name}.yaml"));
        let output = helm(&["template", "release"], &values, changes)?;
        let said = String::from_utf8_lossy(&output.stderr);
        if output.status.success() || !said.contains(wanted) {
            bail!("{changes:?} with {name} must be refused with '{wanted}': {said}");
        }
    }
    println!("{} values that cannot work are refused", REFUSED.len());
    Ok(())
}

/// Fetches what the check needs from the Go module registry.
fn have_tools() -> Result<()> {
    require("go", "install Go 1.24 or newer")?;
    rivals::ensure(&["helm"])?;
    let folder = root().join("packaging/helm/check");
    run_command(Command::new("go").current_dir(folder).env("GOWORK", "off").args(["mod", "download"]))
}

/// The files of values.
fn values() -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(root().join("packaging/helm/ci"))?;
    let mut files = entries.map(|entry| Ok(entry?.path())).collect::<Result<Vec<PathBuf>>>()?;
    files.sort();
    if files.is_empty() {
        bail!("there are no values in packaging/helm/ci");
    }
    Ok(files)
}

fn helm(words: &[&str], values: &Path, changes: &[&str]) -> Result<Output> {
    let mut command = Command::new(find("helm").context("helm is not built")?);
    command.args(words).arg(root().join("packaging/helm/sandur")).arg("--values").arg(values);
    command.args(["--kube-version", KUBERNETES]);
    for change in changes {
        command.args(["--set", change]);
    }
    command.output().context("cannot start helm")
}

fn succeeded(output: &Output) -> Result<String> {
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    if !output.status.success() {
        bail!("{}{said}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(said)
}

fn kubecheck(objects: &str, arguments: &[&str]) -> Result<String> {
    let mut command = Command::new(find("kubecheck").context("kubecheck is not built")?);
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().context("cannot start kubecheck")?;
    child.stdin.take().context("no input")?.write_all(objects.as_bytes())?;
    succeeded(&child.wait_with_output()?)
}

/// Checks that the variables of the container that begin with SANDUR_ are options of the server.
fn check_variables(variables: &str) -> Result<()> {
    let page = fs::read_to_string(root().join("docs/reference/options.md"))?;
    let keys = page.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next());
    let known: Vec<String> =
        keys.map(|key| format!("SANDUR_{}", key.replace('.', "_").to_uppercase())).collect();
    for (name, value) in variables.lines().filter_map(|line| line.split_once('=')) {
        if name.starts_with("SANDUR_") && !known.iter().any(|known| known == name) {
            bail!("{name} is not a variable of `sandur serve`");
        }
        if value.is_empty() {
            bail!("{name} has no value");
        }
    }
    Ok(())
}

/// Starts a server with the configuration until it has read it. An address that cannot be used ends it.
fn check_configuration(program: &Path, text: &str) -> Result<&'static str> {
    let folder = root().join("target/helm");
    fs::create_dir_all(&folder)?;
    let file = folder.join("sandur.toml");
    fs::write(&file, text)?;
    let mut command = Command::new(program);
    command.args(["serve", "--store"]).arg(folder.join("store")).args(["--listen", "192.0.2.1:3100"]);
    let output = command.arg("--insecure-listen").arg("--config").arg(&file).output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    if output.status.success() || !said.contains("192.0.2.1:3100") {
        bail!("the server does not accept the configuration: {said}");
    }
    Ok(", a server accepts the configuration")
}

/// Checks that the chart has the version of the product.
fn check_versions() -> Result<()> {
    let manifest = fs::read_to_string(root().join("Cargo.toml"))?;
    let version = manifest.lines().find_map(|line| line.strip_prefix("version = ")).context("no version")?;
    let chart = fs::read_to_string(root().join("packaging/helm/sandur/Chart.yaml"))?;
    if !chart.lines().any(|line| line.strip_prefix("appVersion: ") == Some(version)) {
        bail!("appVersion of packaging/helm/sandur/Chart.yaml must be {version}, as in Cargo.toml");
    }
    Ok(())
}
