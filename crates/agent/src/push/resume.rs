//! The state file of `--resume`: the acknowledged offset of each file.
//!
//! A file is recognised by its identity, so a rotated file is the same under its new name, and a new file
//! under the old name is not. A resume point never passes a line that is neither stored nor kept with the
//! rejected ones. The state file also contains what is needed to send later lines again exactly as
//! before, so that the server drops duplicates: the labels, the state of the dates, what was learned about
//! entries of several lines, and the arrival of lines without a timestamp. A resume point never stands
//! inside an entry. It is replaced atomically and synced, so that an interruption leaves the
//! old state.

use std::collections::{BTreeMap, VecDeque};
use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use sandur_base::small_file;
use sandur_terminal::Failed;
use serde::{Deserialize, Serialize};

use super::batch::Batch;
use super::dates::Dates;
use super::entries::Learned;
use super::identity::{Fingerprint, Identity};
use super::start::{Planned, Start};

/// Version of the state file.
const VERSION: u32 = 2;
/// Maximum number of files that are remembered; beyond that, files that no longer exist are forgotten.
const FILES_MAX: usize = 20_000;
/// Maximum size of the state file: room for all files with 16 KiB of path and labels each.
const FILE_BYTES_MAX: u64 = (FILES_MAX as u64) << 14;

/// The state of one file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Known {
    /// Its name when it was last read.
    pub path: PathBuf,
    #[serde(flatten)]
    identity: Identity,
    fingerprint: Fingerprint,
    /// Labels of the stream.
    pub labels: BTreeMap<String, String>,
    /// Number of bytes that are acknowledged.
    pub offset: u64,
    dates: Dates,
    #[serde(default)]
    learned: Learned,
    #[serde(default, skip_serializing_if = "VecDeque::is_empty")]
    planned: VecDeque<Planned>,
}

impl Known {
    /// The point from which the file is read.
    pub fn start(&self) -> Start {
        let Self { offset, dates, learned, planned, .. } = self;
        Start { offset: *offset, dates: *dates, learned: *learned, planned: planned.clone() }
    }

    /// The labels of the lines that follow: the previous ones, unless other labels are given now. A
    /// rotated file keeps the name under which it was first read, so that its lines stay in one stream.
    pub fn labels_under(&self, wanted: BTreeMap<String, String>) -> BTreeMap<String, String> {
        let without_name = |labels: &BTreeMap<String, String>| {
            let mut labels = labels.clone();
            labels.remove("filename");
            labels
        };
        match without_name(&self.labels) == without_name(&wanted) {
            true => self.labels.clone(),
            false => wanted,
        }
    }

    /// Identity of the file.
    pub fn identity(&self) -> Identity {
        self.identity
    }
}

/// A file as it is at the moment.
#[derive(Clone, Debug)]
pub struct Seen {
    /// Its name.
    pub path: PathBuf,
    /// Its identity.
    pub identity: Identity,
    /// Fingerprint of its first bytes.
    pub fingerprint: Fingerprint,
    /// Labels of its lines.
    pub labels: BTreeMap<String, String>,
}

#[derive(Serialize, Deserialize)]
struct Document {
    version: u32,
    files: Vec<Known>,
}

/// An entry of version 1, whose key is the path.
#[derive(Clone, Copy, Debug, Deserialize)]
struct EntryV1 {
    inode: u64,
    offset: u64,
}

/// The states of all files of earlier pushes.
#[derive(Debug, Default)]
pub struct Positions {
    path: Option<PathBuf>,
    /// Locked while the state is in use.
    _lock: Option<File>,
    files: BTreeMap<Identity, Known>,
    former: BTreeMap<PathBuf, EntryV1>,
}

impl Positions {
    /// Remembers nothing.
    pub fn none() -> Self {
        Self::default()
    }

