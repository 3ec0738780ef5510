//! Names in the documentation: options with their defaults, flags, metrics and routes.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use super::pages::{file, pages, pages_with_names, root};
use super::place::Place;
use super::shell::{lines, pipeline};

/// Flags of other programs that are in the pages.
const FOREIGN_FLAGS: &[&str] = &[
    "--case", // of `cargo xtask differential`
    "--engine",
    "--enable-feature", // of Prometheus
    "--keep-empty",     // of LogQL's stages
    "--strict",
    "--use-legacy-routes", // of mimirtool
];

/// Programs whose flags are not ours.
const OTHER_PROGRAMS: &[&str] = &[
    "alloy",
    "amtool",
    "apt",
    "cargo",
    "curl",
    "helm",
    "kubectl",
    "logcli",
    "lokitool",
    "mimirtool",
    "oauth2-proxy",
    "podman",
    "prometheus",
    "systemctl",
];

/// Names with dots that look like options but are not.
const NOT_OPTIONS: &[&str] = &[
    "auth.toml",   // a file
    "cache.chunk", // of the statistics of a query
    "cache.index",
    "cache.result",
    "carbon.conf",    // a file
    "limits.metrics", // a table of options
];

/// Names that look like metrics but are not.
const NOT_METRICS: &[&str] = &[
    "sandur_base", // crates
    "sandur_memory",
    "sandur_runtime",
    "sandur_cache",
];

/// Metrics with labels that are shown only after they were counted; their prefix is that of a registry.
const SHOWN_WHEN_COUNTED: &[&str] = &[
    "sandur_rules_evaluation_failures_total",
    "sandur_rules_notifications_lost_total",
    "sandur_store_errors_total",
    "sandur_store_hedges_total",
];

fn all_wrong(wrong: &BTreeMap<String, String>) -> String {
    wrong.iter().map(|(name, at)| format!("{at}: {name}\n")).collect()
}

/// The texts of a column in the tables of a reference page.
fn column(page: &str, number: usize) -> Vec<String> {
    let rows = page.lines().filter_map(|line| line.strip_prefix("| "));
    rows.filter_map(|row| row.split(" | ").nth(number).map(str::to_owned)).collect()
}

fn code(cell: &str) -> Option<&str> {
    cell.strip_prefix('`')?.strip_suffix('`')
}

/// Options of `sandur serve` with their defaults.
pub fn options() -> BTreeMap<String, String> {
    let page = file("docs/reference/options.md");
    let keys = column(&page, 0).into_iter().zip(column(&page, 2));
    let options = keys.filter_map(|(key, default)| {
        let key = code(&key)?;
        Some((key.to_owned(), code(&default).unwrap_or(&default).to_owned()))
    });
    options.collect()
}

#[test]
fn options_in_the_documentation_exist() {
    let options = options();
    assert!(options.len() > 100, "{} options", options.len());
    let tables: BTreeSet<&str> = options.keys().filter_map(|key| Some(key.split_once('.')?.0)).collect();
    let is_key =
        |text: &str| text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b"._".contains(&b));
    let mut wrong = BTreeMap::new();
    for page in pages_with_names() {
        for (at, span) in page.spans() {
            let key = span.split(" = ").next().unwrap_or_default();
            let is_ours =
                key.split_once('.').is_some_and(|(table, rest)| tables.contains(table) && !rest.is_empty());
            let is_wanted = is_ours && is_key(key) && !NOT_OPTIONS.contains(&key);
            if is_wanted && !options.contains_key(key) {
                wrong.insert(key.to_owned(), at);
            }
        }
    }
    assert!(wrong.is_empty(), "no such options:\n{}", all_wrong(&wrong));
}

/// A value as options are written: `16,384` is 16384, `8 MiB` is 8MiB; times are milliseconds.
fn plain(text: &str) -> String {
    let text = text.replace([',', ' ', '`'], "");
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let milliseconds = match &text[digits..] {
        "ms" => 1,
        "s" | "seconds" => 1_000,
        "m" | "min" | "minutes" => 60_000,
        "h" | "hours" => 3_600_000,
        "d" | "days" => 86_400_000,
        _ => return text,
    };
    (text[..digits].parse::<u64>().unwrap_or_default() * milliseconds).to_string()
}

