//! Converts names of structured metadata and labels to names that LogQL can express.
//!
//! As in OpenTelemetry's translation to Prometheus names, every run of characters other than ASCII
//! letters and digits becomes one `_`; a name with a leading digit gets the prefix `key_`; a name between
//! double underscores keeps them. An empty name becomes `_`, so that its value is not lost.

/// Whether a name is in normal form.
#[inline]
pub(crate) fn is_normal(name: &[u8]) -> bool {
    let Some(first) = name.first() else { return false };
    let mut previous = b'a';
    let ordinary = name.iter().all(|&b| {
        let allowed = b.is_ascii_alphanumeric() || (b == b'_' && previous != b'_');
        previous = b;
        allowed
    });
    (ordinary && !first.is_ascii_digit()) || reserved(name).is_some_and(is_inner_normal)
}

fn is_inner_normal(inner: &[u8]) -> bool {
    let doubled = inner.windows(2).any(|pair| pair == b"__");
    !inner.is_empty() && !doubled && inner.iter().all(|b| b.is_ascii_alphanumeric() || *b == b'_')
}

/// Returns the part between the double underscores of a reserved name.
fn reserved(name: &[u8]) -> Option<&[u8]> {
    name.strip_prefix(b"__")?.strip_suffix(b"__")
}

/// Appends the normal form of a name.
pub(crate) fn write_normal(name: &[u8], into: &mut Vec<u8>) {
    let start = into.len();
    match reserved(name) {
        Some(inner) if !inner.is_empty() => {
            into.extend_from_slice(b"__");
            write_collapsed(inner, into);
            into.extend_from_slice(b"__");
        }
        _ => {
            if name.first().is_some_and(u8::is_ascii_digit) {
                into.extend_from_slice(b"key_");
            }
            write_collapsed(name, into);
        }
    }
    if into.len() == start {
        into.push(b'_');
    }
}

fn write_collapsed(name: &[u8], into: &mut Vec<u8>) {
    let mut after_underscore = false;
    for &byte in name {
        if byte.is_ascii_alphanumeric() {
            into.push(byte);
            after_underscore = false;
        } else if !after_underscore {
            into.push(b'_');
            after_underscore = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn normal(name: &str) -> String {
        let mut into = Vec::new();
        write_normal(name.as_bytes(), &mut into);
        String::from_utf8(into).unwrap()
    }

    #[test]
    fn names_are_converted_to_names_that_logql_accepts() {
        for (sent, kept) in [
            ("trace_id", "trace_id"),
            ("span.id", "span_id"),
            ("a..b__c", "a_b_c"),
            ("_leading", "_leading"),
            ("1st", "key_1st"),
            ("__reserved__", "__reserved__"),
            ("__a.b__", "__a_b__"),
            ("schlüssel", "schl_ssel"),
            ("", "_"),
            ("...", "_"),
            ("____", "_"),
        ] {
            assert_eq!(normal(sent), kept, "{sent}");
            assert_eq!(is_normal(sent.as_bytes()), sent == kept, "{sent}");
        }
    }

    proptest! {
        #[test]
        fn the_check_agrees_with_the_conversion(name in "[a1_.Zü]{0,8}") {
            prop_assert_eq!(is_normal(name.as_bytes()), normal(&name) == name);
            prop_assert_eq!(normal(&normal(&name)), normal(&name));
        }
    }
}
