//! The catalog of a copy of a store: one checkpoint and no entries.
//!
//! A copy has the state of one snapshot. Nobody writes to it yet, so every writer that the state knows is
//! dead in it: [`Snapshot::for_copy`] removes its address, so that no process of the copy asks a process of
//! the source for rows, and says that its WAL is read like files, so that the next start reads it at once.
//! The chain of checksums is kept: the copy continues the log after the same entry, and footers of blocks
//! are compared with it as in the source.
//!
//! **Invariant.** A start over a copy without the root fails, because the boundary says that entries are
//! missing. So a copy whose root is written last is complete or cannot be used.

use std::sync::Arc;

use bytes::Bytes;
use sandur_base::Id;
use sandur_format::Error as FormatError;
use sandur_format::catalog_entry::{Boundary, CheckpointRoot, LogPosition, PartRef, WalKind};
use sandur_runtime::{Env, Lane};
use sandur_store::{Intent, Store};

use crate::checkpoint::{encode_parts, restore};
use crate::error::Error;
use crate::names;
use crate::snapshot::Snapshot;

/// The objects of a catalog that consists of one checkpoint, and its state.
#[derive(Clone, Debug)]
pub struct CatalogCopy {
    /// The state.
    pub snapshot: Arc<Snapshot>,
    /// All objects except the root, by path: parts, boundary, witness.
    pub objects: Vec<(String, Bytes)>,
    /// The root of the checkpoint, which is written after all others.
    pub root: (String, Bytes),
}

impl Snapshot {
    /// Returns the state for a copy of the store. Blocks that were removed are left out.
    pub fn for_copy(&self) -> Self {
        let mut copy = self.clone();
        let mut writers = (*self.writers).clone();
        for writer in writers.values_mut() {
            writer.address.clear();
            if !writer.is_sealed() {
                writer.wal = WalKind::Local;
            }
        }
        copy.writers = Arc::new(writers);
        copy.removed = Arc::default();
        copy.sessions = Arc::default();
        copy
    }
}

impl CatalogCopy {
    /// Encodes the catalog of a copy.
    pub async fn of(snapshot: Snapshot, env: &Env) -> Result<Self, Error> {
        let (snapshot, id) = (Arc::new(snapshot), env.new_id());
        let source = Arc::clone(&snapshot);
        let parts = env.run_cpu(Lane::Background, move || encode_parts(&source)).await?;
        let (mut refs, mut objects) = (Vec::with_capacity(parts.len()), Vec::with_capacity(parts.len() + 2));
        for (index, (rows, bytes)) in parts.into_iter().enumerate() {
            refs.push(PartRef { rows, size: bytes.len() as u64, checksum: crc32c::crc32c(&bytes) });
            objects.push((names::part(snapshot.number(), id, index), bytes));
        }
        let root = Bytes::from(snapshot.root(id, refs).encode()?);
        Ok(Self::with(snapshot, objects, root))
    }

    /// Reads the copy of a catalog at the path `below` of a store. `root` is the CRC-32C of its root.
    pub async fn read(
        store: &Store,
        env: &Env,
        below: &str,
        (at, root): (LogPosition, u32),
    ) -> Result<Self, Error> {
        let path = format!("{below}/{}", names::root(at.number));
        let bytes = read_whole(store, path.clone(), "checkpoint root", root).await?;
        let decoded = CheckpointRoot::decode(&bytes).map_err(|reason| Error::Corrupt { path, reason })?;
        let (mut parts, mut objects) = (Vec::new(), Vec::new());
        for (index, part) in decoded.parts.iter().enumerate() {
            let name = names::part(at.number, decoded.id, index);
            let path = format!("{below}/{name}");
            let bytes = read_whole(store, path.clone(), "checkpoint part", part.checksum).await?;
            parts.push((path, bytes.clone()));
            objects.push((name, bytes));
        }
        let snapshot = env.run_cpu(Lane::Background, move || restore(decoded, parts)).await?;
        if snapshot.position() != at {
            return Err(Error::Misplaced { path: below.to_owned(), found: snapshot.number() });
        }
        Ok(Self::with(Arc::new(snapshot), objects, bytes))
    }

    fn with(snapshot: Arc<Snapshot>, mut objects: Vec<(String, Bytes)>, root: Bytes) -> Self {
        let at = snapshot.position();
        objects.push((names::BOUNDARY.to_owned(), Boundary { at }.encode().into()));
        objects.push((names::WITNESS.to_owned(), at.encode_witness().into()));
        let root = (names::root(at.number), root);
        Self { snapshot, objects, root }
    }

    /// Returns the path of an object of a writer's WAL.
    pub fn wal_path(incarnation: Id, sequence: u64) -> String {
        names::wal_object(incarnation, sequence)
    }

    /// Returns the number in the name of an object of a writer's WAL.
    pub fn wal_sequence(path: &str) -> Option<u64> {
        names::wal_sequence(path)
    }
}

async fn read_whole(store: &Store, path: String, part: &'static str, expected: u32) -> Result<Bytes, Error> {
    let bytes = store.get(&path, Intent::catalog()).await?;
    let found = crc32c::crc32c(&bytes);
    if found != expected {
        return Err(Error::Corrupt {
            path,
            reason: FormatError::Checksum { part, offset: 0, expected, found },
        });
    }
    Ok(bytes)
}
