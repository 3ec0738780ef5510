//! A verifier for client certificates when no certificate authority is configured: it requests them and
//! rejects all.
//!
//! Invariant: no handshake with this verifier succeeds.

use std::sync::Arc;

use ::rustls::client::danger::HandshakeSignatureValid;
use ::rustls::crypto::CryptoProvider;
use ::rustls::pki_types::{CertificateDer, UnixTime};
use ::rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use ::rustls::{CertificateError, DigitallySignedStruct, DistinguishedName, Error, SignatureScheme};

/// Rejects every certificate.
#[derive(Debug)]
pub(super) struct RejectAll(pub Arc<CryptoProvider>);

const UNKNOWN: Error = Error::InvalidCertificate(CertificateError::UnknownIssuer);

impl ClientCertVerifier for RejectAll {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        Err(UNKNOWN)
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(UNKNOWN)
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(UNKNOWN)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