    /// Reads the state file. If there is none, nothing was acknowledged.
    pub fn load(path: &str) -> Result<Self, Failed> {
        let lock = lock(path)?;
        let mut positions = Self { path: Some(path.into()), _lock: Some(lock), ..Self::default() };
        let text = match small_file::read(path, FILE_BYTES_MAX) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(positions),
            Err(error) => return Err(Failed::new(format!("cannot read the state file '{path}': {error}"))),
        };
        let value: serde_json::Value = serde_json::from_slice(&text).map_err(|e| unknown(path, &e))?;
        match value.get("version").and_then(serde_json::Value::as_u64) {
            Some(version) if version == u64::from(VERSION) => {
                let document: Document = serde_json::from_value(value).map_err(|e| unknown(path, &e))?;
                positions.files = document.files.into_iter().map(|k| (k.identity, k)).collect();
            }
            Some(version) => {
                let text = format!("version {version} was written by another version of sandur");
                return Err(unknown(path, &text));
            }
            None => positions.former = serde_json::from_value(value).map_err(|e| unknown(path, &e))?,
        }
        Ok(positions)
    }

    /// Whether states are stored in a file.
    pub fn is_kept(&self) -> bool {
        self.path.is_some()
    }

    /// The files in which the state is stored.
    pub fn own_files(&self) -> Vec<PathBuf> {
        let state = self.path.as_ref().map(|path| path.display().to_string());
        let all = state.map(|path| vec![format!("{path}.lock"), format!("{path}.new"), path]);
        all.into_iter().flatten().map(PathBuf::from).collect()
    }

    /// The state of an open file; `None` if it was never read or has been replaced.
    pub fn of(&self, identity: Identity, path: &Path, file: &File) -> Option<Known> {
        let known = match self.files.get(&identity) {
            Some(known) => known.clone(),
            None => {
                let former = self.former.get(path).filter(|f| f.inode == identity.inode)?;
                let fingerprint = Fingerprint::of(file, former.offset).ok()?;
                let (labels, dates, planned) = (BTreeMap::new(), Dates::default(), VecDeque::new());
                Known {
                    path: path.into(),
                    identity,
                    fingerprint,
                    labels,
                    offset: former.offset,
                    dates,
                    learned: Learned::default(),
                    planned,
                }
            }
        };
        known.fingerprint.matches(file).unwrap_or(false).then_some(known)
    }

    /// All known files.
    pub fn files(&self) -> impl Iterator<Item = &Known> {
        self.files.values()
    }

    /// Stores the arrival and the end of lines that are about to be sent, if a retry would date or cut them
    /// differently.
    pub fn plan(&mut self, seen: &Seen, batch: &Batch) -> Result<(), Failed> {
        if self.path.is_none() || (batch.undated == 0 && !batch.is_cut) {
            return Ok(());
        }
        let known = self.entry(seen);
        if known.planned.back().is_some_and(|last| last.until >= batch.end) {
            return Ok(());
        }
        known.planned.push_back(Planned { until: batch.end, now_ns: batch.now_ns });
        self.store()
    }

    /// Stores that everything before the end of the batch is stored or kept.
    pub fn note(&mut self, seen: &Seen, batch: &Batch) -> Result<(), Failed> {
        if self.path.is_none() {
            return Ok(());
        }
        let known = self.entry(seen);
        (known.offset, known.dates, known.learned) = (batch.end, batch.dates, batch.learned);
        known.planned.retain(|plan| plan.until > batch.end);
        self.store()
    }

    /// The state of a file. A new one begins where reading began, since batches before the present one may
    /// be in flight.
    fn entry(&mut self, seen: &Seen) -> &mut Known {
        let former = self.former.remove(&seen.path).filter(|former| former.inode == seen.identity.inode);
        let offset = former.map_or(0, |former| former.offset);
        let known = self.files.entry(seen.identity).or_insert_with(|| Known {
            path: seen.path.clone(),
            identity: seen.identity,
            fingerprint: seen.fingerprint,
            labels: seen.labels.clone(),
            offset,
            dates: Dates::default(),
            learned: Learned::default(),
            planned: VecDeque::new(),
        });
        known.path.clone_from(&seen.path);
        known.labels.clone_from(&seen.labels);
        known.fingerprint = seen.fingerprint;
        known
    }

    /// Forgets a file that has been replaced.
    pub fn forget(&mut self, identity: Identity) {
        self.files.remove(&identity);
    }

    fn store(&mut self) -> Result<(), Failed> {
        let Some(path) = &self.path else { return Ok(()) };
        if self.files.len() > FILES_MAX {
            self.files.retain(|_, known| known.path.exists());
        }
        if self.files.len() > FILES_MAX {
            let text = format!("the state file '{}' is limited to {FILES_MAX} files", path.display());
            return Err(Failed::new(format!("{text}: push some of them with another state file")));
        }
        let document = Document { version: VERSION, files: self.files.values().cloned().collect() };
        replace(path, &document)
            .map_err(|e| Failed::new(format!("cannot write the state file '{}': {e}", path.display())))
    }
}

/// Two pushes with the same state would overwrite each other's points.
fn lock(path: &str) -> Result<File, Failed> {
    let name = format!("{path}.lock");
    let file = File::options().create(true).append(true).open(&name);
    let file = file.map_err(|e| Failed::new(format!("cannot open the lock '{name}' of --resume: {e}")))?;
    file.try_lock().map_err(|_| {
        Failed::new(format!("another push uses the state file '{path}': wait for it, or name another file"))
    })?;
    Ok(file)
}

fn unknown(path: &str, why: &dyn std::fmt::Display) -> Failed {
    Failed::new(format!(
        "'{path}' is not a valid state file of --resume ({why}); delete it to start over: what was stored \
         before is then sent again, and lines with times of their own are not stored twice"
    ))
}

fn replace(path: &Path, document: &Document) -> std::io::Result<()> {
    let mut name = path.as_os_str().to_owned();
    name.push(".new");
    let mut file = File::create(&name)?;
    file.write_all(&serde_json::to_vec(document)?)?;
    file.sync_all()?;
    fs::rename(&name, path)?;
    let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(folder)?.sync_all()
}

#[cfg(test)]
mod tests {
    use sandur_model::Labels;

    use super::*;

