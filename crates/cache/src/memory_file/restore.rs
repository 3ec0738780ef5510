//! Restores items from the memory file.
//!
//! Invariants: FILE.meta is removed, durably, before anything of it is used. Memory for an item is
//! reserved before the item is read. Either everything in the file is valid, or memory stays empty.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::Path;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use sandur_memory::Reservation;

use super::files::{
    MemoryFileError, Refusal, Restored, RestoredItems, meta_path, sync_directory, with_ending,
};
use super::frames::{Broken, FrameReader};
use super::item::{HEAD, Head, Next};
use super::meta::{FORMAT, META_BYTES_MAX, Meta, NotMeta};
use super::save::{MAGIC, PREFIX, create, prefix};
use crate::inner::Inner;
use crate::ram::{Moment, Record};
use crate::request::Put;

/// Puts the items of `file` into memory, which must be unused. Removes `file`.
pub(crate) fn restore(inner: &Inner, file: &Path) -> Result<Restored, MemoryFileError> {
    try_place(file)?;
    let Some(meta) = take_meta(file)? else {
        remove_orphan(file);
        return Ok(Restored::Nothing);
    };
    let restored = meta.and_then(|meta| {
        may_use(inner, file, &meta)?;
        let items = put_back(inner, file, &meta).inspect_err(|_| inner.ram.clear())?;
        Ok(RestoredItems { notes: meta.notes, ..items })
    });
    // Without FILE.meta it is useless. If it cannot be removed, the next stop replaces it.
    let _ = fs::remove_file(file);
    Ok(match restored {
        Ok(items) => Restored::Items(items),
        Err(refusal) => Restored::Refused(refusal),
    })
}

/// Reports at the start an error that the stop would have.
fn try_place(file: &Path) -> Result<(), MemoryFileError> {
    let draft = with_ending(file, ".new");
    create(&draft).and_then(|_| fs::remove_file(&draft)).map_err(|error| MemoryFileError::File {
        what: "created",
        path: draft,
        error,
    })
}

/// Removes a FILE that has no FILE.meta, so that the stop does not need space for two.
fn remove_orphan(file: &Path) {
    let mut magic = [0; MAGIC.len()];
    let is_ours =
        File::open(file).is_ok_and(|mut file| file.read_exact(&mut magic).is_ok()) && magic == *MAGIC;
    if is_ours {
        // If it cannot be removed, the next stop replaces it.
        let _ = fs::remove_file(file);
    }
}

/// Reads FILE.meta and removes it; `None` if there is none.
fn take_meta(file: &Path) -> Result<Option<Result<Meta, Refusal>>, MemoryFileError> {
    let path = meta_path(file);
    let failed = |what| {
        let path = path.clone();
        move |error| MemoryFileError::File { what, path, error }
    };
    let bytes = match read_some(&path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed("read")(error)),
    };
    let meta = match Meta::decode(&bytes) {
        Err(NotMeta::Foreign) => return Err(MemoryFileError::Foreign { path }),
        Err(NotMeta::OfMemcached) => Err(Refusal::OfMemcached { path: file.to_owned() }),
        Err(NotMeta::OtherFormat(found)) => {
            Err(Refusal::OtherFormat { path: path.clone(), found, known: FORMAT })
        }
        Err(NotMeta::Damaged) => {
            Err(Refusal::Damaged { path: path.clone(), what: "it is incomplete or changed" })
        }
        Ok(meta) => Ok(meta),
    };
    fs::remove_file(&path).map_err(failed("removed"))?;
    sync_directory(file)?;
    Ok(Some(meta))
}

