//! Goal: every way in which a command fails to reach its server is reported with a different error and a
//! remedy, and all credentials and headers of the options are sent.
//!
//! Method: the real binary against small servers in this process: one uses TLS with certificates for the
//! case, one plain HTTP, one accepts and closes connections.

#![allow(clippy::unwrap_used, clippy::disallowed_methods)] // a test: a panic is its failure

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver};

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use rustls::pki_types::PrivateKeyDer;
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig, ServerConnection, StreamOwned};

fn sandur(arguments: &[&str], variables: &[(&str, &str)]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sandur"));
    for name in ["SANDUR_ADDR", "LOKI_ADDR", "SANDUR_TENANT", "LOKI_ORG_ID"] {
        command.env_remove(name);
    }
    command.envs(variables.iter().copied()).args(arguments).stdin(Stdio::null()).output().unwrap()
}

fn query(address: &str, more: &[&str]) -> (Option<i32>, String) {
    let output = sandur(&[&["query", "--addr", address, "-o", "raw", "{a=\"b\"}"][..], more].concat(), &[]);
    (output.status.code(), String::from_utf8(output.stderr).unwrap())
}

const EMPTY: &str = r#"{"status":"success","data":{"resultType":"streams","result":[],"stats":{}}}"#;

/// Reads the head of a request and responds with an empty result; returns the head.
fn serve_one(stream: &mut (impl Read + Write)) -> std::io::Result<String> {
    let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n";
    answer_one(stream, &format!("{head}Content-Length: {}\r\n\r\n{EMPTY}", EMPTY.len()))
}

fn answer_one(stream: &mut (impl Read + Write), answer: &str) -> std::io::Result<String> {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte)? > 0 {
        head.push(byte[0]);
    }
    stream.write_all(answer.as_bytes())?;
    stream.flush()?;
    Ok(String::from_utf8_lossy(&head).into_owned())
}

/// The head of the next query. A query that finds nothing is followed by requests for the labels that exist.
fn next_query(heads: &Receiver<String>) -> String {
    heads.iter().find(|head| head.contains("/query_range?")).unwrap()
}

/// Serves each connection with `serve`; returns the address, and the heads of requests that were
/// received.
fn server(
    serve: impl Fn(TcpStream) -> std::io::Result<String> + Send + 'static,
) -> (SocketAddr, Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (heads, received) = mpsc::channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            // A client that refuses the certificate closes the connection.
            if let Ok(head) = serve(stream.unwrap()) {
                let _ = heads.send(head);
            }
        }
    });
    (address, received)
}

/// An authority that issues certificates.
pub(crate) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pub(crate) pem: String,
}

impl Authority {
    pub(crate) fn new(name: &str) -> Self {
        let mut parameters = CertificateParams::new([]).unwrap();
        parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        parameters.distinguished_name.push(DnType::CommonName, name);
        let key = KeyPair::generate().unwrap();
        let pem = parameters.self_signed(&key).unwrap().pem();
        Self { issuer: Issuer::new(parameters, key), pem }
    }

    /// A certificate and its key, in PEM.
    fn certify(&self, names: &[&str], change: impl Fn(&mut CertificateParams)) -> (String, KeyPair) {
        let names: Vec<String> = names.iter().map(|n| (*n).to_owned()).collect();
        let mut parameters = CertificateParams::new(names).unwrap();
        parameters.distinguished_name.push(DnType::CommonName, "the server");
        change(&mut parameters);
        let key = KeyPair::generate().unwrap();
        (parameters.signed_by(&key, &self.issuer).unwrap().pem(), key)
    }

    /// The TLS of a server with a certificate for this name.
    pub(crate) fn server_config(&self, name: &str) -> Arc<ServerConfig> {
        let (certificate, key) = self.certify(&[name], |_| {});
        server_config(&certificate, &key, None)
    }
}

/// The TLS of a server with this certificate.
fn server_config(certificate: &str, key: &KeyPair, clients: Option<&Authority>) -> Arc<ServerConfig> {
    use rustls::pki_types::CertificateDer;
    use rustls::pki_types::pem::PemObject;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider));
    let builder = builder.with_safe_default_protocol_versions().unwrap();
    let builder = match clients {
        None => builder.with_no_client_auth(),
        Some(authority) => {
            let mut roots = RootCertStore::empty();
            roots.add(CertificateDer::from_pem_slice(authority.pem.as_bytes()).unwrap()).unwrap();
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
            builder.with_client_cert_verifier(verifier.build().unwrap())
        }
    };
    let chain = CertificateDer::pem_slice_iter(certificate.as_bytes()).map(Result::unwrap).collect();
    let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
    Arc::new(builder.with_single_cert(chain, key).unwrap())
}

