//! The files of rules: finds, reads and checks them again and again.
//!
//! **Invariants.** A file that cannot be read, is empty or has an error keeps what held before. A file that
//! disappeared from a folder has no rules; a folder that cannot be listed keeps its files. A file that
//! changes while it is read is read again later, so that a file that is written slowly is not used in part.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use sandur_base::small_file;
use xxhash_rust::xxh3::xxh3_128;

use crate::file::{self, ReadOptions};
use crate::shown::FileShown;
use crate::spec::{GroupSpec, Language};

/// The largest file.
pub(crate) const FILE_BYTES_MAX: u64 = 16 << 20;
/// The most files, and the deepest folder below a named one.
const FILES_MAX: usize = 10_000;
const DEPTH_MAX: usize = 8;

/// A file or folder of rules, and the language of rules that name none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// The file or folder.
    pub path: PathBuf,
    /// The language.
    pub language: Language,
}

impl Source {
    /// Parses `PATH`, or `logql:PATH` or `graphite:PATH` for rules in another language.
    pub fn parse(text: &str) -> Self {
        let (language, path) = match text.split_once(':') {
            Some((name, path)) if !path.is_empty() => match Language::parse(name) {
                Some(language) => (language, path),
                None => (Language::default(), text),
            },
            _ => (Language::default(), text),
        };
        Self { path: path.into(), language }
    }
}

/// The most groups and rules.
#[derive(Clone, Copy, Debug)]
pub struct Most {
    /// Of groups.
    pub groups: usize,
    /// Of rules.
    pub rules: usize,
}

/// The files with what holds now.
#[derive(Default)]
pub struct Files {
    known: BTreeMap<PathBuf, Known>,
    /// Errors of sources as a whole.
    failed: Vec<FileShown>,
}

/// A file.
#[derive(Default)]
struct Known {
    /// The hash of the contents that were checked last.
    checked: Option<u128>,
    /// The hash of contents that were seen once and are not checked yet.
    seen: Option<u128>,
    groups: Vec<GroupSpec>,
    error: Option<String>,
}

/// What a round found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Round {
    /// Whether groups or errors changed.
    pub changed: bool,
    /// Whether a file changed just now, so that it has to be read again soon.
    pub unsettled: bool,
}

impl Files {
    /// Reads all files. In the `first` round, contents hold as they are. Blocks on file I/O.
    pub fn read(
        &mut self,
        sources: &[Source],
        interval: std::time::Duration,
        most: Most,
        first: bool,
    ) -> Round {
        let mut round = Round { changed: false, unsettled: false };
        let before = std::mem::take(&mut self.failed);
        let mut present: BTreeMap<PathBuf, Language> = BTreeMap::new();
        for source in sources {
            match list(&source.path) {
                Ok(paths) => present.extend(paths.into_iter().map(|path| (path, source.language))),
                Err(error) => {
                    let path = source.path.display().to_string();
                    let error = Some(format!("cannot be read, what held before stays: {error}"));
                    self.failed.push(FileShown { path, error });
                    let below = self.known.keys().filter(|path| path.starts_with(&source.path));
                    present.extend(below.cloned().map(|path| (path, source.language)));
                }
            }
        }
        round.changed |= self.failed != before;
        let count = self.known.len();
        self.known.retain(|path, _| present.contains_key(path));
        round.changed |= self.known.len() != count;
        for (path, language) in present {
            self.read_file(&path, ReadOptions { language, interval }, (most, first), &mut round);
        }
        round
    }

    fn read_file(
        &mut self,
        path: &Path,
        options: ReadOptions,
        (most, first): (Most, bool),
        round: &mut Round,
    ) {
        let contents = small_file::read_text(path, FILE_BYTES_MAX);
        let known = self.known.entry(path.to_owned()).or_default();
        let text = match contents {
            Ok(text) => text,
            Err(error) => {
                known.refuse(format!("cannot be read: {error}"), None, round);
                return;
            }
        };
        let hash = xxh3_128(text.as_bytes());
        if known.checked == Some(hash) {
            return;
        }
        if !first && known.seen != Some(hash) {
            (known.seen, round.unsettled) = (Some(hash), true);
            return;
        }
        let others = self.totals(path);
        let known = self.known.entry(path.to_owned()).or_default();
        match checked(&text, path, options, most, others) {
            Ok(groups) => {
                *known = Known { checked: Some(hash), groups, ..Known::default() };
                round.changed = true;
            }
            Err(error) => known.refuse(error, Some(hash), round),
        }
    }

