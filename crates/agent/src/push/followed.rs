//! Follows one file: reads it as it grows, and detects that another file has replaced it.
//!
//! A file that was renamed or deleted is read through the open descriptor until nothing was written for a
//! while, since its writer may still have it open. Only then is its last line treated as complete. An entry
//! that other lines may continue is complete after [`ENTRY_SILENCE`]. A file
//! that became shorter, or whose first bytes changed, was truncated and rewritten; it is read from its
//! start.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::assembler::Assembler;
use super::batch::Batch;
use super::entries::ENTRY_SILENCE;
use super::identity::{Fingerprint, Identity};
use super::reading::Reading;
use super::resume::Seen;
use super::shipper::{Origin, stream};
use super::start::Start;

/// Maximum bytes that are read before other files have their turn.
const TURN_BYTES: usize = 1 << 20;
/// How long a renamed or deleted file is read without growing.
const SILENCE: Duration = Duration::from_secs(10);

/// The result of reading a file in one turn.
#[derive(Debug, Default)]
pub struct Turn {
    /// Complete lines.
    pub batches: Vec<Batch>,
    /// Whether more can be read immediately.
    pub has_more: bool,
    /// Whether the file was truncated and rewritten.
    pub is_anew: bool,
    /// Whether nothing more will be written to it.
    pub is_over: bool,
}

/// A followed file.
pub struct Followed {
    file: File,
    seen: Seen,
    assembler: Assembler,
    /// Whether its name now belongs to another file or to none.
    is_moved: bool,
    grew_at: Duration,
    /// When bytes were read last.
    read_at: Duration,
}

impl Followed {
    /// Follows an open file from `start` on.
    pub fn new(file: File, seen: Seen, start: Start, reading: Reading, now: Duration) -> Self {
        let assembler = Assembler::new(stream(&seen.labels), reading, start);
        Self { file, seen, assembler, is_moved: false, grew_at: now, read_at: now }
    }

    /// Identity of the file.
    pub fn identity(&self) -> Identity {
        self.seen.identity
    }

    /// The name under which it was found.
    pub fn path(&self) -> &Path {
        &self.seen.path
    }

    /// The origin of its batches.
    pub fn origin(&self) -> Origin {
        Origin { name: self.seen.path.display().to_string(), file: Some(self.seen.clone()) }
    }

    /// Whether its name now belongs to another file or to none.
    pub fn is_moved(&self) -> bool {
        self.is_moved
    }

    /// Checks whether the name still belongs to this file.
    pub fn look(&mut self, now: Duration) {
        let own = fs::metadata(&self.seen.path).is_ok_and(|m| Identity::of(&m) == self.seen.identity);
        if !own && !self.is_moved {
            self.grew_at = now;
        }
        self.is_moved = !own;
    }

    /// Reads what was appended.
    pub fn read(&mut self, now_ns: i64, now: Duration) -> io::Result<Turn> {
        let mut turn = Turn::default();
        let length = self.file.metadata()?.len();
        if length < self.assembler.offset() || !self.seen.fingerprint.matches(&self.file)? {
            // The rest of the old content was read, or is lost.
            self.assembler.finish(now_ns);
            turn.batches.extend(std::iter::from_fn(|| self.assembler.flush()));
            turn.is_anew = true;
            return Ok(turn);
        }
        if self.seen.fingerprint.is_short() {
            self.seen.fingerprint = Fingerprint::of(&self.file, length)?;
        }
        let mut chunk = vec![0; TURN_BYTES.min(length.saturating_sub(self.assembler.offset()) as usize)];
        let read = self.file.read_at(&mut chunk, self.assembler.offset())?;
        if read > 0 {
            (self.grew_at, self.read_at) = (now, now);
            self.assembler.feed(&chunk[..read], now_ns);
        }
        turn.has_more = self.assembler.offset() < length && read > 0;
        turn.is_over = self.is_moved && !turn.has_more && now.saturating_sub(self.grew_at) >= SILENCE;
        if turn.is_over {
            self.assembler.finish(now_ns);
        } else if read == 0 && now.saturating_sub(self.read_at) >= ENTRY_SILENCE {
            self.assembler.cut();
        }
        turn.batches.extend(std::iter::from_fn(|| self.assembler.flush()));
        Ok(turn)
    }

    /// The same file from its start, with new content.
    pub fn anew(self, reading: Reading, now: Duration) -> io::Result<Self> {
        let length = self.file.metadata()?.len();
        let fingerprint = Fingerprint::of(&self.file, length)?;
        let seen = Seen { fingerprint, ..self.seen };
        Ok(Self::new(self.file, seen, Start::default(), reading, now))
    }

    /// The last entry, although its end is missing.
    pub fn finish(&mut self, now_ns: i64) -> impl Iterator<Item = Batch> {
        self.assembler.finish(now_ns);
        std::iter::from_fn(|| self.assembler.flush())
    }

    /// The reader of its lines.
    pub fn assembler(&mut self) -> &mut Assembler {
        &mut self.assembler
    }
}

