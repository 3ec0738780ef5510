//! Roles `endpoints` and `endpointslice`: a target for each address and port, and for each further port of a
//! pod that has such an address.

use std::collections::BTreeMap;

use sandur_targets::LabelSet;

use super::super::source::Found;
use super::cluster::{Cluster, named};
use super::labels::{joined, put, put_meta, put_node, sanitized, with};
use super::objects::{Address, Endpoint, EndpointSlice, Endpoints, Pod, Port, Reference};
use super::pod::{containers, ports, put_container};
use super::{pod, service};

/// The label of a slice that names its service.
const SERVICE_NAME: &str = "kubernetes.io/service-name";

/// Targets of one object, and the pods that they belong to with the ports that have targets.
struct Targets<'a> {
    cluster: &'a Cluster,
    /// The labels of the object.
    of_object: LabelSet,
    pods: BTreeMap<String, (&'a Pod, Vec<u16>)>,
    found: &'a mut Found,
}

impl<'a> Targets<'a> {
    /// Adds a target with its own labels, and those of its pod and of its node.
    fn add(
        &mut self,
        (host, port): (&str, Option<u16>),
        mut own: LabelSet,
        (node, reference): (Option<&str>, Option<&Reference>),
    ) {
        let cluster = self.cluster;
        let node = reference.filter(|is| is.kind == "Node").map(|is| is.name.as_str()).or(node);
        if let Some(node) = node.and_then(|node| cluster.nodes.get(&named("", node))) {
            put_node(&mut own, node);
        }
        let of_pod = reference.filter(|is| is.kind == "Pod").map(|is| named(&is.namespace, &is.name));
        let known = of_pod.and_then(|key| Some((cluster.pods.get(&key)?, key)));
        if let Some((of_pod, key)) = known {
            own.extend(pod::labels(of_pod));
            self.pods.entry(key).or_insert_with(|| (of_pod, Vec::new())).1.extend(port);
            for container in containers(of_pod) {
                let same = ports(container.0).find(|other| Some(other.container_port) == port);
                if let Some(same) = same {
                    put_container(&mut own, of_pod, container, Some(same));
                }
            }
        }
        let address = port.map_or_else(|| host.to_owned(), |port| joined(host, port));
        self.found.add(address, with(&self.of_object, own));
    }

    /// Adds the further ports of all pods.
    fn finish(self) {
        for (pod, seen) in self.pods.values().filter(|(pod, _)| !pod.status.pod_ip.is_empty()) {
            let of_pod = pod::labels(pod);
            for container in containers(pod) {
                for port in ports(container.0).filter(|port| !seen.contains(&port.container_port)) {
                    let mut own = of_pod.clone();
                    put_container(&mut own, pod, container, Some(port));
                    let address = joined(&pod.status.pod_ip, port.container_port);
                    self.found.add(address, with(&self.of_object, own));
                }
            }
        }
    }
}

/// Sets the labels of the service of endpoints, if it is known.
fn put_service(labels: &mut LabelSet, cluster: &Cluster, namespace: &str, name: &str) {
    if let Some(of_endpoints) = cluster.services.get(&named(namespace, name)) {
        labels.extend(service::labels(of_endpoints));
    }
}

/// Returns the targets of endpoints.
pub(super) fn targets(endpoints: &Endpoints, cluster: &Cluster, found: &mut Found) {
    let meta = &endpoints.metadata;
    let mut of_object = LabelSet::new();
    put(&mut of_object, "namespace", &meta.namespace);
    put_service(&mut of_object, cluster, &meta.namespace, &meta.name);
    put_meta(&mut of_object, "endpoints", meta);
    let mut targets = Targets { cluster, of_object, pods: BTreeMap::new(), found };
    for subset in endpoints.subsets.iter().flatten() {
        let ready = subset.addresses.iter().flatten().map(|address| (address, "true"));
        let others = subset.not_ready_addresses.iter().flatten().map(|address| (address, "false"));
        let addresses: Vec<(&Address, &str)> = ready.chain(others).collect();
        for port in subset.ports.iter().flatten() {
            for (address, ready) in &addresses {
                let (own, place) = (labels_of_address(address, port, ready), place(address));
                targets.add((&address.ip, port.port), own, place);
            }
        }
    }
    targets.finish();
}

