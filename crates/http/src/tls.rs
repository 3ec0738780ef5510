//! TLS of the listeners: certificate, key, and the authorities of client certificates. Changed files are
//! reloaded.
//!
//! Invariant: files that cannot be read or that do not match never replace a valid configuration.

use std::io;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig, version};
use sandur_base::small_file;
use sandur_runtime::Env;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use sandur_config::TlsSettings;

/// Interval at which the files are checked.
const RELOAD_EVERY: Duration = Duration::from_secs(10);
/// Maximum size of a file: room for hundreds of certificates.
const FILE_BYTES_MAX: u64 = 1 << 20;
/// Plain bytes of a connection that are buffered before encryption.
const BUFFER_BYTES: usize = 64 << 10;

/// The protocols that are offered, in order of preference.
pub const ALPN_HTTP2: &[u8] = b"h2";
const ALPN_HTTP1: &[u8] = b"http/1.1";

/// Why TLS cannot be set up. The text names the file and the option.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("TLS: {0}")]
pub struct TlsError(String);

/// The TLS configuration of a server, reloaded when its files change.
pub struct Tls {
    env: Env,
    settings: TlsSettings,
    first: Files,
    current: RwLock<Arc<ServerConfig>>,
}

/// Contents of the files: certificates, key, authorities of client certificates.
#[derive(Clone, PartialEq, Eq)]
struct Files {
    chain: Vec<u8>,
    key: Vec<u8>,
    authorities: Option<Vec<u8>>,
}

impl Tls {
    /// Reads the files that the settings name; `None` when they name none.
    pub async fn open(env: Env, settings: &TlsSettings) -> Result<Option<Self>, TlsError> {
        match (settings.cert_file.is_empty(), settings.key_file.is_empty()) {
            (true, true) if settings.client_ca_file.is_empty() => return Ok(None),
            (false, false) => {}
            _ => {
                let text = "it needs both tls.cert_file and tls.key_file; give both, or none of tls.*";
                return Err(TlsError(text.to_owned()));
            }
        }
        let first = read(&env, settings).await?;
        let current = RwLock::new(Arc::new(configuration(settings, &first)?));
        Ok(Some(Self { env, settings: settings.clone(), first, current }))
    }

    /// Reloads the files when they change; never returns.
    pub async fn follow(self: Arc<Self>) {
        let mut known = Ok(self.first.clone());
        loop {
            self.env.sleep(RELOAD_EVERY).await;
            let files = read(&self.env, &self.settings).await;
            if files == known {
                continue;
            }
            match files.clone().and_then(|files| configuration(&self.settings, &files)) {
                Ok(fresh) => {
                    tracing::info!(certificate = self.settings.cert_file, "certificates reloaded");
                    *self.current.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(fresh);
                }
                Err(error) => tracing::error!(%error, "cannot reload certificates; the old ones stay in use"),
            }
            known = files;
        }
    }

    /// Performs the handshake of a connection, without a timeout.
    pub async fn accept<S>(&self, stream: S) -> io::Result<TlsStream<S>>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let current = Arc::clone(&self.current.read().unwrap_or_else(PoisonError::into_inner));
        let bounded =
            |connection: &mut rustls::ServerConnection| connection.set_buffer_limit(Some(BUFFER_BYTES));
        TlsAcceptor::from(current).accept_with(stream, bounded).await
    }
}

async fn read(env: &Env, settings: &TlsSettings) -> Result<Files, TlsError> {
    let settings = settings.clone();
    let job = move || {
        let one = |option: &str, path: &str| {
            small_file::read(path, FILE_BYTES_MAX)
                .map_err(|error| TlsError(format!("cannot read {option} '{path}': {error}")))
        };
        let authorities = match settings.client_ca_file.as_str() {
            "" => None,
            path => Some(one("tls.client_ca_file", path)?),
        };
        let chain = one("tls.cert_file", &settings.cert_file)?;
        Ok(Files { chain, key: one("tls.key_file", &settings.key_file)?, authorities })
    };
    env.run_blocking(job).await
}

fn certificates(option: &str, pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    let found = found.map_err(|error| TlsError(format!("{option} is not PEM: {error}")))?;
    if found.is_empty() {
        return Err(TlsError(format!("{option} contains no certificate")));
    }
    Ok(found)
}

