//! Listening sockets, and the thread that accepts connections and assigns them to workers round-robin.
//!
//! Invariants: a connection beyond the limit replaces one that was silent for some seconds. If there is
//! none, it is answered with an error and closed, or waits in the kernel's queue if the settings say so.
//! Every accepted socket is non-blocking, closed on exec, and counted before a worker gets it.

use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::net::{
    AddressFamily, SocketAddrAny, SocketAddrUnix, SocketFlags, SocketType, acceptfrom_with, bind,
    getsockname, listen, socket_with, sockopt,
};

use super::connection::Connection;
use super::connections::Peer;
use super::error::Error;
use super::message_queue::{Message, MessageQueue};
use super::server::Server;
use super::session::Session;
use super::settings::{Binding, ListenAddress, Settings, TlsUse};
use super::time;
use super::transport::Transport;

/// The answer to a client beyond the limit.
const TOO_MANY: &[u8] = b"ERROR Too many open connections\r\n";
/// How often a full server that lets connections wait checks for a free place.
const FULL_PAUSE: rustix::event::Timespec = rustix::event::Timespec { tv_sec: 0, tv_nsec: 10_000_000 };

/// A listening socket.
pub(super) struct Listener {
    pub socket: OwnedFd,
    pub transport: &'static str,
    /// Its own address, as `stats conns` shows it.
    pub address: String,
    protocol: Binding,
    tls: TlsUse,
}

/// All sockets that the settings configure.
#[derive(Default)]
pub(super) struct Listeners {
    pub streams: Vec<Listener>,
    pub datagrams: Vec<Listener>,
}

impl Listeners {
    /// Opens the sockets.
    pub fn open(settings: &Settings) -> Result<Self, Error> {
        let mut all = Self::default();
        let tls = if settings.tls.is_some() { TlsUse::Server } else { TlsUse::Off };
        if let Some(path) = &settings.unix_socket {
            all.streams.push(unix(path, settings)?);
            return Ok(all);
        }
        let everywhere = ListenAddress { host: String::new(), port: None, protocol: None, tls: None };
        let addresses = if settings.listen.is_empty() { vec![everywhere] } else { settings.listen.clone() };
        for address in &addresses {
            let protocol = address.protocol.unwrap_or(settings.protocol);
            let tls = if settings.tls.is_some() { address.tls.unwrap_or(tls) } else { TlsUse::Off };
            if settings.tcp_port != 0 {
                for socket in bound(address, settings.tcp_port, SocketType::STREAM)? {
                    listen(&socket, settings.backlog)
                        .map_err(|error| cannot_listen(address, error.into()))?;
                    all.streams.push(listener(socket, "tcp", protocol, tls));
                }
            }
            if settings.udp_port != 0 {
                for socket in bound(address, settings.udp_port, SocketType::DGRAM)? {
                    all.datagrams.push(listener(socket, "udp", protocol, TlsUse::Off));
                }
            }
        }
        Ok(all)
    }

    /// Writes the ports to a file, which is useful if the system chose them.
    pub fn write_ports(&self, path: &Path) -> Result<(), Error> {
        let line = |listener: &Listener, protocol: &str| {
            let family = if listener.address.contains('[') { "INET6" } else { "INET" };
            let port = listener.address.rsplit(':').next().unwrap_or_default();
            format!("{protocol} {family}: {port}\n")
        };
        let tcp = self.streams.iter().map(|listener| line(listener, "TCP"));
        let text: String = tcp.chain(self.datagrams.iter().map(|listener| line(listener, "UDP"))).collect();
        let mut draft = path.as_os_str().to_owned();
        draft.push(".lck");
        // renamed into place, so that a reader sees the complete file
        let written = fs::write(&draft, text).and_then(|()| fs::rename(&draft, path));
        written.map_err(|error| Error::File { path: path.to_owned(), error })
    }
}

fn listener(socket: OwnedFd, transport: &'static str, protocol: Binding, tls: TlsUse) -> Listener {
    let address = getsockname(&socket).ok().map_or_else(String::new, |address| shown(transport, &address));
    Listener { socket, transport, address, protocol, tls }
}

fn cannot_listen(address: &ListenAddress, error: io::Error) -> Error {
    let host = if address.host.is_empty() { "every address" } else { &address.host };
    Error::Listen { address: host.to_owned(), error }
}

/// Opens sockets for all addresses of a host. With port -1 they share a free port.
fn bound(address: &ListenAddress, port: i32, kind: SocketType) -> Result<Vec<OwnedFd>, Error> {
    let mut port = address.port.unwrap_or_else(|| u16::try_from(port).unwrap_or(0));
    let addresses: Vec<IpAddr> = if address.host.is_empty() || address.host == "*" {
        vec![Ipv4Addr::UNSPECIFIED.into(), Ipv6Addr::UNSPECIFIED.into()]
    } else {
        let found = (address.host.as_str(), port).to_socket_addrs();
        found.map_err(|error| cannot_listen(address, error))?.map(|found| found.ip()).collect()
    };
    let everywhere = addresses.len() > 1;
    let mut sockets = Vec::new();
    for ip in addresses {
        match bind_one(SocketAddr::new(ip, port), kind) {
            Ok(socket) => {
                if let Some(SocketAddr::V4(own)) =
                    getsockname(&socket).ok().and_then(|own| own.try_into().ok())
                {
                    port = own.port();
                }
                sockets.push(socket);
            }
            // a machine without IPv6 still has IPv4
            Err(_) if everywhere && ip.is_ipv6() && !sockets.is_empty() => {}
            Err(error) => return Err(cannot_listen(address, error)),
        }
    }
    Ok(sockets)
}