    struct Place {
        _folder: tempfile::TempDir,
        log: PathBuf,
        state: String,
    }

    impl Place {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            let state = folder.path().join("state.json").to_str().unwrap().to_owned();
            Self { log: folder.path().join("a.log"), state, _folder: folder }
        }

        fn open(&self) -> (File, Seen) {
            let file = File::open(&self.log).unwrap();
            let metadata = file.metadata().unwrap();
            let fingerprint = Fingerprint::of(&file, metadata.len()).unwrap();
            let (path, identity) = (self.log.clone(), Identity::of(&metadata));
            (file, Seen { path, identity, fingerprint, labels: BTreeMap::new() })
        }

        fn start(&self, positions: &Positions) -> Option<u64> {
            let (file, seen) = self.open();
            positions.of(seen.identity, &self.log, &file).map(|known| known.offset)
        }
    }

    fn batch(start: u64, end: u64, undated: u64) -> Batch {
        let mut batch = Batch::new(Labels::default(), start, Dates::default(), Learned::default());
        (batch.end, batch.undated, batch.now_ns) = (end, undated, 77);
        batch
    }

    #[test]
    fn a_file_is_recognised_by_identity_and_not_by_name() {
        let place = Place::new();
        fs::write(&place.log, "one\ntwo\n").unwrap();
        let mut positions = Positions::load(&place.state).unwrap();
        let (_, seen) = place.open();
        positions.note(&seen, &batch(0, 4, 0)).unwrap();
        drop(positions);
        let positions = Positions::load(&place.state).unwrap();
        assert_eq!(place.start(&positions), Some(4));
        let moved = place.log.with_extension("1");
        fs::rename(&place.log, &moved).unwrap();
        fs::write(&place.log, "new file\n").unwrap();
        assert_eq!(place.start(&positions), None, "rotated: the name belongs to a new file");
        let renamed = Place { log: moved.clone(), ..place };
        assert_eq!(renamed.start(&positions), Some(4), "the same file under its new name");
        fs::write(&moved, "two\n").unwrap();
        assert_eq!(renamed.start(&positions), None, "truncated and rewritten");
        fs::write(&moved, "ONE\ntwo\nthree\n").unwrap();
        assert_eq!(renamed.start(&positions), None, "rewritten, and longer than before");
    }

    /// The first batch has times and is in flight while the second one is planned; after a kill, the
    /// first one must be sent again.
    #[test]
    fn a_planned_batch_does_not_move_the_resume_point_past_one_in_flight() {
        let place = Place::new();
        fs::write(&place.log, "one\ntwo\n").unwrap();
        let (_, seen) = place.open();
        let mut positions = Positions::load(&place.state).unwrap();
        positions.plan(&seen, &batch(0, 4, 0)).unwrap();
        positions.plan(&seen, &batch(4, 8, 1)).unwrap();
        drop(positions);
        assert_eq!(place.start(&Positions::load(&place.state).unwrap()), Some(0));
    }

    #[test]
    fn arrivals_are_kept_until_their_lines_are_acknowledged() {
        let place = Place::new();
        fs::write(&place.log, "one\ntwo\n").unwrap();
        let (file, seen) = place.open();
        let mut positions = Positions::load(&place.state).unwrap();
        positions.plan(&seen, &batch(0, 4, 1)).unwrap();
        positions.plan(&seen, &batch(4, 8, 1)).unwrap();
        drop(positions);
        let mut positions = Positions::load(&place.state).unwrap();
        let start = positions.of(seen.identity, &place.log, &file).unwrap().start();
        assert_eq!((start.offset, start.planned.len()), (0, 2));
        positions.note(&seen, &batch(0, 4, 1)).unwrap();
        let start = positions.of(seen.identity, &place.log, &file).unwrap().start();
        assert_eq!(start.planned, [Planned { until: 8, now_ns: 77 }]);
    }

    #[test]
    fn older_states_are_read_and_others_refused_with_the_remedy() {
        let place = Place::new();
        fs::write(&place.log, "one\ntwo\n").unwrap();
        let (_, seen) = place.open();
        let inode = seen.identity.inode;
        let former =
            |inode: u64| serde_json::json!({place.log.to_str().unwrap(): {"inode": inode, "offset": 4}});
        fs::write(&place.state, former(inode).to_string()).unwrap();
        assert_eq!(place.start(&Positions::load(&place.state).unwrap()), Some(4));
        fs::write(&place.state, former(inode + 1).to_string()).unwrap();
        assert_eq!(place.start(&Positions::load(&place.state).unwrap()), None);
        for wrong in ["nonsense", "[]", "{\"version\":9,\"files\":[]}", "{\"version\":2}"] {
            fs::write(&place.state, wrong).unwrap();
            assert!(Positions::load(&place.state).unwrap_err().message().contains("delete it"), "{wrong}");
        }
    }

    #[test]
    fn two_pushes_do_not_share_a_state() {
        let place = Place::new();
        let _first = Positions::load(&place.state).unwrap();
        assert!(Positions::load(&place.state).unwrap_err().message().contains("another push uses"));
    }
}
