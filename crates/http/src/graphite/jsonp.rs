//! Checks the function that JSON is wrapped in: it must be a name and no other code, since links can set
//! it.

use crate::failed_request::Failure;

/// Maximum bytes of the name.
const NAME_MAX: usize = 128;

/// Fails unless the text is empty or a path of JavaScript names like `a.b[0].c`.
pub fn check_callback(name: &str) -> Result<(), Failure> {
    if name.is_empty() || (name.len() <= NAME_MAX && name.split('.').all(is_part)) {
        return Ok(());
    }
    let text = format!(
        "the parameter jsonp is no name of a function: letters, digits, _ and $, with points between names \
         and numbers in brackets, at most {NAME_MAX} bytes"
    );
    Err(Failure::invalid(text))
}

/// Whether the text is a name followed by any number of indices.
fn is_part(part: &str) -> bool {
    let mut pieces = part.split('[');
    let name = pieces.next().unwrap_or("");
    let is_of_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '$');
    let is_name = name.chars().all(is_of_name) && !name.starts_with(|c: char| c.is_ascii_digit());
    let mut places = pieces.map(|piece| piece.strip_suffix(']'));
    let is_number = |place: &str| !place.is_empty() && place.bytes().all(|byte| byte.is_ascii_digit());
    !name.is_empty() && is_name && places.all(|place| place.is_some_and(is_number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_callback_is_names_and_nothing_else() {
        for name in ["", "f", "$", "_a1", "jQuery.fn_1", "Request.JSONP.request_map[12]", "a[0][1].b"] {
            assert!(check_callback(name).is_ok(), "{name}");
        }
        let long = "f".repeat(NAME_MAX + 1);
        for wrong in [
            "alert(document.domain)//",
            "1a",
            "a..b",
            ".a",
            "a.",
            "a b",
            "a;b",
            "a[",
            "a[]",
            "a[b]",
            "a[0",
            "[0]",
            "a[0]b",
            "a]",
            "a-b",
            "\u{e4}",
            "a\n",
            "<script>",
            &long,
        ] {
            assert_eq!(check_callback(wrong).unwrap_err().status.as_u16(), 400, "{wrong}");
        }
    }
}
