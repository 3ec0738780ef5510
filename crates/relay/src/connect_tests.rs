//! The relay over real loopback connections: compressed and encrypted connections deliver every line,
//! also after a connection was lost.

use std::io::Read;
use std::sync::Arc;

use rustls::crypto::ring;
use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::PemObject;
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use sandur_runtime::Env;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::net::{TcpListener, TcpSocket};
use tokio_rustls::TlsAcceptor;

use crate::config::read;
use crate::connect::{Connector, Network};
use crate::delivery::RESEND_BYTES;
use crate::memory::Memory;
use crate::model::{Packing, Routing, Target};
use crate::node::Node;
use crate::running::Running;

const LINES: u64 = 5_000;

/// Which sides of a connection show certificates.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Tls {
    Plain,
    Server,
    Both,
}

/// A self-signed certificate for localhost.
struct Certified {
    certificate: String,
    key: String,
}

impl Certified {
    fn new() -> Self {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        Self { certificate: made.cert.pem(), key: made.signing_key.serialize_pem() }
    }

    fn acceptor(&self, tls: Tls) -> TlsAcceptor {
        let provider = Arc::new(ring::default_provider());
        let certificate =
            rustls::pki_types::CertificateDer::from_pem_slice(self.certificate.as_bytes()).unwrap();
        let key = PrivateKeyDer::from_pem_slice(self.key.as_bytes()).unwrap();
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider));
        let builder = builder.with_safe_default_protocol_versions().unwrap();
        let builder = match tls {
            Tls::Both => {
                let mut roots = RootCertStore::empty();
                roots.add(certificate.clone()).unwrap();
                let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
                builder.with_client_cert_verifier(verifier.build().unwrap())
            }
            _ => builder.with_no_client_auth(),
        };
        TlsAcceptor::from(Arc::new(builder.with_single_cert(vec![certificate], key).unwrap()))
    }
}

/// A relay that sends everything to one target.
fn routing(port: u16, packing: &str, tls: Tls, trusted: &Certified, shown: &Certified) -> Routing {
    let folder = tempfile::tempdir().unwrap().keep();
    let file = |name: &str, text: &str| {
        std::fs::write(folder.join(name), text).unwrap();
        folder.join(name).display().to_string()
    };
    let mut text = format!(
        "[[cluster]]\nname = 'c'\nmethod = 'all'\ntargets = ['localhost:{port}']\ncompression = '{packing}'\n"
    );
    if tls != Tls::Plain {
        text.push_str(&format!("tls_ca_file = '{}'\n", file("ca.pem", &trusted.certificate)));
    }
    if tls == Tls::Both {
        text.push_str(&format!("tls_cert_file = '{}'\n", file("own.pem", &shown.certificate)));
        text.push_str(&format!("tls_key_file = '{}'\n", file("key.pem", &shown.key)));
    }
    text.push_str("[[stage]]\nto = ['c']\n");
    let path = file("relay.toml", &text);
    let mut routing = read(path.as_ref(), None, None).unwrap();
    std::fs::remove_file(path).unwrap();
    routing.statistics.every = None;
    routing
}

fn start(routing: Routing) -> Running {
    let network = Network::of(&routing).unwrap();
    let memory = Memory::alone();
    Running::start((&Env::system(1), &memory), routing, Arc::new(network), &|_| Ok(None), "h").unwrap()
}

fn send(running: &Running) {
    let mut sorter = running.relay.sorter();
    (0..LINES)
        .for_each(|value| sorter.take(format!("servers.web{value}.load {value} 1600000000").as_bytes()));
    sorter.flush();
}

fn expected() -> String {
    (0..LINES).map(|value| format!("servers.web{value}.load {value} 1600000000\n")).collect()
}

/// Decompresses a complete stream.
fn opened(packing: Packing, bytes: &[u8]) -> String {
    let mut text = String::new();
    match packing {
        Packing::Plain => return String::from_utf8(bytes.to_vec()).unwrap(),
        Packing::Gzip => flate2::read::GzDecoder::new(bytes).read_to_string(&mut text).unwrap(),
        Packing::Lz4 => lz4_flex::frame::FrameDecoder::new(bytes).read_to_string(&mut text).unwrap(),
        Packing::Zstd => zstd::stream::read::Decoder::new(bytes).unwrap().read_to_string(&mut text).unwrap(),
    };
    text
}

/// Reads a connection to its end; calls `begun` after the first byte.
async fn drained(mut stream: impl AsyncRead + Unpin, begun: impl FnOnce()) -> Vec<u8> {
    let mut bytes = vec![0; 1];
    stream.read_exact(&mut bytes).await.unwrap();
    begun();
    stream.read_to_end(&mut bytes).await.unwrap();
    bytes
}

