//! Concurrent reads of the same range of the same block share one request.
//!
//! This applies only to blocks: they never change, so the response to an earlier request is still
//! correct. Reads of the catalog and the WAL must see everything that happened before they began, so
//! they are never shared. The request runs in its own task, so a caller that goes away or does not poll
//! does not delay the others. When the last caller is gone, the request is aborted.

use std::ops::Range;

use bytes::Bytes;
use sandur_runtime::single_flight::{Role, SingleFlight};
use sandur_runtime::{Env, Task};

use crate::error::{Error, Place};

type Outcome = Result<Bytes, Error>;

/// The requests in progress.
#[derive(Default)]
pub(crate) struct Flights(SingleFlight<(String, Option<(u64, u64)>), Outcome>);

impl Flights {
    /// Waits for the request for this object and range, or starts it with `request`.
    pub async fn join<F>(&self, env: &Env, at: Place, range: Option<Range<u64>>, request: F) -> Outcome
    where
        F: Future<Output = Outcome> + Send + 'static,
    {
        let flight = match self.0.join((at.path.clone(), range.map(|r| (r.start, r.end)))) {
            Role::Follow(flight) => flight,
            Role::Lead(leader) => {
                let (request, place) = (env.spawn("store-get", request), at.clone());
                leader.run(env, "store-get-shared", ended(request, place))
            }
        };
        let ended_without = || Err(Error::Internal { at, reason: "the request was aborted".to_owned() });
        flight.value().await.unwrap_or_else(ended_without)
    }
}

/// The result of the request; a panic becomes an error for all callers.
async fn ended(request: Task<Outcome>, at: Place) -> Outcome {
    let joined = request.join().await;
    joined.unwrap_or_else(|error| Err(Error::Internal { at, reason: error.to_string() }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operation::Operation;

    #[tokio::test]
    async fn a_panic_reaches_the_waiters_as_an_error() {
        let (env, flights) = (Env::simulated(1, 0), Flights::default());
        let at = || Place { store: "memory://".into(), operation: Operation::Get, path: "blocks/a".into() };
        let first = flights.join(&env, at(), None, async { panic!("boom") });
        let second = flights.join(&env, at(), None, async { unreachable!("it follows") });
        let (first, second) = tokio::join!(first, second);
        assert!(first.unwrap_err().to_string().contains("boom"));
        assert!(second.unwrap_err().to_string().contains("boom"));
    }
}
