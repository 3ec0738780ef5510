//! Goal: data that Graphite senders send with any of Carbon's protocols can be queried once their
//! connection is closed; invalid input is rejected without affecting the rest, and memory and time of a
//! connection are limited.
//!
//! Method: a whole server in this process with a store in memory, and senders over real sockets.

#![allow(clippy::unwrap_used)] // a test: a panic is its failure

use std::io::Write;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use sandur_config::Settings;
use sandur_protobuf::Writer as _;
use sandur_query::MemorySource;
use sandur_runtime::Env;
use sandur_server::roles::Server;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UdpSocket};

use crate::harness::Server as InProcess;

async fn start(change: impl FnOnce(&mut Settings)) -> (Env, Server) {
    let mut settings = Settings {
        store: "memory://".to_owned(),
        listen: "127.0.0.1:0".to_owned(),
        memory_limit: 512 << 20,
        cpu_threads: 1,
        ..Settings::default()
    };
    settings.carbon.listen = "127.0.0.1:0".to_owned();
    settings.carbon.pickle_listen = "127.0.0.1:0".to_owned();
    settings.carbon.protobuf_listen = "127.0.0.1:0".to_owned();
    change(&mut settings);
    let env = Env::system(1);
    let server = Server::start_beside(env.clone(), settings, None).await;
    let server = server.unwrap_or_else(|failed| panic!("{}", failed.message()));
    (env, server)
}

/// Sends bytes and waits until the server closes the connection: then they are durable.
async fn send(env: &Env, address: SocketAddr, bytes: &[u8]) {
    let sent = async {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let _ = stream.write_all(bytes).await;
        let _ = stream.shutdown().await;
        let _ = stream.read_to_end(&mut Vec::new()).await;
    };
    // Far longer than the server takes to close a connection.
    let ended = env.timeout(Duration::from_secs(120), sent).await;
    assert!(ended.is_some(), "the server did not close the connection of {} bytes", bytes.len());
}

async fn get(server: &Server, path: &str, tenant: &str) -> String {
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    let tenant = if tenant.is_empty() { String::new() } else { format!("X-Scope-OrgID: {tenant}\r\n") };
    let host = server.address;
    let request = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n{tenant}Connection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer
}

/// Rejected points beyond the limit of series were once acknowledged, although this protocol has
/// responses.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_with_too_many_series_gets_an_error_about_the_rest() {
    let (env, server) = start(|s| s.limits.metrics.max_global_series_per_user = 2).await;
    let post = async |points: &str| {
        let mut stream = TcpStream::connect(server.address).await.unwrap();
        let (host, length) = (server.address, points.len());
        let head = format!("POST /graphite/carbon HTTP/1.1\r\nHost: {host}\r\nContent-Length: {length}");
        stream.write_all(format!("{head}\r\nConnection: close\r\n\r\n{points}").as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    };
    let at = now(&env);
    let answer = post(&format!("a.x 1 {at}\na.y 2 {at}\na.z 3 {at}\n")).await;
    assert!(answer.starts_with("HTTP/1.1 400") && answer.contains("per-user series limit of 2"), "{answer}");
    let answer = post(&format!("a.x 4 {at}\na.y 5 {at}\n")).await;
    assert!(answer.starts_with("HTTP/1.1 204"), "{answer}");
    let found = get(&server, "/metrics/find?query=a.*&format=completer", "").await;
    assert!(found.contains("a.x") && found.contains("a.y") && !found.contains("a.z"), "{found}");
    let accepted = counter(&server, "sandur_carbon_accepted_points_total{protocol=\"plaintext\"}").await;
    assert_eq!(accepted, "4", "refused points are not accepted");
    let rejected = get(&server, "/graphite/rejected", "").await;
    for part in ["\"tenant\":\"fake\"", "\"message\":\"a.z\"", "\"reason\":\"too_many_series\""] {
        assert!(rejected.contains(part), "{rejected}");
    }
    server.stop().await.unwrap();
}

fn now(env: &Env) -> i64 {
    env.now_ns() / 1_000_000_000
}

async fn value(server: &Server, metric: &str, tenant: &str) -> Option<String> {
    let query = format!("/api/v1/query?query=%7B__name__%3D%22{metric}%22%7D");
    let answer = get(server, &query, tenant).await;
    let (_, sample) = answer.split_once("\"value\":[")?;
    Some(sample.split('"').nth(1)?.to_owned())
}

