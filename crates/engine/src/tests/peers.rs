//! Processes that ask each other before the bucket: how fresh their rows are, what it saves, and that a peer
//! that does not answer, or answers wrongly, changes no answer.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Mutex, Weak};

use bytes::Bytes;
use sandur_base::{BoxFuture, Id};
use sandur_store::{Class, Operation};

use super::*;
use crate::{AskedFrames, PeerFrames, Peers};

const MIB: u64 = 1 << 20;

/// How a peer answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Manner {
    Right,
    Silent,
    /// Never answers.
    Hangs,
    /// Sends the frames of another number.
    Shifted,
    /// Sends frames with a changed byte.
    Damaged,
    /// Says that its WAL is longer than it is.
    Boasting,
    /// Sends pieces of another length.
    Short,
}

/// The processes by address, and how they answer.
struct Town {
    env: Env,
    manner: Mutex<Manner>,
    engines: Mutex<BTreeMap<String, Weak<Engine>>>,
    asked_for_pieces: Mutex<Vec<String>>,
}

impl std::fmt::Debug for Town {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Town({:?})", self.manner())
    }
}

impl Town {
    fn new(env: &Env) -> Arc<Self> {
        let (manner, engines) = (Mutex::new(Manner::Right), Mutex::default());
        Arc::new(Self { env: env.clone(), manner, engines, asked_for_pieces: Mutex::default() })
    }

    async fn open(self: &Arc<Self>, bucket: &FaultStore, name: &str) -> Arc<Engine> {
        let peers = Some(Arc::clone(self) as Arc<dyn Peers>);
        let options = EngineOptions { peers, address: name.to_owned(), ..small_options() };
        let engine = open_on(bucket, &self.env, name, options).await;
        self.engines.lock().unwrap().insert(name.to_owned(), Arc::downgrade(&engine));
        engine
    }

    fn engine(&self, address: &str) -> Option<Arc<Engine>> {
        self.engines.lock().unwrap().get(address)?.upgrade()
    }

    fn manner(&self) -> Manner {
        *self.manner.lock().unwrap()
    }

    fn set(&self, manner: Manner) {
        *self.manner.lock().unwrap() = manner;
    }
}

fn changed(bytes: &Bytes) -> Bytes {
    let mut changed = bytes.to_vec();
    let middle = changed.len() / 2;
    changed[middle] ^= 1;
    changed.into()
}

impl Peers for Town {
    fn frames<'a>(
        &'a self,
        address: &'a str,
        AskedFrames { writer, from, wait, most_bytes }: AskedFrames,
        patience: Duration,
    ) -> BoxFuture<'a, Option<PeerFrames>> {
        Box::pin(async move {
            let (engine, manner) = (self.engine(address)?, self.manner());
            match manner {
                Manner::Silent => return None,
                Manner::Hangs => return self.env.timeout(patience, std::future::pending()).await?,
                _ => {}
            }
            self.env.sleep(Duration::from_millis(1)).await;
            let from = if manner == Manner::Shifted { from.checked_sub(1)? } else { from };
            let mut answer = engine.frames_for_peer(writer, from, (wait, most_bytes)).await?;
            match manner {
                Manner::Damaged => answer.frames.iter_mut().for_each(|frame| *frame = changed(frame)),
                Manner::Boasting => answer.end += 7,
                _ => {}
            }
            Some(answer)
        })
    }

    fn pieces<'a>(
        &'a self,
        address: &'a str,
        (block, ranges): (Id, &'a [Range<u64>]),
        _patience: Duration,
    ) -> BoxFuture<'a, Option<Vec<Option<Bytes>>>> {
        Box::pin(async move {
            self.asked_for_pieces.lock().unwrap().push(address.to_owned());
            let (engine, manner) = (self.engine(address)?, self.manner());
            if manner == Manner::Silent {
                return None;
            }
            self.env.sleep(Duration::from_millis(1)).await;
            let mut pieces = engine.pieces_for_peer(block, ranges).await;
            if manner == Manner::Short {
                pieces.iter_mut().flatten().for_each(|piece| piece.truncate(piece.len() - 1));
            }
            Some(pieces)
        })
    }
}

