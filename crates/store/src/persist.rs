//! One loop for all repetition: `object_store` itself never tries again.

use crate::attempts::Attempts;
use crate::call::Call;
use crate::classify::Failure;
use crate::error::Error;
use crate::intent::Class;
use crate::request::Requester;

impl Requester {
    /// The attempts of an operation that moves `bytes` with each. The first one is begun.
    pub fn attempts(&self, call: &Call<'_>, bytes: u64) -> Attempts<'_> {
        Attempts::begin(&self.env, &self.budgets, self.policy(call.intent.class), call.lane(), bytes)
    }

    /// Runs `attempt` until it succeeds, fails for good, or the class's deadline is over.
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

    /// Waits for the next attempt, or gives up with the last failure.
    pub async fn next_attempt(
        &self,
        call: &Call<'_>,
        attempts: &mut Attempts<'_>,
        failure: Failure,
    ) -> Result<(), Error> {
        let (place, reason) = (self.place(call), failure.reason.as_str());
        // At start a person waits in front of the screen.
        if call.intent.class == Class::Probe && attempts.made == 1 {
            tracing::warn!(%place, reason, "the store does not answer yet, trying again");
        } else {
            tracing::debug!(%place, reason, attempt = attempts.made, "trying again");
        }
        if attempts.next(failure.retry_after).await {
            self.meter.retry(call);
            return Ok(());
        }
        Err(failure.into_error(place, attempts.made))
    }
}
