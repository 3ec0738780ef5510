//! Finds circles of files: files of one crate that use items of each other, directly or through others.
//!
//! To understand one file of a circle, one has to read all of them, and no file of a circle can be moved,
//! tested or replaced alone. A type that two files need belongs in a file that uses neither; what a file
//! needs of its caller is an argument.
//!
//! A file uses another one if it imports or names an item that the other one defines. Declarations of
//! modules and re-exports are no uses, and tests are left out. A file may use its parent or its children,
//! but not both.

pub mod modules;
mod tokens;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Result;

use modules::Modules;

/// Circles of two files that may stay, with the reason.
const ALLOWED: &[([&str; 2], &str)] = &[(
    ["crates/graphite/src/functions/grouping.rs", "crates/graphite/src/functions/mod.rs"],
    "the table of functions has the grouping functions, which call others of the table by their names",
)];

/// For each file, the files that it uses and the names of the used items.
type Uses = BTreeMap<PathBuf, BTreeMap<PathBuf, BTreeSet<String>>>;

/// Returns the circles that may not stay, and allowed ones that do not exist: a file, and what is wrong.
pub fn problems(root: &Path) -> Result<Vec<(String, String)>> {
    let mut problems = Vec::new();
    let mut gone: BTreeSet<[&str; 2]> = ALLOWED.iter().map(|(files, _)| *files).collect();
    for folder in crates(root)? {
        let read = |file: &Path| fs::read_to_string(root.join(file)).ok();
        let mut uses = Uses::new();
        for start in ["src/lib.rs", "src/main.rs"] {
            let file = folder.strip_prefix(root)?.join(start);
            add_uses(&Modules::below(&file, &read), &mut uses);
        }
        for circle in circles(&uses) {
            let allowed = ALLOWED.iter().find(|(files, _)| circle.iter().eq(files.iter().map(Path::new)));
            match allowed {
                Some((files, _)) => _ = gone.remove(files),
                None => problems.push((circle[0].display().to_string(), description(&circle, &uses))),
            }
        }
    }
    let text = |[first, second]: [&str; 2]| format!("'{first}' and '{second}' are no circle any more");
    problems.extend(gone.into_iter().map(|files| ("xtask/src/circles/mod.rs".to_owned(), text(files))));
    Ok(problems)
}

/// The folders of the crates, sorted.
fn crates(root: &Path) -> Result<Vec<PathBuf>> {
    let mut folders = vec![root.join("xtask")];
    for entry in fs::read_dir(root.join("crates"))? {
        folders.push(entry?.path());
    }
    folders.sort();
    Ok(folders)
}

/// Adds what the files of a crate use of each other.
fn add_uses(modules: &Modules, uses: &mut Uses) {
    for (number, module) in modules.all.iter().enumerate() {
        let used = uses.entry(module.file.clone()).or_default();
        for (owner, name) in modules.uses(number) {
            let file = &modules.all[owner].file;
            if *file != module.file {
                used.entry(file.clone()).or_default().insert(name.to_owned());
            }
        }
    }
}

/// Returns the circles: the largest sets of files of which each uses each, directly or through others.
fn circles(uses: &Uses) -> Vec<Vec<PathBuf>> {
    let mut circles: Vec<Vec<PathBuf>> = Vec::new();
    let reached: HashMap<&Path, BTreeSet<&Path>> =
        uses.keys().map(|file| (file.as_path(), reached_from(file, uses))).collect();
    for (file, others) in &reached {
        let is_mutual = |other: &&&Path| reached.get(*other).is_some_and(|back| back.contains(file));
        let circle: Vec<PathBuf> = others.iter().filter(is_mutual).map(|other| other.to_path_buf()).collect();
        if circle.len() > 1 && circle[0] == *file {
            circles.push(circle);
        }
    }
    circles.sort();
    circles
}

/// Returns the files that a file uses, directly or through others.
fn reached_from<'a>(file: &'a Path, uses: &'a Uses) -> BTreeSet<&'a Path> {
    let mut reached = BTreeSet::new();
    let mut waiting = vec![file];
    while let Some(file) = waiting.pop() {
        for other in uses.get(file).into_iter().flat_map(BTreeMap::keys) {
            if reached.insert(other.as_path()) {
                waiting.push(other);
            }
        }
    }
    reached
}

