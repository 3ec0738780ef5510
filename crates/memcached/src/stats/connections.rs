//! `stats conns`.

use super::report::Report;
use crate::command_context::CommandContext;

pub(super) fn report(context: &CommandContext<'_>) -> Report {
    let mut report = Report::default();
    for peer in context.server.connections.all() {
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
        let silent = context.now.saturating_sub(peer.last_command());
        add("secs_since_last_cmd", &silent.to_string());
    }
    report
}
