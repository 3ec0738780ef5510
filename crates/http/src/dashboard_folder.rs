//! The folder of dashboards that an operator provides: its files are listed and read, never written.
//!
//! A dashboard is a file `NAME.json` in the folder or in a folder directly below it. Entries whose names
//! begin with a dot are left out: Kubernetes keeps the versions of a ConfigMap in them, and the links of its
//! files lead there.
//!
//! **Invariants.** Only regular files are read, and only those that are inside the folder after all links are
//! followed. No more than [`FILE_BYTES_MAX`] bytes of a file are read, and opening one never waits. What is
//! kept between requests is what the list shows of [`FILES_MAX`] files at most.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use rustix::fs::OFlags;
use sandur_base::units::ByteSize;
use sandur_runtime::Env;
use serde::Deserialize;
use serde::de::IgnoredAny;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The largest file. The page accepts texts of the same size.
pub const FILE_BYTES_MAX: u64 = 2 << 20;
/// The most files that are listed.
pub const FILES_MAX: usize = 1_000;
/// The most entries of all folders that are looked at.
const ENTRIES_MAX: usize = 20_000;
/// The most characters of a title and of an error in the list.
const TEXT_MAX: usize = 300;
/// Threads that read files at the same time, also for clients that are gone. Other requests wait, so that a
/// slow disk holds few threads and little memory.
const READERS_MAX: usize = 4;
/// A file that changed less than this time ago may change again within the same tick of the clock of its
/// file system, so what is known about it is not kept.
const SETTLED_NS: i128 = 2_000_000_000;
const ENDING: &str = ".json";

/// The folder, if there is one. Cheap to clone: a handle.
#[derive(Clone)]
pub struct DashboardFolder(Arc<Inner>);

struct Inner {
    path: Option<PathBuf>,
    turns: Arc<Semaphore>,
    /// What is known about the files of the last list.
    known: Mutex<Arc<BTreeMap<String, Known>>>,
}

/// What the list shows of a file, and how the file was when it was read.
#[derive(Clone)]
struct Known {
    stamp: Stamp,
    head: Result<Head, String>,
}

/// A file with another stamp has other contents.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Stamp {
    device: u64,
    inode: u64,
    bytes: u64,
    modified_ns: i128,
    changed_ns: i128,
}

/// The form of a dashboard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// That of our page (docs/explorer.md).
    Sandur,
    /// That of Grafana.
    Grafana,
}

/// What the list shows of the contents of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    /// The title; empty if the dashboard has none.
    pub title: String,
    /// The form.
    pub kind: Kind,
}

/// A file in the list.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The path below the folder, without `.json`.
    pub name: String,
    /// Bytes of the file, if it is known.
    pub bytes: Option<u64>,
    /// Milliseconds since 1970 of the last change, if it is known.
    pub modified_ms: Option<i64>,
    /// The dashboard, or why the file cannot be used and what to do.
    pub head: Result<Head, String>,
}

/// The list of the files.
#[derive(Clone, Debug, Default)]
pub struct Listing {
    /// The files, by name.
    pub entries: Vec<Entry>,
    /// What concerns the folder as a whole.
    pub notes: Vec<String>,
}

/// Why a folder or a file cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    /// There is no folder.
    #[error("this server has no folder of dashboards: start it with --dashboards FOLDER")]
    None,
    /// The folder cannot be read.
    #[error(
        "the folder of dashboards '{folder}' cannot be read: {source}; create it, let the server read it, or \
         change --dashboards"
    )]
    Folder { folder: String, source: io::Error },
    /// The name is none of a dashboard.
    #[error(
        "'{0}' is no name of a dashboard: it is NAME or FOLDER/NAME, without .json, and no part of it begins \
         with a dot (GET /sandur/dashboards lists the names)"
    )]
    Name(String),
    /// There is no such file.
    #[error("there is no dashboard '{0}' in the folder of dashboards (GET /sandur/dashboards lists all)")]
    Absent(String),
    /// The file cannot be used.
    #[error("the dashboard '{name}' cannot be used: {reason}")]
    Unusable { name: String, reason: String },
}

