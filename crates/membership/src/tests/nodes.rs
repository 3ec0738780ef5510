//! Whole nodes: over a network in memory with simulated time, and two over UDP.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use sandur_base::BoxFuture;
use sandur_runtime::Env;
use tokio::sync::mpsc;

use crate::datagram::Refused;
use crate::membership::{Membership, Options};
use crate::network::{DatagramSocket, Network, Udp};
use crate::state::NodeState;
use crate::state::tests::state_of;

const SECRET: &str = "a secret of more than 32 bytes, the first";
const OTHER: &str = "a secret of more than 32 bytes, the other";
const START_NS: i64 = 1_790_000_000_000_000_000;

type Recorded = (Vec<u8>, SocketAddr, SocketAddr);

/// A network in memory that keeps what it carried.
#[derive(Clone, Default)]
struct Memory(Arc<Mutex<Carried>>);

#[derive(Default)]
struct Carried {
    sockets: HashMap<SocketAddr, mpsc::Sender<(Vec<u8>, SocketAddr)>>,
    recorded: Vec<Recorded>,
}

impl Memory {
    fn carry(&self, datagram: &[u8], from: SocketAddr, to: SocketAddr) {
        let carried = self.0.lock().unwrap();
        if let Some(socket) = carried.sockets.get(&to) {
            let _ = socket.try_send((datagram.to_vec(), from));
        }
    }

    fn recorded(&self) -> Vec<Recorded> {
        self.0.lock().unwrap().recorded.clone()
    }
}

impl Network for Memory {
    fn bind(&self, mut address: SocketAddr) -> BoxFuture<'_, io::Result<Arc<dyn DatagramSocket>>> {
        Box::pin(async move {
            let (sender, arrivals) = mpsc::channel(1_000);
            let sockets = &mut self.0.lock().unwrap().sockets;
            if address.port() == 0 {
                address.set_port(40_000 + sockets.len() as u16);
            }
            if sockets.get(&address).is_some_and(|socket| !socket.is_closed()) {
                return Err(io::ErrorKind::AddrInUse.into());
            }
            sockets.insert(address, sender);
            let (network, arrivals) = (self.clone(), tokio::sync::Mutex::new(arrivals));
            Ok(Arc::new(MemorySocket { network, address, arrivals }) as Arc<dyn DatagramSocket>)
        })
    }

    fn resolve<'a>(&'a self, name: &'a str) -> BoxFuture<'a, io::Result<Vec<SocketAddr>>> {
        let found = match name {
            "nodes.example:3101" => Ok(vec![address(1)]),
            _ => Err(io::ErrorKind::NotFound.into()),
        };
        Box::pin(async move { found })
    }

    fn outgoing_ip(&self, _is_v6: bool) -> BoxFuture<'_, io::Result<IpAddr>> {
        Box::pin(async { Err(io::ErrorKind::NetworkUnreachable.into()) })
    }
}

struct MemorySocket {
    network: Memory,
    address: SocketAddr,
    arrivals: tokio::sync::Mutex<mpsc::Receiver<(Vec<u8>, SocketAddr)>>,
}

impl DatagramSocket for MemorySocket {
    fn address(&self) -> io::Result<SocketAddr> {
        Ok(self.address)
    }

    fn send(&self, datagram: &[u8], to: SocketAddr) -> io::Result<()> {
        self.network.0.lock().unwrap().recorded.push((datagram.to_vec(), self.address, to));
        self.network.carry(datagram, self.address, to);
        Ok(())
    }

    fn receive<'a>(&'a self, buffer: &'a mut [u8]) -> BoxFuture<'a, io::Result<(usize, SocketAddr)>> {
        Box::pin(async move {
            let (datagram, from) = self.arrivals.lock().await.recv().await.expect("the network is kept");
            let len = datagram.len().min(buffer.len());
            buffer[..len].copy_from_slice(&datagram[..len]);
            Ok((len, from))
        })
    }
}

fn address(number: u16) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, 1], number))
}

fn options(number: u16, secret_file: Option<PathBuf>) -> Options {
    Options {
        cluster: "s3://bucket".to_owned(),
        secret_file,
        listen: address(number),
        may_use_free_port: false,
        advertise: None,
        state: state_of(number),
        seeds: vec![address(1).to_string()],
        bucket_seeds: Arc::new(Vec::new),
    }
}

struct Secrets(tempfile::TempDir);

impl Secrets {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    }
}

/// Runs under simulated time.
fn simulate<F: Future<Output = ()>>(test: impl FnOnce(Env) -> F) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    runtime.unwrap().block_on(async { test(Env::simulated(1, START_NS)).await });
}

async fn start(env: &Env, network: &Memory, options: Options) -> Membership {
    Membership::start(env, Arc::new(network.clone()), options).await.unwrap()
}

