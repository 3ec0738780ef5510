//! Discovery of `service_name`, the label that Grafana's log browser is built around.
//!
//! A stream without it gets the value of the first label of the tenant's list that it has, else
//! `unknown_service`. The label becomes part of the stream's identity. An empty list adds nothing.

use sandur_model::Labels;

/// The discovered label.
pub(crate) const SERVICE_NAME: &str = "service_name";
/// Its value when no label of the list is there.
pub(crate) const UNKNOWN_SERVICE: &str = "unknown_service";

/// The labels with `service_name`, found by the tenant's list.
pub(crate) fn discover(labels: Labels, list: &[String]) -> Labels {
    if list.is_empty() || labels.get(SERVICE_NAME).is_some() {
        return labels;
    }
    let found = list.iter().find_map(|name| labels.get(name)).unwrap_or(UNKNOWN_SERVICE);
    let added = std::iter::once((SERVICE_NAME, found));
    Labels::from_pairs(labels.iter().chain(added))
}

/// Whether the labels hold the label that is often added and therefore not counted.
pub(crate) fn has_service_name(labels: &Labels) -> bool {
    labels.get(SERVICE_NAME).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_label_of_the_list_decides() {
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
