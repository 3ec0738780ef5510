//! A relay under accelerated time, with targets that are unreachable, stall, or lose what was written
//! last, and with full disks.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use sandur_base::BoxFuture;
use sandur_memory::MemoryBudget;
use sandur_runtime::Env;

use crate::config::{Format, read};
use crate::connect::{Connection, Connector};
use crate::intake::take;
use crate::memory::Memory;
use crate::model::{Protocol, Routing, Target};
use crate::relay::Sorter;
use crate::running::Running;
use crate::spool::tests::MemoryDisk;
use crate::spool::{Disk, Options, Spool};

#[derive(Default)]
struct Remote {
    is_up: bool,
    stalls: bool,
    received: Vec<u8>,
    lines: u64,
    /// Incremented when all connections are lost.
    epoch: u64,
}

/// Targets by host.
#[derive(Clone)]
pub(crate) struct Remotes {
    env: Env,
    all: Arc<Mutex<HashMap<String, Remote>>>,
}

impl Remotes {
    fn new(env: &Env) -> Self {
        Self { env: env.clone(), all: Arc::default() }
    }

    fn with<T>(&self, host: &str, change: impl FnOnce(&mut Remote) -> T) -> T {
        change(self.all.lock().unwrap().entry(host.to_owned()).or_default())
    }

    pub(crate) fn set_up(&self, host: &str, is_up: bool) {
        self.with(host, |remote| remote.is_up = is_up);
    }

    /// The received values, by name.
    pub(crate) fn values(&self, host: &str) -> BTreeMap<String, Vec<u64>> {
        let text = self.with(host, |remote| String::from_utf8(remote.received.clone()).unwrap());
        let mut values = BTreeMap::<String, Vec<u64>>::new();
        for line in text.lines() {
            let fields: Vec<&str> = line.split(' ').collect();
            values.entry(fields[0].to_owned()).or_default().push(fields[1].parse().unwrap());
        }
        values
    }
}

impl Connector for Remotes {
    fn connect(&self, target: Arc<Target>) -> BoxFuture<'static, io::Result<Box<dyn Connection>>> {
        let remotes = self.clone();
        Box::pin(async move {
            let host = target.node.host.clone();
            let (is_up, epoch) = remotes.with(&host, |remote| (remote.is_up, remote.epoch));
            if !is_up {
                return Err(io::ErrorKind::ConnectionRefused.into());
            }
            Ok(Box::new(Open { remotes, host, epoch }) as Box<dyn Connection>)
        })
    }
}

struct Open {
    remotes: Remotes,
    host: String,
    epoch: u64,
}

impl Connection for Open {
    fn write<'a>(&'a mut self, bytes: &'a [u8]) -> BoxFuture<'a, io::Result<()>> {
        Box::pin(async move {
            while self.remotes.with(&self.host, |remote| remote.stalls) {
                self.remotes.env.sleep(Duration::from_millis(50)).await;
            }
            let epoch = self.epoch;
            self.remotes.with(&self.host, |remote| match remote.is_up && remote.epoch == epoch {
                true => {
                    remote.received.extend_from_slice(bytes);
                    remote.lines += bytes.iter().filter(|byte| **byte == b'\n').count() as u64;
                    Ok(())
                }
                false => Err(io::ErrorKind::BrokenPipe.into()),
            })
        })
    }

    fn ended(&mut self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            let epoch = self.epoch;
            while self.remotes.with(&self.host, |remote| remote.is_up && remote.epoch == epoch) {
                self.remotes.env.sleep(Duration::from_millis(200)).await;
            }
        })
    }
}

fn routing(text: &str) -> Routing {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("relay.conf");
    std::fs::write(&path, text).unwrap();
    read(&path, Some(Format::CarbonCRelay), None).unwrap()
}

pub(crate) struct World {
    pub(crate) env: Env,
    pub(crate) remotes: Remotes,
    disks: Arc<Mutex<HashMap<String, Arc<MemoryDisk>>>>,
    options: Options,
}

