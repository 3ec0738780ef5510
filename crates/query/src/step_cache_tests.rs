//! Goal: a refresh evaluates exactly the steps whose rows changed, once for all callers.
//!
//! Method: holdings of 15 s with a number as their version, and an evaluator that notes which instants it
//! was asked for.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use sandur_memory::MemoryBudget;
use sandur_model::TenantId;
use sandur_runtime::Env;
use tokio::sync::Semaphore;

use super::*;

const S: i64 = 1_000_000_000;

/// The number of writes to each slot of 15 s.
#[derive(Default)]
struct Slots(Mutex<BTreeMap<i64, u64>>);

impl Slots {
    fn write(&self, second: i64) {
        *self.0.lock().unwrap().entry(second / 15).or_default() += 1;
    }
}

impl Versions for Slots {
    fn holdings(&self, _: &QueryContext, range: TimeRange) -> Option<Vec<Holding>> {
        let slots = self.0.lock().unwrap();
        let holding = |(slot, writes): (&i64, &u64)| {
            let (first, last) = (slot * 15 * S, slot * 15 * S + 15 * S - 1);
            let version = u128::from(*writes) << 64 | *slot as u128;
            Holding { first, last, version, bytes: 1, block: (first, last) }
        };
        Some(slots.iter().map(holding).filter(|h| range.touches(h.first, h.last)).collect())
    }
}

/// One series with the second as its value.
struct Noting {
    context: QueryContext,
    windows: Vec<(i64, i64)>,
    asked: Mutex<Vec<(i64, i64)>>,
    permits: Semaphore,
}

impl Noting {
    fn take(&self) -> Vec<(i64, i64)> {
        std::mem::take(&mut self.asked.lock().unwrap())
    }
}

impl StepEvaluator for Noting {
    fn language(&self) -> &'static str {
        "test"
    }

    fn text(&self) -> String {
        "seconds".to_owned()
    }

    fn windows(&self) -> Vec<(i64, i64)> {
        self.windows.clone()
    }

    fn asks_for_time(&self) -> bool {
        false
    }

    fn evaluate(&self, (first, last): (i64, i64)) -> BoxFuture<'_, Result<HeldSeries, Error>> {
        Box::pin(async move {
            self.asked.lock().unwrap().push((first / S, last / S));
            let _permit = self.permits.acquire().await.unwrap();
            let sample = |second: i64| Sample { timestamp_ms: second * 1_000, value: second as f64 };
            let samples = (first / S..=last / S).step_by(15).map(sample).collect();
            let labels = Arc::new(vec![("name".into(), "seconds".into())]);
            Ok(HeldSeries {
                series: vec![Series { labels, samples }],
                memory: self.context.budget().reserve(9)?,
            })
        })
    }
}

struct World {
    slots: Slots,
    noting: Noting,
}

impl World {
    fn new(windows: Vec<(i64, i64)>, permits: usize) -> Self {
        let results = ResultsCache::new(MemoryBudget::root("results", 1 << 20));
        let budget = MemoryBudget::root("query", 1 << 20);
        let minute = Duration::from_secs(60);
        let env = Env::simulated(1, 0);
        let context =
            QueryContext::new(env, TenantId::default_tenant(), budget, minute).with_results(results);
        let noting = Noting { context, windows, asked: Mutex::default(), permits: Semaphore::new(permits) };
        let slots = Slots::default();
        (0..450).step_by(15).for_each(|second| slots.write(second));
        Self { slots, noting }
    }

    /// Asks for all steps up to this second; the answer must be complete.
    async fn ask(&self, last: i64) {
        let steps = StepTimes { first_ns: 0, last_ns: last * S, step_ns: 15 * S };
        let answer = over_steps(&self.slots, &self.noting.context, steps, 0, &self.noting).await.unwrap();
        let values: Vec<i64> = answer.series[0].samples.iter().map(|sample| sample.value as i64).collect();
        assert_eq!(values, (0..=last).step_by(15).collect::<Vec<_>>());
    }
}

#[tokio::test(start_paused = true)]
async fn a_refresh_evaluates_only_the_steps_whose_rows_changed() {
    let world = World::new(vec![(60 * S, 0)], 9);
    world.ask(420).await;
    assert_eq!(world.noting.take(), [(0, 420)]);
    world.ask(420).await;
    assert_eq!(world.noting.take(), [], "nothing changed");
    world.slots.write(420);
    world.ask(435).await;
    assert_eq!(world.noting.take(), [(420, 435)], "new rows, and a new step");
    world.slots.write(360);
    world.ask(435).await;
    assert_eq!(world.noting.take(), [(360, 435)], "a late row");
    world.slots.write(0);
    world.ask(435).await;
    assert_eq!(world.noting.take(), [(0, 285)], "a row that only the first unit reads");
}

#[tokio::test(start_paused = true)]
async fn a_query_with_many_windows_has_one_version_for_each_unit() {
    let windows = (1..=1_000).map(|ns| (60 * S + ns, 0)).collect();
    let world = World::new(windows, 9);
    world.ask(420).await;
    world.noting.take();
    world.ask(420).await;
    assert_eq!(world.noting.take(), []);
    world.slots.write(420);
    world.ask(420).await;
    assert_eq!(world.noting.take(), [(300, 420)]);
}

/// Method: the evaluation of the first caller ends after the second one waits, or is dropped.
#[tokio::test(start_paused = true)]
async fn callers_at_the_same_time_evaluate_once_unless_the_first_one_goes_away() {
    let world = World::new(vec![(60 * S, 0)], 0);
    let releases = async {
        while world.noting.asked.lock().unwrap().is_empty() {
            tokio::task::yield_now().await;
        }
        world.noting.permits.add_permits(1);
    };
    tokio::join!(world.ask(420), world.ask(420), releases);
    assert_eq!(world.noting.take(), [(0, 420)]);

    let world = World::new(vec![(60 * S, 0)], 0);
    let second = {
        let first = Box::pin(world.ask(420));
        let mut second = Box::pin(world.ask(420));
        let waits = futures_util::future::select(first, &mut second);
        assert!(futures_util::FutureExt::now_or_never(waits).is_none());
        second
    };
    assert_eq!(world.noting.take(), [(0, 420)], "the second one waits for the first one, which is gone now");
    world.noting.permits.add_permits(1);
    second.await;
    assert_eq!(world.noting.take(), [(0, 420)]);
}
