//! TLS by rustls over non-blocking sockets.
//!
//! Invariants: new connections use the certificates that were loaded last; a refresh that fails keeps
//! the former ones. The plain bytes buffered in a stream are bounded.

use std::io::{self, IoSlice, Read as _, Write as _};
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError, RwLock};

use ::rustls::pki_types::pem::PemObject;
use ::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use ::rustls::server::{NoServerSessionStorage, ServerSessionMemoryCache, WebPkiClientVerifier};
use ::rustls::{
    HandshakeKind, RootCertStore, ServerConfig, ServerConnection, SupportedProtocolVersion, version,
};

use super::counts::TlsCounts;
use super::reject_all::RejectAll;
use crate::error::Error;
use crate::read::Read;
use crate::settings::{TlsSettings, TlsUse};

/// The largest number of plain bytes that are buffered for encryption and sending.
const BUFFER_BYTES: usize = 256 << 10;
/// The number of sessions that are kept for resumption.
const SESSIONS: usize = 4096;

/// The server's certificates.
pub(crate) struct Encryption {
    settings: TlsSettings,
    counts: Arc<TlsCounts>,
    configurations: RwLock<Configurations>,
}

#[derive(Clone)]
struct Configurations {
    server: Arc<ServerConfig>,
    /// For addresses that require a client certificate.
    mutual: Arc<ServerConfig>,
}

impl Encryption {
    /// Loads the files of the settings.
    pub fn load(settings: &TlsSettings, counts: Arc<TlsCounts>) -> Result<Self, Error> {
        let configurations = RwLock::new(configurations(settings)?);
        Ok(Self { settings: settings.clone(), counts, configurations })
    }

    /// Loads the files again.
    pub fn refresh(&self) -> Result<(), Error> {
        let fresh = configurations(&self.settings)?;
        *self.configurations.write().unwrap_or_else(PoisonError::into_inner) = fresh;
        Ok(())
    }

    /// Returns a stream for a connection that was just accepted.
    pub fn accept(&self, how: TlsUse) -> Result<TlsStream, Error> {
        let configurations = self.configurations.read().unwrap_or_else(PoisonError::into_inner).clone();
        let configuration = if how == TlsUse::Mutual { configurations.mutual } else { configurations.server };
        let mut connection = ServerConnection::new(configuration).map_err(|error| failed(&error))?;
        connection.set_buffer_limit(Some(BUFFER_BYTES));
        Ok(TlsStream { connection, counts: Arc::clone(&self.counts), greeted: false })
    }
}

fn failed(error: &dyn std::error::Error) -> Error {
    Error::Tls { reason: error.to_string() }
}

fn configurations(settings: &TlsSettings) -> Result<Configurations, Error> {
    if settings.verify_mode >= 2 && settings.authorities.is_none() {
        let reason = "client certificates are required, but ssl_ca_cert does not say who signs them";
        return Err(Error::Tls { reason: reason.to_owned() });
    }
    let mutual = Arc::new(configuration(settings, settings.verify_mode.max(2))?);
    Ok(Configurations { server: Arc::new(configuration(settings, settings.verify_mode)?), mutual })
}

