//! The retry loop of all requests. `object_store` itself never retries.

use crate::attempts::Attempts;
use crate::call::Call;
use crate::classify::Failure;
use crate::error::Error;
use crate::intent::Class;
use crate::request::Requester;

impl Requester {
    /// The schedule of an operation that transfers `bytes` per attempt. Counts the first attempt.
    pub fn attempts(&self, call: &Call<'_>, bytes: u64) -> Attempts<'_> {
        Attempts::begin(&self.env, &self.budgets, self.policy(call.intent.class), call.lane(), bytes)
    }

    /// Runs `attempt` until it succeeds, fails permanently, or the deadline of the class has passed.
    pub async fn persist<T, F>(&self, call: Call<'_>, attempt: impl Fn() -> F) -> Result<T, Error>
    where
        F: Future<Output = Result<T, Failure>>,
    {
        let mut attempts = self.attempts(&call, call.bytes);
        loop {
            let failure = match self.once(&call, &attempts, attempt()).await {
                Ok(value) => return Ok(value),
                Err(failure) => failure,
            };
            if !failure.is_transient() {
                return Err(failure.into_error(self.place(&call), attempts.made));
            }
            self.next_attempt(&call, &mut attempts, failure).await?;
        }
    }

    /// Waits until the next attempt may begin, or returns the last failure as an error.
    pub async fn next_attempt(
        &self,
        call: &Call<'_>,
        attempts: &mut Attempts<'_>,
        failure: Failure,
    ) -> Result<(), Error> {
        let (place, reason) = (self.place(call), failure.reason.as_str());
        // The probe runs at start, when an operator may be watching the log.
        if call.intent.class == Class::Probe && attempts.made == 1 {
            tracing::warn!(%place, reason, "the store does not answer yet, retrying");
        } else {
            tracing::debug!(%place, reason, attempt = attempts.made, "retrying");
        }
        if attempts.next(failure.retry_after).await {
            self.meter.retry(call);
            return Ok(());
        }
        Err(failure.into_error(place, attempts.made))
    }
}
