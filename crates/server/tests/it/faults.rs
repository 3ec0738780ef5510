//! Goal: damage and full disks have the consequences described in docs/guarantees.md, and no others.
//!
//! Method: the real binary with a directory that is damaged, filled or made read-only between or during
//! runs. Tests that need a separate file system mount a small tmpfs, and print a message if that is not
//! permitted.

#![allow(clippy::disallowed_methods, clippy::unwrap_used)] // process tests: real time

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::process::{Server, Setup, now_ns};
use serde_json::json;

const SELECTOR: &str = r#"{job="faults"}"#;

pub fn store_of(folder: &Path) -> String {
    format!("file://{}", folder.join("data").display())
}

fn push_lines(server: &Server, from: usize, count: usize, base_ns: i64) {
    let values: Vec<(i64, String)> = (from..from + count)
        .map(|n| (base_ns + n as i64, format!("line number {n} of the fault tests")))
        .collect();
    let (status, body) = server.push(&json!({"job": "faults"}), &values).unwrap();
    assert_eq!(status, 204, "{}", String::from_utf8_lossy(&body));
}

fn count_lines(server: &Server, base_ns: i64) -> usize {
    server.lines(SELECTOR, base_ns, base_ns + 10_000_000_000, 5_000).len()
}

fn files_below(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten() {
            let path = entry.unwrap().path();
            if path.is_dir() { folders.push(path) } else { found.push(path) }
        }
    }
    found.sort();
    found
}

fn check_command(store: &str) -> (bool, String) {
    let output =
        Command::new(env!("CARGO_BIN_EXE_sandur")).args(["check", "--store", store]).output().unwrap();
    let text =
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    (output.status.success(), text)
}

/// A stopped store with two blocks in different hours: 100 old lines and 100 new ones.
fn two_blocks(folder: &Path) -> (Setup, i64, i64) {
    let setup = Setup::new(store_of(folder), folder);
    let (old_ns, new_ns) = (now_ns() - 5 * 3_600_000_000_000, now_ns() - 1_000_000_000);
    let server = setup.start();
    push_lines(&server, 0, 100, old_ns);
    push_lines(&server, 0, 100, new_ns);
    assert_eq!(server.terminate(), Some(0));
    (setup, old_ns, new_ns)
}

fn warnings(server: &Server, base_ns: i64) -> String {
    let answer = server.query_range(SELECTOR, base_ns, base_ns + 10_000_000_000, 5_000);
    answer["warnings"].to_string()
}

#[test]
fn a_corrupted_page_is_reported_and_the_rest_is_served() {
    let folder = tempfile::tempdir().unwrap();
    let (setup, old_ns, new_ns) = two_blocks(folder.path());
    let blocks = files_below(&folder.path().join("data/blocks"));
    assert_eq!(blocks.len(), 2, "{blocks:?}");
    assert!(check_command(&setup.store).0, "sound before the damage");
    // Ids sort by time, but both blocks are from one flush, so the block of the old lines is not known.
    let server = setup.start();
    assert_eq!((count_lines(&server, old_ns), count_lines(&server, new_ns)), (100, 100));
    assert_eq!(server.terminate(), Some(0));
    let mut damaged = 0;
    for block in &blocks {
        let mut bytes = fs::read(block).unwrap();
        bytes[40] ^= 0x10; // inside the first group: lines or narrow columns
        fs::write(block, &bytes).unwrap();
        let (sound, text) = check_command(&setup.store);
        assert!(!sound && text.contains(block.file_name().unwrap().to_str().unwrap()), "{text}");
        let mut server = setup.start();
        let (old, new) = (count_lines(&server, old_ns), count_lines(&server, new_ns));
        assert_eq!(old + new, 100, "the other block is served completely");
        let lost = if old == 0 { old_ns } else { new_ns };
        let warned = warnings(&server, lost);
        assert!(warned.contains(block.file_name().unwrap().to_str().unwrap()), "{warned}");
        assert!(server.is_running());
        assert_eq!(server.terminate(), Some(0));
        bytes[40] ^= 0x10;
        fs::write(block, &bytes).unwrap();
        damaged += 1;
    }
    assert_eq!(damaged, 2);
}

#[test]
fn a_missing_block_is_reported_and_the_rest_is_served() {
    let folder = tempfile::tempdir().unwrap();
    let (setup, old_ns, new_ns) = two_blocks(folder.path());
    let block = files_below(&folder.path().join("data/blocks")).remove(0);
    fs::remove_file(&block).unwrap();
    let mut server = setup.start();
    let (old, new) = (count_lines(&server, old_ns), count_lines(&server, new_ns));
    assert_eq!(old + new, 100);
    let warned = warnings(&server, if old == 0 { old_ns } else { new_ns });
    let name = block.file_name().unwrap().to_str().unwrap().to_owned();
    assert!(warned.contains(&name), "{warned}");
    assert!(server.is_running());
    assert_eq!(server.terminate(), Some(0));
    let (sound, text) = check_command(&setup.store);
    assert!(!sound && text.contains(&name), "{text}");
}

