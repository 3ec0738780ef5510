//! Selectors in parameters of the index endpoints.

use sandur_model::Matcher;

use crate::http::failure::Failure;
use crate::wiring;

/// Whether a selector is `{}`.
pub fn is_every_stream(text: &str) -> bool {
    text.split_whitespace().collect::<String>() == "{}"
}

/// The matchers of a selector; none for an absent one and for `{}`.
pub fn optional(text: &str) -> Result<Vec<Matcher>, Failure> {
    if text.trim().is_empty() || is_every_stream(text) {
        return Ok(Vec::new());
    }
    wiring::parse_selector(text)
}

/// The matchers of a selector that must be there.
pub fn required(text: &str) -> Result<Vec<Matcher>, Failure> {
    if text.trim().is_empty() {
        return Err(Failure::invalid(wiring::EMPTY_QUERY));
    }
    wiring::parse_selector(text)
}

/// The matchers of a selector that must be there and select by more than what is absent.
pub fn required_selecting(text: &str) -> Result<Vec<Matcher>, Failure> {
    if text.trim().is_empty() {
        return required(text);
    }
    wiring::parse_selecting(text)
}

/// The same, and none when it is absent.
pub fn optional_selecting(text: &str) -> Result<Vec<Matcher>, Failure> {
    if text.trim().is_empty() { Ok(Vec::new()) } else { required_selecting(text) }
}
