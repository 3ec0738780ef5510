//! How bodies share memory: the parties that it is charged to, and how long they wait for it.

use std::net::SocketAddr;
use std::time::Duration;

use sandur_base::party_of;
use sandur_runtime::{Party, Patience};
use xxhash_rust::xxh3::xxh3_64;

/// Window over which the rate of a client is measured; also the grace period of a small body.
pub const RATE_WINDOW: Duration = Duration::from_secs(10);
/// How bodies wait for memory: as long as a push waits for the heads, and at most as many as connections.
pub const BODY_PATIENCE: Patience =
    Patience { wait: Duration::from_secs(10), waiting_max: 4_096, receive: RATE_WINDOW };

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