/// Waits until the node sees so many live peers.
async fn sees(node: &Membership, number: usize) {
    let mut view = node.watch();
    view.wait_for(|view| view.alive().count() == number).await.unwrap();
}

#[test]
fn nodes_with_one_secret_meet_by_a_list_a_name_or_the_bucket_and_hear_news() {
    simulate(|env| async move {
        let (network, secrets) = (Memory::default(), Secrets::new());
        let path = secrets.write("secret", SECRET);
        let one = start(&env, &network, options(1, Some(path.clone()))).await;
        let two = start(&env, &network, options(2, Some(path.clone()))).await;
        let by_name = Options {
            seeds: vec!["nodes.example:3101".into(), "no.example:1".into()],
            ..options(3, Some(path.clone()))
        };
        let three = start(&env, &network, by_name).await;
        let by_bucket = Options {
            seeds: Vec::new(),
            bucket_seeds: Arc::new(|| vec![address(2)]),
            ..options(4, Some(path))
        };
        let four = start(&env, &network, by_bucket).await;
        for node in [&one, &two, &three, &four] {
            sees(node, 3).await;
        }
        let (mut news, began) = (one.news(), env.monotonic());
        news.mark_unchanged();
        four.announce(17, 5, false);
        news.changed().await.unwrap();
        assert!(env.monotonic() - began < Duration::from_millis(500));
        assert_eq!(one.view().catalog(), 17);
        three.set_state(NodeState { cache_bytes: 99, ..state_of(3) }).unwrap();
        let mut view = one.watch();
        view.wait_for(|view| view.alive().any(|peer| peer.state.cache_bytes == 99)).await.unwrap();
        two.leave().await;
        sees(&one, 2).await;
    });
}

#[test]
fn nodes_with_different_secrets_or_clusters_do_not_meet() {
    simulate(|env| async move {
        let (network, secrets) = (Memory::default(), Secrets::new());
        let path = secrets.write("secret", SECRET);
        let one = start(&env, &network, options(1, Some(path.clone()))).await;
        let stranger = start(&env, &network, options(2, Some(secrets.write("other", OTHER)))).await;
        let other = Options { cluster: "s3://bucket/2".to_owned(), ..options(3, Some(path)) };
        let neighbour = start(&env, &network, other).await;
        env.sleep(Duration::from_secs(30)).await;
        for node in [&one, &stranger, &neighbour] {
            assert!(node.view().peers.is_empty());
        }
        assert!(one.metrics().refused(Refused::Key) >= 20);
    });
}

/// All nodes change from one secret to another, one file after the other, and never lose each other.
#[test]
fn the_secret_is_rotated_while_nodes_run() {
    simulate(|env| async move {
        let (network, secrets) = (Memory::default(), Secrets::new());
        let files = [secrets.write("1", SECRET), secrets.write("2", SECRET)];
        let one = start(&env, &network, options(1, Some(files[0].clone()))).await;
        let two = start(&env, &network, options(2, Some(files[1].clone()))).await;
        sees(&one, 1).await;
        let both = [format!("{SECRET}\n{OTHER}"), format!("{OTHER}\n{SECRET}")];
        for text in [&both[0], &both[1], OTHER] {
            for file in &files {
                std::fs::write(file, text).unwrap();
                for _ in 0..30 {
                    env.sleep(Duration::from_secs(1)).await;
                    assert!(one.view().alive().count() == 1 && two.view().alive().count() == 1);
                }
            }
        }
        assert_eq!(one.metrics().refused(Refused::Key) + two.metrics().refused(Refused::Key), 0);
        // A file that is broken changes nothing.
        std::fs::write(&files[0], "short").unwrap();
        env.sleep(Duration::from_secs(60)).await;
        assert_eq!(one.view().alive().count(), 1);
        // The old secret is worth nothing any more.
        let old = start(&env, &network, options(3, Some(secrets.write("3", SECRET)))).await;
        env.sleep(Duration::from_secs(20)).await;
        assert!(old.view().peers.is_empty() && one.view().alive().count() == 1);
    });
}

/// Everything that was sent is sent again: at once, to others, and after the node is dead.
#[test]
fn a_recorded_conversation_keeps_nobody_alive() {
    simulate(|env| async move {
        let (network, secrets) = (Memory::default(), Secrets::new());
        let path = secrets.write("secret", SECRET);
        let one = start(&env, &network, options(1, Some(path.clone()))).await;
        let two = start(&env, &network, options(2, Some(path))).await;
        sees(&one, 1).await;
        env.sleep(Duration::from_secs(20)).await;
        let two_address = two.address();
        drop(two);
        let recorded = network.recorded();
        let to_one = |(_, from, _): &&Recorded| *from == two_address;
        for _ in 0..40 {
            for (datagram, from, _) in recorded.iter().filter(to_one) {
                network.carry(datagram, *from, address(1));
            }
            env.sleep(Duration::from_secs(1)).await;
        }
        assert_eq!(one.view().alive().count(), 0);
        let (replays, clocks) =
            (one.metrics().refused(Refused::Replay), one.metrics().refused(Refused::Clock));
        assert!(replays > 300 && clocks > 300, "{replays} {clocks}");
    });
}