async fn counter(server: &Server, name: &str) -> String {
    let page = get(server, "/metrics", "").await;
    let line = page.lines().find(|line| line.starts_with(name)).unwrap_or_default();
    line.rsplit(' ').next().unwrap_or_default().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn points_of_every_protocol_are_stored_except_invalid_ones() {
    let (env, server) = start(|_| ()).await;
    let [_, lines, pickles, protobuf] = server.listening[..] else { panic!("{:?}", server.listening) };
    let at = now(&env);
    let text = format!(
        "l.a 1.5 {at}\nwrong\nl.a 2.5 {at}\nm;b=2;a=1 7 -1\nl.b nan {at}\n{} 1 {at}\nl.c 1",
        "n.".repeat(70)
    );
    send(&env, lines, text.as_bytes()).await;
    assert_eq!(value(&server, "l.a", "").await.as_deref(), Some("2.5"), "the last write of an instant wins");
    assert_eq!(value(&server, "m", "").await.as_deref(), Some("7"));
    assert_eq!(value(&server, "l.c", "").await, None, "an incomplete line is not stored");
    let rejected = get(&server, "/graphite/rejected", "").await;
    for reason in ["fields", "nan", "path", "incomplete"] {
        assert!(rejected.contains(&format!("\"reason\":\"{reason}\"")), "{reason}: {rejected}");
    }
    assert_eq!(counter(&server, "sandur_carbon_durable_points_total{protocol=\"plaintext\"}").await, "3");
    assert_eq!(counter(&server, "sandur_carbon_rejected_points_total{reason=\"fields\"}").await, "1");

    let mut pickle = b"\x80\x02](X\x03\0\0\0p.aJ".to_vec();
    pickle.extend_from_slice(&(at as i32).to_le_bytes());
    pickle.extend_from_slice(b"K\x05\x86\x86e.");
    let framed = |payload: &[u8]| [&(payload.len() as u32).to_be_bytes(), payload].concat();
    send(&env, pickles, &[framed(b"cos\nsystem\n(S'true'\ntR."), framed(&pickle)].concat()).await;
    assert_eq!(value(&server, "p.a", "").await.as_deref(), Some("5"));
    assert_eq!(
        counter(&server, "sandur_carbon_rejected_points_total{reason=\"pickle_operation\"}").await,
        "1"
    );

    let mut payload = Vec::new();
    payload.message(1, |metric| {
        metric.text(1, "g.a");
        metric.message(2, |point| {
            point.varint(1, at as u64);
            point.double(2, 9.0);
        });
    });
    send(&env, protobuf, &framed(&payload)).await;
    assert_eq!(value(&server, "g.a", "").await.as_deref(), Some("9"));
    server.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn compressed_streams_are_recognized_by_their_first_bytes() {
    let (env, server) = start(|_| ()).await;
    let at = now(&env);
    let line = |name: &str| format!("z.{name} 3 {at}\n").into_bytes();
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(&line("gzip")).unwrap();
    let mut lz4 = lz4_flex::frame::FrameEncoder::new(Vec::new());
    lz4.write_all(&line("lz4")).unwrap();
    let zstd = zstd::encode_all(&line("zstd")[..], 1).unwrap();
    for (name, bytes) in [("gzip", gzip.finish().unwrap()), ("lz4", lz4.finish().unwrap()), ("zstd", zstd)] {
        send(&env, server.listening[1], &bytes).await;
        assert_eq!(value(&server, &format!("z.{name}"), "").await.as_deref(), Some("3"), "{name}");
    }
    server.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn endless_messages_are_cut_off_and_the_last_bytes_are_stored() {
    let (env, server) = start(|settings| {
        settings.carbon.message_timeout = Duration::from_millis(100);
        settings.carbon.window = 64 << 10;
    })
    .await;
    let [_, lines, pickles, _] = server.listening[..] else { panic!("{:?}", server.listening) };
    let at = now(&env);
    send(&env, lines, &vec![b'x'; 1 << 20]).await;
    send(&env, pickles, &[0xFF; 64]).await;
    for sent in [&b"half a line"[..], b"\0\0\x10\0half a message"] {
        let address = if sent[0] == 0 { pickles } else { lines };
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(sent).await.unwrap();
        let closed = env.timeout(Duration::from_secs(60), stream.read_to_end(&mut Vec::new())).await;
        assert!(closed.is_some(), "{sent:?}");
    }
    for reason in ["line_too_long", "frame_too_long", "message_timeout"] {
        let counted =
            counter(&server, &format!("sandur_carbon_ended_connections_total{{reason=\"{reason}\"}}")).await;
        assert_ne!(counted, "", "{reason}");
    }
    // Far more bytes than the window, from a sender that keeps its connection open.
    let mut stream = TcpStream::connect(lines).await.unwrap();
    let many: String = (0..20_000).map(|n| format!("w.{:03}.x {n} {at}\n", n % 500)).collect();
    stream.write_all(many.as_bytes()).await.unwrap();
    let datagrams = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    datagrams.send_to(format!("u.a 1 {at}\nu.b 2 {at}").as_bytes(), lines).await.unwrap();
    for _ in 0..600 {
        if value(&server, "u.b", "").await.is_some()
            && value(&server, "w.499.x", "").await.as_deref() == Some("19999")
        {
            break;
        }
        env.sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(value(&server, "u.b", "").await.as_deref(), Some("2"));
    assert_eq!(value(&server, "w.499.x", "").await.as_deref(), Some("19999"));
    assert_eq!(value(&server, "w.000.x", "").await.as_deref(), Some("19500"));
    server.stop().await.unwrap();
}

/// New names take many times their bytes: one block could exceed the limit of a push, and was lost.
#[tokio::test(flavor = "multi_thread")]
async fn too_many_new_names_for_one_push_are_stored_in_parts() {
    let (env, server) = start(|settings| settings.memory_limit = 128 << 20).await;
    let [_, lines, ..] = server.listening[..] else { panic!("{:?}", server.listening) };
    let at = now(&env);
    let name = |n: usize| format!("new.service-{:02}.host-{:02}.metric-{n:06}", n % 10, n % 97);
    let many: String = (0..12_000).map(|n| format!("{} {n} {at}\n", name(n))).collect();
    send(&env, lines, many.as_bytes()).await;
    for kind in ["accepted", "durable"] {
        let counter =
            counter(&server, &format!("sandur_carbon_{kind}_points_total{{protocol=\"plaintext\"")).await;
        assert_eq!(counter, "12000", "{kind}");
    }
    for n in [0, 5_999, 11_999] {
        assert_eq!(value(&server, &name(n), "").await, Some(n.to_string()));
    }
    server.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn tenants_are_determined_by_the_names_of_points() {
    let (env, server) = start(|settings| {
        settings.carbon.tenant_by_prefix = vec!["prod.=production".to_owned()];
        settings.carbon.tenant_by_first_node = true;
    })
    .await;
    let at = now(&env);
    send(&env, server.listening[1], format!("prod.x 1 {at}\nteam.x 2 {at}\n").as_bytes()).await;
    assert_eq!(value(&server, "prod.x", "production").await.as_deref(), Some("1"));
    assert_eq!(value(&server, "team.x", "team").await.as_deref(), Some("2"));
    assert_eq!(value(&server, "team.x", "production").await, None);
    server.stop().await.unwrap();
}

#[tokio::test]
async fn bodies_are_stored_and_answered() {
    let server = InProcess::over(Arc::new(MemorySource::new(Vec::new())), |_| {});
    let post = async |kind: &'static str, body: &'static [u8]| {
        server.post("/graphite/carbon", &[("content-type", kind)], body).await
    };
    assert_eq!(post("text/plain", b"a.b 1 -1\n").await.status, 204);
    let partly = post("text/plain", b"a.b 1 -1\nwrong\n").await;
    assert_eq!(partly.status, 400);
    assert!(partly.body.contains("path value timestamp"), "{}", partly.body);
    assert_eq!(
        post("application/python-pickle", b"\x80\x02](X\x01\0\0\0aJ\xff\xff\xff\xffK\x05\x86\x86e.")
            .await
            .status,
        204
    );
    assert_eq!(post("application/json", b"{}").await.status, 415);
}

/// A zstd frame with a window of 8 MiB that contains `blocks` times 128 KiB of line feeds in 4 bytes.
fn bomb(blocks: usize) -> Vec<u8> {
    let block = ((128u32 << 10 << 3) | 2).to_le_bytes();
    let mut frame = vec![0x28, 0xB5, 0x2F, 0xFD, 0x00, 0x68];
    for _ in 0..blocks {
        frame.extend_from_slice(&[block[0], block[1], block[2], b'\n']);
    }
    frame
}

/// Sends bytes over a connection that stays open; returns whether the server closed it.
async fn is_ended(env: &Env, address: SocketAddr, bytes: &[u8]) -> bool {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(bytes).await.unwrap();
    env.timeout(Duration::from_secs(60), stream.read_to_end(&mut Vec::new())).await.is_some()
}

/// 64 connections that had sent 294 bytes each once took 512 MiB that no budget counted, and then no push
/// was accepted.
#[tokio::test(flavor = "multi_thread")]
async fn windows_of_compressed_streams_count_for_the_budget() {
    let (env, server) = start(|settings| settings.memory_limit = 128 << 20).await;
    assert!(
        is_ended(&env, server.listening[1], &bomb(72)).await,
        "a window exceeds the limit of one request"
    );
    assert_eq!(counter(&server, "sandur_carbon_ended_connections_total{reason=\"memory\"}").await, "1");
    let rejected = get(&server, "/graphite/rejected", "").await;
    assert!(rejected.contains("\"reason\":\"memory\"") && rejected.contains("--memory-limit"), "{rejected}");
    server.stop().await.unwrap();

    // A stream with a usual window uses memory that is counted while it is open.
    let (env, server) = start(|_| ()).await;
    let mut packed = zstd::stream::write::Encoder::new(Vec::new(), 3).unwrap();
    packed.write_all(format!("window.a 1 {}\n", now(&env)).as_bytes()).unwrap();
    packed.flush().unwrap();
    let mut stream = TcpStream::connect(server.listening[1]).await.unwrap();
    stream.write_all(packed.get_ref()).await.unwrap();
    let until = async |what: &str, is_so: &dyn Fn(u64) -> bool| {
        let name = "sandur_memory_budget_used_bytes{budget=\"request bodies\"";
        for _ in 0..3_000 {
            if is_so(counter(&server, name).await.parse().unwrap()) {
                return;
            }
            env.sleep(Duration::from_millis(20)).await;
        }
        panic!("{what}");
    };
    until("the window is counted", &|used| used >= 2 << 20).await;
    drop(stream);
    until("the window is released", &|used| used == 0).await;
    assert_eq!(value(&server, "window.a", "").await.as_deref(), Some("1"));
    server.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_ratio_of_a_compressed_stream_is_limited() {
    let (env, server) = start(|_| ()).await;
    let lines = server.listening[1];
    assert!(is_ended(&env, lines, &bomb(72)).await);
    let ended = counter(&server, "sandur_carbon_ended_connections_total{reason=\"compression_ratio\"}").await;
    assert_eq!(ended, "1");
    server.stop().await.unwrap();
}

/// A browser's plain POST to Carbon's port once stored the points of its body.
#[tokio::test(flavor = "multi_thread")]
async fn a_web_page_cannot_write_to_carbon() {
    let (env, server) = start(|_| ()).await;
    let [_, lines, pickles, protobuf] = server.listening[..] else { panic!("{:?}", server.listening) };
    let at = now(&env);
    let host = format!("Host: {lines}\r\nContent-Type: text/plain\r\n\r\npage.a 1 {at}\n");
    let long = "x".repeat(40_000);
    for request in [
        format!("POST / HTTP/1.1\r\n{host}"),
        format!("POST /{long} HTTP/1.1\r\n{host}"),
        format!("OPTIONS * HTTP/1.1\r\n{host}"),
        format!("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\npage.a 1 {at}\n"),
    ] {
        send(&env, lines, request.as_bytes()).await;
    }
    for listener in [pickles, protobuf] {
        send(&env, listener, format!("POST / HTTP/1.1\r\n{host}").as_bytes()).await;
    }
    // After a point it is an invalid line like any other.
    send(&env, lines, format!("POST 1 {at}\nsender.a 1 {at}\nPOST / HTTP/1.1\nsender.b 2 {at}\n").as_bytes())
        .await;
    assert_eq!(value(&server, "sender.b", "").await.as_deref(), Some("2"));
    assert_eq!(value(&server, "POST", "").await.as_deref(), Some("1"));
    let datagrams = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    datagrams.send_to(format!("GET / HTTP/1.1\r\n\r\npage.a 1 {at}\n").as_bytes(), lines).await.unwrap();
    datagrams.send_to(format!("sender.c 3 {at}\n").as_bytes(), lines).await.unwrap();
    for _ in 0..600 {
        if value(&server, "sender.c", "").await.is_some() {
            break;
        }
        env.sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(value(&server, "sender.c", "").await.as_deref(), Some("3"));
    assert_eq!(value(&server, "page.a", "").await, None, "pages cannot write");
    let ended = counter(&server, "sandur_carbon_ended_connections_total{reason=\"http_request\"").await;
    let dropped = counter(&server, "sandur_carbon_rejected_points_total{reason=\"http_request\"").await;
    assert_eq!((ended.as_str(), dropped.as_str()), ("6", "1"));
    assert!(get(&server, "/graphite/rejected", "").await.contains("begins with an HTTP request"));
    server.stop().await.unwrap();
}
