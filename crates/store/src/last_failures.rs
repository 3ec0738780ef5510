//! The last failure of each class of requests: explains why work waits for the store.
//!
//! A request that is retried returns its failure only when it gives up, which can take minutes. Until
//! then its failures are available here.

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::call::Call;
use crate::classify::Failure;
use crate::intent::Class;
use crate::operation::Operation;

/// The last failures of one store.
#[derive(Default)]
pub(crate) struct LastFailures(Mutex<[Option<(Operation, String)>; Class::ALL.len()]>);

impl LastFailures {
    fn all(&self) -> MutexGuard<'_, [Option<(Operation, String)>; Class::ALL.len()]> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records how a request ended. A success clears the failure of its own operation only, because
    /// reads may succeed while writes fail.
    pub fn note(&self, call: &Call<'_>, failure: Option<&Failure>) {
        let trouble = &mut self.all()[call.intent.class.index()];
        match failure.filter(|failure| !failure.is_answer()) {
            Some(failure) => *trouble = Some((call.operation, failure.reason.clone())),
            None if trouble.as_ref().is_some_and(|(operation, _)| *operation == call.operation) => {
                *trouble = None;
            }
            None => {}
        }
    }

    /// Why the last request of a class failed; `None` if there was no failure since its operation last
    /// succeeded.
    pub fn of(&self, class: Class) -> Option<String> {
        self.all()[class.index()].as_ref().map(|(_, reason)| reason.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cause::Cause;
    use crate::intent::Intent;

    #[test]
    fn successful_reads_do_not_clear_the_failure_of_writes() {
        let last_failures = LastFailures::default();
        let wal = Intent::wal();
        let call = |operation| Call { intent: &wal, operation, path: "wal/1", bytes: 0 };
        let failure = |cause| Failure::new(cause, "403 Forbidden");
        last_failures.note(&call(Operation::Create), Some(&failure(Cause::Denied)));
        last_failures.note(&call(Operation::Get), Some(&failure(Cause::NotFound)));
        last_failures.note(&call(Operation::Get), None);
        assert_eq!(last_failures.of(Class::Wal).as_deref(), Some("403 Forbidden"));
        assert_eq!(last_failures.of(Class::Catalog), None);
        last_failures.note(&call(Operation::Create), None);
        assert_eq!(last_failures.of(Class::Wal), None);
    }
}
