//! Goal: look-ups return what name servers say, and survive what hostile ones say.
//!
//! Method: a name server in this process that answers real messages over UDP and TCP.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use sandur_memory::MemoryBudget;
use sandur_runtime::{Env, Task};
use sandur_targets::TargetGroup;
use simple_dns::rdata::{A, AAAA, CNAME, MX, NS, RData, SRV};
use simple_dns::{CLASS, Name, Packet, PacketFlag, RCODE, ResourceRecord};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, UdpSocket};
use tokio::sync::Semaphore;

use super::super::{DiscoveryMetrics, InCluster, Surroundings, Watched};
use super::*;
use crate::board::Board;
use crate::fetch::{Fetch, FetchRequest, Fetched};

struct NoHttp;

impl Fetch for NoHttp {
    fn fetch<'a>(&'a self, _: FetchRequest<'a>) -> BoxFuture<'a, Result<Fetched, String>> {
        Box::pin(async { Err("there is no HTTP here".to_owned()) })
    }
}

/// A name server; it answers until it is dropped.
struct Server {
    resolver: Resolver,
    /// While it is set, the server answers every question with a failure.
    failing: Arc<AtomicBool>,
    _folder: tempfile::TempDir,
    _tasks: [Task<()>; 2],
}

async fn server(env: &Env, memory: &MemoryBudget) -> Server {
    // The port of the datagrams may be taken by another process for streams.
    let (udp, tcp) = loop {
        let udp = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        if let Ok(tcp) = TcpListener::bind(udp.local_addr().unwrap()).await {
            break (udp, tcp);
        }
    };
    let port = udp.local_addr().unwrap().port();
    let failing = Arc::new(AtomicBool::new(false));
    let of_datagrams = Arc::clone(&failing);
    let datagrams = env.spawn("datagrams", async move {
        let mut buffer = [0; 2_048];
        loop {
            let (length, from) = udp.recv_from(&mut buffer).await.unwrap();
            for answer in answers(&buffer[..length], false, of_datagrams.load(Ordering::Relaxed)) {
                udp.send_to(&answer, from).await.unwrap();
            }
        }
    });
    let streams = env.spawn("streams", async move {
        loop {
            let (mut stream, _): (_, SocketAddr) = tcp.accept().await.unwrap();
            let length = stream.read_u16().await.unwrap();
            let mut question = vec![0; usize::from(length)];
            stream.read_exact(&mut question).await.unwrap();
            for answer in answers(&question, true, false) {
                // "cut.example" announces more than it sends.
                let more = u16::from(name_of(&question).starts_with("cut")) * 100;
                stream.write_u16(answer.len() as u16 + more).await.unwrap();
                stream.write_all(&answer).await.unwrap();
            }
        }
    });
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("resolv.conf");
    std::fs::write(&file, "nameserver 127.0.0.1\nsearch search.example\noptions attempts:1 timeout:5\n")
        .unwrap();
    let resolver =
        Resolver { env: env.clone(), memory: memory.clone(), file, port, turns: Arc::new(Semaphore::new(2)) };
    Server { resolver, failing, _folder: folder, _tasks: [datagrams, streams] }
}

fn name_of(question: &[u8]) -> String {
    Packet::parse(question).unwrap().questions[0].qname.to_string()
}

fn rdata(name: &str) -> Vec<RData<'static>> {
    let host = |host: &'static str| Name::new(host).unwrap();
    let srv = |port, target| RData::SRV(SRV { priority: 1, weight: 1, port, target });
    let address = |last: u8| RData::A(A { address: Ipv4Addr::new(10, 0, 0, last).into() });
    match name {
        "_metrics._tcp.example" => {
            vec![srv(9_100, host("a.example")), srv(9_200, host("b.example")), srv(1, host("."))]
        }
        "a.example" => {
            let alias = RData::CNAME(CNAME(host("other.example")));
            vec![alias, address(1), address(2)]
        }
        "v6.example" => vec![RData::AAAA(AAAA { address: 1 })],
        "mail.example" => vec![RData::MX(MX { preference: 1, exchange: host("mx.example") })],
        "ns.example" => vec![RData::NS(NS(host("ns1.example")))],
        "short.search.example" => vec![address(9)],
        "large.example" => (0..200).map(address).collect(),
        "huge.example" => (0..4_200u32).map(|n| RData::A(A { address: n })).collect(),
        "loop.example" => vec![RData::CNAME(CNAME(host("loop.example")))],
        _ => Vec::new(),
    }
}

