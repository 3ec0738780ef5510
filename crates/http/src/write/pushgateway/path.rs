//! Parses the path of a Pushgateway group.

use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use crate::failed_request::Failure;

/// The labels of a path. A label with an empty value means that series of the group do not have it.
pub fn labels(group: &str) -> Result<BTreeMap<String, String>, Failure> {
    let mut parts = group.split('/');
    let mut labels = BTreeMap::new();
    let mut job: Option<String> = None;
    while let Some(name) = parts.next().filter(|name| !name.is_empty()) {
        let value = parts.next().ok_or_else(|| Failure::invalid(format!("label '{name}' has no value")))?;
        let (name, value) = match name.strip_suffix("@base64") {
            Some(name) => (name, decoded(value)?),
            None => (name, value.to_owned()),
        };
        if name.is_empty() || name.starts_with("__") {
            return Err(Failure::invalid(format!("improper label name '{name}'")));
        }
        if job.is_none() {
            if name != "job" || value.is_empty() {
                break;
            }
            job = Some(value.clone());
        }
        labels.insert(name.to_owned(), value);
    }
    let job = job.ok_or_else(|| Failure::invalid("job name is required: /metrics/job/NAME"))?;
    labels.insert("job".to_owned(), job);
    Ok(labels)
}

fn decoded(value: &str) -> Result<String, Failure> {
    let bytes = URL_SAFE_NO_PAD.decode(value.trim_end_matches('=')).ok();
    let text = bytes.and_then(|bytes| String::from_utf8(bytes).ok());
    text.ok_or_else(|| Failure::invalid(format!("'{value}' is no text in URL-safe base 64")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_names_its_labels() {
        let named = |path: &str| {
            let labels = labels(path).map_err(|failure| failure.message)?;
            Ok::<_, String>(labels.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>())
        };
        assert_eq!(named("job/a/instance/b"), Ok(vec!["instance=b".to_owned(), "job=a".to_owned()]));
        assert_eq!(named("job@base64/YS9i/x/"), Ok(vec!["job=a/b".to_owned(), "x=".to_owned()]));
        assert_eq!(named("job/a/job/b/x/1/x/2"), Ok(vec!["job=a".to_owned(), "x=2".to_owned()]));
        for path in
            ["", "job", "job/", "instance/b", "job@base64/~", "job/a/x", "job/a/__name__/x", "job/a/@base64/"]
        {
            assert!(named(path).is_err(), "{path}");
        }
    }
}
