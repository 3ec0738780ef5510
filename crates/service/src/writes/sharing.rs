//! The parties that memory of received and decoded bodies is charged to.

use std::net::SocketAddr;

use sandur_base::{Party, party_of};
use xxhash_rust::xxh3::xxh3_64;

/// The parties that the memory of a request is charged to: the tenant, which may hold 7/8 while no other
/// tenant needs memory, and the address, which may hold 2/3.
pub fn parties(tenant: &str, peer: Option<SocketAddr>) -> [Party; 2] {
    let address = peer.map(|peer| format!("address {}", party_of(peer.ip())));
    [
        Party { key: xxh3_64(format!("tenant {tenant}").as_bytes()), multiple: 7 },
        Party { key: xxh3_64(address.unwrap_or_default().as_bytes()), multiple: 2 },
    ]
}

/// The parties that buffers and decompression windows of long-lived connections are charged to. One
/// address may hold as much as is free after that, 1/2; all such connections together 2/3. The rest is
/// left for decoding what these connections send; otherwise they would block themselves.
pub fn lasting_parties(peer: Option<SocketAddr>) -> [Party; 2] {
    let address = peer.map(|peer| format!("connections of {}", party_of(peer.ip()))).unwrap_or_default();
    [
        Party { key: xxh3_64(b"connections that last"), multiple: 2 },
        Party { key: xxh3_64(format!("lasting {address}").as_bytes()), multiple: 1 },
    ]
}