pub(crate) fn memory() -> Memory {
    Memory::within(&MemoryBudget::root("process", 4 << 30))
}

impl World {
    fn start(&self, text: &str) -> Running {
        self.start_within(text, &memory())
    }

    pub(crate) fn start_within(&self, text: &str, memory: &Memory) -> Running {
        let disks = Arc::clone(&self.disks);
        let options = self.options;
        let open = move |name: &str| {
            let disk = Arc::clone(disks.lock().unwrap().entry(name.to_owned()).or_default());
            Spool::open(disk as Arc<dyn Disk>, options).map(Some)
        };
        let mut routing = routing(text);
        (routing.statistics.every, routing.queue_bytes) = (None, Some(1 << 20));
        Running::start((&self.env, memory), routing, Arc::new(self.remotes.clone()), &open, "host.example")
            .unwrap()
    }

    pub(crate) async fn seconds(&self, seconds: f64) {
        self.env.sleep(Duration::from_secs_f64(seconds)).await;
    }
}

pub(crate) fn in_world<F: Future<Output = ()>>(test: impl FnOnce(World) -> F) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    runtime.unwrap().block_on(async {
        let env = Env::simulated(7, 1_600_000_000_000_000_000);
        let remotes = Remotes::new(&env);
        test(World { env, remotes, disks: Arc::default(), options: Options::default() }).await;
    });
}

const NAMES: u64 = 20;

/// Sends one value for every name.
fn send(sorter: &mut Sorter, value: u64) {
    (0..NAMES).for_each(|name| sorter.take(format!("a.n{name}.cpu {value} {value}").as_bytes()));
    sorter.flush();
}

fn assert_each_once(values: &BTreeMap<String, Vec<u64>>, count: u64) {
    assert_eq!(values.len() as u64, NAMES);
    values.iter().for_each(|(name, own)| assert!(own.iter().copied().eq(0..count), "{name}: {own:?}"));
}

const TWO: &str = "cluster legacy forward old; cluster new forward new; match * send to legacy new;";

#[test]
fn a_target_unreachable_for_ten_minutes_gets_every_point_once_and_in_order() {
    in_world(|world| async move {
        world.remotes.set_up("new", true);
        let running = world.start(TWO);
        let mut sorter = running.relay.sorter();
        for second in 0..600 {
            send(&mut sorter, second);
            world.seconds(1.0).await;
            assert_eq!(world.remotes.with("new", |remote| remote.lines), (second + 1) * NAMES);
        }
        world.remotes.set_up("old", true);
        for second in 600..660 {
            send(&mut sorter, second);
            world.seconds(1.0).await;
        }
        assert_each_once(&world.remotes.values("old"), 660);
        assert_each_once(&world.remotes.values("new"), 660);
        let counters = running.relay.target_counters(0).unwrap();
        assert_eq!((counters.sent.get(), counters.attempted.get()), (660 * NAMES, 660 * NAMES));
        assert_eq!(counters.dropped.get() + counters.lost.get(), 0);
        assert!(counters.spooled.get() >= 590 * NAMES);
        running.stop().await;
    });
}

#[test]
fn a_stalled_target_delays_no_other_and_gets_everything_in_order() {
    in_world(|world| async move {
        world.remotes.set_up("new", true);
        world.remotes.set_up("old", true);
        let running = world.start(TWO);
        let mut sorter = running.relay.sorter();
        for second in 0..200 {
            world.remotes.with("old", |remote| remote.stalls = (50..150).contains(&second));
            send(&mut sorter, second);
            world.seconds(1.0).await;
            assert_eq!(world.remotes.with("new", |remote| remote.lines), (second + 1) * NAMES);
        }
        world.seconds(60.0).await;
        let old = world.remotes.values("old");
        for (name, values) in &old {
            let all: BTreeSet<u64> = values.iter().copied().collect();
            assert_eq!(all.len(), 200, "{name}");
        }
        running.stop().await;
    });
}