/// Returns the datagrams, or the message over TCP, that answer a question.
fn answers(question: &[u8], over_tcp: bool, failing: bool) -> Vec<Vec<u8>> {
    let asked = Packet::parse(question).unwrap();
    assert!(asked.opt().is_some_and(|opt| opt.udp_packet_size == 1_232));
    let name = asked.questions[0].qname.to_string();
    let mut reply = Packet::new_reply(asked.id());
    reply.questions.clone_from(&asked.questions);
    let record = |data| ResourceRecord::new(asked.questions[0].qname.clone(), CLASS::IN, 30, data);
    reply.answers = rdata(&name).into_iter().map(record).collect();
    if failing || name.starts_with("broken") {
        *reply.rcode_mut() = RCODE::ServerFailure;
    } else if reply.answers.is_empty() && name != "empty.example" {
        *reply.rcode_mut() = RCODE::NameError;
    }
    let is_tcp_only =
        matches!(name.as_str(), "large.example" | "huge.example" | "cut.example" | "always.example");
    if (is_tcp_only && !over_tcp) || name == "always.example" {
        reply.set_flags(PacketFlag::TRUNCATION);
        reply.answers.clear();
    }
    let bytes = reply.build_bytes_vec_compressed().unwrap();
    match name.as_str() {
        "silent.example" => Vec::new(),
        // Another number: late or forged.
        "forged.example" => {
            let mut other = bytes.clone();
            other[0] ^= 0xFF;
            vec![other]
        }
        "garbage.example" => vec![[&bytes[..2], &[0xFF; 40]].concat()],
        // An answer whose name points to itself.
        "pointer.example" => {
            let mut message = bytes;
            message[7] = 1;
            let at = message.len() as u16 | 0xC000;
            message.extend_from_slice(&at.to_be_bytes());
            message.extend_from_slice(&[0, 1, 0, 1, 0, 0, 0, 1, 0, 4, 1, 2, 3, 4]);
            vec![message]
        }
        "other.example" => {
            let mut reply = Packet::new_reply(asked.id());
            let mut question = asked.questions[0].clone();
            question.qname = Name::new("victim.example").unwrap();
            reply.questions.push(question);
            vec![reply.build_bytes_vec().unwrap()]
        }
        _ => vec![bytes],
    }
}

fn of(resolver: &Resolver, name: &str, kind: RecordKind) -> DnsName {
    let refresh = Duration::from_secs(30);
    DnsName { resolver: resolver.clone(), name: name.to_owned(), kind, port: 9_090, refresh }
}

async fn targets(resolver: &Resolver, name: &str, kind: RecordKind) -> Result<Vec<String>, String> {
    let listed = of(resolver, name, kind).list().await?;
    let shown = |group: &TargetGroup| {
        let labels = group.labels.iter().map(|(name, value)| format!("{name}={value}"));
        format!("{} {}", group.targets.join(","), labels.collect::<Vec<_>>().join(" "))
    };
    Ok(listed.groups.iter().map(shown).collect())
}

#[tokio::test]
async fn records_become_targets_with_the_labels_of_prometheus() {
    let (env, memory) = (Env::system(1), MemoryBudget::root("scrapes", 64 << 20));
    let server = server(&env, &memory).await;
    let look_up = |name, kind| targets(&server.resolver, name, kind);
    let meta = "__meta_dns_name=";
    assert_eq!(
        look_up("_metrics._tcp.example", RecordKind::Srv).await.unwrap(),
        [("a", 9_100), ("b", 9_200)].map(|(host, port)| format!(
            "{host}.example:{port} {meta}_metrics._tcp.example __meta_dns_srv_record_port={port} \
             __meta_dns_srv_record_target={host}.example."
        ))
    );
    assert_eq!(
        look_up("a.example", RecordKind::A).await.unwrap(),
        [1, 2].map(|last| format!("10.0.0.{last}:9090 {meta}a.example"))
    );
    assert_eq!(
        look_up("v6.example", RecordKind::Aaaa).await.unwrap(),
        [format!("[::1]:9090 {meta}v6.example")]
    );
    assert_eq!(
        look_up("mail.example", RecordKind::Mx).await.unwrap(),
        [format!("mx.example:9090 __meta_dns_mx_record_target=mx.example. {meta}mail.example")]
    );
    assert_eq!(
        look_up("ns.example", RecordKind::Ns).await.unwrap(),
        [format!("ns1.example:9090 {meta}ns.example __meta_dns_ns_record_target=ns1.example.")]
    );
    assert_eq!(look_up("short", RecordKind::A).await.unwrap(), [format!("10.0.0.9:9090 {meta}short")]);
    assert_eq!(look_up("large.example.", RecordKind::A).await.unwrap().len(), 200, "it is read over TCP");
    for nothing in ["empty.example", "unknown.example"] {
        assert_eq!(look_up(nothing, RecordKind::A).await, Ok(Vec::new()), "{nothing}");
    }
    assert_eq!(memory.used(), 0);
}

