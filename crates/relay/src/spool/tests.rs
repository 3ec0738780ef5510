//! A directory in memory that can be full or damaged, and the tests of a spool on it.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::{Directory, Disk, Options, Spool, Sync};

/// Files in memory.
#[derive(Default)]
pub(crate) struct MemoryDisk {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    files: BTreeMap<String, Vec<u8>>,
    /// The number of bytes that are durable, by file.
    synced: BTreeMap<String, usize>,
    room: Option<usize>,
}

impl MemoryDisk {
    /// Sets the number of bytes that still fit; `None` is no limit.
    pub(crate) fn set_room(&self, room: Option<usize>) {
        self.state.lock().unwrap().room = room;
    }

    pub(crate) fn with_files(&self, change: impl FnOnce(&mut BTreeMap<String, Vec<u8>>)) {
        change(&mut self.state.lock().unwrap().files);
    }

    /// Simulates a loss of power: drops bytes that were not synced.
    pub(crate) fn lose_power(&self) {
        let mut state = self.state.lock().unwrap();
        let synced = state.synced.clone();
        let segments = state.files.iter_mut().filter(|(name, _)| name.ends_with(".spool"));
        segments.for_each(|(name, bytes)| bytes.truncate(synced.get(name).copied().unwrap_or(0)));
    }
}

impl Disk for MemoryDisk {
    fn list(&self) -> io::Result<Vec<(String, u64)>> {
        let state = self.state.lock().unwrap();
        Ok(state.files.iter().map(|(name, bytes)| (name.clone(), bytes.len() as u64)).collect())
    }

    fn append(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let mut state = self.state.lock().unwrap();
        let fits = state.room.map_or(bytes.len(), |room| room.min(bytes.len()));
        state.room = state.room.map(|room| room - fits);
        state.files.entry(name.to_owned()).or_default().extend_from_slice(&bytes[..fits]);
        if fits < bytes.len() { Err(io::ErrorKind::StorageFull.into()) } else { Ok(()) }
    }

    fn read(&self, name: &str, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let state = self.state.lock().unwrap();
        let bytes = state.files.get(name).ok_or(io::ErrorKind::NotFound)?;
        let rest = &bytes[(offset as usize).min(bytes.len())..];
        let count = rest.len().min(buffer.len());
        buffer[..count].copy_from_slice(&rest[..count]);
        Ok(count)
    }

    fn truncate(&self, name: &str, length: u64) -> io::Result<()> {
        let mut state = self.state.lock().unwrap();
        state.files.get_mut(name).ok_or(io::ErrorKind::NotFound)?.truncate(length as usize);
        Ok(())
    }

    fn sync(&self, name: &str) -> io::Result<()> {
        let mut state = self.state.lock().unwrap();
        let length = state.files.get(name).map_or(0, Vec::len);
        state.synced.insert(name.to_owned(), length);
        Ok(())
    }

    fn replace(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        self.state.lock().unwrap().files.insert(name.to_owned(), bytes.to_vec());
        Ok(())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let gone = self.state.lock().unwrap().files.remove(name);
        gone.map(drop).ok_or(io::ErrorKind::NotFound.into())
    }
}

const OPTIONS: Options =
    Options { bytes_max: 100_000, segment_bytes: 1_000, sync: Sync::Every(Duration::from_secs(1)) };

fn line(number: usize) -> Vec<u8> {
    format!("a.b.c {number} {number}\n").into_bytes()
}

fn push(spool: &mut Spool, numbers: std::ops::Range<usize>) {
    numbers.for_each(|number| spool.push(&line(number), 1, Duration::ZERO).unwrap());
}

/// Reads and confirms everything; returns the numbers of the lines.
fn drain(spool: &mut Spool) -> Vec<usize> {
    let mut found = Vec::new();
    while let Some(batch) = spool.peek(300).unwrap() {
        let text = String::from_utf8(batch.lines.clone()).unwrap();
        found.extend(text.lines().map(|line| line.rsplit(' ').next().unwrap().parse::<usize>().unwrap()));
        spool.confirm(&batch);
    }
    found
}

/// Opens the spool of a disk in memory.
fn opened(disk: &Arc<MemoryDisk>) -> Spool {
    Spool::open(Arc::clone(disk) as Arc<dyn Disk>, OPTIONS).unwrap()
}