#[test]
fn lines_lost_with_a_broken_connection_are_sent_again() {
    in_world(|world| async move {
        world.remotes.set_up("new", true);
        world.remotes.set_up("old", true);
        let running = world.start(TWO);
        let mut sorter = running.relay.sorter();
        for second in 0..100 {
            send(&mut sorter, second);
            world.seconds(1.0).await;
            if second % 10 == 5 {
                // The last lines were only in the target's buffers.
                world.remotes.with("old", |remote| {
                    let keep = remote.received.len().saturating_sub(900);
                    let end = remote.received[..keep]
                        .iter()
                        .rposition(|byte| *byte == b'\n')
                        .map_or(0, |at| at + 1);
                    remote.received.truncate(end);
                    remote.epoch += 1;
                });
            }
        }
        world.seconds(20.0).await;
        for (name, values) in world.remotes.values("old") {
            let all: BTreeSet<u64> = values.iter().copied().collect();
            assert_eq!(all.len(), 100, "{name}: {values:?}");
            assert_eq!(values.last(), Some(&99), "{name}: the newest value is the last");
        }
        running.stop().await;
    });
}

#[test]
fn a_killed_relay_loses_at_most_a_tick_and_a_stopped_one_nothing() {
    for is_killed in [true, false] {
        in_world(|world| async move {
            let text = "cluster legacy forward old; match * send to legacy;";
            let running = world.start(text);
            let mut sorter = running.relay.sorter();
            for second in 0..50 {
                send(&mut sorter, second);
                world.seconds(1.0).await;
            }
            send(&mut sorter, 50);
            match is_killed {
                true => drop(running),
                false => running.stop().await,
            }
            world.remotes.set_up("old", true);
            let running = world.start(text);
            world.seconds(10.0).await;
            assert_each_once(&world.remotes.values("old"), if is_killed { 50 } else { 51 });
            running.stop().await;
        });
    }
}

/// A target accepts nothing while further lines queue up after those that a broken connection may have
/// lost. Neither a stop nor a kill loses any.
#[test]
fn lines_that_a_stalled_target_did_not_read_survive_a_stop_or_kill() {
    for (is_killed, breaks) in [(false, false), (false, true), (true, true)] {
        in_world(|world| async move {
            let text = "cluster legacy forward old; match * send to legacy;";
            world.remotes.set_up("old", true);
            let running = world.start(text);
            let mut sorter = running.relay.sorter();
            world.remotes.with("old", |remote| remote.stalls = true);
            for second in 0..20 {
                send(&mut sorter, second);
                world.seconds(1.0).await;
            }
            if breaks {
                // Lines of the current write are sent again, before those on disk.
                world.remotes.with("old", |remote| {
                    (remote.is_up, remote.stalls) = (false, false);
                    remote.received.clear();
                    remote.epoch += 1;
                });
                world.seconds(2.0).await;
            }
            let began = world.env.monotonic();
            match is_killed {
                true => drop(running),
                false => running.stop().await,
            }
            let took = world.env.monotonic() - began;
            assert!(took < Duration::from_secs(7), "a stop waits for five seconds, not for {took:?}");
            world.remotes.with("old", |remote| {
                (remote.is_up, remote.stalls) = (true, false);
                remote.epoch += 1;
            });
            let running = world.start(text);
            world.seconds(10.0).await;
            let received = world.remotes.values("old");
            assert_eq!(received.len() as u64, NAMES);
            for (name, values) in received {
                assert!(values.is_sorted() && values.len() >= 20, "{name}: {values:?}");
                let all: BTreeSet<u64> = values.into_iter().collect();
                assert_eq!(all.len(), 20, "{name}");
            }
            running.stop().await;
        });
    }
}

#[test]
fn lines_delivered_before_a_stop_are_not_sent_again() {
    in_world(|world| async move {
        let text = "cluster legacy forward old; match * send to legacy;";
        world.remotes.set_up("old", true);
        for value in 0..3 {
            let running = world.start(text);
            send(&mut running.relay.sorter(), value);
            world.seconds(1.0).await;
            running.stop().await;
        }
        assert_each_once(&world.remotes.values("old"), 3);
    });
}

