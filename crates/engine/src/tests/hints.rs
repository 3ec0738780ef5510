//! Engines that tell each other outside the bucket what is new, truly or not.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Mutex;

use sandur_base::Id;
use sandur_catalog::Hints;
use sandur_store::fault::{FaultPlan, FaultStore};
use sandur_store::{Class, Store, StoreOptions};
use tokio::sync::watch;

use super::*;

/// What engines have announced, and who is said to be gone.
#[derive(Debug, Default)]
struct Board {
    segments: Mutex<BTreeMap<Id, u64>>,
    catalog: Mutex<u64>,
    gone: Mutex<BTreeSet<Id>>,
    news: watch::Sender<u64>,
}

/// One engine's access to the board.
#[derive(Debug)]
struct OneOf {
    board: Arc<Board>,
    port: u16,
    found: Mutex<Vec<SocketAddr>>,
}

impl OneOf {
    fn new(board: &Arc<Board>, port: u16) -> Arc<Self> {
        Arc::new(Self { board: Arc::clone(board), port, found: Mutex::default() })
    }
}

impl Hints for OneOf {
    fn address(&self) -> Option<SocketAddr> {
        Some(SocketAddr::from(([10, 0, 0, 1], self.port)))
    }

    fn note_addresses(&self, addresses: Vec<SocketAddr>) {
        *self.found.lock().unwrap() = addresses;
    }

    fn gone_for(&self, writer: Id) -> Option<Duration> {
        self.board.gone.lock().unwrap().contains(&writer).then_some(Duration::from_secs(20))
    }

    fn next_segment(&self, writer: Id) -> Option<u64> {
        let is_gone = self.board.gone.lock().unwrap().contains(&writer);
        self.board.segments.lock().unwrap().get(&writer).copied().filter(|_| !is_gone)
    }

    fn catalog(&self) -> u64 {
        *self.board.catalog.lock().unwrap()
    }

    fn news(&self) -> watch::Receiver<u64> {
        self.board.news.subscribe()
    }

    fn announce_catalog(&self, number: u64) {
        {
            let mut catalog = self.board.catalog.lock().unwrap();
            *catalog = number.max(*catalog);
        }
        self.board.news.send_modify(|count| *count += 1);
    }

    fn announce_segment(&self, writer: Id, next: u64) {
        self.board.segments.lock().unwrap().insert(writer, next);
        self.board.news.send_modify(|count| *count += 1);
    }
}

/// An environment and a bucket without faults.
fn world(seed: u64) -> (Env, FaultStore) {
    let env = Env::simulated(seed, START_NS);
    let plan = FaultPlan { latency_median: Duration::from_millis(10), ..FaultPlan::none() };
    (env.clone(), FaultStore::new(env, seed, plan))
}

async fn open(env: &Env, bucket: &FaultStore, name: &str, hints: Option<Arc<OneOf>>) -> Arc<Engine> {
    let store = Store::from_object_store(Arc::new(bucket.client(name)), env.clone(), StoreOptions::default());
    let hints = hints.map(|hints| hints as Arc<dyn Hints>);
    Engine::open(store, env.clone(), EngineOptions { hints, ..small_options() }).await.unwrap()
}

fn catalog_requests(engine: &Engine) -> u64 {
    let usage = engine.store().meter().snapshot();
    usage.iter().filter(|usage| usage.class == Class::Catalog).map(|usage| usage.requests).sum()
}

async fn sleep(env: &Env, ms: u64) {
    env.sleep(Duration::from_millis(ms)).await;
}

/// Rows come into the view long before the next poll, without a query that makes the engine read.
#[tokio::test(start_paused = true)]
async fn announced_segments_and_commits_are_read_at_once() {
    let (env, bucket) = world(1);
    let board = Arc::<Board>::default();
    let one = open(&env, &bucket, "one", Some(OneOf::new(&board, 1))).await;
    let two = open(&env, &bucket, "two", Some(OneOf::new(&board, 2))).await;
    // Nobody queries, so that writers without news are polled once a minute.
    sleep(&env, 120_000).await;
    for number in 0..5 {
        push_rows(&one, "a", number * 10..number * 10 + 10).await;
        sleep(&env, 200).await;
        assert_eq!(two.view().head_totals().rows, 10 * (number as u64 + 1));
        sleep(&env, 7_000).await;
    }
    one.flush().await.unwrap();
    sleep(&env, 300).await;
    assert_eq!(two.view().head_totals().rows, 0, "the commit was read");
}

