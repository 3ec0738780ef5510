//! Reads the index and the objects that it names.
//!
//! **Invariants.** An index that is older than one that was seen, missing after one was seen, or damaged
//! changes nothing, and neither does a damaged object. A failure of the store, or a lack of memory, says
//! nothing about rules: those that could not be read stay as they are until the next read, and requests of
//! their tenants fail.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt;
use sandur_memory::{OverBudget, Reservation};
use sandur_model::TenantId;
use sandur_store::{Intent, Version};

use super::StoredRules;
use super::document::{DOCUMENT_BYTES_MAX, Document};
use super::error::StoredError;
use super::index::{Entry, INDEX, INDEX_MEMORY_PER_BYTE, Index, Reference};
use super::known::{Held, OF_BEFORE, OF_INDEX, Usable};
use crate::data::Instant;
use crate::silence::PATTERNS_BYTES_MAX;

/// Objects of tenants that are read at the same time.
const SIDE_BY_SIDE: usize = 8;
/// How often the index is read again because an object that it names is gone.
const GONE_MAX: usize = 5;
/// Memory of rules, in multiples of their stored size: JSON, texts, and the parsed groups.
const MEMORY_PER_BYTE: u64 = 6;

/// An index as it was read.
pub struct ReadIndex {
    /// The index.
    pub index: Arc<Index>,
    /// Its memory.
    pub memory: Arc<Reservation>,
    /// Its version; `None` if there is none yet.
    pub version: Option<Version>,
}

/// Rules that are not stored yet.
pub struct Prepared {
    /// The rules.
    pub rules: Usable,
    /// The object.
    pub bytes: Bytes,
}

/// Why an object of a tenant is not in use.
enum Unread {
    /// It does not exist: a newer index names another one.
    Gone,
    /// It is damaged.
    Broken(String),
    /// The store failed.
    Store(sandur_store::Error),
    /// There is no memory for it.
    Memory(OverBudget),
}

impl From<sandur_store::Error> for Unread {
    fn from(error: sandur_store::Error) -> Self {
        match error.is_not_found() {
            true => Self::Gone,
            false => Self::Store(error),
        }
    }
}

impl StoredRules {
    /// Reads the index, and the rules that changed. Fails if those of a tenant could not be read.
    pub async fn refresh(&self) -> Result<(), StoredError> {
        self.read_changes().await?;
        self.lock().failed.first_key_value().map_or(Ok(()), |(_, error)| Err(error.clone()))
    }

    /// Reads the index, and the rules that changed. Rules of a tenant that could not be read are noted.
    pub(super) async fn read_changes(&self) -> Result<(), StoredError> {
        let _turn = self.0.turn.lock().await;
        for is_last in (0..GONE_MAX).map(|n| n + 1 == GONE_MAX) {
            let index = match self.read_index().await {
                Ok(index) => index,
                Err(error) => return self.keep(error),
            };
            if self.adopt(&index, is_last).await {
                break;
            }
        }
        Ok(())
    }

    /// Notes that a damaged index is not in use; another failure says nothing about the index.
    fn keep(&self, error: StoredError) -> Result<(), StoredError> {
        let StoredError::Broken { reason, .. } = error else { return Err(error) };
        let is_new = {
            let mut known = self.lock();
            let is_new = known.error.as_ref() != Some(&reason);
            known.error = Some(reason.clone());
            is_new
        };
        if is_new {
            tracing::error!(
                object = INDEX,
                error = reason,
                "stored rules are damaged; what held before stays"
            );
            self.show();
        }
        Ok(())
    }

    /// The index now.
    pub(super) async fn read_index(&self) -> Result<ReadIndex, StoredError> {
        let seen = self.lock().index.generation;
        let broken = |reason| StoredError::Broken { object: INDEX.to_owned(), reason, remedy: OF_INDEX };
        self.0.parts.metrics.stored_reads.inc();
        match self.0.parts.store.get_versioned(INDEX, Intent::catalog()).await {
            Ok((bytes, version)) => {
                let memory = self.memory().reserve(bytes.len() as u64 * INDEX_MEMORY_PER_BYTE)?;
                let decoded = self.0.parts.env.run_blocking(move || Index::decode(&bytes)).await;
                let index = Arc::new(decoded.map_err(broken)?);
                match index.generation < seen {
                    true => Err(broken(format!(
                        "its generation is {}, and this process has seen {seen}: an older version was put in \
                         its place",
                        index.generation
                    ))),
                    false => Ok(ReadIndex { index, memory: Arc::new(memory), version: Some(version) }),
                }
            }
            Err(error) if error.is_not_found() && seen == 0 => match self.was_lost().await? {
                true => Err(broken("it does not exist, and objects with rules of tenants do".to_owned())),
                false => {
                    let memory = Arc::new(self.memory().empty());
                    Ok(ReadIndex { index: Arc::default(), memory, version: None })
                }
            },
            Err(error) if error.is_not_found() => Err(broken("it does not exist any more".to_owned())),
            Err(error) => Err(error.into()),
        }
    }