#[test]
fn points_dropped_because_the_disk_is_full_are_counted() {
    in_world(|world| async move {
        let running = world.start("cluster legacy forward old; match * send to legacy;");
        let disks: Vec<Arc<MemoryDisk>> = world.disks.lock().unwrap().values().cloned().collect();
        disks[0].set_room(Some(20_000));
        let mut sorter = running.relay.sorter();
        let padding = "x".repeat(2_000);
        for second in 0..600_u64 {
            for name in 0..5 {
                sorter.take(format!("a.{padding}.n{name} {second} {second}").as_bytes());
            }
            sorter.flush();
            world.seconds(0.2).await;
        }
        world.remotes.set_up("old", true);
        world.seconds(30.0).await;
        let counters = running.relay.target_counters(0).unwrap();
        let received: usize = world.remotes.values("old").values().map(Vec::len).sum();
        assert_eq!(received as u64 + counters.dropped.get(), 3_000);
        assert_eq!(counters.sent.get(), received as u64);
        assert!(counters.dropped.get() > 500, "a megabyte of memory holds {received}");
        assert!(world.remotes.values("old").values().all(|values| values.is_sorted()));
        running.stop().await;
    });
}

#[test]
fn a_point_reaches_one_of_the_targets_that_are_live() {
    let clusters = ["failover h1 h2", "any_of h1 h2", "carbon_ch dynamic h1 h2"];
    for cluster in clusters {
        in_world(|world| async move {
            let running = world.start(&format!("cluster main {cluster}; match * send to main;"));
            world.remotes.set_up("h2", true);
            world.seconds(1.0).await;
            let mut sorter = running.relay.sorter();
            (0..30).for_each(|value| send(&mut sorter, value));
            world.seconds(1.0).await;
            assert_each_once(&world.remotes.values("h2"), 30);
            world.remotes.set_up("h1", true);
            world.seconds(10.0).await;
            send(&mut sorter, 30);
            world.seconds(1.0).await;
            assert!(!world.remotes.values("h1").is_empty(), "{cluster}");
            running.stop().await;
        });
    }
}

#[test]
fn sums_and_own_metrics_are_sent_as_points() {
    in_world(|world| async move {
        world.remotes.set_up("h1", true);
        let text = "cluster main forward h1:2003=a;
            aggregate ^a\\.n[0-9]+\\.(.*) every 10 seconds expire after 20 seconds
                compute sum write to sum.\\1 send to main stop;
            match * send to main;
            statistics submit every 30 seconds;";
        let open = |_: &str| Ok(None);
        let connector = Arc::new(world.remotes.clone());
        let running =
            Running::start((&world.env, &memory()), routing(text), connector, &open, "host.example").unwrap();
        let mut sorter = running.relay.sorter();
        let now = world.env.now_ns() / 1_000_000_000;
        for (name, value) in [(1, 2), (2, 3), (3, 5)] {
            sorter.take(format!("a.n{name}.cpu {value} {now}").as_bytes());
        }
        sorter.take(b"no point");
        world.seconds(40.0).await;
        let values = world.remotes.values("h1");
        assert_eq!(values["sum.cpu"], [10]);
        assert_eq!(values["carbon.relays.host_example.metricsReceived"], [3]);
        assert_eq!(values["carbon.relays.host_example.invalidMetrics"], [1]);
        assert_eq!(values["carbon.relays.host_example.destinations.h1:2003:a.sent"], [1]);
        running.stop().await;
    });
}

