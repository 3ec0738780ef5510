//! Series that are returned before they are decoded: however they are split and decoded, and when memory
//! of later batches is released in between, they equal those of decoded batches.

use sandur_memory::{MemoryBudget, Reservation};
use sandur_model::{Labels, SampleBatch};
use sandur_query::{SampleScan, SampleSelection, SeriesBatch};
use tempfile::TempDir;

use super::samples::{START_MS, Samples, all, open};
use super::*;

/// Series of two blocks and the head: some are in all, some in one.
async fn fill(engine: &Engine) {
    for part in 0..3 {
        let mut batch = SampleBatch::new(TenantId::default_tenant());
        for n in (0..1_500).filter(|n| n % 3 == part || n % 2 == 0) {
            let app = format!("app{n:04}");
            let labels = Arc::new(Labels::from_pairs([("__name__", "up"), ("app", app.as_str())]));
            let samples = (0..9).map(|at| (START_MS + (part * 10 + at) * 1_000, (n * 100 + at) as f64));
            batch.push(labels, samples);
        }
        engine.push(batch).await.unwrap();
        if part < 2 {
            engine.flush().await.unwrap();
        }
    }
}

fn add(found: &mut Samples, batch: &SeriesBatch) {
    for (series, samples) in batch.samples.iter().enumerate() {
        let labels = Labels::from_pairs(batch.pairs(series)).to_string();
        let bits = samples.values.iter().map(|value| value.to_bits());
        let before = found.insert(labels, samples.times.iter().copied().zip(bits).collect());
        assert!(before.is_none(), "each series once");
    }
}

async fn scan(engine: &Arc<Engine>, context: &QueryContext) -> Box<dyn SampleScan> {
    let selection = SampleSelection::all(Vec::new(), START_MS, START_MS + 100_000);
    engine.sources().samples.select(context, selection).await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn parts_equal_batches_however_they_are_split_and_repeated() {
    let directory = TempDir::new().unwrap();
    let engine = open(directory.path()).await;
    fill(&engine).await;
    let expected = all(&engine).await;
    assert_eq!(expected.len(), 1_500);
    for seed in 0..40u64 {
        let context = context(engine.env());
        let mut scan = scan(&engine, &context).await;
        let (mut found, mut dice) = (Samples::new(), seed);
        loop {
            dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            if dice >> 60 < 4 {
                scan.give_back().await;
            }
            if dice >> 33 & 3 == 0 {
                let Some(batch) = scan.next().await.unwrap() else { break };
                add(&mut found, &batch);
                continue;
            }
            let Some(part) = scan.next_part().await.unwrap() else { break };
            let step = 1 + (dice >> 40) as usize % 300;
            for from in (0..part.series()).step_by(step) {
                let some = from..part.series().min(from + step);
                drop(part.decode(some.clone()).unwrap());
                add(&mut found, &part.decode(some).unwrap());
            }
        }
        drop(scan);
        assert_eq!(found, expected, "seed {seed}");
        assert_eq!(context.budget().used(), 0, "memory is released");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refusal_of_memory_loses_no_series() {
    let directory = TempDir::new().unwrap();
    let engine = open(directory.path()).await;
    fill(&engine).await;
    let expected = all(&engine).await;
    let budget = MemoryBudget::root("query", 64 << 20);
    let tenant = TenantId::default_tenant();
    let context = QueryContext::new(engine.env().clone(), tenant, budget.clone(), Duration::from_secs(3_600));
    let mut scan = scan(&engine, &context).await;
    let mut found = Samples::new();
    let mut refusals = 0;
    loop {
        // Every other time another reservation takes all memory.
        let taken = reserve_everything(&budget);
        match scan.next_part().await {
            Ok(part) => drop(part.inspect(|part| add(&mut found, &part.decode(0..part.series()).unwrap()))),
            Err(error) => {
                assert!(error.to_string().contains("'query'"), "{error}");
                refusals += 1;
            }
        }
        drop(taken);
        let Some(part) = scan.next_part().await.unwrap() else { break };
        add(&mut found, &part.decode(0..part.series()).unwrap());
    }
    assert_eq!(found, expected);
    assert!(refusals > 0);
}

/// Reserves what the budget has left. The scan may prefetch, and so reserve a part of it, meanwhile.
fn reserve_everything(budget: &MemoryBudget) -> Reservation {
    loop {
        if let Ok(everything) = budget.reserve(budget.available()) {
            return everything;
        }
    }
}