fn bind_one(address: SocketAddr, kind: SocketType) -> io::Result<OwnedFd> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let socket = socket_with(family, kind, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC, None)?;
    if address.is_ipv6() {
        sockopt::set_ipv6_v6only(&socket, true)?;
    }
    if kind == SocketType::STREAM {
        // connections of an earlier server may linger on this port
        sockopt::set_socket_reuseaddr(&socket, true)?;
        sockopt::set_socket_keepalive(&socket, true)?;
        // accepted sockets inherit it: answers are sent at once
        sockopt::set_tcp_nodelay(&socket, true)?;
    }
    bind(&socket, &address)?;
    Ok(socket)
}

fn unix(path: &Path, settings: &Settings) -> Result<Listener, Error> {
    let failed = |error: io::Error| Error::Listen { address: path.display().to_string(), error };
    // a socket file that a former server left behind would block the address
    if fs::symlink_metadata(path)
        .is_ok_and(|file| std::os::unix::fs::FileTypeExt::is_socket(&file.file_type()))
    {
        fs::remove_file(path).map_err(failed)?;
    }
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)
        .map_err(|error| failed(error.into()))?;
    let address = SocketAddrUnix::new(path).map_err(|error| failed(error.into()))?;
    bind(&socket, &address).map_err(|error| failed(error.into()))?;
    fs::set_permissions(path, fs::Permissions::from_mode(settings.unix_mask)).map_err(failed)?;
    listen(&socket, settings.backlog).map_err(|error| failed(error.into()))?;
    let address = format!("unix:{}", path.display());
    Ok(Listener { socket, transport: "local", address, protocol: settings.protocol, tls: TlsUse::Off })
}

/// An address as `stats conns` shows it.
fn shown(transport: &str, address: &SocketAddrAny) -> String {
    match SocketAddr::try_from(address.clone()) {
        Ok(SocketAddr::V4(address)) => format!("{transport}:{address}"),
        Ok(SocketAddr::V6(address)) => format!("{transport}6:{address}"),
        Err(_) => "unix:<AF 1>".to_owned(),
    }
}

/// Accepts connections until `stop` becomes readable.
pub(super) fn accept(
    server: &Arc<Server>,
    listeners: &[Listener],
    queues: &[Arc<MessageQueue>],
    stop: &OwnedFd,
) {
    let mut next = 0;
    loop {
        let full = !server.settings.refuse_fast && is_full(server);
        let mut sockets = vec![PollFd::new(stop, PollFlags::IN)];
        if !full {
            sockets.extend(listeners.iter().map(|listener| PollFd::new(&listener.socket, PollFlags::IN)));
        }
        let pause = full.then_some(FULL_PAUSE);
        if poll(&mut sockets, pause.as_ref()).is_err() {
            continue; // interrupted
        }
        if !sockets[0].revents().is_empty() {
            return;
        }
        let ready: Vec<bool> = sockets.iter().skip(1).map(|socket| !socket.revents().is_empty()).collect();
        for (listener, _) in listeners.iter().zip(ready).filter(|(_, ready)| *ready) {
            while let Some(connection) = accept_one(server, listener) {
                queues[next % queues.len()].send(Message::Adopt(Box::new(connection)));
                next += 1;
                if !server.settings.refuse_fast && is_full(server) {
                    break;
                }
            }
        }
    }
}

fn is_full(server: &Server) -> bool {
    server.connections.is_full(server.settings.connections_max, time::now(&server.env))
}

fn accept_one(server: &Arc<Server>, listener: &Listener) -> Option<Connection> {
    loop {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let (socket, address) = match acceptfrom_with(&listener.socket, flags) {
            Ok(accepted) => accepted,
            Err(rustix::io::Errno::INTR | rustix::io::Errno::CONNABORTED) => continue,
            Err(rustix::io::Errno::AGAIN) => return None,
            Err(_) => {
                // for instance, no descriptor is left: other connections must close first
                pause();
                return None;
            }
        };
        let now = time::now(&server.env);
        let own = getsockname(&socket).ok();
        let (peer_address, listen_address) = if listener.transport == "local" {
            ("unix:<AF 1>".to_owned(), listener.address.clone())
        } else {
            let text = |address: &Option<SocketAddrAny>| {
                address.as_ref().map_or_else(String::new, |address| shown(listener.transport, address))
            };
            (text(&address), text(&own))
        };
        let peer = Peer::new(socket.as_raw_fd(), listener.transport, peer_address, Some(listen_address), now);
        if !server.connections.admit(&peer, server.settings.connections_max, now) {
            // tells the client why; whether it reads the answer does not matter
            let _ = rustix::io::write(&socket, TOO_MANY);
            continue;
        }
        let transport = match listener.tls {
            TlsUse::Off => Transport::Plain(socket),
            tls => match server.encrypt(tls) {
                Ok(stream) => Transport::Tls(socket, Box::new(stream)),
                Err(_) => {
                    server.connections.remove(&peer);
                    continue;
                }
            },
        };
        let authenticated = !server.settings.sasl && server.settings.auth_file.is_none();
        return Some(Connection::new(transport, Session::new(listener.protocol, authenticated), peer));
    }
}

#[allow(clippy::disallowed_methods)] // the acceptor's own thread
fn pause() {
    std::thread::sleep(Duration::from_millis(10));
}

/// Registers the listening sockets for `stats conns`.
pub(super) fn register(server: &Server, listeners: &Listeners) {
    for listener in listeners.streams.iter().chain(&listeners.datagrams) {
        let (descriptor, address) = (listener.socket.as_raw_fd(), listener.address.clone());
        let peer = Peer::new(descriptor, listener.transport, address, None, time::now(&server.env));
        server.connections.listening(peer);
    }
}