#[test]
fn pickles_and_numbers_in_the_form_of_python_are_accepted() {
    in_world(|world| async move {
        world.remotes.set_up("h1", true);
        let running = world.start("cluster main forward h1; match * send to main;");
        let mut bytes = Vec::new();
        crate::pickle::message(&[b"a.b 7 100", b"a.c 8 101"], 0, &mut bytes);
        bytes.extend_from_slice(&[0xff; 4]);
        let stopping = sandur_runtime::Shutdown::default();
        let stream = bytes.as_slice();
        let place = || running.senders.admit([10, 0, 0, 1].into()).unwrap();
        take(place(), Protocol::Pickle, stream, stopping.signal()).await;
        let lines: &[u8] = b"a.d 1_000 5\na.e nan 5\n\na.f 1 -1\r\ncut";
        take(place(), Protocol::Line, lines, stopping.signal()).await;
        world.seconds(1.0).await;
        let values = world.remotes.values("h1");
        let expected = [("a.b", 7), ("a.c", 8), ("a.d", 1_000), ("a.f", 1)];
        assert_eq!(values.len(), expected.len(), "{values:?}");
        expected.iter().for_each(|(name, value)| assert_eq!(values[*name], [*value], "{name}"));
        let counters = running.relay.counters();
        assert_eq!((counters.received.get(), counters.rejected.get()), (4, 2));
        running.stop().await;
    });
}

#[test]
fn an_endless_line_is_skipped_and_the_next_is_accepted() {
    in_world(|world| async move {
        world.remotes.set_up("h1", true);
        let running = world.start("cluster main forward h1; match * send to main;");
        let mut bytes = vec![b'x'; 1 << 20];
        bytes.extend_from_slice(b" 1 2\na.b 3 4\n");
        let stopping = sandur_runtime::Shutdown::default();
        let place = running.senders.admit([10, 0, 0, 1].into()).unwrap();
        take(place, Protocol::Line, bytes.as_slice(), stopping.signal()).await;
        world.seconds(1.0).await;
        assert_eq!(world.remotes.values("h1").into_iter().collect::<Vec<_>>(), [("a.b".to_owned(), vec![3])]);
        assert_eq!(running.relay.counters().rejected.get(), 1);
        running.stop().await;
    });
}

/// A disk whose first write blocks until the test lets it continue.
struct HeldDisk {
    inner: MemoryDisk,
    begins: Mutex<std::sync::mpsc::Sender<()>>,
    may_go_on: Mutex<std::sync::mpsc::Receiver<()>>,
}

impl Disk for HeldDisk {
    fn list(&self) -> io::Result<Vec<(String, u64)>> {
        self.inner.list()
    }
    fn append(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        _ = self.begins.lock().unwrap().send(());
        // An error means that the test lets all writes continue.
        _ = self.may_go_on.lock().unwrap().recv();
        self.inner.append(name, bytes)
    }
    fn read(&self, name: &str, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        self.inner.read(name, offset, buffer)
    }
    fn truncate(&self, name: &str, length: u64) -> io::Result<()> {
        self.inner.truncate(name, length)
    }
    fn sync(&self, name: &str) -> io::Result<()> {
        self.inner.sync(name)
    }
    fn replace(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        self.inner.replace(name, bytes)
    }
    fn remove(&self, name: &str) -> io::Result<()> {
        self.inner.remove(name)
    }
}

#[test]
fn a_stop_during_a_disk_write_loses_nothing() {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_time().build().unwrap();
    runtime.block_on(async {
        let env = Env::system(7);
        let (begins, begun) = std::sync::mpsc::channel();
        let (go_on, may_go_on) = std::sync::mpsc::channel::<()>();
        let (begins, may_go_on) = (Mutex::new(begins), Mutex::new(may_go_on));
        let disk = Arc::new(HeldDisk { inner: MemoryDisk::default(), begins, may_go_on });
        let kept = Arc::clone(&disk);
        let open =
            move |_: &str| Spool::open(Arc::clone(&kept) as Arc<dyn Disk>, Options::default()).map(Some);
        let mut routing = routing("cluster old forward old; match * send to old;");
        routing.statistics.every = None;
        let remotes = Arc::new(Remotes::new(&env));
        let running = Running::start((&env, &memory()), routing, remotes, &open, "host.example").unwrap();
        let mut sorter = running.relay.sorter();
        send(&mut sorter, 0);
        #[allow(clippy::disallowed_methods)] // the disk below waits as one of the operating system does
        tokio::task::spawn_blocking(move || begun.recv().unwrap()).await.unwrap();
        send(&mut sorter, 1);
        let mut stop = std::pin::pin!(running.stop());
        tokio::select! {
            biased;
            () = &mut stop => panic!("stopped while the disk writes"),
            () = std::future::ready(()) => {}
        }
        drop(go_on);
        stop.await;
        let mut spool = Spool::open(disk as Arc<dyn Disk>, Options::default()).unwrap();
        let mut points = 0;
        while let Some(batch) = spool.peek(1 << 20).unwrap() {
            points += batch.points;
            spool.confirm(&batch);
        }
        assert_eq!(points, 2 * NAMES);
    });
}

