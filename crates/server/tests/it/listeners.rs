//! Goal: clients reach the server over TLS with and without certificates, over HTTP/1 and HTTP/2, on each
//! of its listeners; and silent clients are disconnected.
//!
//! Method: a whole server in this process with a store in memory, and clients over real sockets.

#![allow(clippy::unwrap_used)] // a test: a panic is its failure

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::{Request, StatusCode};
use futures_util::StreamExt;
use http_body_util::BodyExt;
use hyper::client::conn::http2;
use hyper_util::rt::TokioIo;
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use sandur_config::Settings;
use sandur_http::auth::token_hash;
use sandur_runtime::{Env, Task};
use sandur_server::roles::Server;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;

async fn start(change: impl FnOnce(&mut Settings)) -> (Env, Server) {
    let mut settings = Settings {
        store: "memory://".to_owned(),
        listen: "127.0.0.1:0".to_owned(),
        memory_limit: 512 << 20,
        cpu_threads: 1,
        ..Settings::default()
    };
    change(&mut settings);
    let env = Env::system(1);
    let server = Server::start_beside(env.clone(), settings, None).await;
    let server = server.unwrap_or_else(|failed| panic!("{}", failed.message()));
    (env, server)
}

/// An HTTP/2 client, and the task that ends with its connection.
pub(crate) async fn http2<S>(env: &Env, stream: S) -> (http2::SendRequest<Body>, Task<bool>)
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let (sender, connection) = http2::handshake(InTasks(env.clone()), TokioIo::new(stream)).await.unwrap();
    (sender, env.spawn("client", async move { connection.await.is_ok() }))
}

#[derive(Clone)]
struct InTasks(Env);

impl<F: Future<Output: Send> + Send + 'static> hyper::rt::Executor<F> for InTasks {
    fn execute(&self, future: F) {
        // Ends with its connection.
        std::mem::forget(self.0.spawn("stream of a client", future));
    }
}

