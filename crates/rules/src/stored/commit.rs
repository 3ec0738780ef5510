//! Changes the rules of a tenant.
//!
//! A change has two writes: the rules of the tenant to an object with a new name, and then the index that
//! refers to it, if the index is still the one that the change is based on. If another process was faster,
//! the change is made again, over what that process stored.
//!
//! **Invariants.** Between the two writes nothing refers to the new object, so a process that is killed
//! there leaves only an object that nobody reads. A change is reported as done after the index was replaced.
//! A change that has begun goes on to its end when the client is gone.

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use sandur_memory::Reservation;
use sandur_model::TenantId;
use sandur_runtime::Backoff;
use sandur_store::{Intent, Updated, Version};
use tokio::sync::oneshot;

use super::StoredRules;
use super::change::Of;
use super::document::Document;
use super::error::StoredError;
use super::index::{ENTRY_BYTES, INDEX, INDEX_MEMORY_PER_BYTE, Index, Reference};
use super::known::{Held, OF_TENANT};
use super::reading::{Prepared, ReadIndex};

/// How often a change is made over the changes of other processes.
const ATTEMPTS: u32 = 20;
/// After how many attempts an object that the index names counts as missing, and not as replaced meanwhile.
const GONE_MAX: u32 = 5;
const PAUSES: Backoff = Backoff::new(Duration::from_millis(20), Duration::from_secs(1));

/// An index that is to replace another one.
struct NextIndex {
    index: Arc<Index>,
    memory: Option<Arc<Reservation>>,
    bytes: Bytes,
    /// Objects that it does not name any more.
    dropped: Vec<Reference>,
}

/// Changes rules. Returns whether something changed.
pub type Edit = Box<dyn Fn(&mut Document) -> Result<bool, StoredError> + Send>;

/// A change that is based on an index.
struct Draft {
    index: ReadIndex,
    version: Version,
    document: Document,
}

impl StoredRules {
    /// Changes the rules of a tenant. A request that is given up while it waits for its turn changes nothing;
    /// one that has its turn is a task of its own.
    pub(super) async fn change(&self, of: Of, edit: Edit) -> Result<(), StoredError> {
        let turn = Arc::clone(&self.0.turn).lock_owned().await;
        let (answer, answered) = oneshot::channel();
        let rules = self.clone();
        let task = self.0.parts.env.spawn("change of stored rules", async move {
            let _ = answer.send(rules.make(&of, edit).await);
            drop(turn);
        });
        // The task before had its turn, so it has ended.
        *self.0.changing.lock().unwrap_or_else(PoisonError::into_inner) = Some(task);
        answered.await.unwrap_or(Err(StoredError::Interrupted))
    }

    async fn make(&self, of: &Of, edit: Edit) -> Result<(), StoredError> {
        let mut pauses = PAUSES.pauses();
        let mut was_tried = false;
        for attempt in 0..ATTEMPTS {
            let index = self.read_index().await?;
            let Some(version) = index.version.clone() else {
                self.begin().await?;
                continue;
            };
            if self.adopt(&index, attempt >= GONE_MAX).await {
                let mut document = self.base(of, &index.index).await?;
                match edit(&mut document) {
                    Ok(true) => {}
                    Ok(false) => return Ok(()),
                    // If an answer of the store was lost, the change was made before the index changed again.
                    Err(StoredError::NotFound(_)) if was_tried => return Ok(()),
                    Err(error) => return Err(error),
                }
                if self.commit(&of.tenant, Draft { index, version, document }).await? {
                    self.0.parts.metrics.stored_changes.inc();
                    return Ok(());
                }
                was_tried = true;
            }
            self.0.parts.env.sleep(pauses.after_failure_with_jitter(&self.0.parts.env)).await;
        }
        Err(StoredError::Contention(ATTEMPTS))
    }

    /// Creates an empty index, so that there is one before there are objects of tenants: if it is missing
    /// while they exist, it was lost. Another process may be faster.
    async fn begin(&self) -> Result<(), StoredError> {
        let first = Index::first(self.0.parts.env.new_id());
        self.0.parts.store.create(INDEX, Bytes::from(first.encode()?), Intent::catalog()).await?;
        Ok(())
    }

