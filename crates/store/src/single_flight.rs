//! Callers who want the same range of the same block at the same time share one request.
//!
//! Only for blocks: they never change, so an answer to a request that began earlier is still
//! right. Catalog and WAL reads must see everything that happened before they were asked, so they
//! are never shared. The request runs in a task of its own: a caller who goes away, or who does
//! not poll, never holds up the others; when the last caller is gone, the request is aborted.

use std::ops::Range;

use bytes::Bytes;
use sandur_base::single_flight::{Role, SingleFlight};
use sandur_base::{Env, Task};

use crate::error::{Error, Place};

type Outcome = Result<Bytes, Error>;

/// The requests under way.
#[derive(Default)]
pub(crate) struct Flights(SingleFlight<(String, Option<(u64, u64)>), Outcome>);

impl Flights {
    /// Joins the flight for this object and range, or begins it with `request`.
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

/// What the request answered; a panic is an error to all who wait.
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
