//! Titles of commits that are not published yet: those after the upstream of the branch, or the last one
//! where no upstream is known.
//!
//! Nothing is checked where there is no repository, no commit or no git: an unpacked archive is tidy as well.
//! Only what can still be changed is looked at, so a shallow clone has all that is needed.

use std::path::Path;
use std::process::Command;

/// The longest title, in characters.
const TITLE_CHARS_MAX: usize = 72;

/// The commits whose titles are too long, each with what is wrong.
pub fn too_long(root: &Path) -> Vec<(String, String)> {
    if !is_top_of_repository(root) {
        return Vec::new();
    }
    let unpublished = git(root, &["log", "--no-merges", "--format=%h %s", "@{upstream}..HEAD"]);
    let log = unpublished.or_else(|| git(root, &["log", "-1", "--no-merges", "--format=%h %s"]));
    log.unwrap_or_default().lines().filter_map(judge).collect()
}

/// An archive may be unpacked inside of somebody else's repository.
fn is_top_of_repository(root: &Path) -> bool {
    let top = git(root, &["rev-parse", "--show-toplevel"]);
    top.is_some_and(|top| Path::new(top.trim()).canonicalize().ok() == root.canonicalize().ok())
}

fn git(root: &Path, arguments: &[&str]) -> Option<String> {
    let out = Command::new("git").current_dir(root).args(arguments).output().ok()?;
    out.status.success().then(|| String::from_utf8_lossy(&out.stdout).into_owned())
}

/// A line of the log: the commit, a blank, its title.
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
    fn what_is_no_repository_has_no_titles() {
        assert_eq!(too_long(Path::new("/")), Vec::new());
    }
}