#[test]
fn datagrams_that_are_none_are_counted_by_reason_and_answered_by_silence() {
    simulate(|env| async move {
        let (network, secrets) = (Memory::default(), Secrets::new());
        let alone = Options { seeds: Vec::new(), ..options(1, Some(secrets.write("secret", SECRET))) };
        let one = start(&env, &network, alone).await;
        env.sleep(Duration::from_secs(3)).await;
        assert!(network.recorded().is_empty(), "a node without seeds sends nothing");
        for datagram in [vec![], vec![7; 5], vec![7; 60_000], vec![7; 1_000]] {
            network.carry(&datagram, address(66), address(1));
        }
        env.sleep(Duration::from_secs(1)).await;
        assert_eq!(one.metrics().refused(Refused::Length), 3);
        assert_eq!(one.metrics().refused(Refused::Version), 1);
        assert!(network.recorded().is_empty(), "nothing was sent");
    });
}

#[test]
fn clocks_that_are_a_minute_apart_end_gossip_and_say_why() {
    simulate(|env| async move {
        let (network, secrets) = (Memory::default(), Secrets::new());
        let path = secrets.write("secret", SECRET);
        let one = start(&env, &network, options(1, Some(path.clone()))).await;
        let ahead = Env::simulated(2, START_NS + 60_000_000_000);
        let two = start(&ahead, &network, options(2, Some(path))).await;
        env.sleep(Duration::from_secs(20)).await;
        assert!(one.view().peers.is_empty() && two.view().peers.is_empty());
        assert!(one.metrics().refused(Refused::Clock) > 10);
    });
}

#[test]
fn without_a_secret_only_loopback_is_used_and_addresses_must_be_reachable() {
    simulate(|env| async move {
        let network: Arc<dyn Network> = Arc::new(Memory::default());
        let failure = |options| Membership::start(&env, Arc::clone(&network), options);
        let error = failure(options(1, None)).await.err().unwrap().to_string();
        assert!(error.contains("cluster.secret_file") && error.contains("10.0.0.1:1"), "{error}");
        let secret = Some(Secrets::new().write("secret", SECRET));
        let error = failure(options(1, secret)).await.err().unwrap().to_string();
        assert!(error.contains("cluster.secret_file: "), "the folder is gone: {error}");
        let secrets = Secrets::new();
        let secret = Some(secrets.write("secret", SECRET));
        let any = Options { listen: "0.0.0.0:7".parse().unwrap(), ..options(1, secret.clone()) };
        let error = failure(any.clone()).await.err().unwrap().to_string();
        assert!(error.contains("cluster.gossip_advertise"), "{error}");
        let advertised = Options { advertise: Some("10.9.9.9:0".parse().unwrap()), ..any };
        assert_eq!(failure(advertised).await.unwrap().address(), "10.9.9.9:7".parse().unwrap());
        let local = |port| Options { listen: SocketAddr::from(([127, 0, 0, 1], port)), ..options(1, None) };
        let first = failure(local(5)).await.unwrap();
        let error = failure(local(5)).await.err().unwrap().to_string();
        assert!(error.contains("127.0.0.1:5"), "{error}");
        let free = Options { may_use_free_port: true, ..local(5) };
        assert_ne!(failure(free).await.unwrap().address(), first.address());
    });
}

/// Two nodes over UDP on this machine.
#[test]
fn two_nodes_meet_over_udp() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let env = Env::system(1);
        let secrets = Secrets::new();
        let path = secrets.write("secret", SECRET);
        let local = |seeds| Options {
            listen: SocketAddr::from(([127, 0, 0, 1], 0)),
            seeds,
            ..options(1, Some(path.clone()))
        };
        let one = Membership::start(&env, Arc::new(Udp), local(Vec::new())).await.unwrap();
        let seeds = vec![one.address().to_string()];
        let two = Membership::start(&env, Arc::new(Udp), local(seeds)).await.unwrap();
        sees(&one, 1).await;
        sees(&two, 1).await;
        two.announce(3, 4, true);
        let mut view = one.watch();
        view.wait_for(|view| view.alive().any(|peer| peer.wal == 4 && peer.is_draining)).await.unwrap();
        two.leave().await;
        sees(&one, 0).await;
    });
}
