//! Writing the memory file at a clean stop.
//!
//! Invariant: FILE.meta gets its name last, when FILE, its name and the flash tier are on their devices.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::files::{MemoryFileError, Notes, SaveId, Saved, beside, meta_path, sync_directory};
use super::frames::FrameWriter;
use super::item::{Head, Next};
use super::meta::{FORMAT, Meta};
use crate::inner::Inner;
use crate::ram::Record;

/// Begins FILE.
pub(super) const MAGIC: &[u8; 8] = b"SNDCARAM";
/// Bytes before the first frame: magic, format, number of the save.
pub(super) const PREFIX: usize = 32;

/// Items that are looked at in one step of the walk; only handles to them are taken.
const STEP: usize = 64;

/// Writes all of memory to `file` and closes the cache. When that fails the cache is closed all the same,
/// and what is in memory alone goes to flash for at most `patience`.
pub(crate) fn close_into(
    inner: &Inner,
    file: &Path,
    notes: Notes,
    patience: Duration,
) -> Result<Saved, MemoryFileError> {
    let save = save_id(inner);
    let flush_at = inner.epochs.due_at();
    let written = write_items(inner, file, save);
    // what the file has need not go to flash as well
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
        // it would only take room
        let _ = std::fs::remove_file(file);
    })?;
    Ok(saved)
}

/// Makes the file count, if flash is as it was when the file was written.
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

/// What FILE begins with.
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

/// Shows every live item of memory; how many there were.
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

/// Writes a file under another name, brings it to the disk and gives it its name.
fn publish(path: &Path, write: impl FnOnce(&mut File) -> io::Result<()>) -> Result<(), MemoryFileError> {
    let draft = beside(path, ".new");
    let written = create(&draft).and_then(|mut file| {
        write(&mut file)?;
        file.sync_all()
    });
    let named = written.and_then(|()| std::fs::rename(&draft, path));
    named.map_err(|error| {
        // half of it helps nobody, and takes room
        let _ = std::fs::remove_file(&draft);
        MemoryFileError::File { what: "written", path: path.to_owned(), error }
    })
}

/// An empty file that only its owner may read, as what is in memory is.
pub(super) fn create(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)
}