    /// Whether there are objects of tenants without an index. Looks once, because an index is created before
    /// them.
    async fn was_lost(&self) -> Result<bool, StoredError> {
        if let Some(was_lost) = self.lock().was_lost {
            return Ok(was_lost);
        }
        let tenants = self.0.parts.store.list_prefixes("rules", Intent::catalog()).await?;
        self.lock().was_lost = Some(!tenants.is_empty());
        Ok(!tenants.is_empty())
    }

    /// Reads what changed in a new index, and uses each object that can be read. Returns false if one is
    /// gone, so that a newer index exists; in the last attempt such an object counts as damaged.
    pub(super) async fn adopt(&self, read: &ReadIndex, is_last: bool) -> bool {
        let index = &read.index;
        let wanted: Vec<(TenantId, Entry)> = {
            let known = self.lock();
            let is_known = |tenant: &TenantId, entry: &Entry| {
                known.held.get(tenant).is_some_and(|held| held.of == entry.now && held.error.is_none())
            };
            let all = index.tenants.iter().filter_map(|(id, entry)| Some((TenantId::new(id).ok()?, entry)));
            all.filter(|(tenant, entry)| !is_known(tenant, entry)).map(|(t, e)| (t, e.clone())).collect()
        };
        let reads = wanted.into_iter().map(|(tenant, entry)| async move {
            let read = self.load(&tenant, &entry, is_last).await;
            (tenant, read)
        });
        let (mut is_gone, mut has_changed, mut failed) = (false, false, BTreeMap::new());
        let mut reads = futures_util::stream::iter(reads).buffer_unordered(SIDE_BY_SIDE);
        while let Some((tenant, read)) = reads.next().await {
            match read {
                Ok(Some(held)) => {
                    self.lock().held.insert(tenant, held);
                    has_changed = true;
                }
                Ok(None) => is_gone = true,
                Err(error) => {
                    failed.insert(tenant, error);
                }
            }
        }
        drop(reads);
        {
            let mut known = self.lock();
            if !is_gone {
                let before = known.held.len();
                known.held.retain(|tenant, _| index.tenants.contains_key(tenant.as_str()));
                has_changed |= known.held.len() < before || known.error.is_some();
                known.is_complete |= failed.is_empty();
                (known.index, known.error) = (Arc::clone(index), None);
                known.index_memory = Some(Arc::clone(&read.memory));
            }
            known.failed = failed;
        }
        if has_changed {
            self.show();
        }
        !is_gone
    }

    /// Tells followers of a change, and counts.
    pub(super) fn show(&self) {
        let (tenants, broken) = {
            let known = self.lock();
            (known.held.len(), known.broken())
        };
        self.0.parts.metrics.stored_tenants.set(tenants as i64);
        self.0.parts.metrics.stored_broken.set(broken as i64);
        self.0.changed.send_modify(|number| *number += 1);
    }

    /// The rules of a tenant; `None` if the object is gone.
    async fn load(
        &self,
        tenant: &TenantId,
        entry: &Entry,
        is_last: bool,
    ) -> Result<Option<Held>, StoredError> {
        let reason = match self.read(tenant, &entry.now).await {
            Ok(rules) => return Ok(Some(Held { of: entry.now.clone(), rules, error: None })),
            Err(Unread::Store(error)) => return Err(error.into()),
            Err(Unread::Memory(error)) => return Err(error.into()),
            Err(Unread::Gone) if !is_last => return Ok(None),
            Err(Unread::Gone) => "it does not exist".to_owned(),
            Err(Unread::Broken(reason)) => reason,
        };
        let before = self
            .lock()
            .held
            .get(tenant)
            .map(|held| (held.rules.clone(), held.error.as_ref() == Some(&reason)));
        if !before.as_ref().is_some_and(|(_, is_reported)| *is_reported) {
            let (tenant, object) = (tenant.as_str(), &entry.now.path);
            tracing::error!(
                tenant,
                object,
                error = reason,
                "stored rules are damaged; what held before stays"
            );
        }
        let rules = match before {
            Some((before, _)) => before,
            // After a start, what was stored before the last change is the best that is known.
            None => match self.previous(tenant, entry).await {
                Err(StoredError::Broken { .. }) => self.none(tenant),
                previous => previous?,
            },
        };
        Ok(Some(Held { of: entry.now.clone(), rules, error: Some(reason) }))
    }

