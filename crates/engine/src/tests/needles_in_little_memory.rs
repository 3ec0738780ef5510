//! Searches with little memory: they read fewer pieces of filters and fewer pages at a time, down to one, and
//! answer the same; with still less memory the error names the budget.

use std::sync::atomic::{AtomicU64, Ordering};

use sandur_cache::Cache;
use sandur_query::{Collect, Error as QueryError, Merging, Needle, Work, execute};

use super::merges_of_filters::{ABSENT, LINES, line, write_hours};
use super::*;

/// Counts the lines that contain the needle, and holds memory for each page as a query does.
struct Count {
    context: QueryContext,
    needle: Vec<u8>,
    pages: AtomicU64,
}

impl Work for Count {
    type Output = usize;

    fn run(&self, _: u32, item: ScanItem) -> Result<usize, QueryError> {
        let ScanItem::Page(mut task) = item else { panic!("no counts were requested") };
        self.pages.fetch_add(1, Ordering::Relaxed);
        let rows = task.narrow()?.rows();
        let lines = task.lines()?;
        let _results = self.context.budget().reserve(64 * rows as u64)?;
        let contains =
            |row: &usize| lines.line(*row).windows(self.needle.len()).any(|part| part == self.needle);
        Ok((0..rows).filter(contains).count())
    }
}

struct Sum(usize);

impl Collect<usize> for Sum {
    fn collect(&mut self, output: usize) -> Result<(), QueryError> {
        self.0 += output;
        Ok(())
    }
}

/// Searches for a text with this much memory. Returns the number of lines with it and of pages read.
async fn search(engine: &Engine, text: &str, memory: u64) -> (Result<usize, QueryError>, u64) {
    let budget = MemoryBudget::root("query", memory);
    let (env, tenant) = (engine.env().clone(), TenantId::default_tenant());
    let context = QueryContext::new(env, tenant, budget.clone(), Duration::from_secs(3_600));
    let needle = Needle { literal: text.as_bytes().to_vec(), ignore_ascii_case: false };
    let selection = Selection {
        matchers: Vec::new(),
        range: TimeRange::ALL,
        order: Order::NewestFirst,
        needles: Needles(vec![vec![needle]]),
        columns: Columns { lines: true, metadata: true },
        counts: false,
        counts_by: Vec::new(),
    };
    let needle = text.as_bytes().to_vec();
    let work = Arc::new(Count { context: context.clone(), needle, pages: AtomicU64::new(0) });
    let once = async || {
        let scan = engine.sources().logs.scan(&context, selection.clone()).await?;
        let mut sum = Sum(0);
        execute(&context, scan, Arc::clone(&work), &mut sum, Merging::Unordered).await?;
        Ok(sum.0)
    };
    let found = loop {
        let found = once().await;
        if !context.saves_memory_after(&found) {
            break found;
        }
    };
    assert_eq!(context.warnings(), Vec::<String>::new());
    assert_eq!(budget.used(), 0, "all memory was released");
    (found, work.pages.load(Ordering::Relaxed))
}

/// Pages whose filters are read in pieces, because the cache is small.
async fn world(seed: u64) -> Arc<Engine> {
    let env = Env::simulated(seed, START_NS);
    let bucket = near_bucket(&env, seed);
    let mut options = unhurried_options();
    options.maintenance.compaction.thin_bytes = 0;
    options.maintenance.interval = Duration::from_secs(1 << 30);
    options.cache = Some(Cache::in_memory(&env, 128 << 10));
    let engine = open_on(&bucket, &env, "one", options).await;
    write_hours(&engine).await;
    engine
}

/// Writing the lines takes much longer than the searches, so both kinds of searches use one engine.
#[tokio::test(start_paused = true)]
async fn searches_answer_with_memory_for_one_page_and_for_filters_of_few_keys() {
    let engine = world(73).await;
    pages_are_read_one_at_a_time(&engine).await;
    filters_of_few_keys_are_read_at_a_time(&engine).await;
}

async fn pages_are_read_one_at_a_time(engine: &Arc<Engine>) {
    // No filter knows a text this short: every page is read.
    let short = "0a";
    let (expected, pages) = search(engine, short, 256 << 20).await;
    let expected = expected.unwrap();
    assert!(expected > LINES as usize && pages > 8, "{expected} lines in {pages} pages");
    // A page of 1 MiB of text takes 0.6 MiB as it is stored and 1.2 MiB decoded.
    for (kibibytes, is_enough) in [(12 << 10, true), (3 << 10, true), (5 << 9, true), (1 << 10, false)] {
        match search(engine, short, kibibytes << 10).await {
            (Ok(found), _) => assert_eq!((found, is_enough), (expected, true), "{kibibytes} KiB"),
            (Err(error), _) => {
                assert!(error.to_string().contains("memory budget 'query'"), "{kibibytes} KiB: {error}");
                assert!(!is_enough, "{kibibytes} KiB: {error}");
            }
        }
    }
}

async fn filters_of_few_keys_are_read_at_a_time(engine: &Arc<Engine>) {
    let present = &line(2, 300)[..67];
    assert_eq!(search(engine, present, 64 << 20).await.0.unwrap(), 1);
    let (found, pages) = search(engine, ABSENT, 64 << 20).await;
    assert_eq!((found.unwrap(), pages), (0, 0), "filters rule out all pages");
    let mut refused = 0;
    for kibibytes in 1..96u64 {
        match search(engine, ABSENT, kibibytes << 10).await {
            (Ok(found), pages) => assert_eq!((found, pages), (0, 0), "{kibibytes} KiB"),
            (Err(error), _) => {
                assert!(error.to_string().contains("memory budget 'query'"), "{kibibytes} KiB: {error}");
                refused += 1;
                assert!(kibibytes < 24, "the pieces of one key take about 10 KiB: {error}");
            }
        }
    }
    assert!(refused > 0, "1 KiB is not enough");
}