/// GETs of an engine in a class.
fn gets(engine: &Engine, class: Class) -> u64 {
    let usage = engine.store().meter().snapshot();
    let is_one = |one: &&_| -> bool {
        let one: &sandur_store::Usage = one;
        one.operation == Operation::Get && one.class == class
    };
    usage.iter().filter(is_one).map(|one| one.requests).sum()
}

#[tokio::test(start_paused = true)]
async fn rows_of_a_peer_are_seen_at_once_and_without_reading_its_wal() {
    let env = Env::simulated(1, START_NS);
    let (bucket, town) = (near_bucket(&env, 1), Town::new(&env));
    let (one, two) = (town.open(&bucket, "one").await, town.open(&bucket, "two").await);
    env.sleep(Duration::from_secs(5)).await;
    let before = gets(&two, Class::Wal);
    let mut oldest = Duration::ZERO;
    for n in 0..60 {
        let row = push_row(&one, "a", n, "x").await.unwrap();
        let acknowledged = env.monotonic();
        while !read_all(&two).await.contains(&row) {
            env.sleep(Duration::from_millis(1)).await;
        }
        oldest = oldest.max(env.monotonic() - acknowledged);
        env.sleep(Duration::from_millis(700)).await;
        assert_eq!(warnings_of(&two).await, Vec::<String>::new());
    }
    println!("rows of a peer are at most {oldest:?} old");
    assert!(oldest <= Duration::from_millis(20), "{oldest:?}");
    assert_eq!(gets(&two, Class::Wal), before, "its WAL was not read from the bucket");
    assert_eq!(two.metrics().told_segments.get(), 60);
}