    /// The rules before the last change; none if that was the first one.
    pub(super) async fn previous(&self, tenant: &TenantId, entry: &Entry) -> Result<Usable, StoredError> {
        let Some(before) = &entry.before else { return Ok(self.none(tenant)) };
        let reason = match self.read(tenant, before).await {
            Ok(read) => return Ok(read),
            Err(Unread::Store(error)) => return Err(error.into()),
            Err(Unread::Memory(error)) => return Err(error.into()),
            Err(Unread::Gone) => "it does not exist".to_owned(),
            Err(Unread::Broken(reason)) => reason,
        };
        Err(StoredError::Broken { object: before.path.clone(), reason, remedy: OF_BEFORE })
    }

    /// No rules.
    fn none(&self, tenant: &TenantId) -> Usable {
        let (document, memory) = (Arc::new(Document::empty(tenant)), Arc::new(self.memory().empty()));
        Usable { document, specs: Arc::default(), silences: Arc::default(), _memory: memory }
    }

    async fn read(&self, tenant: &TenantId, of: &Reference) -> Result<Usable, Unread> {
        if of.bytes > DOCUMENT_BYTES_MAX as u64 {
            let text = format!("the index says that it has {} bytes, at most {DOCUMENT_BYTES_MAX}", of.bytes);
            return Err(Unread::Broken(text));
        }
        let memory = self.reserve(of.bytes).map_err(Unread::Memory)?;
        let bytes = self.0.parts.store.get(&of.path, Intent::catalog()).await?;
        let (tenant, of, making) = (tenant.clone(), of.clone(), self.making());
        let job = move || {
            of.check(&bytes).map_err(Unread::Broken)?;
            let document = Document::decode(&bytes, &tenant).map_err(Unread::Broken)?;
            making.usable(document, memory)
        };
        self.0.parts.env.run_blocking(job).await
    }

    fn making(&self) -> Making {
        let parts = &self.0.parts;
        Making { interval: parts.interval, now: Instant::of_ns(parts.env.now_ns()) }
    }

    /// Memory for rules of this stored size.
    pub(super) fn reserve(&self, bytes: u64) -> Result<Reservation, OverBudget> {
        self.memory().reserve(bytes * MEMORY_PER_BYTE)
    }

    /// Makes the object of a document, and its groups, off the I/O threads.
    pub(super) async fn prepare(&self, document: Document) -> Result<Prepared, StoredError> {
        let (mut memory, making) = (self.reserve(document.bytes_expected())?, self.making());
        let job = move || {
            let bytes = Bytes::from(document.encode()?);
            memory.resize(bytes.len() as u64 * MEMORY_PER_BYTE)?;
            let rules = making.usable(document, memory)?;
            let (found, most) = (rules.silences.pattern_bytes(), PATTERNS_BYTES_MAX);
            if found > most {
                let what = "bytes of compiled regular expressions of silences";
                return Err(StoredError::limit(what, found as usize, most, "of a tenant"));
            }
            Ok(Prepared { rules, bytes })
        };
        self.0.parts.env.run_blocking(job).await
    }
}

/// What making a document usable depends on.
struct Making {
    interval: Duration,
    now: Instant,
}

impl Making {
    /// Parses groups and compiles silences. `memory` is that of the document and its groups.
    fn usable(&self, document: Document, mut memory: Reservation) -> Result<Usable, Unread> {
        let specs = Arc::new(document.specs(self.interval).map_err(Unread::Broken)?);
        let silences = Arc::new(document.compiled_silences(self.now).map_err(Unread::Broken)?);
        memory.resize(memory.bytes() + silences.pattern_bytes()).map_err(Unread::Memory)?;
        Ok(Usable { document: Arc::new(document), specs, silences, _memory: Arc::new(memory) })
    }
}

impl From<Unread> for StoredError {
    fn from(unread: Unread) -> Self {
        match unread {
            Unread::Gone => Self::Refused("it does not exist".to_owned()),
            Unread::Broken(reason) => Self::Refused(reason),
            Unread::Store(error) => error.into(),
            Unread::Memory(error) => error.into(),
        }
    }
}