async fn ask(sender: &mut http2::SendRequest<Body>, method: &str, uri: String) -> (StatusCode, String) {
    let request = Request::builder().method(method).uri(uri).body(Body::empty()).unwrap();
    let response = sender.send_request(request).await.unwrap();
    let status = response.status();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    (status, String::from_utf8_lossy(&body).into_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn http2_works_without_tls_and_many_requests_share_a_connection() {
    let (env, server) = start(|_| ()).await;
    let stream = TcpStream::connect(server.address).await.unwrap();
    let (sender, _connection) = http2(&env, stream).await;
    let asked = (0..50).map(|_| {
        let mut sender = sender.clone();
        let uri = format!("http://{}/loki/api/v1/status/buildinfo", server.address);
        async move { ask(&mut sender, "GET", uri).await }
    });
    for (status, body) in futures_util::future::join_all(asked).await {
        assert!(status == 200 && body.contains("\"version\""), "{status} {body}");
    }
    let mut foreign = sender.clone();
    let (status, _) = ask(&mut foreign, "GET", "http://evil.example/config".to_owned()).await;
    assert_eq!(status, 403, ":authority counts as Host");
    server.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_http2_connection_without_requests_is_closed() {
    let (env, server) = start(|s| s.http.idle_timeout = Duration::from_millis(200)).await;
    let stream = TcpStream::connect(server.address).await.unwrap();
    let (mut sender, connection) = http2(&env, stream).await;
    let (status, _) = ask(&mut sender, "GET", format!("http://{}/ready", server.address)).await;
    assert_eq!(status, 200);
    let ended = env.timeout(Duration::from_secs(60), connection.join()).await;
    assert!(ended.is_some(), "the server closed it");
}

#[tokio::test(flavor = "multi_thread")]
async fn each_listener_serves_its_own_routes() {
    let (env, server) = start(|s| {
        s.admin_listen = "127.0.0.1:0".to_owned();
        s.otlp_grpc_listen = "127.0.0.1:0".to_owned();
    })
    .await;
    let [data, operators, grpc] = server.listening[..] else { panic!("{:?}", server.listening) };
    let export = "/opentelemetry.proto.collector.logs.v1.LogsService/Export";
    for (address, method, path, served) in [
        (data, "POST", "/flush", false),
        (operators, "POST", "/flush", true),
        (grpc, "POST", "/flush", false),
        (data, "GET", "/loki/api/v1/labels", true),
        (operators, "GET", "/loki/api/v1/labels", false),
        (grpc, "GET", "/loki/api/v1/labels", false),
        (data, "POST", export, true),
        (operators, "POST", export, false),
        (grpc, "POST", export, true),
    ] {
        let (mut sender, _connection) = http2(&env, TcpStream::connect(address).await.unwrap()).await;
        let (status, _) = ask(&mut sender, method, format!("http://{address}{path}")).await;
        assert_eq!(status != 404, served, "{address} {method} {path}: {status}");
    }
    server.stop().await.unwrap();
}

/// Creates an authority with certificates for a server and a client in `folder`, as PEM files.
fn certificates(folder: &Path) -> Files {
    let authority_key = KeyPair::generate().unwrap();
    let mut parameters = CertificateParams::new(Vec::new()).unwrap();
    parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    // With the same name for all, OpenSSL would consider the others self-signed.
    parameters.distinguished_name.push(DnType::CommonName, "authority");
    let authority = parameters.self_signed(&authority_key).unwrap();
    let issuer = Issuer::new(parameters, authority_key);
    let file = |name: &str, text: String| {
        let path = folder.join(name);
        std::fs::write(&path, text).unwrap();
        path.to_string_lossy().into_owned()
    };
    let signed = |name: &str, of: &str| {
        let key = KeyPair::generate().unwrap();
        let mut parameters = CertificateParams::new(vec![of.to_owned()]).unwrap();
        parameters.distinguished_name.push(DnType::CommonName, of);
        let certificate = parameters.signed_by(&key, &issuer).unwrap();
        let path = file(&format!("{name}.crt"), certificate.pem());
        (path, file(&format!("{name}.key"), key.serialize_pem()))
    };
    let (server, client) = (signed("server", "localhost"), signed("client", "somebody"));
    Files { authority: file("ca.crt", authority.pem()), server, client }
}

struct Files {
    authority: String,
    server: (String, String),
    client: (String, String),
}

/// A TLS connection that offers these protocols, with or without a client certificate.
async fn connect(
    address: SocketAddr,
    files: &Files,
    with_certificate: bool,
    protocols: &[&[u8]],
) -> std::io::Result<tokio_rustls::client::TlsStream<TcpStream>> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(&files.authority).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder =
        ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let builder = builder.with_root_certificates(roots);
    let mut configuration = if with_certificate {
        let chain = vec![CertificateDer::from_pem_file(&files.client.0).unwrap()];
        builder.with_client_auth_cert(chain, PrivateKeyDer::from_pem_file(&files.client.1).unwrap()).unwrap()
    } else {
        builder.with_no_client_auth()
    };
    configuration.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
    let stream = TcpStream::connect(address).await.unwrap();
    let name = ServerName::try_from("localhost").unwrap();
    tokio_rustls::TlsConnector::from(Arc::new(configuration)).connect(name, stream).await
}

/// The response to an HTTP/1 request; empty if the connection is closed.
async fn exchange(mut stream: impl AsyncRead + AsyncWrite + Unpin) -> String {
    let mut text = Vec::new();
    // Without a certificate the connection may be closed before, during or after the request.
    let _ = stream.write_all(b"GET /ready HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").await;
    let _ = stream.read_to_end(&mut text).await;
    String::from_utf8_lossy(&text).into_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn tls_works_with_both_versions_of_http_and_checks_certificates() {
    let folder = tempfile::tempdir().unwrap();
    let files = certificates(folder.path());
    for auth in ["none", "optional", "require"] {
        let (env, server) = start(|s| {
            (s.tls.cert_file, s.tls.key_file) = files.server.clone();
            if auth != "none" {
                s.tls.client_ca_file = files.authority.clone();
                s.tls.client_auth = auth.to_owned();
            }
        })
        .await;
        for with_certificate in [false, true] {
            let answer = match connect(server.address, &files, with_certificate, &[]).await {
                Ok(stream) => exchange(stream).await,
                Err(_) => String::new(),
            };
            let let_in = auth != "require" || with_certificate;
            assert_eq!(answer.starts_with("HTTP/1.1 200"), let_in, "{auth} {with_certificate}: {answer}");
        }
        let stream = connect(server.address, &files, true, &[b"h2", b"http/1.1"]).await.unwrap();
        assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
        let (mut sender, _connection) = http2(&env, stream).await;
        let (status, _) = ask(&mut sender, "GET", "https://localhost/ready".to_owned()).await;
        assert_eq!(status, 200);
        let plain = exchange(TcpStream::connect(server.address).await.unwrap()).await;
        assert!(!plain.contains("200"), "without TLS there is no response: {plain}");
        server.stop().await.unwrap();
    }
}

/// Goal: curl reaches a server that requires certificates with one, and not without.
#[tokio::test(flavor = "multi_thread")]
async fn curl_sends_its_certificate() {
    if std::process::Command::new("curl").arg("--version").output().is_err() {
        eprintln!("skipped: curl is not on PATH");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let files = certificates(folder.path());
    let (env, server) = start(|s| {
        (s.tls.cert_file, s.tls.key_file) = files.server.clone();
        s.tls.client_ca_file = files.authority.clone();
        s.tls.client_auth = "require".to_owned();
    })
    .await;
    let curl = async |with: Vec<String>| {
        let port = server.address.port();
        let mut command = std::process::Command::new("curl");
        command.args(["--silent", "--show-error", "--max-time", "60", "--cacert", &files.authority]);
        command.args(["--resolve", &format!("localhost:{port}:127.0.0.1")]).args(with);
        command.arg(format!("https://localhost:{port}/ready"));
        env.run_blocking(move || command.output().unwrap()).await
    };
    let (certificate, key) = files.client.clone();
    let shown = curl(vec!["--cert".to_owned(), certificate, "--key".to_owned(), key]).await;
    assert_eq!(String::from_utf8_lossy(&shown.stdout), "ready\n", "{shown:?}");
    let none = curl(Vec::new()).await;
    assert!(!none.status.success() && none.stdout.is_empty(), "{none:?}");
    server.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_handshake_the_connection_is_closed() {
    let folder = tempfile::tempdir().unwrap();
    let files = certificates(folder.path());
    let (env, server) = start(|s| {
        (s.tls.cert_file, s.tls.key_file) = files.server.clone();
        s.http.header_timeout = Duration::from_millis(100);
    })
    .await;
    for sent in [&b""[..], b"\x16\x03\x01", b"GET / HTTP/1.1\r\n\r\n"] {
        let mut stream = TcpStream::connect(server.address).await.unwrap();
        stream.write_all(sent).await.unwrap();
        let mut rest = Vec::new();
        let ended = env.timeout(Duration::from_secs(60), stream.read_to_end(&mut rest)).await;
        assert!(ended.is_some(), "the server closed it: {sent:?}");
    }
    server.stop().await.unwrap();
}

/// A tail is permitted as long as the credential is valid, not as long as the connection is open.
#[tokio::test(flavor = "multi_thread")]
async fn a_revoked_credential_ends_its_tails() {
    use tokio_tungstenite::tungstenite::{
        Message, client::IntoClientRequest, protocol::frame::coding::CloseCode,
    };
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("auth.toml");
    let listed = |name: &str, secret: &str| {
        let hash = token_hash(secret);
        format!("[tokens.{name}]\nhash = '{hash}'\ntenants = ['a']\nscopes = ['read']\n")
    };
    std::fs::write(&file, listed("kept", "kept") + &listed("given", "first")).unwrap();
    let (_env, server) = start(|s| s.auth.file = file.display().to_string()).await;
    let follow = async |token: &str| {
        let url = format!("ws://{}/loki/api/v1/tail?query=%7Bapp%3D%22a%22%7D", server.address);
        let mut request = url.into_client_request().unwrap();
        request.headers_mut().insert("authorization", format!("Bearer {token}").parse().unwrap());
        let stream = TcpStream::connect(server.address).await.unwrap();
        tokio_tungstenite::client_async(request, stream).await.unwrap().0
    };
    let (mut kept, mut given) = (follow("kept").await, follow("first").await);
    // The same name with another secret is another credential.
    std::fs::write(&file, listed("kept", "kept") + &listed("given", "second")).unwrap();
    let close = loop {
        match given.next().await.unwrap().unwrap() {
            Message::Close(frame) => break frame.unwrap(),
            other => assert!(matches!(other, Message::Ping(_)), "{other}"),
        }
    };
    assert_eq!((close.code, close.reason.as_str()), (CloseCode::Policy, "the credential was revoked"));
    assert!(matches!(kept.next().await.unwrap().unwrap(), Message::Ping(_)));
    let _ = follow("second").await;
    server.stop().await.unwrap();
}