#[tokio::test]
async fn compressed_and_encrypted_connections_carry_every_line_to_a_clean_end() {
    let certified = Certified::new();
    for ((name, packing), tls) in
        Packing::NAMES.into_iter().flat_map(|one| [Tls::Plain, Tls::Server, Tls::Both].map(|tls| (one, tls)))
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let running = start(routing(port, name, tls, &certified, &certified));
        send(&running);
        let (begun, has_begun) = tokio::sync::oneshot::channel();
        let begun = move || begun.send(()).unwrap();
        let receiving = async {
            let (stream, _) = listener.accept().await.unwrap();
            match tls {
                Tls::Plain => drained(stream, begun).await,
                tls => drained(certified.acceptor(tls).accept(stream).await.unwrap(), begun).await,
            }
        };
        let stopping = async {
            has_begun.await.unwrap();
            running.stop().await;
        };
        let (bytes, ()) = tokio::join!(receiving, stopping);
        assert_eq!(opened(packing, &bytes), expected(), "{name} {tls:?}");
        assert!(packing == Packing::Plain || bytes.len() < expected().len() / 2, "{name}: {}", bytes.len());
    }
}

#[tokio::test]
async fn the_next_stream_repeats_what_a_lost_connection_may_have_lost() {
    let certified = Certified::new();
    for (name, packing) in Packing::NAMES {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let running = start(routing(port, name, Tls::Plain, &certified, &certified));
        send(&running);
        let (mut lost, _) = listener.accept().await.unwrap();
        lost.read_exact(&mut [0; 100]).await.unwrap();
        drop(lost);
        let (begun, has_begun) = tokio::sync::oneshot::channel();
        let receiving = async {
            let (stream, _) = listener.accept().await.unwrap();
            drained(stream, move || begun.send(()).unwrap()).await
        };
        let stopping = async {
            has_begun.await.unwrap();
            running.stop().await;
        };
        let (bytes, ()) = tokio::join!(receiving, stopping);
        assert_eq!(opened(packing, &bytes), expected(), "{name}");
    }
}

#[tokio::test]
async fn no_line_is_sent_if_a_certificate_is_not_trusted() {
    let (certified, other) = (Certified::new(), Certified::new());
    for (tls, trusted, shown) in
        [(Tls::Server, &other, &certified), (Tls::Both, &other, &certified), (Tls::Both, &certified, &other)]
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let running = start(routing(port, "plain", tls, trusted, shown));
        send(&running);
        let (stream, _) = listener.accept().await.unwrap();
        let accepted = certified.acceptor(tls).accept(stream).await;
        assert!(accepted.is_err(), "{tls:?}");
        drop(listener);
        running.stop().await;
    }
}

#[test]
fn unusable_tls_files_are_named_at_the_start() {
    let certified = Certified::new();
    let routing = |path: &str| {
        let mut routing = routing(1, "plain", Tls::Server, &certified, &certified);
        routing.targets[0].encryption.as_mut().unwrap().authorities = Some(path.into());
        Network::of(&routing).err().map(|error| error.to_string()).unwrap_or_default()
    };
    assert!(routing("/no/such/file.pem").contains("'/no/such/file.pem' cannot be used for TLS of targets"));
    let empty = tempfile::NamedTempFile::new().unwrap();
    assert!(routing(&empty.path().display().to_string()).contains("it holds no certificate"));
}

/// Lines in the system's send buffer are sent again after a connection is lost, so the buffer must be
/// smaller than what is sent again.
#[tokio::test]
async fn the_send_buffer_of_the_system_is_smaller_than_what_is_sent_again() {
    let listening = TcpSocket::new_v4().unwrap();
    listening.set_recv_buffer_size(4_096).unwrap();
    listening.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let listener = listening.listen(1).unwrap();
    let port = listener.local_addr().unwrap().port();
    let node = Node { host: "127.0.0.1".to_owned(), port, instance: None, zone: None };
    let mut connection = Network::default().connect(Arc::new(Target::new(node))).await.unwrap();
    let (silent, _) = listener.accept().await.unwrap();
    let (mut taken, piece) = (0, [b'x'; 16 << 10]);
    let written = async {
        while connection.write(&piece).await.is_ok() && taken <= RESEND_BYTES {
            taken += piece.len();
        }
    };
    // The system accepts what it can at once. No wait can prove that it never accepts more.
    let _ = Env::system(7).timeout(std::time::Duration::from_millis(300), written).await;
    drop(silent);
    assert!(taken > 0 && taken < RESEND_BYTES, "{taken}");
}