#[test]
fn defaults_in_the_documentation_are_those_of_the_options() {
    let options = options();
    let (mut compared, mut wrong) = (0, BTreeMap::new());
    let mut compare = |key: &str, said: &str, at: String| {
        let Some(default) = options.get(key) else { return };
        compared += 1;
        if plain(said) != plain(default) {
            wrong.insert(format!("{key} is {default}, not {said}"), at);
        }
    };
    for page in pages().iter().filter(|page| page.name != "docs/reference/options.md") {
        let mut is_table_of_defaults = false;
        for (number, line) in page.text.lines().enumerate() {
            let at = || format!("{}:{}", page.name, number + 1);
            is_table_of_defaults = match line.starts_with('|') {
                true => is_table_of_defaults || line.starts_with("| option | default |"),
                false => false,
            };
            let mut cells = line.split('|').skip(1).map(str::trim);
            if let (true, Some(Some(key)), Some(said)) =
                (is_table_of_defaults, cells.next().map(code), cells.next())
            {
                compare(key, said, at());
            }
            // `key` (DEFAULT): a number, possibly with a unit.
            let mut parts = line.split('`').collect::<Vec<_>>().into_iter().skip(1).step_by(1).peekable();
            while let Some(key) = parts.next() {
                let said = parts
                    .peek()
                    .and_then(|rest| rest.strip_prefix(" ("))
                    .and_then(|rest| rest.split(')').next());
                let is_value = |said: &&str| {
                    let words = said.split(' ').count();
                    said.starts_with(|c: char| c.is_ascii_digit()) && words <= 2
                };
                if let Some(said) = said.filter(is_value) {
                    compare(key, said.trim_end_matches(" by default"), at());
                }
            }
        }
    }
    assert!(wrong.is_empty(), "other defaults:\n{}", all_wrong(&wrong));
    assert!(compared > 10, "{compared} are too few: the pages are not parsed correctly");
}

/// Words that begin with two dashes.
fn flags(text: &str) -> Vec<String> {
    let words = text.split(|c: char| !(c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-'));
    let is_flag =
        |word: &&str| word.starts_with("--") && word[2..].starts_with(|c: char| c.is_ascii_lowercase());
    words.filter(is_flag).map(str::to_owned).collect()
}

#[test]
fn flags_in_the_documentation_exist() {
    let reference =
        ["options", "commands", "memcached"].map(|name| file(&format!("docs/reference/{name}.md")));
    let known: BTreeSet<String> = reference.iter().flat_map(|page| flags(page)).collect();
    assert!(known.len() > 150, "{} flags", known.len());
    let mut wrong = BTreeMap::new();
    let mut look = |at: &str, text: &str| {
        let is_ours = |call: &super::shell::Call| !OTHER_PROGRAMS.contains(&call.program());
        for call in pipeline(text).iter().filter(|call| is_ours(call)) {
            for flag in flags(&call.words.join(" ")) {
                if !known.contains(&flag) && !FOREIGN_FLAGS.contains(&flag.as_str()) {
                    wrong.insert(flag, at.to_owned());
                }
            }
        }
    };
    for page in pages() {
        page.spans().iter().for_each(|(at, span)| look(at, span));
        for block in
            page.blocks().iter().filter(|block| matches!(block.language.as_str(), "" | "console" | "sh"))
        {
            lines(&block.text).iter().for_each(|line| look(&block.place, line));
        }
    }
    // Options of chores and of tests are in their sources.
    wrong.retain(|flag, _| !file("xtask/src/main.rs").contains(flag.as_str()));
    assert!(wrong.is_empty(), "no such flags:\n{}", all_wrong(&wrong));
}

/// Names of metrics in a text.
fn metrics(text: &str) -> Vec<&str> {
    let words = text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
    words.filter(|word| word.starts_with("sandur_")).collect()
}

/// The sources of all crates.
fn sources() -> String {
    let mut folders = vec![root().join("crates")];
    let mut sources = String::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            match path.extension().and_then(|extension| extension.to_str()) {
                Some("rs") if !path.components().any(|part| part.as_os_str() == "tests") => {
                    sources += &fs::read_to_string(&path).unwrap();
                }
                None if path.is_dir() => folders.push(path),
                _ => {}
            }
        }
    }
    sources
}

