//! Discovers `service_name`, the label on which Grafana's log browser is based.
//!
//! A stream without this label gets the value of the first label in the tenant's list that it has, or
//! else `unknown_service`. The label becomes part of the stream's identity. An empty list adds nothing.

use sandur_model::Labels;

/// The discovered label.
pub(crate) const SERVICE_NAME: &str = "service_name";
/// The value when the stream has no label of the list.
pub(crate) const UNKNOWN_SERVICE: &str = "unknown_service";

/// Returns the labels with `service_name`, discovered by the tenant's list.
pub(crate) fn discover(labels: Labels, list: &[String]) -> Labels {
    if list.is_empty() || labels.get(SERVICE_NAME).is_some() {
        return labels;
    }
    let found = list.iter().find_map(|name| labels.get(name)).unwrap_or(UNKNOWN_SERVICE);
    let added = std::iter::once((SERVICE_NAME, found));
    Labels::from_pairs(labels.iter().chain(added))
}

/// Whether the labels hold `service_name`, which is often added and therefore does not count toward the
/// limit.
pub(crate) fn has_service_name(labels: &Labels) -> bool {
    labels.get(SERVICE_NAME).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_label_of_the_list_becomes_the_service_name() {
        let list = ["service".to_owned(), "app".to_owned(), "job".to_owned()];
        for (sent, kept) in [
            (r#"{job="j", app="a"}"#, r#"{app="a", job="j", service_name="a"}"#),
            (r#"{env="e"}"#, r#"{env="e", service_name="unknown_service"}"#),
            (r#"{service_name="own", app="a"}"#, r#"{app="a", service_name="own"}"#),
            (r#"{service_name="", app="a"}"#, r#"{app="a", service_name="a"}"#),
            ("{}", r#"{service_name="unknown_service"}"#),
        ] {
            assert_eq!(discover(Labels::parse(sent).unwrap(), &list).to_string(), kept);
        }
        assert_eq!(discover(Labels::parse(r#"{app="a"}"#).unwrap(), &[]).to_string(), r#"{app="a"}"#);
    }
}
