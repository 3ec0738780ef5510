//! The network as gossip sees it: a socket for datagrams, and names that are resolved.
//!
//! Datagrams may be lost, doubled, delayed and reordered; a socket that cannot send at once drops.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use sandur_base::BoxFuture;

/// What opens sockets and resolves names. Tests have one in memory.
pub trait Network: Send + Sync + 'static {
    /// Opens a socket.
    fn bind(&self, address: SocketAddr) -> BoxFuture<'_, io::Result<Arc<dyn DatagramSocket>>>;

    /// The addresses of `HOST:PORT`.
    fn resolve<'a>(&'a self, name: &'a str) -> BoxFuture<'a, io::Result<Vec<SocketAddr>>>;

    /// The address from which datagrams to other machines are sent.
    fn outgoing_ip(&self, is_v6: bool) -> BoxFuture<'_, io::Result<IpAddr>>;
}

/// A bound socket.
pub trait DatagramSocket: Send + Sync + 'static {
    /// The address of the socket.
    fn address(&self) -> io::Result<SocketAddr>;

    /// Sends, or drops the datagram.
    fn send(&self, datagram: &[u8], to: SocketAddr) -> io::Result<()>;

    /// Receives a datagram, of which at most the length of the buffer is kept.
    fn receive<'a>(&'a self, buffer: &'a mut [u8]) -> BoxFuture<'a, io::Result<(usize, SocketAddr)>>;
}

/// UDP.
pub struct Udp;

impl Network for Udp {
    fn bind(&self, address: SocketAddr) -> BoxFuture<'_, io::Result<Arc<dyn DatagramSocket>>> {
        Box::pin(async move {
            let socket = tokio::net::UdpSocket::bind(address).await?;
            // Otherwise the first datagrams would be dropped: nothing is known of the socket yet.
            socket.writable().await?;
            Ok(Arc::new(UdpSocket(socket)) as Arc<dyn DatagramSocket>)
        })
    }

    fn resolve<'a>(&'a self, name: &'a str) -> BoxFuture<'a, io::Result<Vec<SocketAddr>>> {
        Box::pin(async move { Ok(tokio::net::lookup_host(name).await?.collect()) })
    }

    fn outgoing_ip(&self, is_v6: bool) -> BoxFuture<'_, io::Result<IpAddr>> {
        Box::pin(async move {
            // Connecting sends nothing; it makes the system select a route. The addresses are those of
            // documentation (RFC 5737, RFC 3849).
            let (any, outside): (IpAddr, IpAddr) = match is_v6 {
                false => (Ipv4Addr::UNSPECIFIED.into(), Ipv4Addr::new(192, 0, 2, 1).into()),
                true => (Ipv6Addr::UNSPECIFIED.into(), Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1).into()),
            };
            let socket = tokio::net::UdpSocket::bind(SocketAddr::new(any, 0)).await?;
            socket.connect(SocketAddr::new(outside, 9)).await?;
            Ok(socket.local_addr()?.ip())
        })
    }
}

struct UdpSocket(tokio::net::UdpSocket);

impl DatagramSocket for UdpSocket {
    fn address(&self) -> io::Result<SocketAddr> {
        self.0.local_addr()
    }

    fn send(&self, datagram: &[u8], to: SocketAddr) -> io::Result<()> {
        self.0.try_send_to(datagram, to).map(|_| ())
    }

    fn receive<'a>(&'a self, buffer: &'a mut [u8]) -> BoxFuture<'a, io::Result<(usize, SocketAddr)>> {
        Box::pin(self.0.recv_from(buffer))
    }
}
