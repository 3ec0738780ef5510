//! Rules and silences that clients stored through the API: objects of the bucket, the same for all processes.
//!
//! [`StoredRules`] has the rules of all tenants as this process knows them. A change replaces the index by a
//! conditional write ([`commit`]), so that two processes that change rules at the same time lose nothing.
//! Other processes read the index from time to time ([`StoredRules::follow`]); a process that answers a
//! request about stored rules reads it first.
//!
//! **Invariants.** A call that succeeded is stored, and one that was refused changed nothing. Rules that
//! cannot be read keep what held before, or what was stored before the last change, and are reported until
//! they can be read. Memory is reserved before rules are kept.

mod change;
mod commit;
mod document;
mod envelope;
mod error;
mod index;
mod known;
mod reading;
mod silences;

use std::sync::Arc;
use std::time::Duration;

use sandur_memory::{MemoryBudget, Reservation};
use sandur_model::{Limits, TenantId};
use sandur_runtime::{Env, ShutdownSignal, Task};
use sandur_store::Store;
use tokio::sync::{Mutex, watch};

use crate::metrics::RuleMetrics;
use crate::shown::FileShown;
use crate::spec::{GroupSpec, Language};
pub use change::Change;
pub use document::SILENCES_MAX;
use document::{CheckedGroup, Document};
pub use error::StoredError;
use known::Known;

/// The least interval of reads of the index: each is a request to the store.
const INTERVAL_MIN: Duration = Duration::from_secs(1);

/// What stored rules need of their process.
pub struct StoredParts {
    /// Clock and randomness.
    pub env: Env,
    /// Where rules are stored.
    pub store: Store,
    /// Memory of rules that are kept.
    pub memory: MemoryBudget,
    /// Counters.
    pub metrics: RuleMetrics,
    /// The interval of groups that have none.
    pub interval: Duration,
}

/// The stored rules of all tenants. Cheap to clone: a handle.
#[derive(Clone)]
pub struct StoredRules(Arc<Inner>);

struct Inner {
    parts: StoredParts,
    known: std::sync::Mutex<Known>,
    /// Reads and changes of this process are made one after the other.
    turn: Arc<Mutex<()>>,
    /// The change that is made, or was made last.
    changing: std::sync::Mutex<Option<Task<()>>>,
    changed: watch::Sender<u64>,
}

/// Groups for a client, with the memory of their texts.
pub struct Listed {
    /// Texts of groups by namespace.
    pub namespaces: Vec<(String, Vec<Arc<str>>)>,
    /// Memory for the answer.
    pub memory: Reservation,
}

impl StoredRules {
    /// Rules that were not read yet.
    pub fn new(parts: StoredParts) -> Self {
        let (known, turn, changing) =
            (std::sync::Mutex::default(), Arc::default(), std::sync::Mutex::default());
        Self(Arc::new(Inner { parts, known, turn, changing, changed: watch::Sender::new(0) }))
    }

    /// The budget of rules and of their states.
    pub fn memory(&self) -> &MemoryBudget {
        &self.0.parts.memory
    }

    /// Adds or replaces a group.
    pub async fn set_group(
        &self,
        change: Change<'_>,
        text: String,
        limits: &Limits,
    ) -> Result<(), StoredError> {
        let group = self.check(change, text, limits).await?;
        let (namespace, limits) = (change.namespace.to_owned(), limits.clone());
        let edit = move |document: &mut Document| document.set(&namespace, group.clone(), &limits);
        self.change(change.of(), Box::new(edit)).await
    }

    /// Checks a group off the I/O threads, in memory that is reserved first.
    async fn check(
        &self,
        change: Change<'_>,
        text: String,
        limits: &Limits,
    ) -> Result<CheckedGroup, StoredError> {
        let tree = sandur_yaml::Bounds::of_client(&text).memory();
        let memory = self.memory().reserve(tree)?;
        let (language, namespace, limits) = (change.language, change.namespace.to_owned(), limits.clone());
        let job = move || {
            let _memory = memory;
            CheckedGroup::read(&text, (language, &namespace), &limits)
        };
        self.0.parts.env.run_blocking(job).await
    }