#[test]
fn names_are_cleaned_before_routing_and_keep_their_tags() {
    in_world(|world| async move {
        world.remotes.set_up("h1", true);
        world.remotes.set_up("h2", true);
        let running = world.start(
            "cluster one forward h1; cluster two forward h2;
             match ^a\\.b_c$ send to one stop; match * send to two;",
        );
        let mut sorter = running.relay.sorter();
        for line in ["..a..b/c. 1 5", "a.b/c;t=x/y 2 5", "a.b 3 5"] {
            sorter.take(line.as_bytes());
        }
        sorter.flush();
        world.seconds(1.0).await;
        let values = world.remotes.values("h1");
        assert_eq!((values["a.b_c"].as_slice(), values["a.b_c;t=x/y"].as_slice()), (&[1][..], &[2][..]));
        assert_eq!(world.remotes.values("h2")["a.b"], [3]);
        running.stop().await;
    });
}

#[test]
fn queues_stay_within_the_memory_of_the_relay() {
    in_world(|world| async move {
        let queues = MemoryBudget::root("relay", 3 << 20);
        let memory = Memory { queues: queues.clone(), ..memory() };
        let mut routing = routing("cluster main forward h1; match * send to main;");
        routing.statistics.every = None;
        let remotes = Arc::new(world.remotes.clone());
        let none = |_: &str| Ok(None);
        let start = |routing| {
            Running::start((&world.env, &memory), routing, Arc::clone(&remotes) as _, &none, "host")
        };
        let running = start(routing.clone()).unwrap();
        let refused = start(routing).map(drop).unwrap_err();
        assert!(refused.to_string().contains("relay"), "{refused}");
        let (mut sorter, line) = (running.relay.sorter(), format!("{} 1 5", "n".repeat(1000)));
        for _ in 0..3_000 {
            sorter.take(line.as_bytes());
        }
        sorter.flush();
        assert!(queues.used() > 2 << 20 && queues.used() <= 3 << 20, "{queues:?}");
        let dropped = running.relay.target_counters(0).unwrap().dropped.get();
        assert!((1_000..3_000).contains(&dropped), "{dropped}");
        drop(running);
    });
}

