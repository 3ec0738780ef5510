//! `cargo xtask tidy`: checks the rules of docs/style.md that a program can check.
//!
//! * a crate depends only on the crates that `EDGES` allows, and the services on none that speaks HTTP;
//! * no file of the engine imports from a higher floor than its own ([`crate::floors`]);
//! * every source file begins with a module doc; no file or function is too long, tests excluded;
//! * no type of the product contains itself by a plain pointer, since the depth of such a tree is
//!   unbounded;
//! * no line is longer than 110 columns; none of the forbidden module names is used;
//! * every crate's `lib.rs` says what the crate is not;
//! * no title of an unpublished commit is too long;
//! * no files of a crate use each other in a circle;
//! * every path that the documentation names exists;
//! * external crates have the same features for every selection of packages.
//!
//! Exceptions are listed in `xtask/tidy-exceptions.txt`, one `path: rule: reason` on each line. An
//! exception that is no longer needed is an error too.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::circles;
use crate::commit_titles;
use crate::doc_paths;
use crate::feature_set;
use crate::floors;
use crate::process::{cargo, output, root};

/// The crates of ours on which each crate may depend. Tools may depend on any.
/// External crates that speak HTTP.
const HTTP: &[&str] = &["axum", "http", "http-body-util", "hyper", "hyper-util", "reqwest", "tonic", "tower"];
/// Crates of ours without HTTP, so that code without HTTP can call them.
const WITHOUT_HTTP: &[&str] = &["service"];

const EDGES: &[(&str, &[&str])] = &[
    ("feature-set", &[]),
    ("base", &["feature-set"]),
    ("memory", &["feature-set", "base"]),
    ("runtime", &["feature-set", "base", "memory"]),
    ("model", &["memory"]),
    ("protobuf", &["model"]),
    ("simd", &[]),
    ("format", &["base", "model", "protobuf", "simd"]),
    ("store", &["base", "memory", "runtime"]),
    ("cache", &["base", "memory", "runtime"]),
    ("memcached", &["base", "memory", "runtime", "cache"]),
    ("cache-sim", &["base", "cache"]),
    ("catalog", &["base", "runtime", "model", "format", "store"]),
    ("backup", &["base", "runtime", "format", "store", "catalog"]),
    ("membership", &["feature-set", "base", "runtime"]),
    ("query", &["base", "memory", "runtime", "model", "protobuf"]),
    ("engine", &["base", "memory", "runtime", "model", "format", "store", "cache", "catalog", "query"]),
    ("logql", &["base", "memory", "runtime", "model", "protobuf", "query"]),
    ("promql", &["base", "memory", "model", "protobuf", "query"]),
    ("graphite", &["base", "memory", "model", "protobuf", "query"]),
    ("carbon", &["protobuf"]),
    ("ingest", &["base", "memory", "runtime", "model", "protobuf", "format", "carbon"]),
    ("yaml", &["base"]),
    ("targets", &["base", "memory", "model", "yaml"]),
    ("scrape", &["base", "memory", "runtime", "model", "ingest", "yaml", "targets"]),
    ("peers", &["base", "memory", "runtime", "protobuf"]),
    ("relay", &["base", "memory", "runtime", "model", "carbon"]),
    ("terminal", &["runtime", "model"]),
    ("cli", &["base", "runtime", "model", "logql", "promql", "ingest", "terminal"]),
    (
        "agent",
        &["base", "runtime", "model", "protobuf", "store", "ingest", "whisper", "tsdb", "cli", "terminal"],
    ),
    (
        "offline",
        &[
            "base", "runtime", "model", "protobuf", "format", "store", "catalog", "backup", "query", "rules",
            "cli", "terminal",
        ],
    ),
    ("config", &["base", "runtime", "model", "store", "logql", "promql", "terminal"]),
    (
        "listeners",
        &["base", "memory", "runtime", "model", "carbon", "ingest", "service", "config", "terminal"],
    ),
    (
        "http",
        &[
            "base",
            "memory",
            "runtime",
            "model",
            "protobuf",
            "format",
            "peers",
            "query",
            "logql",
            "promql",
            "graphite",
            "carbon",
            "ingest",
            "service",
            "rules",
            "config",
            "listeners",
            "terminal",
        ],
    ),
    (
        "rules",
        &[
            "base", "memory", "runtime", "model", "store", "query", "logql", "promql", "graphite", "yaml",
            "targets", "service",
        ],
    ),
    (
        "service",
        &["base", "memory", "runtime", "model", "query", "logql", "promql", "graphite", "carbon", "ingest"],
    ),
    ("tsdb", &["model"]),
    ("whisper", &[]),
    ("s3-server", &[]),
];

