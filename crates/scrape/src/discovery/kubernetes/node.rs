//! Role `node`: a target for the Kubelet of each node.

use sandur_targets::LabelSet;

use super::super::source::Found;
use super::cluster::Cluster;
use super::labels::{joined, put, put_meta, sanitized, with};
use super::objects::Node;

/// Types of addresses, the best one first.
const PREFERRED: [&str; 4] = ["InternalIP", "ExternalIP", "LegacyHostIP", "Hostname"];

/// Returns the target of a node. A node without an address has none.
pub(super) fn targets(node: &Node, _cluster: &Cluster, found: &mut Found) {
    let addresses = || node.status.addresses.iter().flatten();
    let of_kind = |kind: &str| addresses().find(|address| address.kind == kind);
    let Some(address) = PREFERRED.iter().find_map(|kind| of_kind(kind)) else { return };
    let mut labels = LabelSet::new();
    put_meta(&mut labels, "node", &node.metadata);
    put(&mut labels, "node_provider_id", &node.spec.provider_id);
    for address in addresses() {
        let first = of_kind(&address.kind).map_or("", |first| &first.address);
        put(&mut labels, &format!("node_address_{}", sanitized(&address.kind)), first);
    }
    let own = LabelSet::from([("instance".to_owned(), node.metadata.name.clone())]);
    let address = joined(&address.address, node.status.daemon_endpoints.kubelet_endpoint.port);
    found.add(address, with(&labels, own));
}