    /// The rules that a change begins with.
    async fn base(&self, of: &Of, index: &Index) -> Result<Document, StoredError> {
        let tenant = &of.tenant;
        let Some(entry) = index.tenants.get(tenant.as_str()) else { return Ok(Document::empty(tenant)) };
        let held = {
            let known = self.lock();
            if let Some(error) = known.failed.get(tenant) {
                return Err(error.clone());
            }
            known.held.get(tenant).map(|held| (Arc::clone(&held.rules.document), held.error.clone()))
        };
        match held {
            Some((document, None)) => Ok((*document).clone()),
            Some((_, Some(_))) if of.from_previous => {
                Ok((*self.previous(tenant, entry).await?.document).clone())
            }
            Some((_, Some(reason))) => {
                Err(StoredError::Broken { object: entry.now.path.clone(), reason, remedy: OF_TENANT })
            }
            None => Ok(Document::empty(tenant)),
        }
    }

    /// Stores a draft. Returns false if another process changed the index meanwhile.
    async fn commit(&self, tenant: &TenantId, draft: Draft) -> Result<bool, StoredError> {
        let Draft { index, version, document } = draft;
        let (parts, id) = (&self.0.parts, self.0.parts.env.new_id());
        let held = match document.is_empty() {
            true => None,
            false => {
                let Prepared { rules, bytes } = self.prepare(document).await?;
                let of = Reference::new(tenant, id, &bytes);
                parts.store.create(&of.path, bytes, Intent::catalog()).await?;
                Some(Held { of, rules, error: None })
            }
        };
        let next = self.next_index(&index, tenant, held.as_ref().map(|held| held.of.clone())).await?;
        let updated = parts.store.update(INDEX, next.bytes, &version, Intent::catalog()).await;
        // What fails here may be done.
        let updated = updated.map_err(|error| StoredError::Store { error, may_be_done: true })?;
        if updated != Updated::Done {
            if let Some(held) = held {
                self.withdraw(held.of).await?;
            }
            return Ok(false);
        }
        {
            let mut known = self.lock();
            known.held.remove(tenant);
            known.held.extend(held.map(|held| (tenant.clone(), held)));
            (known.index, known.index_memory) = (next.index, next.memory);
        }
        self.show();
        self.delete(&next.dropped).await;
        Ok(true)
    }

    /// The index after a change of a tenant, which is made off the I/O threads.
    async fn next_index(
        &self,
        index: &ReadIndex,
        tenant: &TenantId,
        now: Option<Reference>,
    ) -> Result<NextIndex, StoredError> {
        let memory = self.memory().reserve(index.memory.bytes() + INDEX_MEMORY_PER_BYTE * ENTRY_BYTES)?;
        let (index, tenant, id) = (Arc::clone(&index.index), tenant.clone(), self.0.parts.env.new_id());
        let job = move || {
            let (next, dropped) = index.with(&tenant, id, now)?;
            let bytes = Bytes::from(next.encode()?);
            Ok(NextIndex { index: Arc::new(next), memory: Some(Arc::new(memory)), bytes, dropped })
        };
        self.0.parts.env.run_blocking(job).await
    }

    /// Deletes an object that did not get into the index. It may be there nevertheless: if an answer of the
    /// store was lost, another process may have gone on from our index.
    async fn withdraw(&self, object: Reference) -> Result<(), StoredError> {
        let read = self.read_index().await?;
        if !read.index.refers_to(&object) {
            self.delete(&[object]).await;
        }
        Ok(())
    }

    /// Deletes objects that nothing refers to; what fails stays.
    async fn delete(&self, objects: &[Reference]) {
        for object in objects {
            if let Err(error) = self.0.parts.store.delete(&object.path, Intent::gc()).await {
                tracing::debug!(object = object.path, %error, "an old object of stored rules stays");
            }
        }
    }
}