/// Puts lines with these numbers before all others.
fn ahead(spool: &mut Spool, numbers: std::ops::Range<usize>) {
    let lines: Vec<Vec<u8>> = numbers.map(line).collect();
    spool.put_ahead(lines.iter().map(|line| (line.as_slice(), 1))).unwrap();
}

/// Truncates or changes a file at a place that the seed determines.
fn damage(bytes: &mut Vec<u8>, seed: usize) {
    let at = seed * 7_919 % bytes.len();
    if seed.is_multiple_of(3) { bytes.truncate(at) } else { bytes[at] ^= 1 << (seed % 8) }
}

#[test]
fn lines_are_read_in_order_also_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let directory = Directory::open(folder.path().to_owned()).unwrap();
    let disks: [Arc<dyn Disk>; 2] = [Arc::new(MemoryDisk::default()), Arc::new(directory)];
    for disk in disks {
        let mut spool = Spool::open(Arc::clone(&disk), OPTIONS).unwrap();
        push(&mut spool, 0..200);
        let batch = spool.peek(300).unwrap().unwrap();
        spool.confirm(&batch);
        let begun = batch.points as usize;
        spool.write_position();
        let mut spool = Spool::open(Arc::clone(&disk), OPTIONS).unwrap();
        push(&mut spool, 200..250);
        assert_eq!(drain(&mut spool), (begun..250).collect::<Vec<_>>());
        assert!(spool.is_empty() && spool.bytes() == 0);
        let mut spool = Spool::open(Arc::clone(&disk), OPTIONS).unwrap();
        push(&mut spool, 250..260);
        assert_eq!(drain(&mut spool), (250..260).collect::<Vec<_>>());
        assert!(disk.list().unwrap().iter().all(|(name, _)| name == "position"));
    }
}

#[test]
fn the_oldest_points_are_dropped_and_counted_when_the_spool_is_full() {
    let options = Options { bytes_max: 5_000, ..OPTIONS };
    let mut spool = Spool::open(Arc::new(MemoryDisk::default()), options).unwrap();
    push(&mut spool, 0..1_000);
    assert!(spool.bytes() <= 5_000);
    let lost = spool.take_lost() as usize;
    assert_eq!(drain(&mut spool), (lost..1_000).collect::<Vec<_>>());
    assert!(lost > 700);
}

#[test]
fn a_push_fails_on_a_full_disk_and_succeeds_once_there_is_room() {
    let disk = Arc::new(MemoryDisk::default());
    let mut spool = opened(&disk);
    push(&mut spool, 0..10);
    for room in [0, 1, 11, 13, 20] {
        disk.set_room(Some(room));
        assert!(spool.push(&line(99), 1, Duration::ZERO).is_err());
    }
    disk.set_room(None);
    push(&mut spool, 10..20);
    let mut again = Spool::open(Arc::clone(&disk) as Arc<dyn Disk>, OPTIONS).unwrap();
    assert_eq!(drain(&mut again), (0..20).collect::<Vec<_>>());
}

#[test]
fn a_damaged_segment_loses_only_its_own_lines() {
    for seed in 0..400_usize {
        let disk = Arc::new(MemoryDisk::default());
        let mut spool = opened(&disk);
        push(&mut spool, 0..100);
        disk.with_files(|files| {
            let segments: Vec<String> =
                files.keys().filter(|name| name.ends_with(".spool")).cloned().collect();
            let bytes = files.get_mut(&segments[seed % segments.len()]).unwrap();
            damage(bytes, seed);
        });
        let reopened = seed % 2 == 0;
        let mut spool = if reopened { opened(&disk) } else { spool };
        let found = drain(&mut spool);
        assert!(found.is_sorted() && found.len() >= 50, "{seed}: {found:?}");
        assert!(reopened || found.len() + spool.take_lost() as usize == 100, "{seed}");
    }
}