/// Crates that may depend on any other.
const UNRESTRICTED: &[&str] =
    &["server", "sim", "bench", "conformance", "differential", "rules-differential", "attack", "chaos"];

const FILE_LINES_MAX: usize = 600;
const FUNCTION_LINES_MAX: usize = 70;
const LINE_COLUMNS_MAX: usize = 110;
const FORBIDDEN_NAMES: &[&str] = &["utils", "util", "common", "helpers", "helper", "manager", "misc"];
/// Pointers and lists through which a type may contain itself.
const LINKS: &[&str] = &["Box", "Arc", "Rc", "Vec"];

/// Runs all checks. Fails with the list of problems.
pub fn run(_arguments: &[String]) -> Result<()> {
    let mut problems = Problems::load()?;
    check_edges(&mut problems)?;
    for file in sources()? {
        check_file(&file, &mut problems)?;
    }
    for (path, what) in floors::upward(&root())? {
        problems.add(&path, "floors", what);
    }
    for (commit, what) in commit_titles::too_long(&root()) {
        problems.add(&commit, "commit title", what);
    }
    for (page, path) in doc_paths::missing(&root())? {
        problems.add(&page, "paths", format!("'{path}' does not exist"));
    }
    for (file, what) in circles::problems(&root())? {
        problems.add(&file, "circles", what);
    }
    for (selection, name, lacking) in feature_set::differences()? {
        let what = format!("{selection} builds {name} without {lacking}: add it to crates/feature-set");
        problems.add("crates/feature-set", "features", what);
    }
    problems.finish()
}

struct Problems {
    exceptions: BTreeSet<(String, String)>,
    used: BTreeSet<(String, String)>,
    found: Vec<String>,
}

impl Problems {
    fn load() -> Result<Self> {
        let text = fs::read_to_string(root().join("xtask/tidy-exceptions.txt")).unwrap_or_default();
        let mut exceptions = BTreeSet::new();
        for line in text.lines().filter(|l| !l.trim().is_empty() && !l.starts_with('#')) {
            let mut parts = line.splitn(3, ": ");
            let (path, rule, reason) = (parts.next(), parts.next(), parts.next());
            match (path, rule, reason) {
                (Some(path), Some(rule), Some(_)) => exceptions.insert((path.to_owned(), rule.to_owned())),
                _ => bail!("xtask/tidy-exceptions.txt: '{line}' is not `path: rule: reason`"),
            };
        }
        Ok(Self { exceptions, used: BTreeSet::new(), found: Vec::new() })
    }

    fn add(&mut self, path: &str, rule: &str, what: String) {
        let key = (path.to_owned(), rule.to_owned());
        if self.exceptions.contains(&key) {
            self.used.insert(key);
        } else {
            self.found.push(format!("{path}: {rule}: {what}"));
        }
    }

    fn finish(mut self) -> Result<()> {
        for (path, rule) in self.exceptions.difference(&self.used) {
            self.found.push(format!("xtask/tidy-exceptions.txt: '{path}: {rule}' is no longer needed"));
        }
        if self.found.is_empty() {
            println!("tidy: no problems found");
            return Ok(());
        }
        bail!("tidy found {} problems:\n  {}", self.found.len(), self.found.join("\n  "))
    }
}

fn check_edges(problems: &mut Problems) -> Result<()> {
    let mut command = cargo();
    command.args(["metadata", "--no-deps", "--format-version", "1", "--offline"]);
    let metadata: Value = serde_json::from_str(&output(&mut command)?)?;
    for package in metadata["packages"].as_array().context("cargo metadata lists packages")? {
        let name = package["name"].as_str().unwrap_or_default();
        let Some(name) = name.strip_prefix("sandur-") else { continue };
        if UNRESTRICTED.contains(&name) {
            continue;
        }
        let Some((_, allowed)) = EDGES.iter().find(|(crate_name, _)| *crate_name == name) else {
            problems.add(name, "edges", "the crate is not in the table of allowed edges".to_owned());
            continue;
        };
        for dependency in package["dependencies"].as_array().into_iter().flatten() {
            let normal = dependency["kind"].is_null();
            let outside = dependency["name"].as_str().unwrap_or_default();
            if normal && WITHOUT_HTTP.contains(&name) && HTTP.contains(&outside) {
                problems.add(name, "edges", format!("may not depend on '{outside}', which speaks HTTP"));
            }
            let target = outside.strip_prefix("sandur-");
            if let Some(target) = target.filter(|t| normal && !allowed.contains(t)) {
                problems.add(name, "edges", format!("may not depend on '{target}'"));
            }
        }
    }
    Ok(())
}

