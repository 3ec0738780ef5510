//! Runs the futures of a query's pieces concurrently and returns their results in order.

use futures_util::{StreamExt, TryStreamExt, stream};
use sandur_base::BoxFuture;

use crate::error::Error;

/// Runs the futures, at most `width` at the same time, and returns their results in the order of the
/// futures. The first error in this order cancels all of them.
pub async fn in_order<'a, T>(
    width: usize,
    pieces: impl IntoIterator<Item = BoxFuture<'a, Result<T, Error>>>,
) -> Result<Vec<T>, Error> {
    stream::iter(pieces).buffered(width.max(1)).try_collect().await
}

#[cfg(test)]
mod tests {
    use super::*;
    use sandur_runtime::Env;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    fn paused<T>(future: impl Future<Output = T>) -> T {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        builder.enable_time().start_paused(true).build().unwrap().block_on(future)
    }

    #[test]
    fn results_are_in_order_and_at_most_width_futures_run() {
        paused(async {
            let env = Env::simulated(1, 0);
            let running = Arc::new(AtomicUsize::new(0));
            let piece = |n: u64| -> BoxFuture<'static, Result<u64, Error>> {
                let (env, running) = (env.clone(), Arc::clone(&running));
                Box::pin(async move {
                    assert!(running.fetch_add(1, Ordering::SeqCst) < 2);
                    env.sleep(Duration::from_secs(10 - n)).await;
                    running.fetch_sub(1, Ordering::SeqCst);
                    if n == 7 { Err(Error::Busy) } else { Ok(n) }
                })
            };
            assert_eq!(in_order(2, (0..5).map(piece)).await.unwrap(), [0, 1, 2, 3, 4]);
            assert!(env.monotonic() < Duration::from_secs(30), "two ran at the same time");
            assert!(matches!(in_order(2, (5..9).map(piece)).await, Err(Error::Busy)));
            assert!(in_order::<u64>(2, []).await.unwrap().is_empty());
        });
    }
}
