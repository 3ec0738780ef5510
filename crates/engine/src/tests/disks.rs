//! Directories that are removed while an engine runs, and disks that are full or read-only: acknowledged
//! rows are kept, stored rows are read, and writing resumes without a restart.
//!
//! Full and read-only disks are small file systems in memory that the tests mount. Where mounting is not
//! permitted, the tests print that they are skipped.

use std::path::Path;
use std::process::Command;

use sandur_store::{Store, StoreOptions};
use tempfile::TempDir;

use super::local::process;
use super::*;

/// How long a test waits for something that must happen without its help.
const PATIENCE: Duration = Duration::from_secs(120);

async fn open(directory: &Path) -> Arc<Engine> {
    let env = Env::system(2);
    let store = Store::open(directory.to_str().unwrap(), env.clone(), StoreOptions::default()).await.unwrap();
    Engine::open(store, env, small_options()).await.unwrap()
}

/// Waits until the engine flushes rows without a request.
async fn flushed(engine: &Engine) {
    let is_flushed = async {
        let mut snapshots = engine.catalog().watch();
        while snapshots.borrow_and_update().block_count() == 0 {
            snapshots.changed().await.unwrap();
        }
    };
    engine.env().timeout(PATIENCE, is_flushed).await.expect("rows in memory alone are flushed");
}

/// Pushes until a push is acknowledged.
async fn pushed_in_the_end(engine: &Engine, number: i64) -> Row {
    let pushed = async {
        loop {
            match push_row(engine, "a", number, "late").await {
                Ok(row) => return row,
                Err(error) => assert!(error.kind().is_retryable(), "{error}"),
            }
            engine.env().sleep(Duration::from_millis(50)).await;
        }
    };
    engine.env().timeout(PATIENCE, pushed).await.expect("writing resumes without a restart")
}

#[test]
fn rows_of_a_wal_directory_that_was_removed_are_not_lost() {
    for idle in [false, true] {
        let directory = TempDir::new().unwrap();
        let wal = directory.path().join("wal");
        let mut rows = Vec::new();
        process(async {
            let engine = open(directory.path()).await;
            rows = push_rows(&engine, "a", 0..10).await;
            std::fs::remove_dir_all(&wal).unwrap();
            if !idle {
                let error = push_row(&engine, "a", 10, "into a file without a name").await.unwrap_err();
                assert!(matches!(error, Error::WalLost { .. }), "{error}");
                rows.push(push_row(&engine, "a", 10, "into a new file").await.unwrap());
            }
            flushed(&engine).await;
            rows.extend(push_rows(&engine, "a", 20..25).await);
        });
        let found = process(async { read_all(&open(directory.path()).await).await });
        assert_eq!(found, rows, "after a crash, without a push meanwhile: {idle}");
    }
}

#[test]
fn nothing_is_acknowledged_into_a_directory_that_replaced_the_store() {
    let parent = TempDir::new().unwrap();
    let (root, elsewhere) = (parent.path().join("store"), parent.path().join("elsewhere"));
    let mut rows = Vec::new();
    process(async {
        let engine = open(&root).await;
        rows = push_rows(&engine, "a", 0..5).await;
        std::fs::rename(&root, &elsewhere).unwrap();
        std::fs::create_dir(&root).unwrap();
        for number in 5..8 {
            let error = push_row(&engine, "a", number, "x").await.unwrap_err();
            assert!(matches!(error, Error::WalLost { .. } | Error::Poisoned { .. }), "{error}");
        }
        let error = push_row(&engine, "a", 9, "x").await.unwrap_err();
        assert!(error.to_string().contains("put it back"), "{error}");
        assert_eq!(std::fs::read_dir(&root).unwrap().count(), 0, "nothing is written into it");
    });
    std::fs::remove_dir(&root).unwrap();
    std::fs::rename(&elsewhere, &root).unwrap();
    let found = process(async { read_all(&open(&root).await).await });
    assert!(rows.iter().all(|row| found.contains(row)), "acknowledged rows are found");
}

/// The acknowledged rows in an unreadable WAL file are neither left out nor given up. Method: a link to
/// itself replaces the file; if permissions restrict the user of the test, also a file without read
/// permission.
#[test]
fn an_unreadable_wal_file_stops_the_start_with_the_remedy() {
    use std::fs::{Permissions, set_permissions};
    use std::os::unix::fs::{PermissionsExt, symlink};
    for is_link in [true, false] {
        let directory = TempDir::new().unwrap();
        let rows = process(async {
            let engine = open(directory.path()).await;
            push_rows(&engine, "a", 0..10).await
        });
        let first = |of: &Path| std::fs::read_dir(of).unwrap().next().unwrap().unwrap().path();
        let file = first(&first(&directory.path().join("wal")));
        let elsewhere = directory.path().join("elsewhere");
        if is_link {
            std::fs::rename(&file, &elsewhere).unwrap();
            symlink(&file, &file).unwrap();
        } else {
            set_permissions(&file, Permissions::from_mode(0o0)).unwrap();
            if std::fs::File::open(&file).is_ok() {
                eprintln!("SKIPPED: this user may read everything");
                return;
            }
        }
        let opened = process(async {
            let env = Env::system(2);
            let store = Store::open(directory.path().to_str().unwrap(), env.clone(), StoreOptions::default());
            Engine::open(store.await.unwrap(), env, small_options()).await.map(|_| ())
        });
        let error = opened.expect_err("rows would be left out");
        let (text, name) = (error.to_string(), file.file_name().unwrap().to_str().unwrap());
        assert!(matches!(error, Error::WalUnreadable { .. }) && text.contains(name), "{text}");
        assert!(file.symlink_metadata().is_ok(), "the file is not deleted");
        if is_link {
            std::fs::remove_file(&file).unwrap();
            std::fs::rename(&elsewhere, &file).unwrap();
        } else {
            set_permissions(&file, Permissions::from_mode(0o600)).unwrap();
        }
        let found = process(async { read_all(&open(directory.path()).await).await });
        assert_eq!(found, rows, "all rows are found once it can be read");
    }
}

