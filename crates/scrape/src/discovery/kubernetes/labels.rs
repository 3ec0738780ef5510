//! Names of labels, and labels that all objects have.

use sandur_targets::LabelSet;

use super::objects::{Meta, Node};

const PREFIX: &str = "__meta_kubernetes_";

/// Sets a label, unless its value is empty.
pub(super) fn put(labels: &mut LabelSet, name: &str, value: &str) {
    if !value.is_empty() {
        labels.insert(format!("{PREFIX}{name}"), value.to_owned());
    }
}

/// Sets the labels for the name, the labels and the annotations of an object.
pub(super) fn put_meta(labels: &mut LabelSet, role: &str, meta: &Meta) {
    put(labels, &format!("{role}_name"), &meta.name);
    put_texts(labels, role, "label", meta.labels.iter().flatten());
    put_texts(labels, role, "annotation", meta.annotations.iter().flatten());
}

fn put_texts<'a>(
    labels: &mut LabelSet,
    role: &str,
    kind: &str,
    texts: impl Iterator<Item = (&'a String, &'a String)>,
) {
    for (name, value) in texts {
        let name = sanitized(name);
        put(labels, &format!("{role}_{kind}_{name}"), value);
        put(labels, &format!("{role}_{kind}present_{name}"), "true");
    }
}

/// Sets the labels of the node on which a target is.
pub(super) fn put_node(labels: &mut LabelSet, node: &Node) {
    put(labels, "node_name", &node.metadata.name);
    put_texts(labels, "node", "label", node.metadata.labels.iter().flatten());
}

/// Replaces what a name of a label may not contain.
pub(super) fn sanitized(name: &str) -> String {
    let valid = |c: char| if c.is_ascii_alphanumeric() || c == '_' { c } else { '_' };
    name.chars().map(valid).collect()
}

/// Returns an address with a port.
pub(super) fn joined(host: &str, port: u16) -> String {
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}

/// Returns the labels of a target: its own in addition to those of its object.
pub(super) fn with(of_object: &LabelSet, own: LabelSet) -> LabelSet {
    let mut labels = of_object.clone();
    labels.extend(own);
    labels
}