/// The Rust files of the workspace, sorted.
pub fn sources() -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    let mut folders = vec![root().join("crates"), root().join("xtask/src")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder)? {
            let path = entry?.path();
            if path.is_dir() && path.file_name().is_some_and(|n| n != "target" && n != "fixtures") {
                folders.push(path);
            } else if path.extension().is_some_and(|e| e == "rs") {
                files.push(path);
            }
        }
    }
    files.sort();
    Ok(files)
}

fn check_file(file: &Path, problems: &mut Problems) -> Result<()> {
    let text = fs::read_to_string(file)?;
    let path = file.strip_prefix(root())?.display().to_string();
    let stem = file.file_stem().and_then(|s| s.to_str()).unwrap_or_default();
    if FORBIDDEN_NAMES.contains(&stem) {
        problems.add(&path, "name", format!("'{stem}' is too general; name the file after its contents"));
    }
    if !text.trim_start().starts_with("//!") {
        problems.add(&path, "docs", "the file does not begin with a `//!` doc".to_owned());
    }
    if path.ends_with("src/lib.rs") && !text.contains("is not") {
        problems.add(&path, "docs", "lib.rs does not say what the crate is not".to_owned());
    }
    let lines: Vec<&str> = text.lines().collect();
    for (number, line) in lines.iter().enumerate() {
        if line.chars().count() > LINE_COLUMNS_MAX {
            problems.add(&path, "columns", format!("line {} is longer than {LINE_COLUMNS_MAX}", number + 1));
            break;
        }
    }
    let is_test_file = path.contains("/tests/") || stem.ends_with("tests");
    let code_end = lines.iter().position(|l| l.trim() == "#[cfg(test)]").unwrap_or(lines.len());
    if !is_test_file && code_end > FILE_LINES_MAX {
        problems.add(&path, "file", format!("{code_end} lines without tests, at most {FILE_LINES_MAX}"));
    }
    if !is_test_file {
        check_functions(&path, &lines[..code_end], problems);
        check_links(&path, &lines[..code_end], problems);
    }
    Ok(())
}

/// Checks for types that contain themselves by a plain pointer. Such a tree may have any depth, and
/// dropping it uses stack for every level. Tools may have such trees, since they build them themselves.
fn check_links(path: &str, lines: &[&str], problems: &mut Problems) {
    let is_tool = UNRESTRICTED.iter().any(|name| path.starts_with(&format!("crates/{name}/")));
    if is_tool && !path.starts_with("crates/server/") {
        return;
    }
    let mut name = "";
    for (number, line) in lines.iter().enumerate() {
        if *line == "}" {
            name = "";
        }
        let mut words = line.strip_prefix("pub ").unwrap_or(line).split([' ', '<', '(']);
        if matches!(words.next(), Some("struct" | "enum")) {
            name = words.next().unwrap_or_default();
        }
        let code = line.split("//").next().unwrap_or_default();
        let link = LINKS.iter().find(|link| code.contains(&format!("{link}<{name}>")));
        if let Some(link) = link.filter(|_| !name.is_empty()) {
            let what =
                format!("line {}: {name} contains {link}<{name}>; use base::nesting for trees", number + 1);
            problems.add(path, "links", what);
        }
    }
}

/// A function ends at the closing brace in the column of its `fn`, which rustfmt guarantees.
fn check_functions(path: &str, lines: &[&str], problems: &mut Problems) {
    for (start, line) in lines.iter().enumerate() {
        let indent = line.len() - line.trim_start().len();
        let words = line.trim_start();
        let head = words.split(['(', '<']).next().unwrap_or_default();
        let is_function = head.split_whitespace().rev().nth(1) == Some("fn") && !words.starts_with("//");
        if !is_function || words.ends_with(';') {
            continue;
        }
        let closing = format!("{}}}", " ".repeat(indent));
        let end = lines[start..].iter().position(|l| *l == closing);
        let length = end.map_or(1, |n| n + 1);
        if length > FUNCTION_LINES_MAX {
            let what = format!("`{}` has {length} lines, at most {FUNCTION_LINES_MAX}", head.trim());
            problems.add(path, "function", what);
        }
    }
}