/// A small separate file system.
pub(super) struct Disk(TempDir);

impl Disk {
    pub(super) fn mount() -> Option<Self> {
        let directory = TempDir::new().unwrap();
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", "size=16m", "tmpfs"]).arg(directory.path());
        if mount.status().is_ok_and(|status| status.success()) {
            return Some(Self(directory));
        }
        eprintln!("SKIPPED: no file system can be mounted here, so full disks are not tested");
        None
    }

    pub(super) fn store(&self) -> std::path::PathBuf {
        self.0.path().join("store")
    }

    pub(super) fn fill(&self) {
        let mut filler = std::fs::File::create(self.0.path().join("filler")).unwrap();
        for piece in [64 << 10, 4 << 10, 1] {
            while std::io::Write::write_all(&mut filler, &vec![1; piece]).is_ok() {}
        }
    }

    pub(super) fn free(&self) {
        std::fs::remove_file(self.0.path().join("filler")).unwrap();
    }

    fn remount(&self, mode: &str) {
        let mut mount = Command::new("mount");
        let status = mount.args(["-o", &format!("remount,{mode}")]).arg(self.0.path()).status();
        assert!(status.unwrap().success());
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.0.path()).status();
    }
}

/// Stores rows in a block and rows in the WAL, then stops without a shutdown.
fn stored_on(disk: &Disk) -> Vec<Row> {
    process(async {
        let engine = open(&disk.store()).await;
        let flushed = push_rows(&engine, "a", 0..10).await;
        engine.flush().await.unwrap();
        sorted([flushed, push_rows(&engine, "a", 10..20).await])
    })
}

/// With the reserve the catalog can still be written. A store from before the reserve existed can at
/// least be read.
#[test]
fn on_a_full_disk_the_engine_opens_reads_and_resumes_when_there_is_space() {
    for has_reserve in [true, false] {
        let Some(disk) = Disk::mount() else { return };
        let mut rows = stored_on(&disk);
        if !has_reserve {
            std::fs::remove_file(disk.store().join("RESERVE")).unwrap();
        }
        disk.fill();
        process(async {
            let engine = open(&disk.store()).await;
            assert_eq!(read_all(&engine).await, rows);
            let error = push_row(&engine, "a", 99, "no space").await.unwrap_err();
            assert!(matches!(error, Error::NoSpace { .. } | Error::ReadOnly { .. }), "{error}");
            assert!(engine.writable().is_err() && engine.metrics().writable.get() == 0);
            assert_eq!(engine.writer().is_registered(), has_reserve, "entries can be written for a while");
            disk.free();
            rows.push(pushed_in_the_end(&engine, 30).await);
            assert!(engine.writable().is_ok() && engine.metrics().writable.get() == 1);
            engine.flush().await.unwrap();
            assert_eq!(read_all(&engine).await, rows);
            engine.shutdown().await.unwrap();
        });
        let reserve = std::fs::metadata(disk.store().join("RESERVE")).unwrap();
        assert_eq!(reserve.len(), 1 << 20, "the space is reserved again");
    }
}

#[test]
fn on_a_read_only_disk_the_engine_opens_reads_and_resumes_when_it_is_writable() {
    let Some(disk) = Disk::mount() else { return };
    let mut rows = stored_on(&disk);
    disk.remount("ro");
    process(async {
        let engine = open(&disk.store()).await;
        assert_eq!(read_all(&engine).await, rows);
        let error = push_row(&engine, "a", 99, "read-only").await.unwrap_err();
        assert!(matches!(error, Error::ReadOnly { .. }) && error.kind().is_retryable(), "{error}");
        engine.shutdown().await.unwrap_err();
    });
    process(async {
        let engine = open(&disk.store()).await;
        disk.remount("rw");
        rows.push(pushed_in_the_end(&engine, 30).await);
        assert_eq!(read_all(&engine).await, rows);
        engine.shutdown().await.unwrap();
    });
}

#[test]
fn a_disk_that_fills_up_while_the_engine_runs_can_be_read_and_cleaned() {
    let Some(disk) = Disk::mount() else { return };
    process(async {
        let engine = open(&disk.store()).await;
        let mut rows = push_rows(&engine, "a", 0..10).await;
        engine.flush().await.unwrap();
        disk.fill();
        let error = push_row(&engine, "a", 99, "no space").await.unwrap_err();
        assert!(matches!(error, Error::NoSpace { .. }), "{error}");
        assert_eq!(read_all(&engine).await, rows);
        // As retention does: an entry of the catalog without the block.
        let block = engine.view().snapshot.all_blocks().next().unwrap().id;
        let edit = sandur_format::catalog_entry::Edit::RemoveBlock { id: block, at_ms: 1 };
        let removed = engine.catalog().commit(engine.incarnation(), vec![edit], Vec::new()).await.unwrap();
        engine.publish(removed);
        assert_eq!(read_all(&engine).await, []);
        disk.free();
        rows = vec![pushed_in_the_end(&engine, 30).await];
        assert_eq!(read_all(&engine).await, rows);
        engine.shutdown().await.unwrap();
    });
}