/// Whether a metric with labels, which is shown only after it was counted, is registered in some source
/// by its name, without the prefix of the crate's registry.
fn is_registered(name: &str, sources: &str) -> bool {
    if name.ends_with('_') {
        // The prefix of several names.
        return sources.contains(name.trim_start_matches("sandur_"));
    }
    let Some(counter) = name.strip_suffix("_total") else { return false };
    let cuts = counter.match_indices('_').map(|(at, _)| at + 1).take(2);
    let mut names = [0].into_iter().chain(cuts).map(|at| &counter[at..]);
    names.any(|name| name.contains('_') && sources.contains(&format!("\"{name}\"")))
}

#[test]
fn metrics_in_the_documentation_exist() {
    let place = Place::new();
    let (status, page) = place.server().get("/metrics");
    assert_eq!(status, 200);
    let page = String::from_utf8(page).unwrap();
    let types = page.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' '));
    let mut known: BTreeSet<String> = BTreeSet::new();
    for (name, kind) in types {
        let endings: &[&str] = match kind {
            "histogram" => &["", "_bucket", "_sum", "_count"],
            "counter" => &["_total"],
            _ => &[""],
        };
        let family = name.strip_suffix("_total").unwrap_or(name);
        known.extend(endings.iter().map(|ending| format!("{family}{ending}")));
    }
    let (mut wrong, sources) = (BTreeMap::new(), sources());
    for page in pages_with_names() {
        for (number, line) in page.text.lines().enumerate() {
            for name in metrics(line) {
                let is_explained = NOT_METRICS.contains(&name) || SHOWN_WHEN_COUNTED.contains(&name);
                if !is_explained && !known.contains(name) && !is_registered(name, &sources) {
                    wrong.insert(name.to_owned(), format!("{}:{}", page.name, number + 1));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "no such metrics:\n{}", all_wrong(&wrong));
}

/// Paths of the routes, as in the reference.
fn routes() -> BTreeSet<String> {
    let page = file("docs/reference/http-api.md");
    let headings = page.lines().filter_map(|line| line.strip_prefix("### ")?.split_once(" /"));
    let mut routes: BTreeSet<String> = headings.map(|(_, path)| format!("/{path}")).collect();
    for line in page.lines().filter_map(|line| line.strip_prefix("Also: ")) {
        routes.extend(line.split('`').skip(1).step_by(2).map(str::to_owned));
    }
    routes
}

/// Whether a path belongs to a route, whose parts in braces match any text.
fn is_of(route: &str, path: &str) -> bool {
    let (mut wanted, mut given) = (route.split('/'), path.split('/'));
    loop {
        match (wanted.next(), given.next()) {
            (None, None) => return true,
            (Some(part), Some(_)) if part.starts_with("{*") => return true,
            (Some(part), Some(_)) if part.starts_with('{') => {}
            (Some(part), Some(other)) if part == other => {}
            _ => return false,
        }
    }
}

#[test]
fn routes_in_the_documentation_exist() {
    let routes = routes();
    assert!(routes.len() > 100, "{} routes", routes.len());
    let (mut looked_at, mut wrong) = (0, BTreeMap::new());
    for page in pages() {
        for (at, span) in page.spans() {
            let methods = ["GET ", "POST ", "PUT ", "DELETE "];
            let path = methods.iter().find_map(|method| span.strip_prefix(method)).unwrap_or(span);
            let path = path.split(['?', ' ']).next().unwrap_or_default();
            let is_path = path.starts_with('/') && path[1..].starts_with(|c: char| c.is_ascii_lowercase());
            let is_path = is_path && !path.contains("..");
            // Paths of files also look like this.
            if !is_path || ["/usr/", "/etc/", "/var/", "/64"].iter().any(|place| path.starts_with(place)) {
                continue;
            }
            looked_at += 1;
            if !routes.iter().any(|route| is_of(route, path)) {
                wrong.insert(path.to_owned(), at);
            }
        }
    }
    assert!(wrong.is_empty(), "no such routes:\n{}", all_wrong(&wrong));
    assert!(looked_at > 50, "{looked_at} are too few: the pages are not parsed correctly");
}