impl DashboardFolder {
    /// The folder at a path; empty: there is none.
    pub fn new(path: &str) -> Self {
        let path = (!path.is_empty()).then(|| PathBuf::from(path));
        Self(Arc::new(Inner { path, turns: Arc::new(Semaphore::new(READERS_MAX)), known: Mutex::default() }))
    }

    /// Whether there is a folder.
    pub fn is_given(&self) -> bool {
        self.0.path.is_some()
    }

    /// Fails if there is a folder that cannot be listed. Blocks on file I/O.
    pub fn check(&self) -> Result<(), FolderError> {
        self.0.path.as_deref().map_or(Ok(()), |path| root(path).map(drop))
    }

    /// Lists the files. Blocks on file I/O.
    pub fn list_now(&self, now_ns: i64) -> Result<Listing, FolderError> {
        let path = self.0.path.as_deref().ok_or(FolderError::None)?;
        let (root, found) = (root(path)?, Found::in_folder(path)?);
        let mut notes = found.notes();
        let before = Arc::clone(&self.0.known.lock().unwrap_or_else(PoisonError::into_inner));
        let mut known = BTreeMap::new();
        let entries = found.names.iter().map(|name| {
            let (entry, kept) = entry(&root, name, before.get(name), now_ns);
            known.extend(kept.map(|kept| (name.clone(), kept)));
            entry
        });
        let mut entries: Vec<Entry> = entries.collect();
        // A file that disappeared since the folder was listed is not in the list.
        entries.retain(|entry| !entry.name.is_empty());
        *self.0.known.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(known);
        notes.sort();
        Ok(Listing { entries, notes })
    }

    /// Reads the JSON of a dashboard. Blocks on file I/O.
    pub fn read_now(&self, name: &str) -> Result<Vec<u8>, FolderError> {
        let path = self.0.path.as_deref().ok_or(FolderError::None)?;
        if !is_name(name) {
            return Err(FolderError::Name(shortened(name)));
        }
        let bytes = opened(&root(path)?, name).and_then(|(file, _)| contents(file));
        let unusable = |reason| FolderError::Unusable { name: shortened(name), reason };
        let bytes = bytes.map_err(|error| match error {
            Unread::Absent => FolderError::Absent(shortened(name)),
            Unread::Because(reason) => unusable(reason),
        })?;
        head_of(&bytes).map_err(unusable)?;
        Ok(bytes)
    }

    /// Waits until a thread may read files. Memory is reserved after this, so that those who wait have none.
    pub async fn turn(&self) -> Turn {
        Turn(Arc::clone(&self.0.turns).acquire_owned().await.ok())
    }

    /// Lists the files on a thread that may wait for the disk. The thread holds the turn and the memory until
    /// it ends, also for a client that is gone.
    pub async fn list<M: Send + 'static>(&self, env: &Env, held: (Turn, M)) -> Result<Listing, FolderError> {
        let (folder, now_ns) = (self.clone(), env.now_ns());
        env.run_blocking(move || {
            let _held = held;
            folder.list_now(now_ns)
        })
        .await
    }

    /// Reads the JSON of a dashboard on such a thread. Returns it with its memory.
    pub async fn read<M: Send + 'static>(
        &self,
        env: &Env,
        name: String,
        held: (Turn, M),
    ) -> Result<(Vec<u8>, M), FolderError> {
        let folder = self.clone();
        env.run_blocking(move || {
            let (_turn, memory) = held;
            Ok((folder.read_now(&name)?, memory))
        })
        .await
    }
}

