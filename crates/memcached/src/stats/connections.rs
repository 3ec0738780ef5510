//! `stats conns`.

use super::report::Report;
use crate::turn::Turn;

pub(super) fn report(turn: &Turn<'_>) -> Report {
    let mut report = Report::default();
    for peer in turn.server.connections.all() {
        let descriptor = peer.descriptor;
        let mut add = |name: &str, value: &str| report.add(format!("{descriptor}:{name}"), value);
        if peer.transport == "udp" {
            add("UDP", "UDP");
        }
        add("addr", &peer.address);
        if let Some(address) = &peer.listen_address {
            add("listen_addr", address);
        }
        add("state", peer.state());
        let silent = turn.now.saturating_sub(peer.last_command());
        add("secs_since_last_cmd", &silent.to_string());
    }
    report
}
