//! Witnesses: objects outside of the log that record its length.
//!
//! If a log has lost its newest entries, or all of them, or was restored from an old copy, it is a
//! shorter but valid log: it holds no evidence of the loss. So positions of the log are recorded
//! elsewhere: in the object [`names::WITNESS`], in heartbeats, and in the footers of blocks. The newest
//! number in the listing of the catalog is a witness too: it shows a gap. A witness may be out of date,
//! but is never wrong, because numbers only grow.
//!
//! **Order.** Witnesses are read *before* the log: the log contained all that they have seen at that
//! time, so if it is read afterwards and does not contain it, it has lost it. A store without any entry
//! must not hold blocks or WAL either; these are listed afterwards, and then the log is read once more.
//!
//! When a process finds that the log was shortened or deleted, [`Shared::lose`] makes all of its further
//! commits and refreshes fail.

use futures_util::future::join_all;
use sandur_format::catalog_entry::{LogPosition, Member, entry_checksum};
use sandur_store::{Intent, StoreKind};

use crate::error::Error;
use crate::names::{self, CatalogObject};
use crate::position::PositionCheck;
use crate::shared::Shared;
use crate::snapshot::Snapshot;

/// Most heartbeats that are read at a start: those of the newest incarnations.
const MEMBERS_HEARD: usize = 64;
/// Number of attempts to read the end of the log before it counts as lost.
const LOOKS: u32 = 3;

/// A position in the log that one object records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Witness {
    /// Name of the object.
    pub object: String,
    /// The position that its author had read.
    pub seen: LogPosition,
}

impl Shared {
    /// Reads all witnesses that are cheap to read. Unreadable ones are ignored.
    pub(crate) async fn read_witnesses(&self) -> Result<Vec<Witness>, Error> {
        let mut witnesses = Vec::new();
        let number_of = |path: &str| match CatalogObject::parse(path) {
            Some(CatalogObject::Entry { number } | CatalogObject::Root { number }) => Some(number),
            _ => None,
        };
        let listed = self.store.list(names::CATALOG, Intent::catalog()).await?;
        let newest = listed.iter().filter_map(|o| Some((number_of(&o.path)?, &o.path))).max();
        if let Some((number, path)) = newest {
            witnesses.push(Witness { object: path.clone(), seen: LogPosition { number, checksum: 0 } });
        }
        if let Some(seen) = self.read_witness_object().await? {
            witnesses.push(Witness { object: names::WITNESS.to_owned(), seen });
        }
        let mut members = self.store.list(names::MEMBERS, Intent::member()).await?;
        members.sort_unstable_by(|a, b| b.path.cmp(&a.path));
        members.truncate(MEMBERS_HEARD);
        let heard = members.iter().map(|member| self.read_member_seen(&member.path));
        for (member, seen) in members.iter().zip(join_all(heard).await) {
            witnesses.extend(seen?.map(|seen| Witness { object: member.path.clone(), seen }));
        }
        Ok(witnesses)
    }

    /// Reads the position in the witness object; `None` when the object is absent or damaged.
    pub(crate) async fn read_witness_object(&self) -> Result<Option<LogPosition>, Error> {
        let found = self.store.find(names::WITNESS, Intent::catalog()).await?;
        Ok(found.and_then(|bytes| LogPosition::decode_witness(&bytes).ok()))
    }

    async fn read_member_seen(&self, path: &str) -> Result<Option<LogPosition>, Error> {
        let found = self.store.find(path, Intent::member()).await?;
        Ok(found.and_then(|bytes| Member::decode(&bytes).ok()).map(|member| member.seen))
    }

    /// Fails when the log, read after the witnesses, does not contain the positions that they have seen.
    pub(crate) fn check_witnesses(&self, snapshot: &Snapshot, witnesses: &[Witness]) -> Result<(), Error> {
        for Witness { object, seen } in witnesses {
            let number = snapshot.number();
            let evidence = match snapshot.compare(*seen) {
                PositionCheck::Contained | PositionCheck::Unknown => continue,
                PositionCheck::Beyond => format!(
                    "'{object}' shows that entry {} existed, but the entries can be followed only to \
                     {number}",
                    seen.number
                ),
                PositionCheck::Differs => {
                    format!("'{object}' was written when entry {} had other contents", seen.number)
                }
            };
            return Err(Error::Lost { evidence });
        }
        Ok(())
    }

    /// Fails when a store whose catalog has no entry holds data.
    pub(crate) async fn expect_no_data(&self) -> Result<(), Error> {
        for prefix in [names::BLOCKS, names::WAL] {
            for below in self.store.list_prefixes(prefix, Intent::gc()).await? {
                let objects = self.store.list(&format!("{prefix}/{below}"), Intent::gc()).await?;
                if let Some(object) = objects.first() {
                    let evidence = format!("the catalog has no entry, but '{}' exists", object.path);
                    return Err(Error::Lost { evidence });
                }
            }
        }
        Ok(())
    }

    /// Records the log's length in the witness object. A failure is only logged: the next call records a
    /// later position.
    pub(crate) async fn write_witness(&self, snapshot: &Snapshot) {
        let bytes = snapshot.position().encode_witness();
        if let Err(error) = self.store.put(names::WITNESS, bytes.into(), Intent::catalog()).await {
            tracing::warn!(%error, "the witness of the catalog could not be written");
        }
    }

    /// Whether every commit updates the witness: in a directory that costs no request.
    pub(crate) fn witnesses_every_commit(&self) -> bool {
        matches!(self.store.kind(), StoreKind::Local { .. })
    }

    /// Fails when the last entry of a verified snapshot does not exist any more, although the boundary
    /// has not reached it: then the log was emptied, truncated or replaced while this process used it.
    pub(crate) async fn verify_end(&self, snapshot: &Snapshot) -> Result<(), Error> {
        let LogPosition { number, checksum } = snapshot.position();
        let mut evidence = String::new();
        for look in 0..LOOKS {
            if number == 0 {
                return Ok(());
            }
            if look > 0 {
                self.pause(look).await;
            }
            evidence = match self.store.get(&names::entry(number), Intent::catalog()).await {
                Ok(bytes) if checksum == 0 || entry_checksum(&bytes) == checksum => return Ok(()),
                Ok(_) => format!("entry {number} differs from the one that this process has read"),
                Err(error) if error.is_not_found() => {
                    format!("entry {number}, which this process has read, does not exist any more")
                }
                Err(error) => return Err(error.into()),
            };
            if self.read_boundary().await? >= number {
                return Ok(());
            }
        }
        Err(self.lose(Error::Lost { evidence }))
    }

    /// Records permanently that the log can no longer be followed; returns the error.
    pub(crate) fn lose(&self, error: Error) -> Error {
        let is_first = self.lost.send_if_modified(|lost| {
            let is_first = lost.is_none();
            lost.get_or_insert_with(|| error.clone());
            is_first
        });
        if is_first {
            tracing::error!(%error, "the catalog stops committing");
        }
        error
    }

    /// Fails when the log was lost before.
    pub(crate) fn expect_not_lost(&self) -> Result<(), Error> {
        self.lost.borrow().clone().map_or(Ok(()), Err)
    }
}
