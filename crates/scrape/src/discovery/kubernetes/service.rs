//! Role `service`: a target for each port of a service.

use sandur_targets::LabelSet;

use super::super::source::Found;
use super::cluster::Cluster;
use super::labels::{joined, put, put_meta, with};
use super::objects::Service;

/// Returns the labels that endpoints of a service have too.
pub(super) fn labels(service: &Service) -> LabelSet {
    let mut labels = LabelSet::new();
    put_meta(&mut labels, "service", &service.metadata);
    put(&mut labels, "namespace", &service.metadata.namespace);
    labels
}

/// Returns the targets of a service.
pub(super) fn targets(service: &Service, _cluster: &Cluster, found: &mut Found) {
    let (meta, spec, mut of_service) = (&service.metadata, &service.spec, labels(service));
    let host = format!("{}.{}.svc", meta.name, meta.namespace);
    put(&mut of_service, "service_type", &spec.kind);
    match spec.kind.as_str() {
        "ExternalName" => put(&mut of_service, "service_external_name", &spec.external_name),
        _ => put(&mut of_service, "service_cluster_ip", &spec.cluster_ip),
    }
    if spec.kind == "LoadBalancer" {
        put(&mut of_service, "service_loadbalancer_ip", &spec.load_balancer_ip);
    }
    for port in spec.ports.iter().flatten() {
        let (number, mut own) = (port.port.unwrap_or_default(), LabelSet::new());
        put(&mut own, "service_port_name", port.name.as_deref().unwrap_or_default());
        put(&mut own, "service_port_number", &number.to_string());
        put(&mut own, "service_port_protocol", port.protocol.as_deref().unwrap_or_default());
        found.add(joined(&host, number), with(&of_service, own));
    }
}