/// The answers of carbon-c-relay 3.9 to the same file and lines. The relay used to ignore validations.
#[test]
fn points_whose_data_fails_a_validation_are_not_sent() {
    let text = r#"
        cluster ints forward ints;
        cluster floats forward floats;
        cluster logged forward logged;
        cluster quoted forward quoted;
        cluster rest forward rest;
        match ^g validate ^[0-9]+\ [0-9]+$ else drop;
        match ^f validate ^[0-9]+\ [0-9]+$ else drop send to ints;
        match ^f validate ^[0-9.e+-]+\ [0-9.e+-]+$ else drop send to floats stop;
        match ^l validate "^[0-9]+ [0-9]+$" else log send to logged;
        match ^v validate [0-9]$ else drop stop;
        match ^w validate "^[0-9]+ [0-9]+$" else log;
        match "^q\\.x" "^z\.x" send to quoted stop;
        match * send to rest;"#;
    let lines = "g.int 1 1000\ng.float 1.5 1000\nf.int 2 1000\nf.float 2.5 1000\nl.int 3 1000\n\
                 l.float  3.5   1000\nv.one 1 1000\nv.two 1.5 1000\nw.int 4 1000\nw.float 4.5 1000\n\
                 f.tag;a=b 5 1000\nq.x 1 1000\nqaxb 1 1000\nz.x 1 1000\nzaxb 1 1000\nl.now 3 -1\n\
                 other 1 1000";
    let expected = [
        ("ints", "f.int 2"),
        ("floats", "f.int 2|f.float 2.5"),
        ("logged", "l.int 3"),
        ("quoted", "q.x 1|z.x 1|zaxb 1"),
        ("rest", "g.int 1|l.int 3|l.float 3.5|v.one 1|v.two 1.5|w.int 4|qaxb 1|l.now 3|other 1"),
    ];
    in_world(|world| async move {
        expected.iter().for_each(|(host, _)| world.remotes.set_up(host, true));
        let running = world.start(text);
        let mut sorter = running.relay.sorter();
        lines.lines().for_each(|line| sorter.take(line.as_bytes()));
        sorter.flush();
        world.seconds(1.0).await;
        for (host, names) in expected {
            let received =
                world.remotes.with(host, |remote| String::from_utf8(remote.received.clone()).unwrap());
            let names_and_values = received.lines().map(|line| line.rsplit_once(' ').unwrap().0);
            assert_eq!(names_and_values.collect::<Vec<_>>().join("|"), names, "{host}");
        }
        let counters = running.relay.counters();
        assert_eq!((counters.invalid_data.get(), counters.unrouted.get()), (7, 0));
        running.stop().await;
    });
}

/// Collects the messages of log lines, with the spool's bytes.
#[derive(Clone, Default)]
struct Logged(Arc<Mutex<Vec<(String, u64)>>>);

impl<S: tracing::Subscriber> tracing_subscriber::Layer<S> for Logged {
    fn on_event(&self, event: &tracing::Event<'_>, _: tracing_subscriber::layer::Context<'_, S>) {
        self.0.lock().unwrap().push((String::new(), 0));
        event.record(&mut self.clone());
    }
}

impl tracing::field::Visit for Logged {
    fn record_debug(&mut self, field: &tracing::field::Field, value: &dyn std::fmt::Debug) {
        if field.name() == "message" {
            self.0.lock().unwrap().last_mut().unwrap().0 = format!("{value:?}");
        }
    }

    fn record_u64(&mut self, field: &tracing::field::Field, value: u64) {
        if field.name() == "spool_bytes" {
            self.0.lock().unwrap().last_mut().unwrap().1 = value;
        }
    }
}

/// A target that was lost after it had been connected gave no line, neither then nor when it was back.
#[test]
fn the_loss_of_a_target_and_its_return_are_logged_once() {
    use tracing_subscriber::layer::SubscriberExt;
    let logged = Logged::default();
    let _guard = tracing::subscriber::set_default(tracing_subscriber::registry().with(logged.clone()));
    // While there is only one subscriber, the first thread that reaches an event decides whether it is
    // enabled, and the threads of other tests have none.
    let _second = tracing::Dispatch::new(tracing::subscriber::NoSubscriber::default());
    in_world(|world| async move {
        ["old", "new"].iter().for_each(|host| world.remotes.set_up(host, true));
        let running = world.start(TWO);
        let mut sorter = running.relay.sorter();
        for second in 0..200 {
            world.remotes.set_up("old", !(20..120).contains(&second));
            send(&mut sorter, second);
            world.seconds(1.0).await;
        }
        running.stop().await;
    });
    let lines = logged.0.lock().unwrap().clone();
    let of = |text: &str| lines.iter().filter(|(line, _)| line == text).map(|(_, bytes)| *bytes).collect();
    let (lost, back): (Vec<u64>, Vec<u64>) = (of("cannot reach a target"), of("a target is reachable again"));
    assert_eq!((lost.len(), back.len()), (1, 1), "{lines:?}");
    assert!(back[0] > 99 * NAMES * "a.n1.cpu 20 20\n".len() as u64, "{lines:?}");
}