    /// Deletes a group.
    pub async fn delete_group(&self, change: Change<'_>, name: &str) -> Result<(), StoredError> {
        let (language, namespace, name) = (change.language, change.namespace.to_owned(), name.to_owned());
        let edit = move |document: &mut Document| match document.remove(language, &namespace, &name) {
            true => Ok(true),
            false => Err(StoredError::NotFound("group does not exist")),
        };
        self.change(change.of(), Box::new(edit)).await
    }

    /// Deletes the groups of a namespace.
    pub async fn delete_namespace(&self, change: Change<'_>) -> Result<(), StoredError> {
        let (language, namespace) = (change.language, change.namespace.to_owned());
        let edit = move |document: &mut Document| match document.remove_namespace(language, &namespace) {
            true => Ok(true),
            false => Err(StoredError::NotFound("group namespace does not exist")),
        };
        self.change(change.of(), Box::new(edit)).await
    }

    /// The groups of an API, of one namespace or of all. Reads the index first.
    pub async fn list(
        &self,
        tenant: &TenantId,
        language: Language,
        namespace: Option<&str>,
    ) -> Result<Listed, StoredError> {
        self.read_changes().await?;
        let document = self.lock().document(tenant)?;
        let wanted = |name: &str| namespace.is_none_or(|namespace| namespace == name);
        let mut namespaces: Vec<(String, Vec<Arc<str>>)> = Vec::new();
        for (name, groups) in document.of_language(language).into_iter().filter(|(name, _)| wanted(name)) {
            namespaces
                .push((name.to_owned(), groups.iter().map(|group| Arc::clone(&group.text.0)).collect()));
        }
        let bytes: usize = namespaces.iter().flat_map(|(_, texts)| texts).map(|text| text.len()).sum();
        // Lines are indented in the answer.
        Ok(Listed { namespaces, memory: self.memory().reserve(bytes as u64 * 2)? })
    }

    /// A group of an API. Reads the index first.
    pub async fn group(
        &self,
        tenant: &TenantId,
        language: Language,
        (namespace, name): (&str, &str),
    ) -> Result<Arc<str>, StoredError> {
        self.read_changes().await?;
        let document = self.lock().document(tenant)?;
        let found = document.group(language, namespace, name).map(|group| Arc::clone(&group.text.0));
        found.ok_or(StoredError::NotFound("group does not exist"))
    }

    /// Tenants with groups.
    pub fn tenants(&self) -> Vec<TenantId> {
        self.lock().tenants()
    }

    /// Whether all stored rules were read once.
    pub fn is_complete(&self) -> bool {
        self.lock().is_complete
    }

    /// The groups of a tenant that hold now.
    pub fn specs(&self, tenant: &TenantId) -> Arc<Vec<GroupSpec>> {
        self.lock().specs(tenant)
    }

    /// Errors about the rules of a tenant.
    pub fn shown(&self, tenant: &TenantId) -> Vec<FileShown> {
        self.lock().shown(tenant)
    }

    /// A receiver that sees each change of what this process knows.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.0.changed.subscribe()
    }

    /// Reads the index again and again until the server stops, at most each [`INTERVAL_MIN`].
    pub async fn follow(self, interval: Duration, stopping: ShutdownSignal) {
        let (env, interval) = (self.0.parts.env.clone(), interval.max(INTERVAL_MIN));
        let mut last_error: Option<String> = None;
        loop {
            let error = self.refresh().await.err().map(|error| error.to_string());
            // An outage is logged once.
            if let Some(error) = error.as_ref().filter(|error| last_error.as_ref() != Some(error)) {
                tracing::warn!(error, "stored rules could not be read; what held before stays");
            }
            last_error = error;
            // Processes that started together read at different times.
            let wait =
                interval.mul_f64(0.9) + interval.mul_f64(0.2 * env.random_below(1_000) as f64 / 1_000.0);
            if env.timeout(wait, stopping.triggered()).await.is_some() {
                return;
            }
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Known> {
        self.0.known.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;
