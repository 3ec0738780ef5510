//! Checks the floors of the engine: no file imports from a higher floor than its own.
//!
//! `crates/engine/src/lib.rs` describes the floors in a table with the same names, which is checked too.
//! The longest name that begins a module's path decides the module's floor. Tests may import from every
//! floor.

use std::fs;
use std::path::Path;

use anyhow::Result;

/// The source files of the engine, from the root of the repository.
const SOURCES: &str = "crates/engine/src";

/// The floors, the lowest first: name and modules.
const FLOORS: &[(&str, &[&str])] = &[
    ("values", &["error", "growing", "head_totals", "needles", "windows"]),
    ("policy", &["metrics", "options", "path_labels", "policy", "rules"]),
    ("blocks", &["blocks"]),
    ("signals", &["logs", "samples"]),
    ("views", &["head", "node", "view"]),
    ("reading", &["logs::reading", "reading", "samples::reading"]),
    ("writing", &["writing"]),
    ("upkeep", &["upkeep"]),
    ("engine", &["engine", "readiness"]),
];

/// Modules of tests.
const TESTS: &[&str] = &["fixtures", "tests"];

/// Returns the imports from higher floors, as path of the file and what is wrong.
pub fn upward(root: &Path) -> Result<Vec<(String, String)>> {
    let mut problems = Vec::new();
    let folder = root.join(SOURCES);
    let floors: Vec<_> = FLOORS.iter().map(|(name, modules)| (*name, modules.to_vec())).collect();
    if described(&fs::read_to_string(folder.join("lib.rs"))?) != floors {
        let what = "the table of floors differs from that of xtask/src/floors.rs".to_owned();
        problems.push((format!("{SOURCES}/lib.rs"), what));
    }
    let mut folders = vec![folder.clone()];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(&next)? {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let within = path.strip_prefix(&folder)?.display().to_string();
            let Some(module) = module_of(&within) else { continue };
            let found = problems_of(&module, &fs::read_to_string(&path)?);
            problems.extend(found.into_iter().map(|what| (format!("{SOURCES}/{within}"), what)));
        }
    }
    problems.sort();
    Ok(problems)
}

/// The floors of the table in the documentation of the crate: name and modules.
fn described(text: &str) -> Vec<(&str, Vec<&str>)> {
    let rows = text.lines().filter_map(|line| line.strip_prefix("//! | "));
    let cells = rows.filter_map(|row| row.split_once(" | ")).skip(1);
    cells
        .map(|(name, rest)| {
            (name, rest.split(" | ").next().unwrap_or_default().split('`').skip(1).step_by(2).collect())
        })
        .collect()
}

/// The module of a file below the sources, without `crate::`; `None` for tests, the root, and files that
/// are not Rust.
fn module_of(path: &str) -> Option<String> {
    let stem = path.strip_suffix(".rs")?;
    let module = stem.strip_suffix("/mod").unwrap_or(stem).replace('/', "::");
    let is_test = |part: &str| TESTS.contains(&part) || part.ends_with("_tests");
    (module != "lib" && !module.split("::").any(is_test)).then_some(module)
}

/// What is wrong with the imports of a module.
fn problems_of(module: &str, text: &str) -> Vec<String> {
    let Some(own) = floor_of(module) else {
        return vec![format!("the module '{module}' is on no floor of xtask/src/floors.rs")];
    };
    let mut found = Vec::new();
    for import in imports(module, text) {
        let Some(floor) = floor_of(&import) else { continue };
        if floor > own {
            let (own, floor) = (FLOORS[own].0, FLOORS[floor].0);
            found.push(format!("'{import}' is on the floor '{floor}', above '{own}'"));
        }
    }
    found.sort();
    found.dedup();
    found
}

/// The position of a path's floor in the table.
fn floor_of(path: &str) -> Option<usize> {
    let is_within =
        |name: &str| path.strip_prefix(name).is_some_and(|rest| matches!(rest, "") || rest.starts_with("::"));
    let named =
        FLOORS.iter().enumerate().flat_map(|(floor, (_, names))| names.iter().map(move |name| (name, floor)));
    named.filter(|(name, _)| is_within(name)).max_by_key(|(name, _)| name.len()).map(|(_, floor)| floor)
}

