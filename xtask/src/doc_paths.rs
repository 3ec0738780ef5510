//! Checks that the paths in the documentation exist.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Result;

/// Folders whose files the documentation names by their paths from the root.
const FOLDERS: &[&str] = &["crates/", "docs/", "xtask/", "fuzz/", "packaging/", ".ci/"];

/// Returns the paths in backticks, in pages below `root`, that do not exist: page and path.
pub fn missing(root: &Path) -> Result<Vec<(String, String)>> {
    let mut pages = vec![root.join("README.md"), root.join("CONTRIBUTING.md"), root.join("CHANGELOG.md")];
    pages.push(root.join("fuzz/README.md"));
    pages_below(&root.join("docs"), &mut pages)?;
    let mut missing = Vec::new();
    for page in pages {
        let text = fs::read_to_string(&page)?;
        let absent = paths_in(&text).filter(|path| !root.join(path).exists());
        let name = page.strip_prefix(root).unwrap_or(&page).display().to_string();
        missing.extend(absent.map(|path| (name.clone(), path.to_owned())));
    }
    Ok(missing)
}

fn pages_below(folder: &Path, pages: &mut Vec<PathBuf>) -> Result<()> {
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder)? {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "md") {
                pages.push(path);
            }
        }
    }
    Ok(())
}

/// Returns the texts in backticks that are paths below one of the folders. A component in capitals
/// stands for any name.
fn paths_in(text: &str) -> impl Iterator<Item = &str> {
    let is_path = |code: &&str| {
        let is_plain = code.chars().all(|c| c.is_ascii_alphanumeric() || "/._-".contains(c));
        is_plain && FOLDERS.iter().any(|folder| code.starts_with(folder))
    };
    let stands_for_any = |code: &&str| {
        let is_capitals = |part: &str| part.chars().all(|c| c.is_ascii_uppercase()) && !part.is_empty();
        code.split('/').any(|part| is_capitals(part.split('.').next().unwrap_or_default()))
    };
    text.split('`').skip(1).step_by(2).filter(is_path).filter(move |code| !stands_for_any(code))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_in_backticks_are_found() {
        let text = "`crates/a/src/lib.rs` and `docs/x.md`, not `cargo test`, `fuzz/in/TARGET` or crates/b";
        assert_eq!(paths_in(text).collect::<Vec<_>>(), ["crates/a/src/lib.rs", "docs/x.md"]);
    }
}