fn place(address: &Address) -> (Option<&str>, Option<&Reference>) {
    (address.node_name.as_deref(), address.target_ref.as_deref())
}

fn labels_of_address(address: &Address, port: &Port, ready: &str) -> LabelSet {
    let mut own = LabelSet::new();
    put(&mut own, "endpoint_ready", ready);
    put(&mut own, "endpoint_port_name", port.name.as_deref().unwrap_or_default());
    put(&mut own, "endpoint_port_protocol", port.protocol.as_deref().unwrap_or_default());
    put(&mut own, "endpoint_hostname", address.hostname.as_deref().unwrap_or_default());
    put(&mut own, "endpoint_node_name", address.node_name.as_deref().unwrap_or_default());
    if let Some(reference) = &address.target_ref {
        put(&mut own, "endpoint_address_target_kind", &reference.kind);
        put(&mut own, "endpoint_address_target_name", &reference.name);
    }
    own
}

/// Returns the targets of a slice of endpoints.
pub(super) fn targets_of_slice(slice: &EndpointSlice, cluster: &Cluster, found: &mut Found) {
    let meta = &slice.metadata;
    let mut of_object = LabelSet::new();
    put(&mut of_object, "namespace", &meta.namespace);
    put(&mut of_object, "endpointslice_address_type", &slice.address_type);
    if let Some(name) = meta.labels.iter().flatten().find(|(name, _)| *name == SERVICE_NAME) {
        put_service(&mut of_object, cluster, &meta.namespace, name.1);
    }
    put_meta(&mut of_object, "endpointslice", meta);
    let mut targets = Targets { cluster, of_object, pods: BTreeMap::new(), found };
    for endpoint in slice.endpoints.iter().flatten() {
        let place = (endpoint.node_name.as_deref(), endpoint.target_ref.as_deref());
        for port in slice.ports.iter().flatten() {
            for host in endpoint.addresses.iter().flatten() {
                targets.add((host, port.port), labels_of_endpoint(endpoint, port), place);
            }
        }
    }
    targets.finish();
}

fn labels_of_endpoint(endpoint: &Endpoint, port: &Port) -> LabelSet {
    let mut own = LabelSet::new();
    let mut of = |name: &str, value: Option<&str>| {
        put(&mut own, &format!("endpointslice_{name}"), value.unwrap_or_default());
    };
    of("port_name", port.name.as_deref());
    of("port_protocol", port.protocol.as_deref());
    of("port", port.port.map(|port| port.to_string()).as_deref());
    of("port_app_protocol", port.app_protocol.as_deref());
    of("endpoint_hostname", endpoint.hostname.as_deref());
    of("endpoint_node_name", endpoint.node_name.as_deref());
    of("endpoint_zone", endpoint.zone.as_deref());
    let conditions = endpoint.conditions.unwrap_or_default();
    let is = |holds: Option<bool>| holds.map(|holds| if holds { "true" } else { "false" });
    of("endpoint_conditions_ready", is(conditions.ready));
    of("endpoint_conditions_serving", is(conditions.serving));
    of("endpoint_conditions_terminating", is(conditions.terminating));
    of("address_target_kind", endpoint.target_ref.as_ref().map(|is| is.kind.as_str()));
    of("address_target_name", endpoint.target_ref.as_ref().map(|is| is.name.as_str()));
    for (name, value) in endpoint.deprecated_topology.iter().flatten() {
        let name = sanitized(name);
        of(&format!("endpoint_topology_{name}"), Some(value));
        of(&format!("endpoint_topology_present_{name}"), Some("true"));
    }
    own
}