/// Finds the file with this identity in its directory: its name after a rotation.
pub fn find(identity: Identity, was: &Path) -> Option<PathBuf> {
    /// Maximum number of names of the directory that are checked.
    const NAMES_MAX: usize = 100_000;
    let own = |path: &Path| fs::metadata(path).is_ok_and(|m| Identity::of(&m) == identity);
    if own(was) {
        return Some(was.to_owned());
    }
    let folder = was.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let names = fs::read_dir(folder).ok()?.take(NAMES_MAX).flatten();
    names.map(|entry| entry.path()).find(|path| own(path))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::io::Write;

    use super::*;

    struct Log {
        folder: tempfile::TempDir,
    }

    impl Log {
        fn path(&self, name: &str) -> PathBuf {
            self.folder.path().join(name)
        }

        fn append(&self, name: &str, text: &str) {
            let mut file = File::options().create(true).append(true).open(self.path(name)).unwrap();
            file.write_all(text.as_bytes()).unwrap();
        }

        fn follow(&self, name: &str) -> Followed {
            let file = File::open(self.path(name)).unwrap();
            let metadata = file.metadata().unwrap();
            let fingerprint = Fingerprint::of(&file, metadata.len()).unwrap();
            let (path, identity) = (self.path(name), Identity::of(&metadata));
            let seen = Seen { path, identity, fingerprint, labels: BTreeMap::new() };
            Followed::new(file, seen, Start::default(), Reading::by_arrival(), Duration::ZERO)
        }
    }

    fn log() -> Log {
        Log { folder: tempfile::tempdir().unwrap() }
    }

    fn texts(turn: &Turn) -> Vec<String> {
        let all = turn.batches.iter().flat_map(|b| (0..b.lines.len()).map(move |n| b.text(n)));
        all.map(|text| String::from_utf8_lossy(text).into_owned()).collect()
    }

    fn seconds(n: u64) -> Duration {
        Duration::from_secs(n)
    }

    #[test]
    fn a_partial_last_line_waits_for_its_end() {
        let log = log();
        log.append("a", "one\ntw");
        let mut followed = log.follow("a");
        assert_eq!(texts(&followed.read(1, seconds(1)).unwrap()), ["one"]);
        log.append("a", "o\nthree");
        let turn = followed.read(2, seconds(99)).unwrap();
        assert_eq!((texts(&turn), turn.is_over), (vec!["two".to_owned()], false));
        assert!(texts(&followed.read(2, seconds(99)).unwrap()).is_empty());
        assert_eq!(followed.finish(3).next().unwrap().text(0), b"three");
    }

    #[test]
    fn a_renamed_file_is_read_to_its_end_including_its_last_line() {
        let log = log();
        log.append("a", "one\n");
        let mut followed = log.follow("a");
        followed.read(1, seconds(1)).unwrap();
        log.append("a", "two\n");
        fs::rename(log.path("a"), log.path("a.1")).unwrap();
        log.append("a", "new\n");
        followed.look(seconds(2));
        let turn = followed.read(2, seconds(2)).unwrap();
        assert_eq!((texts(&turn), turn.is_over), (vec!["two".to_owned()], false));
        log.append("a.1", "its writer did not know");
        assert!(!followed.read(3, seconds(5)).unwrap().is_over, "it grew");
        let turn = followed.read(4, seconds(16)).unwrap();
        assert_eq!((texts(&turn), turn.is_over), (vec!["its writer did not know".to_owned()], true));
        assert_eq!(find(followed.identity(), followed.path()), Some(log.path("a.1")));
        assert_eq!(texts(&log.follow("a").read(5, seconds(20)).unwrap()), ["new"]);
    }

    #[test]
    fn a_truncated_file_is_read_from_its_start() {
        for anew in ["x\n", "other content, and more of it\n"] {
            let log = log();
            log.append("a", "first content\npart");
            let mut followed = log.follow("a");
            followed.read(1, seconds(1)).unwrap();
            // As logrotate's `copytruncate` does; in the second case the new content is longer than the
            // old one.
            File::options().write(true).truncate(true).open(log.path("a")).unwrap();
            log.append("a", anew);
            let turn = followed.read(2, seconds(2)).unwrap();
            assert!(turn.is_anew, "{anew}");
            assert_eq!(texts(&turn), ["part"], "what was read of the old content is not lost");
            let mut followed = followed.anew(Reading::by_arrival(), seconds(2)).unwrap();
            assert_eq!(texts(&followed.read(3, seconds(3)).unwrap()), [anew.trim_end()]);
        }
    }

    #[test]
    fn a_deleted_file_ends_after_a_while() {
        let log = log();
        log.append("a", "one\n");
        let mut followed = log.follow("a");
        fs::remove_file(log.path("a")).unwrap();
        followed.look(seconds(1));
        assert_eq!(texts(&followed.read(1, seconds(1)).unwrap()), ["one"]);
        assert!(followed.read(1, seconds(12)).unwrap().is_over);
        assert_eq!(find(followed.identity(), followed.path()), None);
    }
}
