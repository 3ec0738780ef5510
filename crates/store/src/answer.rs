//! Carries `Retry-After` from the HTTP layer to the attempt, past `object_store`, which drops headers.
//!
//! `object_store` converts a response to an error without its headers. The layer below it (our HTTP
//! connector and the fault-injecting twin, which call [`hear`]) and the attempt above it ([`listen`])
//! run in the same task, so a task-local cell carries the value.

use std::cell::Cell;
use std::time::Duration;

tokio::task_local! {
    static RETRY_AFTER: Cell<Option<Duration>>;
}

/// Runs one attempt; returns its outcome and the `Retry-After` of its last response.
pub(crate) async fn listen<T>(attempt: impl Future<Output = T>) -> (T, Option<Duration>) {
    let heard = async {
        let outcome = attempt.await;
        (outcome, RETRY_AFTER.with(Cell::take))
    };
    RETRY_AFTER.scope(Cell::new(None), heard).await
}

/// Notes `Retry-After` of a response. Has no effect outside of an attempt.
pub(crate) fn hear(retry_after: Duration) {
    // Outside of an attempt, for example while credentials are fetched, there is no cell.
    let _ = RETRY_AFTER.try_with(|cell| cell.set(Some(retry_after)));
}

/// Parses the header `Retry-After` in seconds, the form that object stores send.
pub(crate) fn retry_after(value: &str) -> Option<Duration> {
    let seconds: u64 = value.trim().parse().ok()?;
    Some(Duration::from_secs(seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn retry_after_reaches_only_its_own_attempt() {
        hear(Duration::from_secs(9));
        let inner = async {
            tokio::task::yield_now().await;
            hear(retry_after(" 3 ").unwrap());
            "outcome"
        };
        let ((first, second), third) = tokio::join!(
            async { tokio::join!(listen(inner), listen(async { tokio::task::yield_now().await })) },
            listen(std::future::ready(()))
        );
        assert_eq!(first, ("outcome", Some(Duration::from_secs(3))));
        assert_eq!((second.1, third.1), (None, None));
        assert_eq!(retry_after("Fri, 31 Dec 1999 23:59:59 GMT"), None);
    }
}