/// A turn of reading files.
pub struct Turn(#[expect(dead_code, reason = "held until it is dropped")] Option<OwnedSemaphorePermit>);

/// The folder without links, which is asked anew each time since an operator may replace the folder.
fn root(path: &Path) -> Result<PathBuf, FolderError> {
    let root = path.canonicalize().and_then(|root| std::fs::read_dir(&root).map(|_| root));
    root.map_err(|source| FolderError::Folder { folder: path.display().to_string(), source })
}

/// Whether a name has one or two parts that are names of files which are not hidden.
fn is_name(name: &str) -> bool {
    let is_part = |part: &str| !part.is_empty() && !part.starts_with('.') && !part.contains('\0');
    name.split('/').count() <= 2 && name.split('/').all(is_part)
}

/// The names of the files of a folder.
#[derive(Default)]
struct Found {
    /// The first ones.
    names: BTreeSet<String>,
    files: usize,
    entries: usize,
    /// Folders below, while the folder itself is listed.
    below: Vec<String>,
    problems: Vec<String>,
}

impl Found {
    fn in_folder(path: &Path) -> Result<Self, FolderError> {
        let mut found = Self::default();
        let failed = |source| FolderError::Folder { folder: path.display().to_string(), source };
        found.list(path, None).map_err(failed)?;
        let mut below = std::mem::take(&mut found.below);
        below.sort();
        for name in below {
            if let Err(error) = found.list(&path.join(&name), Some(&name)) {
                found.problem(format!("the folder '{}' cannot be read: {error}", shortened(&name)));
            }
        }
        Ok(found)
    }

    fn list(&mut self, folder: &Path, below: Option<&str>) -> io::Result<()> {
        for entry in std::fs::read_dir(folder)? {
            self.entries += 1;
            if self.entries > ENTRIES_MAX {
                return Ok(());
            }
            let entry = entry?;
            let Ok(name) = entry.file_name().into_string() else {
                let shown = shortened(&entry.file_name().to_string_lossy());
                self.problem(format!("the name '{shown}' is not UTF-8: rename the file"));
                continue;
            };
            if name.starts_with('.') {
                continue;
            }
            match name.strip_suffix(ENDING) {
                Some(name) => self.add(below.map_or(name.to_owned(), |below| format!("{below}/{name}"))),
                // A link to a folder is a folder.
                None if below.is_none() && entry.path().is_dir() => self.below.push(name),
                None => {}
            }
        }
        Ok(())
    }

    fn add(&mut self, name: String) {
        self.files += 1;
        self.names.insert(name);
        if self.names.len() > FILES_MAX {
            self.names.pop_last();
        }
    }

    /// Keeps a few problems: a folder with more has to be put in order as a whole.
    fn problem(&mut self, text: String) {
        if self.problems.len() < 20 {
            self.problems.push(text);
        }
    }

    fn notes(&self) -> Vec<String> {
        let mut notes = self.problems.clone();
        if self.entries > ENTRIES_MAX {
            notes.push(format!(
                "the folder has more than {ENTRIES_MAX} entries, and only as many were looked at: keep \
                 dashboards in a folder of their own"
            ));
        }
        if self.files > FILES_MAX {
            let files = self.files;
            notes.push(format!(
                "the folder has {files} files, and the first {FILES_MAX} by name are listed: remove others"
            ));
        }
        notes
    }
}

/// The entry of a file, and what is to be kept of it. The name is empty if there is no such file.
fn entry(root: &Path, name: &str, before: Option<&Known>, now_ns: i64) -> (Entry, Option<Known>) {
    let unknown = |name: &str, reason| Entry {
        name: name.to_owned(),
        bytes: None,
        modified_ms: None,
        head: Err(shortened(reason)),
    };
    let (file, stamp) = match opened(root, name) {
        Ok(opened) => opened,
        Err(Unread::Absent) => return (unknown("", ""), None),
        Err(Unread::Because(reason)) => return (unknown(name, &reason), None),
    };
    let same = before.filter(|known| known.stamp == stamp).cloned();
    let known = same.unwrap_or_else(|| {
        let head = match contents(file) {
            Ok(bytes) => head_of(&bytes),
            Err(Unread::Absent) => Err("it disappeared while it was read".to_owned()),
            Err(Unread::Because(reason)) => Err(reason),
        };
        Known { stamp, head: head.map_err(|reason| shortened(&reason)) }
    });
    let entry = Entry {
        name: name.to_owned(),
        bytes: Some(stamp.bytes),
        modified_ms: i64::try_from(stamp.modified_ns / 1_000_000).ok(),
        head: known.head.clone(),
    };
    let latest_ns = stamp.changed_ns.max(stamp.modified_ns);
    let is_settled = i128::from(now_ns) - latest_ns > SETTLED_NS;
    (entry, is_settled.then_some(known))
}

/// Why a file was not read.
enum Unread {
    Absent,
    Because(String),
}

impl From<io::Error> for Unread {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::NotFound => Self::Absent,
            _ => Self::Because(format!("it cannot be read: {error}")),
        }
    }
}

