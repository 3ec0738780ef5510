//! Warnings of a query for its client: the result is incomplete or unusual.
//!
//! **Invariant.** A handle keeps the warnings alive and nothing else of the query: neither its memory nor its
//! account.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::staleness::Staleness;

/// The most warnings that are kept; further ones would repeat each other.
const WARNINGS_MAX: usize = 20;

/// The warnings of one query. Cheap to clone: a handle.
#[derive(Clone, Debug, Default)]
pub struct Warnings(Arc<Mutex<Noted>>);

#[derive(Debug, Default)]
struct Noted {
    texts: Vec<String>,
    /// The oldest of the views that were too old.
    staleness: Option<Staleness>,
}

impl Warnings {
    /// Adds a warning, unless it is there already or there are too many.
    pub fn add(&self, warning: String) {
        let mut noted = self.noted();
        if noted.texts.len() < WARNINGS_MAX && !noted.texts.contains(&warning) {
            noted.texts.push(warning);
        }
    }

    /// Notes that a view of the store that the query used is too old. The query has one such warning, for
    /// its oldest view.
    pub fn add_age(&self, staleness: Staleness) {
        let mut noted = self.noted();
        noted.staleness = noted.staleness.max(Some(staleness));
    }

    /// The warnings so far.
    pub fn all(&self) -> Vec<String> {
        let noted = self.noted();
        noted.staleness.iter().map(ToString::to_string).chain(noted.texts.iter().cloned()).collect()
    }

    fn noted(&self) -> MutexGuard<'_, Noted> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
