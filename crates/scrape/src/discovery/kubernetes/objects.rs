//! Objects of the Kubernetes API, with the fields that targets need.
//!
//! **Invariants.** Optional fields may be missing or null. Elements of lists are small, so that the memory of
//! a page is bounded by the number of its braces and texts (`api`).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

pub(super) type Texts = BTreeMap<String, String>;

#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Meta {
    pub(super) name: String,
    pub(super) namespace: String,
    pub(super) uid: String,
    pub(super) labels: Option<Texts>,
    pub(super) annotations: Option<Texts>,
    pub(super) owner_references: Option<Vec<Owner>>,
}

#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(default)]
pub(super) struct Owner {
    pub(super) kind: String,
    pub(super) name: String,
    pub(super) controller: Option<bool>,
}

#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(default)]
pub(super) struct Pod {
    pub(super) metadata: Meta,
    pub(super) spec: PodSpec,
    pub(super) status: PodStatus,
}

#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct PodSpec {
    pub(super) node_name: String,
    pub(super) containers: Option<Vec<Container>>,
    pub(super) init_containers: Option<Vec<Container>>,
}

#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(default)]
pub(super) struct Container {
    pub(super) name: String,
    pub(super) image: String,
    pub(super) ports: Option<Vec<ContainerPort>>,
}

#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct ContainerPort {
    pub(super) name: String,
    pub(super) container_port: u16,
    pub(super) protocol: String,
}

#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct PodStatus {
    #[serde(rename = "podIP")]
    pub(super) pod_ip: String,
    #[serde(rename = "hostIP")]
    pub(super) host_ip: String,
    pub(super) phase: String,
    pub(super) conditions: Option<Vec<Condition>>,
    pub(super) container_statuses: Option<Vec<ContainerStatus>>,
    pub(super) init_container_statuses: Option<Vec<ContainerStatus>>,
}

#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(default)]
pub(super) struct Condition {
    #[serde(rename = "type")]
    pub(super) kind: String,
    pub(super) status: String,
}

#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(default)]
pub(super) struct ContainerStatus {
    pub(super) name: String,
    #[serde(rename = "containerID")]
    pub(super) id: String,
}

#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(default)]
pub(super) struct Service {
    pub(super) metadata: Meta,
    pub(super) spec: ServiceSpec,
}

#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct ServiceSpec {
    #[serde(rename = "type")]
    pub(super) kind: String,
    #[serde(rename = "clusterIP")]
    pub(super) cluster_ip: String,
    #[serde(rename = "loadBalancerIP")]
    pub(super) load_balancer_ip: String,
    pub(super) external_name: String,
    pub(super) ports: Option<Vec<Port>>,
}

/// A port of a service, of endpoints or of a slice of endpoints.
#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Port {
    pub(super) name: Option<String>,
    pub(super) port: Option<u16>,
    pub(super) protocol: Option<String>,
    pub(super) app_protocol: Option<String>,
}

#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(default)]
pub(super) struct Endpoints {
    pub(super) metadata: Meta,
    pub(super) subsets: Option<Vec<Subset>>,
}

#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Subset {
    pub(super) addresses: Option<Vec<Address>>,
    pub(super) not_ready_addresses: Option<Vec<Address>>,
    pub(super) ports: Option<Vec<Port>>,
}

#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Address {
    pub(super) ip: String,
    pub(super) hostname: Option<String>,
    pub(super) node_name: Option<String>,
    pub(super) target_ref: Option<Box<Reference>>,
}

#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(default)]
pub(super) struct Reference {
    pub(super) kind: String,
    pub(super) namespace: String,
    pub(super) name: String,
}

#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct EndpointSlice {
    pub(super) metadata: Meta,
    pub(super) address_type: String,
    pub(super) endpoints: Option<Vec<Endpoint>>,
    pub(super) ports: Option<Vec<Port>>,
}

#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Endpoint {
    pub(super) addresses: Option<Vec<String>>,
    pub(super) conditions: Option<Conditions>,
    pub(super) hostname: Option<String>,
    pub(super) node_name: Option<String>,
    pub(super) zone: Option<String>,
    pub(super) target_ref: Option<Box<Reference>>,
    pub(super) deprecated_topology: Option<Texts>,
}

#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize)]
#[serde(default)]
pub(super) struct Conditions {
    pub(super) ready: Option<bool>,
    pub(super) serving: Option<bool>,
    pub(super) terminating: Option<bool>,
}

#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(default)]
pub(super) struct Node {
    pub(super) metadata: Meta,
    pub(super) spec: NodeSpec,
    pub(super) status: NodeStatus,
}

#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(default)]
pub(super) struct NodeSpec {
    #[serde(rename = "providerID")]
    pub(super) provider_id: String,
}

#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct NodeStatus {
    pub(super) addresses: Option<Vec<NodeAddress>>,
    pub(super) daemon_endpoints: DaemonEndpoints,
}

#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(default)]
pub(super) struct NodeAddress {
    #[serde(rename = "type")]
    pub(super) kind: String,
    pub(super) address: String,
}

#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct DaemonEndpoints {
    pub(super) kubelet_endpoint: KubeletEndpoint,
}

#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(default)]
pub(super) struct KubeletEndpoint {
    #[serde(rename = "Port")]
    pub(super) port: u16,
}
