//! Who shares the memory of bodies that are received and decoded.

use std::net::SocketAddr;

use sandur_base::{Party, party_of};
use xxhash_rust::xxh3::xxh3_64;

/// Who shares memory: the tenant, which may hold nearly everything while no other tenant comes, and the
/// address, which may hold two thirds.
pub fn parties(tenant: &str, peer: Option<SocketAddr>) -> [Party; 2] {
    let address = peer.map(|peer| format!("address {}", party_of(peer.ip())));
    [
        Party { key: xxh3_64(format!("tenant {tenant}").as_bytes()), multiple: 7 },
        Party { key: xxh3_64(address.unwrap_or_default().as_bytes()), multiple: 2 },
    ]
}

/// Who shares memory with what connections hold that last for hours (buffers, windows of compression): one
/// address gets as much as it leaves free, half; all together two thirds. What they hold is opened and
/// decoded in the rest, which they would otherwise keep from themselves.
pub fn lasting_parties(peer: Option<SocketAddr>) -> [Party; 2] {
    let address = peer.map(|peer| format!("connections of {}", party_of(peer.ip()))).unwrap_or_default();
    [
        Party { key: xxh3_64(b"connections that last"), multiple: 2 },
        Party { key: xxh3_64(format!("lasting {address}").as_bytes()), multiple: 1 },
    ]
}