/// The paths below `crate` that the code of a module names, without comments and tests.
fn imports(module: &str, text: &str) -> Vec<String> {
    let tests = text.find("#[cfg(test)]\nmod ").unwrap_or(text.len());
    let code_of = |line: &str| line.split("//").next().unwrap_or_default().to_owned();
    let code = text[..tests].lines().map(code_of).collect::<Vec<String>>().join("\n");
    let mut found = Vec::new();
    for root in ["crate::", "super::"] {
        let starts = code.match_indices(root).map(|(at, _)| at);
        let begins = |at: &usize| !code[..*at].ends_with(|c| is_name(c) || c == ':');
        for at in starts.filter(begins) {
            tree(&code[at..], "", &mut found);
        }
    }
    found.iter().map(|path| absolute(module, path)).collect()
}

/// Adds the paths of a tree like `a::{b::c, d}` at the begin of the text. Returns the rest of the text.
fn tree<'t>(text: &'t str, prefix: &str, found: &mut Vec<String>) -> &'t str {
    let end = text.find(|c: char| !is_name(c) && c != ':').unwrap_or(text.len());
    let (path, mut rest) = (format!("{prefix}{}", &text[..end]), &text[end..]);
    if !(rest.starts_with('{') && path.ends_with("::")) {
        found.push(path);
        return rest;
    }
    loop {
        rest = rest[1..].trim_start();
        if let Some(after) = rest.strip_prefix('}') {
            return after;
        }
        rest = tree(rest, &path, found).trim_start();
        if let Some(alias) = rest.strip_prefix("as ") {
            rest = alias.trim_start_matches(is_name).trim_start();
        }
        match rest.as_bytes().first() {
            Some(b',') => {}
            Some(b'}') => return &rest[1..],
            _ => return rest,
        }
    }
}

fn is_name(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// A path of a module's code, from the root of the crate.
fn absolute(module: &str, path: &str) -> String {
    if let Some(path) = path.strip_prefix("crate::") {
        return path.to_owned();
    }
    let (mut base, mut path) = (module, path);
    while let Some(rest) = path.strip_prefix("super::") {
        base = base.rsplit_once("::").map_or("", |(parent, _)| parent);
        path = rest;
    }
    if base.is_empty() { path.to_owned() } else { format!("{base}::{path}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn imports_from_higher_floors_are_found() {
        let text = "//! See [`crate::upkeep`].\n\
                    use crate::error::Error;\n\
                    use crate::{windows, upkeep::{rollups as r, run,}};\n\
                    fn f() { crate::writing::wal::path() } // crate::engine::Engine\n\
                    #[cfg(test)]\nmod tests { use crate::engine::Engine; }";
        let problem =
            |path: &str, floor: &str| format!("'{path}' is on the floor '{floor}', above 'reading'");
        assert_eq!(
            problems_of("logs::reading::scan", text),
            [
                problem("upkeep::rollups", "upkeep"),
                problem("upkeep::run", "upkeep"),
                problem("writing::wal::path", "writing"),
            ]
        );
        assert_eq!(problems_of("upkeep::adoption", text), Vec::<String>::new());
    }

    #[test]
    fn relative_paths_are_resolved() {
        let text =
            "use super::reading::scan::EngineLogs;\nuse super::super::upkeep::run;\npub(super) fn f() {}";
        assert_eq!(imports("logs::merge", text), ["logs::reading::scan::EngineLogs", "upkeep::run"]);
        assert_eq!(problems_of("logs::merge", text).len(), 2);
        assert_eq!(
            imports("logs::reading::scan", "use super::super::merge::Merger;"),
            ["logs::merge::Merger"]
        );
    }

    #[test]
    fn the_table_of_the_documentation_is_read() {
        let text = "//! | floor | modules | contents |\n//! |---|---|---|\n\
                    //! | low | `a`, `b::c` | of `d` |\n\nmod a;";
        assert_eq!(described(text), [("low", vec!["a", "b::c"])]);
    }

    #[test]
    fn every_module_needs_a_floor() {
        assert_eq!(problems_of("elsewhere", "").len(), 1);
        assert_eq!(floor_of("logs::reading::scan"), floor_of("reading"));
        assert!(floor_of("logs::merge") < floor_of("view"));
        assert_eq!(floor_of("viewer"), None);
        let modules = [
            "writing/wal/mod.rs",
            "engine.rs",
            "tests/mod.rs",
            "writing/wal/pace_tests.rs",
            "lib.rs",
            "a.md",
        ];
        assert_eq!(
            modules.map(module_of).map(|module| module.is_some()),
            [true, true, false, false, false, false]
        );
        assert_eq!(module_of("writing/wal/mod.rs").unwrap(), "writing::wal");
    }
}
