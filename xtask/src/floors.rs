//! Checks the floors of the engine: no file imports from a higher floor than its own.
//!
//! `crates/engine/src/lib.rs` describes the floors in a table with the same names, which is checked too.
//! The longest name that begins a module's path decides the module's floor. Tests may import from every
//! floor. [`Modules`] reads the imports.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use anyhow::Result;

use crate::circles::modules::Modules;

/// The source files of the engine, from the root of the repository.
const SOURCES: &str = "crates/engine/src";

/// The floors, the lowest first: name and modules.
const FLOORS: &[(&str, &[&str])] = &[
    ("values", &["arrivals", "error", "growing", "head_totals", "needles", "window_counts", "windows"]),
    ("policy", &["metrics", "options", "path_labels", "peers", "policy", "rules"]),
    ("blocks", &["blocks"]),
    ("signals", &["logs", "samples"]),
    ("views", &["followed", "head", "node", "place", "same_rows", "stamp_clock", "view"]),
    ("reading", &["logs::reading", "reading", "samples::reading"]),
    ("writing", &["writing"]),
    ("upkeep", &["upkeep"]),
    ("engine", &["cluster_report", "engine", "readiness"]),
];

/// Returns the imports from higher floors, as path of the file and what is wrong.
pub fn upward(root: &Path) -> Result<Vec<(String, String)>> {
    let start = format!("{SOURCES}/lib.rs");
    let floors: Vec<_> = FLOORS.iter().map(|(name, modules)| (*name, modules.to_vec())).collect();
    let read = |file: &Path| fs::read_to_string(root.join(file)).ok();
    let mut problems = problems_of(&Modules::below(Path::new(&start), &read));
    if described(&fs::read_to_string(root.join(&start))?) != floors {
        problems.push((start, "the table of floors differs from that of xtask/src/floors.rs".to_owned()));
    }
    Ok(problems)
}

/// Returns what is wrong with the modules: the path of the file, and the problem.
fn problems_of(modules: &Modules) -> Vec<(String, String)> {
    let mut problems = BTreeSet::new();
    for (number, module) in modules.all.iter().enumerate() {
        let file = module.file.display().to_string();
        let Some(path) = module_of(&module.file) else { continue };
        let Some(own) = floor_of(&path) else {
            problems.insert((file, format!("the module '{path}' is on no floor of xtask/src/floors.rs")));
            continue;
        };
        for (owner, name) in modules.uses(number) {
            let Some(used) = module_of(&modules.all[owner].file) else { continue };
            let Some(floor) = floor_of(&used).filter(|floor| *floor > own) else { continue };
            let (own, floor) = (FLOORS[own].0, FLOORS[floor].0);
            let what = format!("'{name}' of '{used}' is on the floor '{floor}', above '{own}'");
            problems.insert((file.clone(), what));
        }
    }
    problems.into_iter().collect()
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

/// Returns the module of a source file, without `crate::`; `None` for the root of the crate.
fn module_of(file: &Path) -> Option<String> {
    let path = file.strip_prefix(SOURCES).ok()?.with_extension("");
    let path = path.to_str()?;
    let module = path.strip_suffix("/mod").unwrap_or(path).replace('/', "::");
    (module != "lib").then_some(module)
}

/// The position of a path's floor in the table.
fn floor_of(path: &str) -> Option<usize> {
    let is_within =
        |name: &str| path.strip_prefix(name).is_some_and(|rest| matches!(rest, "") || rest.starts_with("::"));
    let named =
        FLOORS.iter().enumerate().flat_map(|(floor, (_, names))| names.iter().map(move |name| (name, floor)));
    named.filter(|(name, _)| is_within(name)).max_by_key(|(name, _)| name.len()).map(|(_, floor)| floor)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the problems of a crate with these files below the sources.
    fn problems(files: &[(&str, &str)]) -> Vec<(String, String)> {
        let read = |file: &Path| {
            let within = file.strip_prefix(SOURCES).ok()?;
            files.iter().find(|(name, _)| Path::new(name) == within).map(|(_, text)| (*text).to_owned())
        };
        problems_of(&Modules::below(&Path::new(SOURCES).join("lib.rs"), &read))
    }

    #[test]
    fn imports_from_higher_floors_are_found() {
        let reading = "//! See [`crate::upkeep`].\n\
                       use crate::error::Error; use crate::{head, upkeep::{rollups as r, run,}};\n\
                       fn f(_: Error) { super::writing::path(); head::see(); r::roll() }\n\
                       // crate::engine::start\n\
                       #[cfg(test)] mod tests { use crate::engine::start; }";
        let found = problems(&[
            ("lib.rs", "mod engine; mod error; mod head; mod reading; mod upkeep; mod writing;"),
            ("engine.rs", "use crate::upkeep::run; pub fn start() {}"),
            ("error.rs", "pub struct Error;"),
            ("head.rs", "pub fn see() {}"),
            ("reading.rs", reading),
            ("upkeep/mod.rs", "pub mod rollups; pub use crate::writing::path; pub fn run() {}"),
            ("upkeep/rollups.rs", "use super::run; pub fn roll() { crate::reading::f() }"),
            ("writing.rs", "pub fn path() {}"),
        ]);
        let problem = |name: &str, module: &str, floor: &str| {
            let what = format!("'{name}' of '{module}' is on the floor '{floor}', above 'reading'");
            (format!("{SOURCES}/reading.rs"), what)
        };
        assert_eq!(
            found,
            [
                problem("path", "writing", "writing"),
                problem("roll", "upkeep::rollups", "upkeep"),
                problem("run", "upkeep", "upkeep"),
            ]
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
        let found =
            problems(&[("lib.rs", "mod elsewhere; mod view;"), ("elsewhere.rs", ""), ("view.rs", "")]);
        assert_eq!(found.len(), 1);
        assert!(found[0].1.contains("'elsewhere' is on no floor"), "{found:?}");
        assert_eq!(floor_of("logs::reading::scan"), floor_of("reading"));
        assert!(floor_of("logs::merge") < floor_of("view"));
        assert_eq!(floor_of("viewer"), None);
        assert_eq!(module_of(&Path::new(SOURCES).join("writing/wal/mod.rs")).unwrap(), "writing::wal");
        assert_eq!(module_of(&Path::new(SOURCES).join("lib.rs")), None);
    }
}
