//! Writes the memory file at a clean stop.
//!
//! Invariant: FILE.meta gets its name last, after FILE, its name and the flash tier are on their devices.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::files::{MemoryFileError, Notes, SaveId, Saved, meta_path, sync_directory, with_ending};
use super::frames::FrameWriter;
use super::item::{Head, Next};
use super::meta::{FORMAT, Meta};
use crate::inner::Inner;
use crate::ram::Record;

/// The first bytes of FILE.
pub(super) const MAGIC: &[u8; 8] = b"SNDCARAM";
/// Bytes before the first frame: magic, format, number of the save.
pub(super) const PREFIX: usize = 32;

/// Positions that are visited under one lock of a shard; only handles to the items are copied.
const STEP: usize = 64;

/// Writes all items in memory to `file` and closes the cache. If that fails, the cache is closed too,
/// and items that are only in memory are written to flash for at most `patience`.
pub(crate) fn close_into(
    inner: &Inner,
    file: &Path,
    notes: Notes,
    patience: Duration,
) -> Result<Saved, MemoryFileError> {
    let save = save_id(inner);
    let flush_at = inner.epochs.due_at();
    let written = write_items(inner, file, save);
    // Items in the file need not be written to flash.
    inner.close(if written.is_ok() { Duration::ZERO } else { patience });
    let saved = written?;
    let meta = Meta {
        save,
        bytes: saved.bytes,
        stopped_at: inner.moment().now,
        next_cas: inner.next_cas.load(Ordering::Relaxed),
        flush_at,
        flash: None,
        notes,
    };
    write_meta(inner, file, meta).inspect_err(|_| {
        // An unused file would only take space.
        let _ = std::fs::remove_file(file);
    })?;
    Ok(saved)
}

/// Makes the file valid, if flash has stopped cleanly.
fn write_meta(inner: &Inner, file: &Path, meta: Meta) -> Result<(), MemoryFileError> {
    let flash = match &inner.flash {
        Some(flash) => Some(flash.clean_stop().ok_or(MemoryFileError::FlashUnclean)?),
        None => None,
    };
    let text = Meta { flash, ..meta }.encode();
    sync_directory(file)?;
    publish(&meta_path(file), |meta_file| meta_file.write_all(text.as_bytes()))?;
    sync_directory(file)
}

fn save_id(inner: &Inner) -> SaveId {
    (u128::from(inner.env.random_u64()) << 64 | u128::from(inner.env.random_u64())).to_be_bytes()
}

fn write_items(inner: &Inner, file: &Path, save: SaveId) -> Result<Saved, MemoryFileError> {
    let mut saved = Saved { items: 0, bytes: 0 };
    publish(file, |file| {
        file.write_all(&prefix(save))?;
        let mut frames = FrameWriter::new(file, save);
        saved.items = walk(inner, |record| put(&mut frames, record))?;
        frames.put(&Next::encode_end(saved.items))?;
        saved.bytes = PREFIX as u64 + frames.finish()?.1;
        Ok(())
    })?;
    Ok(saved)
}

/// The first bytes of FILE, before its frames.
pub(super) fn prefix(save: SaveId) -> [u8; PREFIX] {
    let mut bytes = [0; PREFIX];
    bytes[..8].copy_from_slice(MAGIC);
    bytes[8..16].copy_from_slice(&FORMAT.to_le_bytes());
    bytes[16..].copy_from_slice(&save);
    bytes
}

fn put(frames: &mut FrameWriter<impl Write>, record: &Record) -> io::Result<()> {
    frames.put(&Head::of(record).encode())?;
    frames.put(record.key())?;
    frames.put(&record.value())
}

/// Shows every live item in memory. Returns their number.
fn walk(inner: &Inner, mut see: impl FnMut(&Record) -> io::Result<()>) -> io::Result<u64> {
    let mut items = 0;
    let mut records = Vec::with_capacity(STEP);
    for number in 0..inner.ram.shards() {
        let mut next = Some(0);
        while let Some(from) = next {
            let at = inner.moment();
            let collect = |_, record: &Record| records.push(record.clone());
            next = inner.ram.lock_shard(number).visit(from, STEP, at, collect);
            items += records.len() as u64;
            records.drain(..).try_for_each(|record| see(&record))?;
        }
    }
    Ok(items)
}

/// Writes a file under a temporary name, syncs it, and renames it to `path`.
fn publish(path: &Path, write: impl FnOnce(&mut File) -> io::Result<()>) -> Result<(), MemoryFileError> {
    let draft = with_ending(path, ".new");
    let written = create(&draft).and_then(|mut file| {
        write(&mut file)?;
        file.sync_all()
    });
    let named = written.and_then(|()| std::fs::rename(&draft, path));
    named.map_err(|error| {
        // An incomplete file would only take space.
        let _ = std::fs::remove_file(&draft);
        MemoryFileError::File { what: "written", path: path.to_owned(), error }
    })
}

/// Creates an empty file that only its owner may read, because it will hold the content of memory.
pub(super) fn create(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)
}