#[test]
fn a_truncated_segment_loses_only_its_tail() {
    let folder = tempfile::tempdir().unwrap();
    let setup = Setup::new(store_of(folder.path()), folder.path());
    let base_ns = now_ns();
    let server = setup.start();
    for request in 0..20 {
        push_lines(&server, request * 10, 10, base_ns);
    }
    server.kill();
    let segments: Vec<PathBuf> = files_below(&folder.path().join("data/wal"))
        .into_iter()
        .filter(|f| fs::metadata(f).unwrap().len() > 0)
        .collect();
    let last = segments.last().expect("the rows are in the WAL only");
    let length = fs::metadata(last).unwrap().len();
    fs::File::options().write(true).open(last).unwrap().set_len(length - 5).unwrap();
    let mut server = setup.start();
    let found = count_lines(&server, base_ns);
    assert_eq!(found, 190, "one request of ten lines was in the torn frame");
    assert!(server.is_running());
    push_lines(&server, 500, 10, base_ns);
    assert_eq!(count_lines(&server, base_ns), 200);
    assert_eq!(server.terminate(), Some(0));
}

#[test]
fn a_directory_in_use_is_refused_with_a_remedy() {
    let folder = tempfile::tempdir().unwrap();
    let setup = Setup::new(store_of(folder.path()), folder.path());
    let server = setup.start();
    let second =
        Setup { log: folder.path().join("second.log"), ..Setup::new(store_of(folder.path()), folder.path()) };
    let Err(log) = second.try_start() else { panic!("two servers run on one directory") };
    assert!(log.contains("in use") && log.contains("--store"), "{log}");
    assert_eq!(server.terminate(), Some(0));
}

/// A mounted tmpfs that is unmounted on drop.
pub struct Tmpfs(PathBuf);

impl Tmpfs {
    pub fn mount(at: &Path, size: &str, test: &str) -> Option<Self> {
        fs::create_dir_all(at).unwrap();
        let options = format!("size={size}");
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", &options, "tmpfs"]).arg(at).output();
        if !mounted.is_ok_and(|o| o.status.success()) {
            eprintln!("skipped: {test}: mounting a tmpfs is not permitted here");
            return None;
        }
        Some(Self(at.to_owned()))
    }

    fn remount(&self, option: &str) {
        let options = format!("remount,{option}");
        assert!(Command::new("mount").args(["-o", &options]).arg(&self.0).status().unwrap().success());
    }
}

impl Drop for Tmpfs {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

#[test]
fn pushes_to_a_full_disk_are_refused_until_there_is_space() {
    let folder = tempfile::tempdir().unwrap();
    let small = folder.path().join("small");
    let Some(_tmpfs) = Tmpfs::mount(&small, "24m", "a full disk") else { return };
    let ballast = small.join("ballast");
    fs::write(&ballast, vec![7u8; 12 << 20]).unwrap();
    let setup = Setup::new(store_of(&small), folder.path());
    let mut server = setup.start();
    let base_ns = now_ns();
    let mut accepted = 0;
    let refusal = loop {
        // Lines that do not compress, so that the disk fills with any codec.
        let mut random = crate::process::Random(accepted as u64);
        let line: String = (0..20_000).map(|_| char::from(b'!' + random.below(90) as u8)).collect();
        let values = [(base_ns + accepted as i64, format!("{accepted} {line}"))];
        let (status, body) = server.push(&json!({"job": "faults"}), &values).unwrap();
        if status != 204 {
            break (status, String::from_utf8_lossy(&body).into_owned());
        }
        accepted += 1;
        assert!(accepted < 5_000, "24 MiB hold no more than 5,000 such lines");
    };
    assert!(refusal.0 >= 500 && refusal.1.contains("no space"), "{refusal:?}");
    assert!(server.is_running());
    assert_eq!(count_lines(&server, base_ns), accepted, "exactly the acknowledged lines exist");
    fs::remove_file(&ballast).unwrap();
    let mut later = 0;
    while later < 10 {
        let values = [(base_ns + 1_000_000 + later, format!("after {later}"))];
        let (status, _) = server.push(&json!({"job": "faults"}), &values).unwrap();
        if status == 204 {
            later += 1;
        }
        assert!(server.is_running());
    }
    assert_eq!(count_lines(&server, base_ns), accepted + 10);
    server.kill();
    let server = setup.start();
    assert_eq!(count_lines(&server, base_ns), accepted + 10, "also after a crash");
    drop(server);
}

#[test]
fn a_read_only_directory_is_refused_with_a_remedy() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("place");
    let Some(tmpfs) = Tmpfs::mount(&place, "8m", "a read-only directory") else { return };
    tmpfs.remount("ro");
    let setup = Setup::new(store_of(&place), folder.path());
    let Err(log) = setup.try_start() else { panic!("a server runs on a read-only directory") };
    assert!(log.to_lowercase().contains("read-only") && log.contains("--store"), "{log}");
}