/// What a process costs beside others that nobody queries.
async fn idle_beside(others: usize, seconds: u64) {
    let env = Env::simulated(2, START_NS);
    let (bucket, town) = (near_bucket(&env, 2), Town::new(&env));
    let mut engines = Vec::new();
    for number in 0..=others {
        engines.push(town.open(&bucket, &format!("node-{number}")).await);
    }
    env.sleep(Duration::from_secs(60)).await;
    let of = |class| gets(&engines[0], class);
    let dollars = || engines[0].store().meter().dollars();
    let before = (of(Class::Wal), of(Class::Catalog), dollars());
    env.sleep(Duration::from_secs(seconds)).await;
    let hourly = |gets: u64| gets * 3_600 / seconds;
    let (wal, catalog) = (hourly(of(Class::Wal) - before.0), hourly(of(Class::Catalog) - before.1));
    let month = (dollars() - before.2) * (30 * 86_400) as f64 / seconds as f64;
    println!(
        "beside {others} others: {wal} GETs of WALs in an hour, {catalog} of the catalog, ${month:.2} a month"
    );
    assert_eq!(wal, 0);
    assert!(catalog <= 2_400, "{catalog}");
    assert!(month <= 3.0, "${month:.2} a month");
    assert_eq!(warnings_of(&engines[0]).await, Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn an_idle_process_beside_many_reads_no_wal_and_rarely_the_catalog() {
    idle_beside(2, 300).await;
    idle_beside(8, 600).await;
    idle_beside(9, 600).await;
}

#[tokio::test(start_paused = true)]
#[ignore = "takes minutes; `cargo xtask nightly` runs it"]
async fn an_idle_process_beside_a_hundred_reads_few_heartbeats() {
    idle_beside(19, 600).await;
    idle_beside(99, 240).await;
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_answers_wrongly_or_not_at_all_changes_no_answer() {
    let wrong = [Manner::Silent, Manner::Hangs, Manner::Shifted, Manner::Damaged, Manner::Boasting];
    for manner in wrong {
        let env = Env::simulated(3, START_NS);
        let (bucket, town) = (near_bucket(&env, 3), Town::new(&env));
        let (one, two) = (town.open(&bucket, "one").await, town.open(&bucket, "two").await);
        let mut rows = push_rows(&one, "a", 0..10).await;
        env.sleep(Duration::from_secs(3)).await;
        town.set(manner);
        rows.extend(push_rows(&one, "a", 10..20).await);
        env.sleep(Duration::from_secs(5)).await;
        assert_eq!(read_all(&two).await, sorted([rows.clone()]), "{manner:?}");
        assert_eq!(warnings_of(&two).await, Vec::<String>::new(), "{manner:?}");
        one.flush().await.unwrap();
        rows.extend(push_rows(&one, "a", 20..30).await);
        env.sleep(Duration::from_secs(5)).await;
        assert_eq!(read_all(&two).await, sorted([rows.clone()]), "{manner:?}");
        town.set(Manner::Right);
        rows.extend(push_rows(&one, "a", 30..40).await);
        env.sleep(Duration::from_secs(40)).await;
        assert_eq!(read_all(&two).await, sorted([rows]), "{manner:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_dead_peer_is_read_from_the_bucket_and_adopted_once() {
    let env = Env::simulated(4, START_NS);
    let (bucket, town) = (near_bucket(&env, 4), Town::new(&env));
    let (one, two) = (town.open(&bucket, "one").await, town.open(&bucket, "two").await);
    let three = town.open(&bucket, "three").await;
    env.sleep(Duration::from_secs(5)).await;
    let rows = push_rows(&one, "a", 0..10).await;
    town.engines.lock().unwrap().remove("one");
    drop(one);
    for second in 0..90 {
        env.sleep(Duration::from_secs(1)).await;
        if second >= 3 {
            assert_eq!(read_all(&two).await, rows, "after {second} s");
            assert_eq!(read_all(&three).await, rows, "after {second} s");
        }
    }
    assert_eq!(two.metrics().adoptions.get() + three.metrics().adoptions.get(), 1);
}

#[tokio::test(start_paused = true)]
async fn frames_that_the_writer_does_not_have_in_memory_any_more_are_read_from_the_bucket() {
    let env = Env::simulated(5, START_NS);
    let (bucket, town) = (near_bucket(&env, 5), Town::new(&env));
    let one = town.open(&bucket, "one").await;
    let line: String = (0..100_000).map(|_| char::from(b'a' + env.random_below(26) as u8)).collect();
    let mut rows = Vec::new();
    for n in 0..30 {
        rows.push(push_row(&one, "a", n, &format!("{n} {line}")).await.unwrap());
    }
    assert!(one.frames_for_peer(one.incarnation(), 0, (Duration::ZERO, MIB)).await.is_none());
    let two = town.open(&bucket, "two").await;
    assert_eq!(read_all(&two).await, sorted([rows.clone()]));
    rows.push(push_row(&one, "a", 30, "x").await.unwrap());
    env.sleep(Duration::from_millis(20)).await;
    assert_eq!(read_all(&two).await, sorted([rows]));
}

#[tokio::test(start_paused = true)]
async fn a_block_is_asked_of_its_author_before_the_bucket() {
    for manner in [Manner::Right, Manner::Short, Manner::Silent] {
        let env = Env::simulated(6, START_NS);
        let (bucket, town) = (near_bucket(&env, 6), Town::new(&env));
        let (one, two) = (town.open(&bucket, "one").await, town.open(&bucket, "two").await);
        let rows = push_rows(&one, "a", 0..100).await;
        one.flush().await.unwrap();
        env.sleep(Duration::from_secs(5)).await;
        town.set(manner);
        let (context, before) = (context(&env), gets(&two, Class::Block));
        assert_eq!(read_all_with(&two, &context).await, rows, "{manner:?}");
        let (asked, sent) = (context.stats().snapshot().store_requests, gets(&two, Class::Block) - before);
        println!("{manner:?}: {asked} requests of the query to the store, {sent} GETs");
        match manner {
            Manner::Right => assert_eq!((asked, sent), (0, 0)),
            _ => assert!(asked > 0 && sent > 0),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_process_does_not_ask_itself_for_its_own_blocks() {
    let env = Env::simulated(7, START_NS);
    let (bucket, town) = (near_bucket(&env, 7), Town::new(&env));
    let (one, two) = (town.open(&bucket, "one").await, town.open(&bucket, "two").await);
    env.sleep(Duration::from_secs(5)).await;
    let (author, ranges) = (one.incarnation(), [8..9, 20..30]);
    for (engine, is_asked) in [(&one, false), (&two, true)] {
        let peers = engine.node().peers.clone().unwrap();
        assert_eq!(peers.pieces(author, Id(1), &ranges).await.is_some(), is_asked);
        assert_eq!(!town.asked_for_pieces.lock().unwrap().is_empty(), is_asked);
    }
}
