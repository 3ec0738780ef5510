//! Merges for which upkeep has too little memory: they become smaller, and one that never fits does not
//! block others.

use sandur_model::{Labels, SampleBatch};

use super::samples::{Samples, all, blocks, metrics};
use super::*;

const HOUR: Duration = Duration::from_secs(3_600);
const START_MS: i64 = START_NS / 1_000_000 - 3 * 86_400_000;

async fn open(seed: u64, memory: u64) -> Arc<Engine> {
    let env = Env::simulated(seed, START_NS);
    let bucket = near_bucket(&env, seed);
    let mut options = unhurried_options();
    options.maintenance.compaction_budget = MemoryBudget::root("compaction", memory);
    open_on(&bucket, &env, "one", options).await
}

/// Makes a block of `series` series with a sample for each of `seconds`. The values do not compress.
async fn block(
    engine: &Engine,
    name: &str,
    series: u64,
    first_ms: i64,
    seconds: std::ops::Range<i64>,
    expected: &mut Samples,
) {
    let mut batch = SampleBatch::new(TenantId::default_tenant());
    for n in 0..series {
        let pod = format!("{n}-{}", "x".repeat(60));
        let labels = Labels::from_pairs([("__name__", name), ("pod", &*pod)]);
        let value = |second: i64| {
            let mixed = (n + 1).wrapping_mul(second as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            f64::from_bits(mixed >> 2)
        };
        let samples: Vec<_> = seconds.clone().map(|s| (first_ms + s * 1_000, value(s))).collect();
        let bits = samples.iter().map(|(time, value)| (*time, value.to_bits()));
        expected.entry(labels.to_string()).or_default().extend(bits);
        batch.push(Arc::new(labels), samples);
    }
    engine.push(batch).await.unwrap();
    engine.flush().await.unwrap();
}

fn blocks_from(engine: &Engine, first_ms: i64) -> usize {
    let range = TimeRange::new(first_ms * 1_000_000, (first_ms + 3_600_000) * 1_000_000);
    engine.view().snapshot.blocks(&metrics(), range).count()
}

#[tokio::test(start_paused = true)]
async fn a_merge_that_does_not_fit_is_done_in_parts() {
    let engine = open(61, 640 << 10).await;
    let mut expected = Samples::new();
    for part in 0..12i64 {
        block(&engine, "up", 50, START_MS, part * 200..part * 200 + 200, &mut expected).await;
    }
    assert_eq!(blocks(&engine, &metrics()), 12);
    engine.env().sleep(HOUR).await;
    let left = blocks(&engine, &metrics());
    assert!(left <= 4, "{left}");
    assert!(all(&engine).await == expected);
}

#[tokio::test(start_paused = true)]
async fn a_merge_that_never_fits_blocks_no_other_merge() {
    let engine = open(62, 640 << 10).await;
    let (mut expected, later_ms) = (Samples::new(), START_MS + 86_400_000);
    for part in 0..2i64 {
        let name = format!("wide{part}");
        block(&engine, &name, 4_000, START_MS, part..part + 1, &mut expected).await;
    }
    for part in 0..4i64 {
        block(&engine, "up", 5, later_ms, part..part + 1, &mut expected).await;
    }
    engine.env().sleep(HOUR).await;
    assert_eq!((blocks_from(&engine, START_MS), blocks_from(&engine, later_ms)), (2, 1));
    assert!(all(&engine).await == expected);
}