/// Opens the file of a name inside the folder.
fn opened(root: &Path, name: &str) -> Result<(File, Stamp), Unread> {
    let given = root.join(format!("{name}{ENDING}"));
    let path = match given.canonicalize() {
        Err(error) if error.kind() == io::ErrorKind::NotFound && given.is_symlink() => {
            return Err(Unread::Because("it is a link to a file that does not exist".to_owned()));
        }
        found => found?,
    };
    if !path.starts_with(root) {
        let text = "it is a link to a file outside the folder, which is not served: copy the file into it";
        return Err(Unread::Because(text.to_owned()));
    }
    // A pipe would wait for its other end, and a link may have taken the place of the file.
    let flags = (OFlags::NONBLOCK | OFlags::NOFOLLOW).bits();
    let file = OpenOptions::new().read(true).custom_flags(flags.cast_signed()).open(&path)?;
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(Unread::Because("it is not a regular file".to_owned()));
    }
    Ok((file, Stamp::of(&metadata)))
}

impl Stamp {
    fn of(metadata: &Metadata) -> Self {
        let ns = |seconds: i64, rest: i64| i128::from(seconds) * 1_000_000_000 + i128::from(rest);
        Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            bytes: metadata.len(),
            modified_ns: ns(metadata.mtime(), metadata.mtime_nsec()),
            changed_ns: ns(metadata.ctime(), metadata.ctime_nsec()),
        }
    }
}

/// Reads a file, at most one byte more than its limit.
fn contents(file: File) -> Result<Vec<u8>, Unread> {
    let too_large = || {
        let most = ByteSize(FILE_BYTES_MAX);
        Unread::Because(format!("it is larger than {most}: remove panels, or divide it"))
    };
    if file.metadata()?.len() > FILE_BYTES_MAX {
        return Err(too_large());
    }
    let mut bytes = Vec::new();
    file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > FILE_BYTES_MAX { Err(too_large()) } else { Ok(bytes) }
}

/// The members that decide what a text is.
#[derive(Deserialize)]
struct Members {
    sandur: Option<IgnoredAny>,
    title: Option<String>,
    panels: Option<IgnoredAny>,
    rows: Option<IgnoredAny>,
    elements: Option<IgnoredAny>,
}

/// Objects around a dashboard, as Grafana's API and its exports have them.
#[derive(Deserialize)]
struct Around {
    dashboard: Option<Members>,
    spec: Option<Members>,
}

/// What a text is, or why it is no dashboard.
fn head_of(bytes: &[u8]) -> Result<Head, String> {
    let text = std::str::from_utf8(bytes)
        .map_err(|error| format!("it is not UTF-8 from byte {} on: save it as UTF-8", error.valid_up_to()))?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let failed = |error: serde_json::Error| match error.classify() {
        serde_json::error::Category::Eof => format!("it is cut off: {error}"),
        serde_json::error::Category::Data => format!("it is not a dashboard: {error}"),
        _ => format!("it is not JSON: {error}"),
    };
    let around: Around = serde_json::from_str(text).map_err(failed)?;
    let inside = match around.dashboard {
        Some(inside) => inside,
        None => serde_json::from_str(text).map_err(failed)?,
    };
    let all = [Some(inside), around.spec].into_iter().flatten();
    let mut found = all.filter_map(|members| Some((members.kind()?, members)));
    let (kind, members) = found.next().ok_or(
        "it is JSON, but neither a dashboard of the page (member `sandur`) nor one of Grafana (`panels`)",
    )?;
    Ok(Head { title: shortened(members.title.as_deref().unwrap_or("")), kind })
}

impl Members {
    fn kind(&self) -> Option<Kind> {
        let of_grafana = [&self.panels, &self.rows, &self.elements];
        match self.sandur {
            Some(_) => Some(Kind::Sandur),
            None => of_grafana.iter().any(|member| member.is_some()).then_some(Kind::Grafana),
        }
    }
}