#[tokio::test]
async fn hostile_answers_are_errors() {
    let (env, memory) = (Env::system(1), MemoryBudget::root("scrapes", 64 << 20));
    let server = server(&env, &memory).await;
    for (name, expected) in [
        ("broken.example", "the server failed: ServerFailure"),
        ("garbage.example", "the answer has 262140 records, at most 4096 are read"),
        ("pointer.example", "the answer is not valid"),
        ("other.example", "the answer is to another question"),
        ("huge.example.", "the answer has 4201 records, at most 4096 are read"),
        ("cut.example.", "over TCP"),
        ("always.example.", "the answer is truncated over TCP, too"),
        ("a..", "no such"),
        (&"x".repeat(64), "is not a name"),
    ] {
        match targets(&server.resolver, name, RecordKind::A).await {
            Err(error) => assert!(error.contains(expected), "{name}: {error}"),
            Ok(found) => assert!(name == "a.." && found.is_empty(), "{name}: {found:?}"),
        }
    }
    assert_eq!(targets(&server.resolver, "loop.example", RecordKind::A).await, Ok(Vec::new()));
    let small = Resolver { memory: MemoryBudget::root("scrapes", 1 << 10), ..server.resolver.clone() };
    let error = targets(&small, "a.example", RecordKind::A).await.unwrap_err();
    assert!(error.contains("scrapes may use"), "{error}");
    assert_eq!(memory.used(), 0);
}

#[tokio::test]
async fn servers_that_do_not_answer_cost_a_bounded_time() {
    let (env, memory) = (Env::system(1), MemoryBudget::root("scrapes", 64 << 20));
    let server = server(&env, &memory).await;
    let text = "nameserver 127.0.0.1\noptions attempts:1 timeout:1\n";
    std::fs::write(&server.resolver.file, text).unwrap();
    for name in ["silent.example.", "forged.example."] {
        let error = targets(&server.resolver, name, RecordKind::A).await.unwrap_err();
        assert!(error.contains("no answer"), "{error}");
    }
    std::fs::remove_file(&server.resolver.file).unwrap();
    let error = targets(&server.resolver, "a.example", RecordKind::A).await.unwrap_err();
    assert!(error.contains("cannot read"), "{error}");
}

#[tokio::test]
async fn a_failure_keeps_the_targets_and_is_shown() {
    let (env, memory) = (Env::system(1), MemoryBudget::root("scrapes", 64 << 20));
    let server = server(&env, &memory).await;
    let (board, stop) = (Arc::new(Board::default()), sandur_runtime::Shutdown::default());
    let metrics = DiscoveryMetrics::default();
    let around = Surroundings {
        env: env.clone(),
        board: Arc::clone(&board),
        metrics: metrics.clone(),
        fetch: Arc::new(NoHttp),
        resolver: server.resolver.clone(),
        cluster: InCluster::system(),
        stopping: stop.signal(),
        changed: Arc::default(),
    };
    let text = "scrape_configs:\n- job_name: j\n  dns_sd_configs:\n  \
                - {names: [a.example, broken.example], type: A, port: 9100, refresh_interval: 1s}\n";
    let file = crate::config::ScrapeFile::parse(text).unwrap();
    let watched = Watched::start(&file.jobs[0], &around);
    around.changed.notified().await;
    let before = watched.groups();
    assert_eq!(before.len(), 2);
    server.failing.store(true, Ordering::Relaxed);
    let state = || board.discoveries()[0].clone();
    while state().failures < 2 {
        env.sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(watched.groups(), before, "the last targets are kept");
    assert!(state().last_error.contains("ServerFailure") && state().targets == 2, "{:?}", state());
    assert!(metrics.failures_of("dns") >= 3, "both names failed");
    server.failing.store(false, Ordering::Relaxed);
    while !state().last_error.is_empty() {
        env.sleep(Duration::from_millis(20)).await;
    }
    let broken = board.discoveries()[1].clone();
    assert!(broken.last_success_ns == 0 && broken.source == "broken.example", "{broken:?}");
    stop.trigger();
}
