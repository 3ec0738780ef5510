//! What an HTTP answer says beside its status, and how it comes past a layer that drops it.
//!
//! `object_store` turns an answer into an error without its headers. The layer below it ([`hear`], called by
//! our HTTP connector and by the fault twin) and the attempt above it ([`listen`]) run in the same
//! task, so a task-local cell carries `Retry-After` from one to the other.

use std::cell::Cell;
use std::time::Duration;

tokio::task_local! {
    static RETRY_AFTER: Cell<Option<Duration>>;
}

/// Runs one attempt; the outcome, and what its last answer said about when to come again.
pub(crate) async fn listen<T>(attempt: impl Future<Output = T>) -> (T, Option<Duration>) {
    let heard = async {
        let outcome = attempt.await;
        (outcome, RETRY_AFTER.with(Cell::take))
    };
    RETRY_AFTER.scope(Cell::new(None), heard).await
}

/// Notes that the store asked to be left alone for so long. Nothing outside of an attempt.
pub(crate) fn hear(retry_after: Duration) {
    // Outside of an attempt, such as while credentials are fetched, no caller waits for it.
    let _ = RETRY_AFTER.try_with(|cell| cell.set(Some(retry_after)));
}

/// Reads the header `Retry-After` in its form in seconds, the one that object stores send.
pub(crate) fn retry_after(value: &str) -> Option<Duration> {
    let seconds: u64 = value.trim().parse().ok()?;
    Some(Duration::from_secs(seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_is_said_within_an_attempt_is_heard_above_it_only() {
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
