//! Role `pod`: a target for each port of a container, or for the container if it has none.

use sandur_targets::LabelSet;

use super::super::source::Found;
use super::cluster::{Cluster, named};
use super::labels::{joined, put, put_meta, put_node, with};
use super::objects::{Container, ContainerPort, Pod};

/// Returns the labels that all targets of a pod have.
pub(super) fn labels(pod: &Pod) -> LabelSet {
    let (meta, status, mut labels) = (&pod.metadata, &pod.status, LabelSet::new());
    put_meta(&mut labels, "pod", meta);
    put(&mut labels, "pod_ip", &status.pod_ip);
    put(&mut labels, "pod_host_ip", &status.host_ip);
    put(&mut labels, "pod_phase", &status.phase);
    put(&mut labels, "pod_node_name", &pod.spec.node_name);
    put(&mut labels, "pod_uid", &meta.uid);
    let ready = status.conditions.iter().flatten().find(|condition| condition.kind == "Ready");
    let ready = ready.map_or("unknown".to_owned(), |condition| condition.status.to_lowercase());
    put(&mut labels, "pod_ready", &ready);
    let owner = meta.owner_references.iter().flatten().find(|owner| owner.controller == Some(true));
    if let Some(owner) = owner {
        put(&mut labels, "pod_controller_kind", &owner.kind);
        put(&mut labels, "pod_controller_name", &owner.name);
    }
    labels
}

/// Returns the containers of a pod; those that run before the others have `true`.
pub(super) fn containers(pod: &Pod) -> impl Iterator<Item = (&Container, bool)> {
    let ordinary = pod.spec.containers.iter().flatten().map(|container| (container, false));
    ordinary.chain(pod.spec.init_containers.iter().flatten().map(|container| (container, true)))
}

/// Returns the ports of a container.
pub(super) fn ports(container: &Container) -> impl Iterator<Item = &ContainerPort> {
    container.ports.iter().flatten()
}

/// Sets the labels of a container and of its port.
pub(super) fn put_container(
    labels: &mut LabelSet,
    pod: &Pod,
    (container, is_init): (&Container, bool),
    port: Option<&ContainerPort>,
) {
    let status = &pod.status;
    let statuses = if is_init { &status.init_container_statuses } else { &status.container_statuses };
    let id = statuses.iter().flatten().find(|status| status.name == container.name);
    put(labels, "pod_container_name", &container.name);
    put(labels, "pod_container_id", id.map_or("", |status| &status.id));
    put(labels, "pod_container_image", &container.image);
    put(labels, "pod_container_init", if is_init { "true" } else { "false" });
    if let Some(port) = port {
        put(labels, "pod_container_port_name", &port.name);
        put(labels, "pod_container_port_number", &port.container_port.to_string());
        put(labels, "pod_container_port_protocol", &port.protocol);
    }
}

/// Returns the targets of a pod. A pod without an address has none.
pub(super) fn targets(pod: &Pod, cluster: &Cluster, found: &mut Found) {
    let ip = &pod.status.pod_ip;
    if ip.is_empty() {
        return;
    }
    let mut of_pod = labels(pod);
    put(&mut of_pod, "namespace", &pod.metadata.namespace);
    if let Some(node) = cluster.nodes.get(&named("", &pod.spec.node_name)) {
        put_node(&mut of_pod, node);
    }
    for container in containers(pod) {
        let mut add = |address: String, port: Option<&ContainerPort>| {
            let mut own = LabelSet::new();
            put_container(&mut own, pod, container, port);
            found.add(address, with(&of_pod, own));
        };
        if ports(container.0).next().is_none() {
            add(ip.clone(), None);
        }
        ports(container.0).for_each(|port| add(joined(ip, port.container_port), Some(port)));
    }
}
