//! The trusted certificates of a server: the system's authorities, those of a file, or any.
//!
//! The certificate that a server presented is remembered for error messages, and also whether the server
//! requested a client certificate: with TLS 1.3 a client may see only a closed connection when it is
//! refused.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::verify_server_name;
use rustls::client::{ResolvesClientCert, WebPkiServerVerifier};
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::sign::CertifiedKey;
use rustls::{
    ClientConfig, ConfigBuilder, DigitallySignedStruct, RootCertStore, SignatureScheme, WantsVerifier,
};
use sandur_terminal::Failed;

use super::certificate::Names;
use super::options::Options;

/// What a server presented and requested in the handshake.
#[derive(Debug, Default)]
pub struct Presented {
    names: Mutex<Option<Names>>,
    asked: AtomicBool,
}

impl Presented {
    /// The names in the certificate that it presented last.
    pub fn names(&self) -> Option<Names> {
        self.names.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Whether it requested a client certificate.
    pub fn asked_for_ours(&self) -> bool {
        self.asked.load(Ordering::Relaxed)
    }

    fn note(&self, certificate: &CertificateDer<'_>) {
        *self.names.lock().unwrap_or_else(PoisonError::into_inner) = Names::read(certificate);
    }
}

/// Our client certificate, if there is one. Records that a server requested it.
#[derive(Debug)]
struct Identity {
    ours: Option<Arc<CertifiedKey>>,
    presented: Arc<Presented>,
}

impl ResolvesClientCert for Identity {
    fn resolve(&self, _: &[&[u8]], _: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        self.presented.asked.store(true, Ordering::Relaxed);
        self.ours.clone()
    }

    fn has_certs(&self) -> bool {
        self.ours.is_some()
    }
}

/// The TLS configuration of all connections. Without TLS no file is read.
pub fn configuration(
    options: &Options,
    is_encrypted: bool,
    presented: Arc<Presented>,
) -> Result<ClientConfig, Failed> {
    let provider = Arc::new(ring::default_provider());
    let builder = builder(&provider)?;
    if !is_encrypted {
        return Ok(builder.with_root_certificates(RootCertStore::empty()).with_no_client_auth());
    }
    let trust = match trust(options, &provider)? {
        Trust::Nobody(reason) => return Err(Failed::new(reason)),
        trust => trust,
    };
    let ours = options.identity.as_ref().map(|paths| identity(paths, &provider)).transpose()?;
    let identity = Identity { ours, presented: Arc::clone(&presented) };
    let verifier = Verifier { trust, provider, presented };
    let builder = builder.dangerous().with_custom_certificate_verifier(Arc::new(verifier));
    Ok(builder.with_client_cert_resolver(Arc::new(identity)))
}

/// The TLS configuration of connections to targets, of which few or none may use TLS: if the system has no
/// authorities, only these few fail.
pub fn of_targets(options: &Options) -> Result<ClientConfig, Failed> {
    let provider = Arc::new(ring::default_provider());
    let trust = trust(options, &provider)?;
    let builder = builder(&provider)?;
    let verifier = Verifier { trust, provider, presented: Arc::default() };
    let builder = builder.dangerous().with_custom_certificate_verifier(Arc::new(verifier));
    Ok(builder.with_no_client_auth())
}

fn builder(provider: &Arc<CryptoProvider>) -> Result<ConfigBuilder<ClientConfig, WantsVerifier>, Failed> {
    let builder = ClientConfig::builder_with_provider(Arc::clone(provider));
    let builder = builder.with_safe_default_protocol_versions();
    builder.map_err(|e| Failed::new(format!("cannot prepare TLS: {e}")))
}

fn identity(
    (certificate, key): &(PathBuf, PathBuf),
    provider: &CryptoProvider,
) -> Result<Arc<CertifiedKey>, Failed> {
    let chain = certificates(certificate, "--cert-file")?;
    let key_bytes = PrivateKeyDer::from_pem_file(key).map_err(|e| unreadable(key, "--key-file", &e))?;
    let certified = CertifiedKey::from_der(chain, key_bytes, provider);
    Ok(Arc::new(certified.map_err(|e| unreadable(key, "--key-file", &e))?))
}

fn trust(options: &Options, provider: &Arc<CryptoProvider>) -> Result<Trust, Failed> {
    if options.insecure {
        return Ok(Trust::Any);
    }
    let Some(path) = &options.ca_file else {
        return Ok(match rustls_platform_verifier::Verifier::new(Arc::clone(provider)) {
            Ok(system) => Trust::Authorities { verifier: Arc::new(system), own: Vec::new() },
            Err(error) => Trust::Nobody(format!(
                "cannot read the system's certificate authorities: {error}; install them (Debian: \
                 ca-certificates), or name those to trust with --ca-file (ca_file in configuration files)"
            )),
        });
    };
    let own = certificates(path, "--ca-file")?;
    let mut roots = RootCertStore::empty();
    for certificate in &own {
        roots.add(certificate.clone()).map_err(|e| unreadable(path, "--ca-file", &e))?;
    }
    let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(provider));
    let verifier = verifier.build().map_err(|e| unreadable(path, "--ca-file", &e))?;
    Ok(Trust::Authorities { verifier, own })
}

fn certificates(path: &Path, option: &str) -> Result<Vec<CertificateDer<'static>>, Failed> {
    let all = CertificateDer::pem_file_iter(path).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let all = all.map_err(|e| unreadable(path, option, &e))?;
    if all.is_empty() {
        let text = format!("'{}' ({option}) contains no certificate in PEM format", path.display());
        return Err(Failed::new(text));
    }
    Ok(all)
}

fn unreadable(path: &Path, option: &str, error: &dyn std::error::Error) -> Failed {
    Failed::new(format!("cannot use '{}' ({option}): {error}", path.display()))
}

#[derive(Debug)]
enum Trust {
    Any,
    /// The system's authorities cannot be read, for this reason.
    Nobody(String),
    Authorities {
        verifier: Arc<dyn ServerCertVerifier>,
        /// Certificates in the file of `--ca-file`.
        own: Vec<CertificateDer<'static>>,
    },
}

#[derive(Debug)]
struct Verifier {
    trust: Trust,
    provider: Arc<CryptoProvider>,
    presented: Arc<Presented>,
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        self.presented.note(end_entity);
        let (verifier, own) = match &self.trust {
            Trust::Any => return Ok(ServerCertVerified::assertion()),
            Trust::Nobody(reason) => return Err(rustls::Error::General(reason.clone())),
            Trust::Authorities { verifier, own } => (verifier, own),
        };
        // The file contains the server's own certificate. `openssl req -x509` marks it as an authority,
        // and a chain must not end in one.
        if own.contains(end_entity) {
            verify_server_name(&ParsedCertificate::try_from(end_entity)?, server_name)?;
            return Ok(ServerCertVerified::assertion());
        }
        verifier.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