/// Returns the uses that tie the files of a circle to each other.
fn description(circle: &[PathBuf], uses: &Uses) -> String {
    let mut text = format!("{} files use each other:", circle.len());
    for file in circle {
        for (other, names) in uses[file].iter().filter(|(other, _)| circle.contains(other)) {
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            text += &format!("\n    {} uses {} of {}", file.display(), names.join(", "), other.display());
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The circles of a crate of these files: each circle as its files, then its uses.
    fn circles_of(files: &[(&str, &str)]) -> (Vec<String>, String) {
        let read = |file: &Path| {
            files.iter().find(|(name, _)| Path::new(name) == file).map(|(_, text)| (*text).to_owned())
        };
        let mut uses = Uses::new();
        add_uses(&Modules::below(Path::new("lib.rs"), &read), &mut uses);
        let found = circles(&uses);
        let text = found.iter().map(|circle| description(circle, &uses)).collect();
        let names = |circle: &Vec<PathBuf>| {
            circle.iter().filter_map(|file| file.to_str()).collect::<Vec<_>>().join(" ")
        };
        (found.iter().map(names).collect(), text)
    }

    #[test]
    fn a_circle_of_three_is_found_with_its_names() {
        let (files, text) = circles_of(&[
            ("lib.rs", "mod a; mod b; mod c;"),
            ("a.rs", "use crate::b::{self, One}; pub struct Three; fn f() { b::two() }"),
            ("b.rs", "pub struct One; pub fn two() {} impl crate::c::Between for One {}"),
            ("c.rs", "use super::a::Three; pub trait Between { fn f(three: Three); }"),
        ]);
        assert_eq!(files, ["a.rs b.rs c.rs"]);
        assert!(text.contains("a.rs uses One, two of b.rs"), "{text}");
        assert!(text.contains("b.rs uses Between of c.rs"), "{text}");
        assert!(text.contains("c.rs uses Three of a.rs"), "{text}");
    }

    #[test]
    fn a_re_export_leads_to_the_file_that_defines() {
        let (files, _) = circles_of(&[
            ("lib.rs", "mod a; mod b; pub use b::Both; pub(crate) use a::{One as Other};"),
            ("a.rs", "use crate::Both; pub struct One;"),
            ("b.rs", "pub struct Both(crate::Other);"),
        ]);
        assert_eq!(files, ["a.rs b.rs"]);
    }

    #[test]
    fn parents_that_only_declare_and_re_export_are_no_part() {
        let (files, _) = circles_of(&[
            ("lib.rs", "mod a; pub use a::{One, two}; /// [`One`] and `crate::a::two`\n"),
            ("a/mod.rs", "mod b; mod c; pub use b::One; pub use c::two;"),
            ("a/b.rs", "pub struct One; impl One { fn f() { super::two() } }"),
            ("a/c.rs", "pub fn two() { std::mem::drop(2) }"),
        ]);
        assert_eq!(files, Vec::<String>::new());
    }

    #[test]
    fn parents_that_use_their_re_exports_are_a_part() {
        let (files, _) = circles_of(&[
            ("lib.rs", "mod a; pub use a::One; pub struct Two(One);"),
            ("a.rs", "pub struct One; impl One { fn f(self) -> crate::Two { self.into() } }"),
        ]);
        assert_eq!(files, ["a.rs lib.rs"]);
    }

    #[test]
    fn tests_are_left_out() {
        let (files, _) = circles_of(&[
            ("lib.rs", "mod a; mod b; #[cfg(test)] mod tests; mod c { pub mod d; }"),
            (
                "a.rs",
                "use crate::b::Two; pub struct One; #[cfg(test)] #[derive(X)] pub struct Three { x: u8 }",
            ),
            (
                "b.rs",
                "pub struct Two; #[cfg(test)] mod t { use crate::a::One; } #[cfg(test)] use crate::a::Three;",
            ),
            ("tests.rs", "use crate::a::One; pub struct Four;"),
            (
                "c/d.rs",
                "#[cfg(all(test, unix))] const F: [crate::c::E; 1] = [crate::c::E { a: 1 }]; pub enum D {}",
            ),
        ]);
        assert_eq!(files, Vec::<String>::new());
    }

    #[test]
    fn modules_and_functions_may_share_a_name() {
        let (files, _) = circles_of(&[
            (
                "lib.rs",
                "mod check; mod b; mod e; mod f; pub use check::check; pub use b::{c as d}; pub use f::e;",
            ),
            ("check.rs", "use crate::d::two; pub fn check() {}"),
            ("b/mod.rs", "pub mod c;"),
            ("b/c.rs", "use crate::e; pub fn two() { crate::check(); e::f() }"),
            ("e.rs", "pub fn f() {}"),
            ("f.rs", "use crate::d; pub fn e() { d::two() }"),
        ]);
        assert_eq!(files, ["b/c.rs check.rs"]);
    }

    #[test]
    fn names_of_other_crates_are_no_uses() {
        let (files, _) = circles_of(&[
            ("lib.rs", "mod a; pub use other::{One, One as Two}; pub fn f() { a::f() }"),
            ("a.rs", "pub fn f() -> crate::Two { crate::One::new(); std::a::f() }"),
        ]);
        assert_eq!(files, Vec::<String>::new());
    }

    #[test]
    fn names_that_macros_make_belong_to_their_module() {
        let (files, _) = circles_of(&[
            ("lib.rs", "mod a; mod b;"),
            ("a.rs", "use crate::b::Made; pub struct One;"),
            ("b.rs", "macro_rules! made { ($n:ident) => { pub struct $n(crate::a::One); } } made!(Made);"),
        ]);
        assert_eq!(files, ["a.rs b.rs"]);
    }
}
