//! TLS to targets: the trusted certificate authorities and the client certificate.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::model::Encryption;

/// Why connections cannot be encrypted.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be used.
    #[error("'{}' cannot be used for TLS of targets: {reason}; name a file in PEM form", path.display())]
    File {
        /// The path of the file.
        path: PathBuf,
        /// The reason.
        reason: String,
    },
    /// The system's list of authorities cannot be read.
    #[error("the system's certificate authorities cannot be read: {0}; name those to trust (tls_ca_file)")]
    Authorities(rustls::Error),
    /// Any other error.
    #[error("TLS of targets cannot be prepared: {0}")]
    Other(#[from] rustls::Error),
}

/// A configuration whose files were read.
pub(super) type Configured = Arc<ClientConfig>;

fn unusable(path: &Path, reason: &dyn std::fmt::Display) -> TlsError {
    TlsError::File { path: path.to_owned(), reason: reason.to_string() }
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let all = CertificateDer::pem_file_iter(path).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let all = all.map_err(|error| unusable(path, &error))?;
    if all.is_empty() {
        return Err(unusable(path, &"it holds no certificate"));
    }
    Ok(all)
}

/// Reads the files of a TLS configuration.
pub(super) fn configured(encryption: &Encryption) -> Result<Configured, TlsError> {
    let provider = Arc::new(ring::default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider));
    let builder = builder.with_safe_default_protocol_versions()?;
    let builder = match &encryption.authorities {
        Some(path) => {
            let mut roots = RootCertStore::empty();
            for certificate in certificates(path)? {
                roots.add(certificate).map_err(|error| unusable(path, &error))?;
            }
            builder.with_root_certificates(roots)
        }
        None => {
            let system = rustls_platform_verifier::Verifier::new(provider).map_err(TlsError::Authorities)?;
            builder.dangerous().with_custom_certificate_verifier(Arc::new(system))
        }
    };
    let configuration = match &encryption.identity {
        None => builder.with_no_client_auth(),
        Some((certificate, key)) => {
            let read = PrivateKeyDer::from_pem_file(key).map_err(|error| unusable(key, &error))?;
            let chain = certificates(certificate)?;
            builder.with_client_auth_cert(chain, read).map_err(|error| unusable(key, &error))?
        }
    };
    Ok(Arc::new(configuration))
}

/// Encrypts a connection to a host, whose certificate must name it.
pub(super) async fn begin(
    configured: &Configured,
    host: &str,
    stream: TcpStream,
) -> io::Result<TlsStream<TcpStream>> {
    let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
    let name = ServerName::try_from(host).map_err(io::Error::other)?;
    TlsConnector::from(Arc::clone(configured)).connect(name, stream).await
}
