//! Checks the titles of unpublished commits: those after the upstream of the branch, or only the last
//! commit if the branch has no upstream.
//!
//! Nothing is checked if there is no repository, no commit or no git, so that an unpacked archive
//! passes. Only commits that can still be changed are checked, so a shallow clone is sufficient.

use std::path::Path;
use std::process::Command;

/// Longest allowed title in characters.
const TITLE_CHARS_MAX: usize = 72;

/// Returns the commits whose titles are too long, each with a message.
pub fn too_long(root: &Path) -> Vec<(String, String)> {
    if !is_top_of_repository(root) {
        return Vec::new();
    }
    let unpublished = git(root, &["log", "--no-merges", "--format=%h %s", "@{upstream}..HEAD"]);
    let log = unpublished.or_else(|| git(root, &["log", "-1", "--no-merges", "--format=%h %s"]));
    log.unwrap_or_default().lines().filter_map(judge).collect()
}

/// Whether `root` is the top of a repository. An archive may be unpacked inside of another repository.
fn is_top_of_repository(root: &Path) -> bool {
    let top = git(root, &["rev-parse", "--show-toplevel"]);
    top.is_some_and(|top| Path::new(top.trim()).canonicalize().ok() == root.canonicalize().ok())
}

fn git(root: &Path, arguments: &[&str]) -> Option<String> {
    let out = Command::new("git").current_dir(root).args(arguments).output().ok()?;
    out.status.success().then(|| String::from_utf8_lossy(&out.stdout).into_owned())
}

/// Judges a line of the log: the commit, a blank, its title.
fn judge(line: &str) -> Option<(String, String)> {
    let (commit, title) = line.split_once(' ')?;
    let chars = title.chars().count();
    let text = || format!("'{title}' has {chars} characters, at most {TITLE_CHARS_MAX} are allowed");
    (chars > TITLE_CHARS_MAX).then(|| (format!("commit {commit}"), text()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_title_may_have_72_characters_however_many_bytes() {
        let longest = "ä".repeat(TITLE_CHARS_MAX);
        assert_eq!(judge(&format!("abc {longest}")), None);
        let (commit, what) = judge(&format!("abc {longest}x")).expect("one too many");
        assert_eq!(commit, "commit abc");
        assert!(what.contains("73 characters"), "{what}");
    }

    #[test]
    fn a_directory_outside_of_a_repository_has_no_titles() {
        assert_eq!(too_long(Path::new("/")), Vec::new());
    }
}
