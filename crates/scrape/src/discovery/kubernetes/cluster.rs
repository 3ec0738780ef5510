//! Objects whose labels targets of other objects have too.

use std::collections::BTreeMap;

use sandur_memory::Reservation;

use super::objects::{Meta, Node, Pod, Service};

/// Objects that give further labels to targets, by namespace and name.
#[derive(Default)]
pub(super) struct Cluster {
    pub(super) pods: BTreeMap<String, Pod>,
    pub(super) services: BTreeMap<String, Service>,
    pub(super) nodes: BTreeMap<String, Node>,
    pub(super) held: Vec<Reservation>,
}

/// Returns the key of an object.
pub(super) fn named(namespace: &str, name: &str) -> String {
    format!("{namespace}/{name}")
}

pub(super) fn key(meta: &Meta) -> String {
    named(&meta.namespace, &meta.name)
}
