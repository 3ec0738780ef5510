//! Finds the files of the arguments: files, patterns and directories; each file once.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Maximum number of files of one push.
const FILES_MAX: usize = 100_000;
/// Maximum depth of directories below an argument: far deeper than logs are.
const DEPTH_MAX: u32 = 32;

/// A file to read.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Given {
    /// Path of the file.
    pub path: PathBuf,
    /// Whether an argument names it directly: then it is an error if it is not text.
    pub is_named: bool,
}

/// The files that the arguments name at the moment.
#[derive(Debug, Default)]
pub struct Inputs {
    /// Whether standard input is an argument.
    pub stdin: bool,
    /// Files, in the order of the arguments; those of a directory or pattern are sorted.
    pub files: Vec<Given>,
    /// Directories in which new files may appear.
    pub directories: BTreeSet<PathBuf>,
    /// Arguments that could not be found or read.
    pub failures: Vec<String>,
    /// Notices of directories without files.
    pub empty: Vec<String>,
}

impl Inputs {
    /// Finds the files that the arguments name.
    pub fn find(arguments: &[String]) -> Self {
        let mut inputs = Self::default();
        for text in arguments {
            inputs.add(text);
        }
        if inputs.files.len() > FILES_MAX {
            let text = format!("more than {FILES_MAX} files: push some of them at a time");
            inputs.files.truncate(FILES_MAX);
            inputs.failures.push(text);
        }
        inputs
    }

    fn add(&mut self, text: &str) {
        if text == "-" {
            self.stdin = true;
            return;
        }
        let path = PathBuf::from(text);
        match fs::metadata(&path) {
            Ok(metadata) if metadata.is_dir() => {
                let root = path.canonicalize().unwrap_or_else(|_| path.clone());
                let before = (self.files.len(), self.failures.len());
                self.walk(&path, &root, 0);
                if before == (self.files.len(), self.failures.len()) {
                    self.empty.push(format!("warning: the directory '{text}' contains no files"));
                }
                return;
            }
            Ok(_) => {
                self.directories.insert(parent(&path));
                return self.files.push(Given { path, is_named: true });
            }
            Err(error) if !text.contains(['*', '?', '[']) => {
                self.directories.insert(parent(&path));
                let what = match error.kind() {
                    std::io::ErrorKind::NotFound => "no such file".to_owned(),
                    _ => error.to_string(),
                };
                return self.failures.push(format!("'{text}': {what}"));
            }
            Err(_) => {}
        }
        let found = match glob::glob(text) {
            Ok(found) => found,
            Err(error) => return self.failures.push(format!("'{text}' is not a pattern: {error}")),
        };
        let before = self.files.len();
        for path in found.flatten().take(FILES_MAX + 1) {
            if path.is_file() {
                self.directories.insert(parent(&path));
                self.files.push(Given { path, is_named: false });
            }
        }
        if self.files.len() == before {
            self.failures.push(format!("'{text}': no such file, and no file matches it as a pattern"));
        }
    }

    fn walk(&mut self, directory: &Path, root: &Path, depth: u32) {
        self.directories.insert(directory.to_owned());
        let listed = fs::read_dir(directory).and_then(Iterator::collect::<Result<Vec<_>, _>>);
        let mut entries = match listed {
            Ok(entries) => entries,
            Err(error) => return self.failures.push(format!("'{}': {error}", directory.display())),
        };
        entries.sort_by_key(fs::DirEntry::file_name);
        for entry in entries {
            let path = entry.path();
            match entry.file_type() {
                Ok(kind) if kind.is_symlink() => self.link(path, root),
                Ok(kind) if kind.is_dir() && depth < DEPTH_MAX => self.walk(&path, root, depth + 1),
                Ok(kind) if kind.is_dir() => {
                    self.failures.push(format!("'{}': deeper than {DEPTH_MAX} directories", path.display()));
                }
                Ok(kind) if kind.is_file() && self.files.len() <= FILES_MAX => {
                    self.files.push(Given { path, is_named: false });
                }
                _ => {}
            }
        }
    }

    /// Handles a link below a directory. A link to a file is used, unless the file is found anyway. A
    /// link to a directory is not followed, because links may form cycles.
    fn link(&mut self, path: PathBuf, root: &Path) {
        let Ok(target) = path.canonicalize() else { return };
        if target.starts_with(root) || root.starts_with(&target) {
            return;
        }
        if target.is_dir() {
            let shown = path.display();
            self.failures.push(format!(
                "'{shown}': a link to a directory is not followed; give it as an \
                argument as well"
            ));
        } else if target.is_file() && self.files.len() <= FILES_MAX {
            self.files.push(Given { path, is_named: false });
        }
    }
}

fn parent(path: &Path) -> PathBuf {
    let parent = path.parent().filter(|p| !p.as_os_str().is_empty());
    parent.unwrap_or(Path::new(".")).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_patterns_and_directories_are_found_and_missing_ones_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        fs::create_dir_all(path("b/c")).unwrap();
        for name in ["b/2.log", "b/1.log", "b/c/3.log", "x.log", "x.txt"] {
            fs::write(path(name), "x").unwrap();
        }
        let elsewhere = tempfile::tempdir().unwrap();
        fs::write(elsewhere.path().join("pod.log"), "x").unwrap();
        for (target, link) in [
            (folder.path().to_owned(), "b/c/around"),
            (path("b/1.log"), "b/c/again.log"),
            (elsewhere.path().join("pod.log"), "b/c/4.log"),
            (elsewhere.path().to_owned(), "b/c/elsewhere"),
            (path("nowhere"), "b/c/nowhere"),
        ] {
            std::os::unix::fs::symlink(target, path(link)).unwrap();
        }
        let text = |name: &str| path(name).to_str().unwrap().to_owned();
        fs::create_dir(path("empty")).unwrap();
        let inputs = Inputs::find(&[
            text("empty"),
            text("none"),
            text("b"),
            text("*.log"),
            text("x.txt"),
            "-".to_owned(),
            text("?.no"),
        ]);
        let names: Vec<String> = inputs.files.iter().map(|f| f.path.to_str().unwrap().to_owned()).collect();
        let expected = ["b/1.log", "b/2.log", "b/c/3.log", "b/c/4.log", "x.log", "x.txt"].map(text);
        assert_eq!(names, expected);
        assert!(inputs.stdin && inputs.files[5].is_named && !inputs.files[4].is_named);
        assert_eq!(inputs.failures.len(), 3);
        assert_eq!(inputs.empty, [format!("warning: the directory '{}' contains no files", text("empty"))]);
        assert!(inputs.failures[0].contains("none': no such file"), "{:?}", inputs.failures);
        assert!(inputs.failures[1].contains("elsewhere': a link to a directory"), "{:?}", inputs.failures);
        assert!(inputs.failures[2].contains("no file matches"), "{:?}", inputs.failures);
    }
}