fn read_some(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(META_BYTES_MAX).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Checks FILE.meta, and takes over the state that is valid whether or not the items are used.
fn may_use(inner: &Inner, file: &Path, meta: &Meta) -> Result<(), Refusal> {
    let path = || file.to_owned();
    // Version numbers must not be issued again.
    inner.next_cas.fetch_max(meta.next_cas, Ordering::Relaxed);
    let now = inner.moment().now;
    if now < meta.stopped_at {
        return Err(Refusal::ClockWentBack { path: path(), written_at: meta.stopped_at, now });
    }
    let stop_before = inner.flash.as_ref().and_then(|flash| flash.stop_before());
    if stop_before != meta.flash {
        return Err(Refusal::OtherFlash { path: path() });
    }
    if meta.flush_at != 0 {
        // If it is due, this begins the epoch after it, and voids the records on flash.
        inner.epochs.flush_at(meta.flush_at);
        inner.moment();
        if meta.flush_at <= now {
            return Err(Refusal::Flushed { at: meta.flush_at });
        }
    }
    Ok(())
}

fn put_back(inner: &Inner, path: &Path, meta: &Meta) -> Result<RestoredItems, Refusal> {
    let broken = |broken| match broken {
        Broken::Damaged(what) => Refusal::Damaged { path: path.to_owned(), what },
        Broken::Unreadable(error) => Refusal::Unreadable { path: path.to_owned(), error },
    };
    let mut file = File::open(path).map_err(Broken::Unreadable).map_err(broken)?;
    check_prefix(&mut file, meta).map_err(broken)?;
    put_items(inner, FrameReader::new(file, meta.save)).map_err(broken)
}

fn check_prefix(file: &mut File, meta: &Meta) -> Result<(), Broken> {
    let mut found = [0; PREFIX];
    file.read_exact(&mut found)?;
    if found != prefix(meta.save) {
        return Err(Broken::Damaged("it does not belong to its description"));
    }
    if file.metadata()?.len() != meta.bytes {
        return Err(Broken::Damaged("its length is wrong"));
    }
    Ok(())
}

fn put_items(inner: &Inner, mut frames: FrameReader<File>) -> Result<RestoredItems, Broken> {
    let mut sum = RestoredItems::default();
    let mut key = Vec::new();
    loop {
        let mut head = [0; HEAD];
        frames.fill(&mut head)?;
        let head = match Next::decode(&head).ok_or(Broken::Damaged("an item has an unknown format"))? {
            Next::Item(head) => head,
            Next::End { items } if items == sum.items + sum.expired + sum.left_out => return Ok(sum),
            Next::End { .. } => return Err(Broken::Damaged("it has another number of items")),
        };
        key.clear();
        frames.append(u64::from(head.key_bytes), &mut key)?;
        let at = inner.moment();
        let counter = if head.expires_at != 0 && head.expires_at <= at.now {
            &mut sum.expired
        } else if head.value_bytes > inner.options.max_value {
            &mut sum.left_out
        } else if let Some(reserved) = room_for(inner, &head, at) {
            let mut value = Vec::with_capacity(head.value_bytes as usize);
            frames.append(head.value_bytes, &mut value)?;
            sum.items += 1;
            put_item(inner, &head, (&key, Bytes::from(value)), reserved, at);
            continue;
        } else {
            &mut sum.left_out
        };
        *counter += 1;
        frames.skip(head.value_bytes)?;
    }
}

fn room_for(inner: &Inner, head: &Head, at: Moment) -> Option<Reservation> {
    let value_bytes = usize::try_from(head.value_bytes).ok()?;
    inner.ram.reserve(Record::weight_of(usize::from(head.key_bytes), value_bytes), at)
}

fn put_item(inner: &Inner, head: &Head, (key, value): (&[u8], Bytes), reserved: Reservation, at: Moment) {
    let put = Put {
        flags: head.flags,
        expires_at: head.expires_at,
        hint: head.hint,
        tenant: head.tenant,
        stale: head.stale,
        won: head.won,
        ..Put::default()
    };
    let mut record = Record::new(key, value, &put, head.cas, at);
    (record.accessed_at, record.stored_at) = (head.accessed_at, head.stored_at);
    (record.fetched, record.on_flash) = (head.fetched, head.on_flash && inner.flash.is_some());
    let hash = inner.hash(key);
    let mut shard = inner.ram.lock(hash);
    shard.store(hash, record, reserved, at);
    if head.fetched {
        // An item that was read must not be among the first evicted.
        let _ = shard.with(hash, key, (at, true), |_, _| ());
    }
}
