//! Whether a place that alerts are sent to accepts them.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// The longest text of an error that is kept: others write it.
const ERROR_BYTES_MAX: usize = 1_000;

/// The outcome of the last attempt to send to one place.
pub struct Health {
    name: String,
    last_error: Mutex<Option<String>>,
}

impl Health {
    /// A place to which nothing was sent yet.
    pub fn of(name: String) -> Self {
        Self { name, last_error: Mutex::default() }
    }

    /// The name of the place, without credentials.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Why the last attempt failed; `None` if it succeeded.
    pub fn last_error(&self) -> Option<String> {
        lock(&self.last_error).clone()
    }

    /// Notes an outcome. The first failure after a success is logged.
    pub fn note(&self, error: Option<String>) {
        let mut last = lock(&self.last_error);
        let error = error.map(|error| shortened(&error));
        if let Some(error) = error.as_ref().filter(|_| last.is_none()) {
            tracing::warn!(url = self.name, error, "alerts cannot be sent; trying again");
        }
        *last = error;
    }
}

fn shortened(text: &str) -> String {
    let end = (0..=ERROR_BYTES_MAX.min(text.len())).rev().find(|at| text.is_char_boundary(*at));
    text[..end.unwrap_or(0)].to_owned()
}

/// Locks; what a thread that panicked left is used.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A URL without a user and a password.
pub fn without_credentials(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return url.to_owned() };
    let host_end = rest.find('/').unwrap_or(rest.len());
    match rest[..host_end].rfind('@') {
        Some(at) => format!("{scheme}://{}", &rest[at + 1..]),
        None => url.to_owned(),
    }
}

/// The scheme and the host of a URL: the path of a webhook is often a secret.
pub fn host_of(url: &str) -> String {
    let url = without_credentials(url);
    let start = url.find("://").map_or(0, |at| at + 3);
    let end = url[start..].find(['/', '?', '#']).map_or(url.len(), |at| start + at);
    url[..end].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_places_have_no_secrets() {
        assert_eq!(without_credentials("http://u:p@am:9093/x/"), "http://am:9093/x/");
        for url in ["https://u:p@hooks.example/services/T0/secret?t=1", "https://hooks.example?token=x"] {
            assert_eq!(host_of(url), "https://hooks.example");
        }
        assert_eq!(host_of("hooks"), "hooks");
    }

    #[test]
    fn errors_of_others_are_cut() {
        let health = Health::of("http://am".to_owned());
        health.note(Some("é".repeat(10_000)));
        assert_eq!(health.last_error().unwrap().len(), ERROR_BYTES_MAX);
    }
}