/// The beginning of a text, without characters that control a terminal.
fn shortened(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(TEXT_MAX).collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    const OWN: &str = r#"{"sandur": 1, "title": "Shop"}"#;
    const GRAFANA: &str = r#"{"title": "Old", "panels": [{"title": 5}]}"#;
    /// Long after the files of a test are written.
    const LATER_NS: i64 = i64::MAX;

    fn folder() -> (tempfile::TempDir, DashboardFolder) {
        let folder = tempfile::tempdir().unwrap();
        let dashboards = DashboardFolder::new(folder.path().to_str().unwrap());
        (folder, dashboards)
    }

    fn write(folder: &tempfile::TempDir, name: &str, text: impl AsRef<[u8]>) {
        let path = folder.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    /// Names with the title or the error.
    fn shown(dashboards: &DashboardFolder) -> Vec<(String, String)> {
        let entries = dashboards.list_now(LATER_NS).unwrap().entries.into_iter();
        entries.map(|entry| (entry.name, entry.head.map_or_else(|error| error, |head| head.title))).collect()
    }

    fn error_of(dashboards: &DashboardFolder, name: &str) -> String {
        dashboards.read_now(name).unwrap_err().to_string()
    }

    #[test]
    fn files_are_listed_and_read_as_they_are() {
        let (folder, dashboards) = folder();
        write(&folder, "shop.json", OWN);
        write(&folder, "team/old.json", GRAFANA);
        write(&folder, "team/deep/no.json", OWN);
        write(&folder, "api.json", r#"{"meta": {}, "dashboard": {"title": "Wrapped", "rows": []}}"#);
        write(&folder, "new.json", r#"{"apiVersion": "x", "spec": {"title": "Two", "elements": {}}}"#);
        write(&folder, "readme.txt", "no dashboard");
        write(&folder, ".hidden.json", OWN);
        let listing = dashboards.list_now(LATER_NS).unwrap();
        assert_eq!(listing.notes, [""; 0]);
        let kinds = listing.entries.iter().map(|entry| entry.head.as_ref().unwrap().kind);
        assert_eq!(kinds.collect::<Vec<_>>(), [Kind::Grafana, Kind::Grafana, Kind::Sandur, Kind::Grafana]);
        let [_, _, shop, _] = &listing.entries[..] else { panic!("four files") };
        assert_eq!((shop.name.as_str(), shop.bytes), ("shop", Some(OWN.len() as u64)));
        assert!(shop.modified_ms.is_some_and(|ms| ms > 1_600_000_000_000));
        let names = ["api", "new", "shop", "team/old"].map(str::to_owned).to_vec();
        assert_eq!(shown(&dashboards).into_iter().map(|(name, _)| name).collect::<Vec<_>>(), names);
        assert_eq!(dashboards.read_now("team/old").unwrap(), GRAFANA.as_bytes());
    }

    #[test]
    fn names_that_lead_elsewhere_are_refused() {
        let (folder, dashboards) = folder();
        write(&folder, "a.json", OWN);
        write(&folder, "b/c/d.json", OWN);
        for name in ["..", "../a", "/a", "/etc/passwd", "b/../a", "./a", "b//a", "", "b/c/d", ".a", "a\0"] {
            assert!(matches!(dashboards.read_now(name), Err(FolderError::Name(_))), "{name}");
        }
        assert!(matches!(dashboards.read_now("a.json"), Err(FolderError::Absent(_))));
        assert!(matches!(
            dashboards.read_now("a/b"),
            Err(FolderError::Unusable { .. } | FolderError::Absent(_))
        ));
    }

    #[test]
    fn a_file_that_cannot_be_used_says_why_and_harms_no_other() {
        let (folder, dashboards) = folder();
        write(&folder, "a.json", &OWN[..20]);
        write(&folder, "b.json", vec![b' '; FILE_BYTES_MAX as usize + 1]);
        write(&folder, "c.json", b"{\"title\": \"\xFF\"}");
        write(&folder, "d.json", "{]");
        write(&folder, "e.json", "{}");
        write(&folder, "f.json", "");
        write(&folder, "g.json", OWN);
        std::fs::create_dir(folder.path().join("h.json")).unwrap();
        rustix::fs::mkfifoat(rustix::fs::CWD, folder.path().join("i.json"), 0o600.into()).unwrap();
        let reasons = [
            ("a", "cut off"),
            ("b", "larger than 2"),
            ("c", "UTF-8"),
            ("d", "not JSON"),
            ("e", "neither"),
            ("f", "cut off"),
            ("h", "regular file"),
            ("i", "regular file"),
        ];
        let shown: BTreeMap<String, String> = shown(&dashboards).into_iter().collect();
        assert_eq!(shown["g"], "Shop");
        for (name, reason) in reasons {
            assert!(shown[name].contains(reason), "{name}: {}", shown[name]);
            assert!(error_of(&dashboards, name).contains(reason), "{name}");
        }
    }

    #[test]
    fn changes_and_removals_are_seen_at_once() {
        let (folder, dashboards) = folder();
        write(&folder, "a.json", OWN);
        assert_eq!(shown(&dashboards), [("a".to_owned(), "Shop".to_owned())]);
        // The same size, and perhaps the same tick of the clock of the file system: another file.
        write(&folder, "b", OWN.replace("Shop", "Mall"));
        std::fs::rename(folder.path().join("b"), folder.path().join("a.json")).unwrap();
        assert_eq!(shown(&dashboards), [("a".to_owned(), "Mall".to_owned())]);
        write(&folder, "a.json", GRAFANA);
        assert_eq!(shown(&dashboards), [("a".to_owned(), "Old".to_owned())]);
        std::fs::remove_file(folder.path().join("a.json")).unwrap();
        assert_eq!(shown(&dashboards), []);
        assert!(error_of(&dashboards, "a").contains("no dashboard 'a'"));
        drop(folder);
        let gone = dashboards.list_now(LATER_NS).unwrap_err();
        assert!(gone.to_string().contains("change --dashboards"), "{gone}");
        assert!(matches!(dashboards.read_now("a"), Err(FolderError::Folder { .. })));
    }

    #[test]
    fn what_changed_just_now_is_not_kept() {
        let (folder, dashboards) = folder();
        write(&folder, "a.json", OWN);
        let kept = |now_ns| {
            dashboards.list_now(now_ns).unwrap();
            dashboards.0.known.lock().unwrap().len()
        };
        assert_eq!((kept(0), kept(LATER_NS)), (0, 1));
    }

    #[test]
    fn links_inside_the_folder_work_and_others_do_not() {
        let (folder, dashboards) = folder();
        let outside = tempfile::tempdir().unwrap();
        write(&outside, "secret.json", OWN);
        // As Kubernetes writes a ConfigMap.
        write(&folder, "..2026_01/shop.json", OWN);
        symlink("..2026_01", folder.path().join("..data")).unwrap();
        symlink("..data/shop.json", folder.path().join("shop.json")).unwrap();
        symlink(outside.path().join("secret.json"), folder.path().join("out.json")).unwrap();
        symlink(outside.path(), folder.path().join("away")).unwrap();
        symlink("nothing", folder.path().join("broken.json")).unwrap();
        symlink("round.json", folder.path().join("round.json")).unwrap();
        let shown: BTreeMap<String, String> = shown(&dashboards).into_iter().collect();
        assert_eq!(shown["shop"], "Shop");
        assert!(shown["out"].contains("outside"), "{shown:?}");
        assert!(shown["away/secret"].contains("outside"), "{shown:?}");
        assert!(shown["broken"].contains("does not exist"), "{shown:?}");
        assert!(shown["round"].contains("cannot be read"), "{shown:?}");
        assert_eq!(shown.len(), 5);
        for name in ["out", "away/secret"] {
            assert!(error_of(&dashboards, name).contains("outside"), "{name}");
        }
        // The next version of the ConfigMap.
        write(&folder, "..2026_02/shop.json", GRAFANA);
        symlink("..2026_02", folder.path().join("..data_tmp")).unwrap();
        std::fs::rename(folder.path().join("..data_tmp"), folder.path().join("..data")).unwrap();
        assert_eq!(dashboards.read_now("shop").unwrap(), GRAFANA.as_bytes());
    }

    #[test]
    fn the_first_thousand_files_are_listed_and_the_rest_is_named() {
        let (folder, dashboards) = folder();
        (0..=FILES_MAX).for_each(|n| write(&folder, &format!("d{n:04}.json"), OWN));
        let listing = dashboards.list_now(LATER_NS).unwrap();
        assert_eq!(listing.entries.len(), FILES_MAX);
        assert_eq!(listing.entries.last().unwrap().name, "d0999");
        assert!(listing.notes[0].contains("1001 files"), "{:?}", listing.notes);
        assert_eq!(dashboards.0.known.lock().unwrap().len(), FILES_MAX);
    }
}
