//! Environment variables. No other module reads them.

/// The value of the variable `name`; `None` if it is unset or not UTF-8.
#[allow(clippy::disallowed_methods)] // this module wraps the banned function
pub fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}
