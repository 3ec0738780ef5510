//! Environment variables: read here and nowhere else.

/// The value of `name`, if it is set to valid text.
#[allow(clippy::disallowed_methods)] // the one place that may
pub fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}