fn tls_server(
    certificate: &str,
    key: &KeyPair,
    clients: Option<&Authority>,
) -> (SocketAddr, Receiver<String>) {
    let configuration = server_config(certificate, key, clients);
    server(move |stream| {
        let connection = ServerConnection::new(Arc::clone(&configuration)).unwrap();
        let mut stream = StreamOwned::new(connection, stream);
        let served = serve_one(&mut stream);
        stream.conn.send_close_notify();
        let _ = stream.flush();
        served
    })
}

fn file(folder: &Path, name: &str, content: &str) -> String {
    let path = folder.join(name);
    std::fs::write(&path, content).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn an_untrusted_certificate_is_explained_with_a_remedy() {
    let folder = tempfile::tempdir().unwrap();
    let (ours, other) = (Authority::new("Our CA"), Authority::new("Other CA"));
    let ca = file(folder.path(), "ca.pem", &ours.pem);
    let (certificate, key) = ours.certify(&["localhost", "127.0.0.1"], |_| {});
    let (address, heads) = tls_server(&certificate, &key, None);
    let url = format!("https://{address}");

    let (code, text) = query(&url, &["--ca-file", &ca]);
    assert_eq!(code, Some(0), "{text}");
    assert!(next_query(&heads).starts_with("GET /loki/api/v1/query_range?"));
    assert_eq!(query(&url, &["--insecure"]).0, Some(0));
    let variables = [("LOKI_ADDR", url.as_str()), ("LOKI_CA_CERT_PATH", &ca), ("LOKI_ORG_ID", "them")];
    // The head of the query before: the server sends it after its answer.
    next_query(&heads);
    let output = sandur(&["query", "{a=\"b\"}"], &variables);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(next_query(&heads).to_lowercase().contains("x-scope-orgid: them"), "logcli's variables are used");

    let wrong = file(folder.path(), "other.pem", &other.pem);
    let (code, text) = query(&url, &["--ca-file", &wrong]);
    assert_eq!(code, Some(1));
    for part in
        ["is not trusted", "'the server'", "issued by 'Our CA'", "(--ca-file) does not contain", "--insecure"]
    {
        assert!(text.contains(part), "{part}: {text}");
    }
    let (_, text) = query(&format!("https://localhost.localdomain:{}", address.port()), &["--ca-file", &ca]);
    assert!(text.contains("--addr"), "{text}");
    let (_, text) = query(&url, &["--ca-file", &file(folder.path(), "empty.pem", "x")]);
    assert!(text.contains("contains no certificate"), "{text}");
    assert!(query(&url, &["--ca-file", "/no/such.pem"]).1.contains("(--ca-file)"));
}

#[test]
fn a_certificate_for_another_name_or_time_is_explained_with_a_remedy() {
    let folder = tempfile::tempdir().unwrap();
    let authority = Authority::new("Our CA");
    let ca = file(folder.path(), "ca.pem", &authority.pem);
    let failure = |names: &[&str], change: &dyn Fn(&mut CertificateParams)| {
        let (certificate, key) = authority.certify(names, change);
        let (address, _heads) = tls_server(&certificate, &key, None);
        let (code, text) = query(&format!("https://{address}"), &["--ca-file", &ca]);
        assert_eq!(code, Some(1), "{text}");
        text
    };
    let text = failure(&["logs.example", "10.1.2.3"], &|_| {});
    assert!(text.contains("is for 'logs.example'") && text.contains("not for '127.0.0.1'"), "{text}");
    let text = failure(&["127.0.0.1"], &|p| p.not_after = rcgen::date_time_ymd(2020, 1, 2));
    assert!(text.contains("expired on 2020-01-02T00:00:00Z") && text.contains("renew"), "{text}");
    let text = failure(&["127.0.0.1"], &|p| {
        p.not_before = rcgen::date_time_ymd(2090, 1, 2);
        p.not_after = rcgen::date_time_ymd(2091, 1, 2);
    });
    assert!(text.contains("valid from 2090-01-02T00:00:00Z on"), "{text}");
}

#[test]
fn a_self_signed_server_is_trusted_by_its_own_certificate() {
    let folder = tempfile::tempdir().unwrap();
    // As created by `openssl req -x509`: an authority that is also a server certificate.
    let mut parameters = CertificateParams::new(["127.0.0.1".to_owned()]).unwrap();
    parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().unwrap();
    let certificate = parameters.self_signed(&key).unwrap().pem();
    let (address, _heads) = tls_server(&certificate, &key, None);
    let url = format!("https://{address}");
    let own = file(folder.path(), "own.pem", &certificate);
    let (code, text) = query(&url, &["--ca-file", &own]);
    assert_eq!(code, Some(0), "{text}");
    let other = file(folder.path(), "other.pem", &Authority::new("Other CA").pem);
    let (code, text) = query(&url, &["--ca-file", &other]);
    assert_eq!(code, Some(1));
    assert!(text.contains("not trusted") && text.contains("--insecure"), "{text}");
}

#[test]
fn a_server_that_requires_a_client_certificate_gets_one() {
    let folder = tempfile::tempdir().unwrap();
    let authority = Authority::new("Our CA");
    let ca = file(folder.path(), "ca.pem", &authority.pem);
    let (certificate, key) = authority.certify(&["127.0.0.1"], |_| {});
    let (address, _heads) = tls_server(&certificate, &key, Some(&authority));
    let url = format!("https://{address}");
    let (code, text) = query(&url, &["--ca-file", &ca]);
    assert_eq!(code, Some(1));
    assert!(text.contains("wants a client certificate") && text.contains("--cert-file"), "{text}");
    let (certificate, key) = authority.certify(&["client"], |_| {});
    let certificate = file(folder.path(), "client.pem", &certificate);
    let key = file(folder.path(), "client.key", &key.serialize_pem());
    let (code, text) = query(&url, &["--ca-file", &ca, "--cert-file", &certificate, "--key-file", &key]);
    assert_eq!(code, Some(0), "{text}");
    assert_eq!(query(&url, &["--cert-file", &certificate]).0, Some(2), "one without the other");
}

#[test]
fn other_failures_to_connect_have_different_errors() {
    let (plain, _heads) = server(|mut stream| {
        stream.write_all(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")?;
        stream.read(&mut [0; 512]).map(|_| String::new())
    });
    let (code, text) = query(&format!("https://{plain}"), &["--insecure"]);
    assert_eq!(code, Some(1));
    assert!(text.contains("does not speak TLS") && text.contains("http://"), "{text}");

    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let text = query(&format!("https://{closed}"), &["--insecure"]).1;
    assert!(text.contains("connection refused") && text.contains("--addr"), "{text}");

    // A label of more than 63 letters is invalid: no name server is queried.
    let text = query(&format!("http://{}.invalid", "a".repeat(70)), &[]).1;
    assert!(text.contains("cannot be resolved") && text.contains("--addr"), "{text}");

    let (address, _heads) = server(|stream| {
        drop(stream);
        Ok(String::new())
    });
    let text = query(&format!("http://{address}"), &[]).1;
    assert!(text.contains("was interrupted") && text.contains("https://"), "{text}");

    let (address, _heads) = server(|mut stream| {
        answer_one(&mut stream, "HTTP/1.1 302 Found\r\nLocation: /login\r\nContent-Length: 0\r\n\r\n")
    });
    let text = query(&format!("http://{address}"), &[]).1;
    assert!(text.contains("redirects to /login"), "{text}");
}

#[test]
fn credentials_come_from_a_token_file_headers_or_the_address() {
    let folder = tempfile::tempdir().unwrap();
    let (address, heads) = server(|mut stream| serve_one(&mut stream));
    let token = file(folder.path(), "token", "t0ken\n");
    let head = |url: &str, more: &[&str]| {
        let (code, text) = query(url, more);
        assert_eq!(code, Some(0), "{text}");
        next_query(&heads).to_lowercase()
    };
    let url = format!("http://{address}");
    assert!(head(&url, &["--token-file", &token]).contains("authorization: bearer t0ken\r\n"));
    assert!(
        head(&url, &["--header", "X-Team: a", "-H", "X-Other:b"]).contains("x-team: a\r\nx-other: b\r\n")
    );
    let by_address = head(&format!("http://me:p%40ss@{address}"), &[]);
    assert!(by_address.contains("authorization: basic bwu6cebzcw==\r\n"), "me:p@ss in base 64: {by_address}");
    let text = query(&url, &["--token-file", "/no/such"]).1;
    assert!(text.contains("/no/such") && text.contains("--token-file"), "{text}");
    assert!(query(&url, &["--header", "nonsense"]).1.contains("'Name: value'"));
}