    /// The numbers of groups and rules of the other files.
    fn totals(&self, except: &Path) -> Most {
        let others =
            || self.known.iter().filter(|(path, _)| *path != except).flat_map(|(_, known)| &known.groups);
        Most { groups: others().count(), rules: others().map(|group| group.rules.len()).sum() }
    }

    /// The groups that hold now.
    pub fn groups(&self) -> Vec<GroupSpec> {
        self.known.values().flat_map(|known| known.groups.iter().cloned()).collect()
    }

    /// The files with their errors.
    pub fn shown(&self) -> Vec<FileShown> {
        let of = |(path, known): (&PathBuf, &Known)| FileShown {
            path: path.display().to_string(),
            error: known.error.clone(),
        };
        self.failed.iter().cloned().chain(self.known.iter().map(of)).collect()
    }
}

impl Known {
    /// Keeps what held before, and the error.
    fn refuse(&mut self, error: String, hash: Option<u128>, round: &mut Round) {
        round.changed |= self.error.as_ref() != Some(&error);
        (self.error, self.checked) = (Some(error), hash.or(self.checked));
        self.seen = None;
    }
}

fn checked(
    text: &str,
    path: &Path,
    options: ReadOptions,
    most: Most,
    others: Most,
) -> Result<Vec<GroupSpec>, String> {
    if text.trim().is_empty() {
        return Err(
            "the file is empty; to remove its rules, remove the file or write `groups: []`".to_owned()
        );
    }
    let name: Arc<str> = path.display().to_string().into();
    let groups = file::read(text, &name, options).map_err(|errors| errors.to_string())?;
    let rules = others.rules + groups.iter().map(|group| group.rules.len()).sum::<usize>();
    if others.groups + groups.len() > most.groups {
        let (found, limit) = (others.groups + groups.len(), most.groups);
        return Err(format!("{found} groups with those of other files, at most {limit} (ruler.max_groups)"));
    }
    if rules > most.rules {
        let limit = most.rules;
        return Err(format!("{rules} rules with those of other files, at most {limit} (ruler.max_rules)"));
    }
    Ok(groups)
}

/// The groups of a file. Otherwise its errors: a line of text for each, which begins with the path and the
/// line of the error. Blocks on file I/O.
pub fn read_file(path: &Path, options: ReadOptions) -> Result<Vec<GroupSpec>, Vec<String>> {
    let name: Arc<str> = path.display().to_string().into();
    let text = small_file::read_text(path, FILE_BYTES_MAX)
        .map_err(|error| vec![format!("{name}: cannot be read: {error}")])?;
    file::read(&text, &name, options).map_err(|errors| {
        errors.0.iter().map(|error| format!("{name}:{}: {}", error.line, error.what)).collect()
    })
}

/// Reads and checks all files of the sources. Blocks on file I/O.
pub fn check(sources: &[Source], interval: std::time::Duration, most: Most) -> Vec<FileShown> {
    let mut files = Files::default();
    files.read(sources, interval, most, true);
    files.shown()
}

/// The files of a source, sorted. In folders these are the ones that end with `.yml`, `.yaml` or `.rules`;
/// hidden ones are left out.
pub fn list(path: &Path) -> std::io::Result<BTreeSet<PathBuf>> {
    let mut found = BTreeSet::new();
    if !path.is_dir() {
        found.insert(path.to_owned());
        return Ok(found);
    }
    let mut folders = vec![(path.to_owned(), 0)];
    while let Some((folder, depth)) = folders.pop() {
        for entry in std::fs::read_dir(&folder)? {
            let path = entry?.path();
            let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
            if name.starts_with('.') {
                continue;
            }
            if path.is_dir() {
                if depth < DEPTH_MAX {
                    folders.push((path, depth + 1));
                }
            } else if [".yml", ".yaml", ".rules"].iter().any(|end| name.ends_with(end)) {
                found.insert(path);
            }
            if found.len() > FILES_MAX {
                return Err(std::io::Error::other(format!("more than {FILES_MAX} files")));
            }
        }
    }
    Ok(found)
}

#[cfg(test)]
#[path = "sources_tests.rs"]
mod tests;