#[test]
fn a_loss_of_power_loses_no_more_than_the_sync_option_permits() {
    let kept = |sync| {
        let disk = Arc::new(MemoryDisk::default());
        let mut spool = Spool::open(Arc::clone(&disk) as Arc<dyn Disk>, Options { sync, ..OPTIONS }).unwrap();
        for number in 0..100 {
            spool.push(&line(number), 1, Duration::from_millis(100 * number as u64)).unwrap();
        }
        disk.lose_power();
        drain(&mut Spool::open(disk, OPTIONS).unwrap()).len()
    };
    assert_eq!(kept(Sync::Always), 100);
    assert!((90..=100).contains(&kept(Sync::Every(Duration::from_secs(1)))));
    assert_eq!(kept(Sync::Never), 0);
}

#[test]
fn lines_put_ahead_are_read_first_also_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let directory = Directory::open(folder.path().to_owned()).unwrap();
    let disks: [Arc<dyn Disk>; 2] = [Arc::new(MemoryDisk::default()), Arc::new(directory)];
    for disk in disks {
        let mut spool = Spool::open(Arc::clone(&disk), OPTIONS).unwrap();
        push(&mut spool, 20..30);
        ahead(&mut spool, 10..20);
        let batch = spool.peek(30).unwrap().unwrap();
        assert_eq!(batch.points, 2);
        spool.confirm(&batch);
        ahead(&mut spool, 8..12);
        let mut spool = Spool::open(Arc::clone(&disk), OPTIONS).unwrap();
        assert_eq!(drain(&mut spool), (8..30).collect::<Vec<_>>());
        assert!(spool.is_empty() && spool.bytes() == 0);
        assert!(disk.list().unwrap().iter().all(|(name, _)| name == "position"));
    }
}

#[test]
fn damage_to_lines_put_ahead_loses_only_those() {
    for seed in 0..200_usize {
        let disk = Arc::new(MemoryDisk::default());
        let mut spool = opened(&disk);
        push(&mut spool, 20..30);
        ahead(&mut spool, 0..20);
        disk.with_files(|files| {
            let bytes = files.get_mut("ahead").unwrap();
            damage(bytes, seed);
        });
        let reopened = seed % 2 == 0;
        let mut spool = if reopened { opened(&disk) } else { spool };
        let found = drain(&mut spool);
        assert!(found.is_sorted() && found.ends_with(&(20..30).collect::<Vec<_>>()), "{seed}: {found:?}");
        assert!(reopened || found.len() + spool.take_lost() as usize == 30, "{seed}");
    }
}

#[test]
fn a_position_within_a_frame_is_ignored() {
    let disk = Arc::new(MemoryDisk::default());
    let mut spool = opened(&disk);
    push(&mut spool, 0..20);
    let first = spool.peek(1).unwrap().unwrap();
    spool.confirm(&first);
    spool.write_position();
    let other = Arc::new(MemoryDisk::default());
    let mut longer = Spool::open(Arc::clone(&other) as Arc<dyn Disk>, OPTIONS).unwrap();
    push(&mut longer, 1_000_000..1_000_010);
    disk.with_files(|files| {
        other.with_files(|of_other| {
            of_other.insert("position".to_owned(), files["position"].clone());
        })
    });
    let mut longer = Spool::open(other, OPTIONS).unwrap();
    assert_eq!(drain(&mut longer), (1_000_000..1_000_010).collect::<Vec<_>>());
    assert_eq!(longer.take_lost(), 0);
    assert_eq!(drain(&mut Spool::open(disk, OPTIONS).unwrap()), (1..20).collect::<Vec<_>>());
}

#[test]
fn a_removed_directory_is_created_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("spool");
    let disk: Arc<dyn Disk> = Arc::new(Directory::open(path.clone()).unwrap());
    let mut spool = Spool::open(Arc::clone(&disk), OPTIONS).unwrap();
    push(&mut spool, 0..10);
    std::fs::remove_dir_all(&path).unwrap();
    assert!(spool.push(&line(10), 1, Duration::ZERO).is_err(), "it would be lost with the process");
    push(&mut spool, 10..20);
    assert!(path.is_dir());
    assert_eq!(drain(&mut spool), (0..20).collect::<Vec<_>>(), "open files can still be read");
    push(&mut spool, 20..30);
    let mut again = Spool::open(Arc::new(Directory::open(path).unwrap()), OPTIONS).unwrap();
    assert_eq!(drain(&mut again), (20..30).collect::<Vec<_>>());
}
