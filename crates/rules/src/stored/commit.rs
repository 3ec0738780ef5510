//! Changes the rules of a tenant.
//!
//! A change has two writes: the rules of the tenant to an object with a new name, and then the index that
//! refers to it, if the index is still the one that the change is based on. If another process was faster,
//! the change is made again, over what that process stored.
//!
//! **Invariants.** Between the two writes nothing refers to the new object, so a process that is killed
//! there leaves only an object that nobody reads. A change is reported as done after the index was replaced.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use sandur_runtime::Backoff;
use sandur_store::{Intent, Updated, Version};

use super::document::Document;
use super::error::StoredError;
use super::index::{INDEX, Index, Reference};
use super::known::{Held, OF_TENANT};
use super::{Change, StoredRules};

/// How often a change is made over the changes of other processes.
const ATTEMPTS: u32 = 20;
/// After how many attempts an object that the index names counts as missing, and not as replaced meanwhile.
const GONE_MAX: u32 = 5;
const PAUSES: Backoff = Backoff::new(Duration::from_millis(20), Duration::from_secs(1));

/// A change that is based on an index.
struct Draft {
    index: Index,
    version: Version,
    document: Document,
}

impl StoredRules {
    /// Changes the rules of a tenant. `edit` returns whether it changed something.
    pub(super) async fn change(
        &self,
        change: Change<'_>,
        edit: impl Fn(&mut Document) -> Result<bool, StoredError>,
    ) -> Result<(), StoredError> {
        let _turn = self.0.turn.lock().await;
        let mut pauses = PAUSES.pauses();
        for attempt in 0..ATTEMPTS {
            let (index, version) = match self.read_index().await? {
                (index, Some(version)) => (index, version),
                (_, None) => {
                    self.begin().await?;
                    continue;
                }
            };
            if self.adopt(index.clone(), attempt >= GONE_MAX).await {
                let mut document = self.base(change, &index).await?;
                if !edit(&mut document)? {
                    return Ok(());
                }
                if self.commit(change, Draft { index, version, document }).await? {
                    self.0.parts.metrics.stored_changes.inc();
                    return Ok(());
                }
            }
            self.0.parts.env.sleep(pauses.after_failure_with_jitter(&self.0.parts.env)).await;
        }
        Err(StoredError::Contention(ATTEMPTS))
    }

    /// Creates an empty index, so that there is one before there are objects of tenants: if it is missing
    /// while they exist, it was lost. Another process may be faster.
    async fn begin(&self) -> Result<(), StoredError> {
        let first = Index::first(self.0.parts.env.new_id());
        self.0.parts.store.create(INDEX, Bytes::from(first.encode()), Intent::catalog()).await?;
        Ok(())
    }

    /// The rules that a change begins with.
    async fn base(&self, change: Change<'_>, index: &Index) -> Result<Document, StoredError> {
        let tenant = change.tenant;
        let Some(entry) = index.tenants.get(tenant.as_str()) else { return Ok(Document::empty(tenant)) };
        let held = {
            let known = self.lock();
            if let Some(error) = known.failed.get(tenant) {
                return Err(error.clone());
            }
            known.held.get(tenant).map(|held| (Arc::clone(&held.document), held.error.clone()))
        };
        match held {
            Some((document, None)) => Ok((*document).clone()),
            Some((_, Some(_))) if change.from_previous => {
                Ok((*self.previous(tenant, entry).await?.0).clone())
            }
            Some((_, Some(reason))) => {
                Err(StoredError::Broken { object: entry.now.path.clone(), reason, remedy: OF_TENANT })
            }
            None => Ok(Document::empty(tenant)),
        }
    }

    /// Stores a draft. Returns false if another process changed the index meanwhile.
    async fn commit(&self, change: Change<'_>, draft: Draft) -> Result<bool, StoredError> {
        let Draft { index, version, document } = draft;
        let (parts, tenant, id) = (&self.0.parts, change.tenant, self.0.parts.env.new_id());
        let held = match document.is_empty() {
            true => None,
            false => {
                let bytes = Bytes::from(document.encode()?);
                let document = Arc::new(document);
                let (specs, memory) = self.prepare(&document, &bytes).await?;
                let of = Reference::new(tenant, id, &bytes);
                parts.store.create(&of.path, bytes, Intent::catalog()).await?;
                Some(Held { of, document, specs, error: None, memory: Arc::new(memory) })
            }
        };
        let (next, dropped) = index.with(tenant, id, held.as_ref().map(|held| held.of.clone()))?;
        if !self.replace(&next, &version).await? {
            if let Some(held) = held {
                self.withdraw(held.of).await?;
            }
            return Ok(false);
        }
        {
            let mut known = self.lock();
            known.held.remove(tenant);
            known.held.extend(held.map(|held| (tenant.clone(), held)));
        }
        // Other tenants may have changed in the index that this one is based on.
        self.show();
        self.adopt(next, true).await;
        self.delete(&dropped).await;
        Ok(true)
    }

    /// Replaces the index. Returns false if it is not the expected one any more.
    async fn replace(&self, next: &Index, expected: &Version) -> Result<bool, StoredError> {
        let bytes = Bytes::from(next.encode());
        let updated = self.0.parts.store.update(INDEX, bytes, expected, Intent::catalog()).await;
        updated
            .map(|updated| updated == Updated::Done)
            .map_err(|error| StoredError::Store { error, may_be_done: true })
    }

    /// Deletes an object that did not get into the index. It may be there nevertheless: if an answer of the
    /// store was lost, another process may have gone on from our index.
    async fn withdraw(&self, object: Reference) -> Result<(), StoredError> {
        let (index, _) = self.read_index().await?;
        if !index.refers_to(&object) {
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
