//! Loopback addresses for processes that are about to start.
//!
//! **Invariant.** The ports are below those that the kernel assigns to connections, and to listeners
//! without a port. Until the process listens, no connection of another test takes its port.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::process;
use std::sync::atomic::{AtomicU32, Ordering};

/// The first port, and the number of ports. By default Linux assigns ports from 32768 on.
const FIRST: u32 = 10_240;
const PORTS: u32 = 22_528;
/// Distance between the first ports that processes with consecutive ids try.
const APART: u32 = 61;

/// Returns an address at which no process listens, and which this process did not get before.
pub fn free_address() -> io::Result<SocketAddr> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let mut refused = None;
    for _ in 0..PORTS {
        let place = process::id().wrapping_mul(APART).wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed));
        let port = u16::try_from(FIRST + place % PORTS).unwrap_or(u16::MAX);
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        match TcpListener::bind(address) {
            Ok(_) => return Ok(address),
            Err(error) => refused = Some(error),
        }
    }
    Err(refused.unwrap_or_else(|| io::Error::other("there are no ports to try")))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // tests fail that way

    use std::collections::HashSet;

    use super::*;

    #[test]
    fn addresses_are_returned_once_and_can_be_bound() {
        let addresses: Vec<SocketAddr> = (0..100).map(|_| free_address().unwrap()).collect();
        assert_eq!(addresses.iter().collect::<HashSet<_>>().len(), 100);
        let held: Vec<TcpListener> =
            addresses.iter().map(|address| TcpListener::bind(address).unwrap()).collect();
        let other = free_address().unwrap();
        assert!(held.iter().all(|listener| listener.local_addr().unwrap() != other));
    }
}
