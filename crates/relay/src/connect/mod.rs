//! Connections to targets, behind traits, so that tests can supply their own targets.
//!
//! **Invariants.** `write` returns once the system has accepted all bytes, also of a compressed
//! connection. `ended` is cancel-safe: its future may be dropped and requested again.

mod connection;
mod packed;
mod tls;

use std::collections::HashMap;
use std::io;
use std::sync::Arc;

use sandur_base::BoxFuture;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream, UdpSocket};

use crate::model::{Encryption, Packing, Routing, Target, Transport};

pub use connection::Connection;
use packed::Packed;
pub use tls::TlsError;
use tls::{Configured, configured};

/// Bytes of a datagram, small enough for one packet on every network.
const DATAGRAM_BYTES: usize = 1_400;

/// Bytes of the system's send buffer, of which Linux allocates twice as many. They are fewer than what
/// is sent again when a connection breaks, so nothing in the buffer is lost.
const SEND_BUFFER_BYTES: u32 = 256 << 10;

/// Opens connections.
pub trait Connector: Send + Sync {
    /// Opens a connection to a target.
    fn connect(&self, target: Arc<Target>) -> BoxFuture<'static, io::Result<Box<dyn Connection>>>;
}

/// The network of the operating system.
#[derive(Default)]
pub struct Network {
    encrypted: HashMap<Encryption, Configured>,
}

impl Network {
    /// Prepares for the targets of a routing. The certificate files are read here, once.
    pub fn of(routing: &Routing) -> Result<Self, TlsError> {
        let mut encrypted = HashMap::new();
        for encryption in routing.targets.iter().filter_map(|target| target.encryption.as_ref()) {
            if !encrypted.contains_key(encryption) {
                encrypted.insert(encryption.clone(), configured(encryption)?);
            }
        }
        Ok(Self { encrypted })
    }
}

impl Connector for Network {
    fn connect(&self, target: Arc<Target>) -> BoxFuture<'static, io::Result<Box<dyn Connection>>> {
        let wanted = target.encryption.as_ref();
        let encrypted = wanted.map(|encryption| self.encrypted.get(encryption).cloned());
        Box::pin(async move {
            let address = (target.node.host.as_str(), target.node.port);
            match target.transport {
                Transport::Tcp => {
                    let stream = open(address).await?;
                    stream.set_nodelay(true)?;
                    let connection: Box<dyn Connection> = match encrypted {
                        None => Box::new(Streamed(stream)),
                        Some(Some(configured)) => {
                            Box::new(Streamed(tls::begin(&configured, &target.node.host, stream).await?))
                        }
                        Some(None) => {
                            return Err(io::Error::other("the TLS files of the target were not read"));
                        }
                    };
                    match target.packing {
                        Packing::Plain => Ok(connection),
                        packing => Ok(Box::new(Packed::new(connection, packing)?) as Box<dyn Connection>),
                    }
                }
                Transport::Udp => {
                    let socket = UdpSocket::bind("0.0.0.0:0").await;
                    let socket = match target.node.host.contains(':') {
                        true => UdpSocket::bind("[::]:0").await?,
                        false => socket?,
                    };
                    socket.connect(address).await?;
                    Ok(Box::new(Datagrams(socket)) as Box<dyn Connection>)
                }
            }
        })
    }
}

/// Connects to the first address of a host that accepts the connection.
async fn open(address: (&str, u16)) -> io::Result<TcpStream> {
    let mut failure = io::ErrorKind::NotFound.into();
    for found in tokio::net::lookup_host(address).await? {
        let socket = if found.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
        socket.set_send_buffer_size(SEND_BUFFER_BYTES)?;
        match socket.connect(found).await {
            Ok(stream) => return Ok(stream),
            Err(error) => failure = error,
        }
    }
    Err(failure)
}

/// A connection over any stream.
pub struct Streamed<S>(pub S);

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Connection for Streamed<S> {
    fn write<'a>(&'a mut self, bytes: &'a [u8]) -> BoxFuture<'a, io::Result<()>> {
        Box::pin(async move {
            self.0.write_all(bytes).await?;
            self.0.flush().await
        })
    }

    fn ended(&mut self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            // Targets send nothing. Bytes that one sends nevertheless are discarded.
            let mut answer = [0; 256];
            while matches!(self.0.read(&mut answer).await, Ok(read) if read > 0) {}
        })
    }

    fn close(&mut self) -> BoxFuture<'_, io::Result<()>> {
        Box::pin(self.0.shutdown())
    }
}

struct Datagrams(UdpSocket);

impl Connection for Datagrams {
    fn write<'a>(&'a mut self, bytes: &'a [u8]) -> BoxFuture<'a, io::Result<()>> {
        Box::pin(async move {
            let mut rest = bytes;
            while !rest.is_empty() {
                let within = &rest[..rest.len().min(DATAGRAM_BYTES)];
                let end = match memchr::memrchr(b'\n', within) {
                    Some(at) => at + 1,
                    // A line longer than a datagram should be is sent in a datagram of its own.
                    None => memchr::memchr(b'\n', rest).map_or(rest.len(), |at| at + 1),
                };
                self.0.send(&rest[..end]).await?;
                rest = &rest[end..];
            }
            Ok(())
        })
    }

    fn ended(&mut self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::pending())
    }
}

/// A network in which one host name stands for this process.
pub struct WithSelf {
    /// The host name of targets in this process.
    pub host: String,
    /// Opens a connection to this process.
    pub open: Box<dyn Fn() -> Box<dyn Connection> + Send + Sync>,
    /// Connects to all other hosts.
    pub network: Arc<dyn Connector>,
}

impl Connector for WithSelf {
    fn connect(&self, target: Arc<Target>) -> BoxFuture<'static, io::Result<Box<dyn Connection>>> {
        if target.node.host != self.host {
            return self.network.connect(target);
        }
        let connection = (self.open)();
        Box::pin(std::future::ready(Ok(connection)))
    }
}