/// While all announce, the bucket is read less often; when one is gone, as often as without hints.
#[tokio::test(start_paused = true)]
async fn idle_engines_that_announce_read_the_bucket_less_often() {
    let mut reads = Vec::new();
    for (hinted, is_one_gone) in [(false, false), (true, false), (true, true)] {
        let (env, bucket) = world(1);
        let board = Arc::<Board>::default();
        let hints = |port| hinted.then(|| OneOf::new(&board, port));
        let one = open(&env, &bucket, "one", hints(1)).await;
        let two = open(&env, &bucket, "two", hints(2)).await;
        if is_one_gone {
            board.gone.lock().unwrap().insert(one.incarnation());
        }
        sleep(&env, 60_000).await;
        let before = catalog_requests(&two);
        sleep(&env, 600_000).await;
        assert!(one.writable().is_ok() && two.writable().is_ok(), "nobody was adopted");
        reads.push(catalog_requests(&two) - before);
    }
    println!("reads of the catalog in ten minutes: {reads:?}");
    assert!(reads[1] * 5 <= reads[0] * 3 && reads[2] * 10 >= reads[0] * 9, "{reads:?}");
}

/// A killed process is adopted sooner if it is gone outside the bucket, too.
#[tokio::test(start_paused = true)]
async fn a_writer_that_is_gone_by_both_signals_is_adopted_sooner() {
    let mut seconds = Vec::new();
    for hinted in [false, true] {
        let (env, bucket) = world(2);
        let board = Arc::<Board>::default();
        let hints = |port| hinted.then(|| OneOf::new(&board, port));
        let one = open(&env, &bucket, "one", hints(1)).await;
        let two = open(&env, &bucket, "two", hints(2)).await;
        let rows = push_rows(&one, "a", 0..10).await;
        sleep(&env, 30_000).await;
        let dead = one.incarnation();
        drop(one);
        // Gossip needs about ten seconds.
        sleep(&env, 10_000).await;
        board.gone.lock().unwrap().insert(dead);
        let mut waited = 10;
        while two.metrics().adoptions.get() == 0 {
            sleep(&env, 1_000).await;
            waited += 1;
            assert!(waited < 120);
        }
        seconds.push(waited);
        assert_eq!(read_all(&two).await, rows);
    }
    println!("adopted after {seconds:?} s");
    assert!(seconds[1] + 8 <= seconds[0], "{seconds:?}");
}

/// A network that is cut, or a peer that lies: a writer is said to be gone, but writes heartbeats.
#[tokio::test(start_paused = true)]
async fn a_live_writer_that_is_said_to_be_gone_is_not_adopted() {
    let (env, bucket) = world(3);
    let board = Arc::<Board>::default();
    let hints = OneOf::new(&board, 2);
    let one = open(&env, &bucket, "one", Some(OneOf::new(&board, 1))).await;
    let two = open(&env, &bucket, "two", Some(Arc::clone(&hints))).await;
    let before = one.incarnation();
    board.gone.lock().unwrap().insert(before);
    for number in 0..60 {
        push_rows(&one, "a", number..number + 1).await;
        sleep(&env, 10_000).await;
    }
    assert_eq!((one.incarnation(), two.metrics().adoptions.get()), (before, 0));
    assert_eq!(read_all(&two).await, read_all(&one).await);
    assert_eq!(*hints.found.lock().unwrap(), vec![SocketAddr::from(([10, 0, 0, 1], 1))], "by its heartbeat");
}

/// A peer announces numbers that do not exist: the bucket is read when it says so, and nothing else.
#[tokio::test(start_paused = true)]
async fn announcements_that_are_lies_cost_reads_and_change_no_answer() {
    let (env, bucket) = world(4);
    let board = Arc::<Board>::default();
    let one = open(&env, &bucket, "one", Some(OneOf::new(&board, 1))).await;
    let two = open(&env, &bucket, "two", Some(OneOf::new(&board, 2))).await;
    let rows = push_rows(&one, "a", 0..10).await;
    sleep(&env, 5_000).await;
    let liar = OneOf::new(&board, 3);
    let (lies, before) = (100, catalog_requests(&two));
    for _ in 0..lies {
        liar.announce_catalog(u64::MAX);
        liar.announce_segment(one.incarnation(), u64::MAX);
        sleep(&env, 100).await;
    }
    let cost = catalog_requests(&two) - before;
    assert!(cost <= 4 * lies, "{cost} reads for {lies} lies");
    assert_eq!(read_all(&two).await, rows);
    assert!(warnings_of(&two).await.is_empty());
}