fn configuration(settings: &TlsSettings, files: &Files) -> Result<ServerConfig, TlsError> {
    let wrong = |error: &dyn std::error::Error| TlsError(error.to_string());
    let chain = certificates("tls.cert_file", &files.chain)?;
    let key = PrivateKeyDer::from_pem_slice(&files.key)
        .map_err(|error| TlsError(format!("tls.key_file contains no usable key: {error}")))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_protocol_versions(&[&version::TLS13, &version::TLS12])
        .map_err(|error| wrong(&error))?;
    let builder = match &files.authorities {
        None => builder.with_no_client_auth(),
        Some(pem) => {
            let mut roots = RootCertStore::empty();
            for certificate in certificates("tls.client_ca_file", pem)? {
                roots.add(certificate).map_err(|error| TlsError(format!("tls.client_ca_file: {error}")))?;
            }
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
            let verifier = match settings.client_auth.as_str() {
                "optional" => verifier.allow_unauthenticated(),
                _ => verifier,
            };
            builder.with_client_cert_verifier(verifier.build().map_err(|error| wrong(&error))?)
        }
    };
    let mut configuration = builder
        .with_single_cert(chain, key)
        .map_err(|error| TlsError(format!("tls.cert_file and tls.key_file do not go together: {error}")))?;
    configuration.alpn_protocols = vec![ALPN_HTTP2.to_vec(), ALPN_HTTP1.to_vec()];
    Ok(configuration)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A certificate and its key, as PEM.
    fn pair() -> (String, String) {
        let key = rcgen::KeyPair::generate().unwrap();
        let parameters = rcgen::CertificateParams::new(["localhost".to_owned()]).unwrap();
        (parameters.self_signed(&key).unwrap().pem(), key.serialize_pem())
    }

    #[tokio::test(start_paused = true)]
    async fn new_files_are_loaded_unless_certificate_and_key_do_not_match() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name).to_string_lossy().into_owned();
        let settings =
            TlsSettings { cert_file: path("cert"), key_file: path("key"), ..TlsSettings::default() };
        let env = Env::simulated(1, 0);
        assert!(Tls::open(env.clone(), &settings).await.is_err(), "there is no file");
        let (old, new) = (pair(), pair());
        let write = |(cert, key): (&str, &str)| {
            std::fs::write(path("cert"), cert).unwrap();
            std::fs::write(path("key"), key).unwrap();
        };
        write((&new.0, &old.1));
        let error = Tls::open(env.clone(), &settings).await.err().unwrap().to_string();
        assert!(error.contains("do not go together"), "{error}");
        write((&old.0, &old.1));
        let tls = Arc::new(Tls::open(env.clone(), &settings).await.unwrap().unwrap());
        let _following = env.spawn("certificates", Arc::clone(&tls).follow());
        let current = async || {
            env.sleep(RELOAD_EVERY * 2).await;
            Arc::as_ptr(&tls.current.read().unwrap())
        };
        let first = current().await;
        for (cert, key) in [(&new.0[..], &old.1[..]), ("", &old.1), (&new.0[..100], &new.1), (&new.0, "")] {
            write((cert, key));
            assert_eq!(current().await, first, "{cert:.30} {key:.30}");
        }
        std::fs::remove_file(path("cert")).unwrap();
        assert_eq!(current().await, first);
        write((&new.0, &new.1));
        assert_ne!(current().await, first);
    }

    #[tokio::test(start_paused = true)]
    async fn incomplete_options_are_refused() {
        let env = Env::simulated(1, 0);
        assert!(Tls::open(env.clone(), &TlsSettings::default()).await.unwrap().is_none());
        for (cert, key, authorities) in [("c", "", ""), ("", "k", ""), ("", "", "ca")] {
            let [cert_file, key_file, client_ca_file] = [cert, key, authorities].map(str::to_owned);
            let settings = TlsSettings { cert_file, key_file, client_ca_file, ..TlsSettings::default() };
            let error = Tls::open(env.clone(), &settings).await.err().unwrap().to_string();
            assert!(error.contains("tls.cert_file and tls.key_file"), "{error}");
        }
    }
}