fn configuration(settings: &TlsSettings, verify_mode: u8) -> Result<ServerConfig, Error> {
    let unreadable = |path: &Path, error: &dyn std::error::Error| Error::Tls {
        reason: format!("{}: {error}", path.display()),
    };
    let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_file_iter(&settings.chain)
        .and_then(Iterator::collect)
        .map_err(|error| unreadable(&settings.chain, &error))?;
    let key =
        PrivateKeyDer::from_pem_file(&settings.key).map_err(|error| unreadable(&settings.key, &error))?;
    let newest: &[&'static SupportedProtocolVersion] = &[&version::TLS13];
    let both: &[&'static SupportedProtocolVersion] = &[&version::TLS13, &version::TLS12];
    let versions = if settings.least_version >= 3 { newest } else { both };
    let provider = Arc::new(::rustls::crypto::ring::default_provider());
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_protocol_versions(versions)
        .map_err(|error| failed(&error))?;
    let builder = match (&settings.authorities, verify_mode) {
        (Some(path), 1..) => {
            let mut roots = RootCertStore::empty();
            let certificates =
                CertificateDer::pem_file_iter(path).map_err(|error| unreadable(path, &error))?;
            for certificate in certificates {
                let certificate = certificate.map_err(|error| unreadable(path, &error))?;
                roots.add(certificate).map_err(|error| unreadable(path, &error))?;
            }
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
            let verifier = if verify_mode == 1 { verifier.allow_unauthenticated() } else { verifier };
            builder.with_client_cert_verifier(verifier.build().map_err(|error| failed(&error))?)
        }
        (None, 2..) => builder.with_client_cert_verifier(Arc::new(RejectAll(provider))),
        _ => builder.with_no_client_auth(),
    };
    let mut configuration = builder.with_single_cert(chain, key).map_err(|error| failed(&error))?;
    if settings.session_cache {
        configuration.session_storage = ServerSessionMemoryCache::new(SESSIONS);
    } else {
        configuration.session_storage = Arc::new(NoServerSessionStorage {});
        configuration.send_tls13_tickets = 0;
    }
    Ok(configuration)
}

/// One encrypted connection.
pub(crate) struct TlsStream {
    connection: ServerConnection,
    counts: Arc<TlsCounts>,
    /// Whether the handshake is complete.
    greeted: bool,
}

/// A socket that rustls reads from and writes to.
struct Socket<'a>(BorrowedFd<'a>);

impl io::Read for Socket<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        Ok(rustix::io::read(self.0, buffer)?)
    }
}

impl io::Write for Socket<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(rustix::io::write(self.0, bytes)?)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl TlsStream {
    /// Reads plain bytes into the free space of `into`.
    pub fn read(&mut self, socket: BorrowedFd<'_>, into: &mut Vec<u8>) -> io::Result<Read> {
        loop {
            let before = into.len();
            let space = (into.capacity() - before) as u64;
            let plain = self.connection.reader().take(space).read_to_end(into);
            let count = into.len() - before;
            match plain {
                _ if count > 0 => return Ok(Read::More(count)),
                Ok(_) => return Ok(Read::End),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                // many clients close without a close_notify
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(Read::End),
                Err(error) => return Err(error),
            }
            match self.connection.read_tls(&mut Socket(socket)) {
                Ok(0) => return Ok(Read::End),
                Ok(_) => self.process(socket)?,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(Read::Drained(0)),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    fn process(&mut self, socket: BorrowedFd<'_>) -> io::Result<()> {
        let processed = self.connection.process_new_packets();
        // sends handshake messages, or the alert that names the error
        let flushed = self.flush(socket);
        if let Err(error) = processed {
            let counter =
                if self.greeted { &self.counts.protocol_errors } else { &self.counts.handshake_errors };
            counter.fetch_add(1, Ordering::Relaxed);
            return Err(io::Error::new(io::ErrorKind::InvalidData, error));
        }
        if !self.greeted && !self.connection.is_handshaking() {
            self.greeted = true;
            let is_resumed = self.connection.handshake_kind() == Some(HandshakeKind::Resumed);
            self.counts.sessions.fetch_add(u64::from(!is_resumed), Ordering::Relaxed);
        }
        flushed.map(|_| ())
    }

    /// Encrypts and sends as much as the buffers accept.
    pub fn write(&mut self, socket: BorrowedFd<'_>, slices: &[IoSlice<'_>]) -> io::Result<Option<usize>> {
        let count = self.connection.writer().write_vectored(slices)?;
        self.flush(socket)?;
        Ok((count > 0).then_some(count))
    }

    /// Sends encrypted bytes. Returns whether all of them are sent.
    pub fn flush(&mut self, socket: BorrowedFd<'_>) -> io::Result<bool> {
        while self.connection.wants_write() {
            match self.connection.write_tls(&mut Socket(socket)) {
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }
}
