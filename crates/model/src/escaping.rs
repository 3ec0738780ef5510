//! Writes names of metrics and labels in the text formats of metrics.
//!
//! Before Prometheus 3, names were letters, digits and `_` (names of metrics also `:`), and readers of
//! that time fail at any other name. A reader that accepts any name, in quotes, requests
//! `escaping=allow-utf-8`. For other readers, other names are escaped in one of Prometheus's three ways.
//! Legacy names are never changed.

use std::borrow::Cow;
use std::fmt::Write;

/// How names that are not legacy names are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Escaping {
    /// Each character that is not allowed becomes `_`.
    #[default]
    Underscores,
    /// `.` becomes `_dot_`, `_` and other characters become `__`.
    Dots,
    /// `U__` in front, `_` becomes `__`, and other characters become their code point, as `_2e_`.
    Values,
    /// Names are quoted.
    AllowUtf8,
}

/// The kind of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Named {
    /// A metric.
    Metric,
    /// A label.
    Label,
}

impl Named {
    /// Whether a legacy name may have this character at this byte.
    fn takes(self, at: usize, character: char) -> bool {
        match character {
            'a'..='z' | 'A'..='Z' | '_' => true,
            '0'..='9' => at > 0,
            ':' => self == Self::Metric,
            _ => false,
        }
    }

    /// Whether the name is a legacy name, which needs no quotes.
    pub fn is_plain(self, name: &str) -> bool {
        !name.is_empty() && name.char_indices().all(|(at, character)| self.takes(at, character))
    }

    /// The name, quoted if it needs quotes.
    pub fn written(self, name: &str) -> Cow<'_, str> {
        if self.is_plain(name) { Cow::Borrowed(name) } else { Cow::Owned(quoted(name)) }
    }
}

/// Quotes a name or the value of a label.
pub fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    push_quoted(text, |part| out.push_str(part));
    out
}

/// Like [`quoted`], but passes the text to `push` in parts.
pub fn push_quoted(text: &str, mut push: impl FnMut(&str)) {
    push("\"");
    for part in text.split_inclusive(['\\', '"', '\n']) {
        let (plain, escaped) = match part.as_bytes().last() {
            Some(b'\\') => (&part[..part.len() - 1], "\\\\"),
            Some(b'"') => (&part[..part.len() - 1], "\\\""),
            Some(b'\n') => (&part[..part.len() - 1], "\\n"),
            _ => (part, ""),
        };
        push(plain);
        push(escaped);
    }
    push("\"");
}

impl Escaping {
    const ALL: [Self; 4] = [Self::Underscores, Self::Dots, Self::Values, Self::AllowUtf8];

    /// The value of the parameter `escaping` for this escaping.
    pub fn parameter(self) -> &'static str {
        match self {
            Self::Underscores => "underscores",
            Self::Dots => "dots",
            Self::Values => "values",
            Self::AllowUtf8 => "allow-utf-8",
        }
    }

    /// The escaping for a value of the parameter.
    pub fn of(parameter: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|escaping| escaping.parameter() == parameter)
    }

    /// The escaped name, without quotes.
    pub fn name(self, named: Named, name: &str) -> Cow<'_, str> {
        if self == Self::AllowUtf8 || name.is_empty() || named.is_plain(name) {
            return Cow::Borrowed(name);
        }
        let mut escaped = String::with_capacity(name.len() + 8);
        if self == Self::Values {
            escaped.push_str("U__");
        }
        for (at, character) in name.char_indices() {
            match (self, character) {
                (Self::Dots | Self::Values, '_') => escaped.push_str("__"),
                (Self::Dots, '.') => escaped.push_str("_dot_"),
                _ if named.takes(at, character) => escaped.push(character),
                (Self::Dots, _) => escaped.push_str("__"),
                (Self::Values, _) => {
                    let _ = write!(escaped, "_{:x}_", u32::from(character));
                }
                (Self::Underscores | Self::AllowUtf8, _) => escaped.push('_'),
            }
        }
        Cow::Owned(escaped)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_escaped_as_prometheus_escapes_them() {
        for (name, underscores, dots, values) in [
            ("plain_name:sum", "plain_name:sum", "plain_name:sum", "plain_name:sum"),
            ("a.b_c", "a_b_c", "a_dot_b__c", "U__a_2e_b__c"),
            ("1a é", "_a__", "__a____", "U___31_a_20__e9_"),
            ("😀", "_", "__", "U___1f600_"),
            ("", "", "", ""),
        ] {
            let all = [Escaping::Underscores, Escaping::Dots, Escaping::Values, Escaping::AllowUtf8];
            let escaped = all.map(|escaping| escaping.name(Named::Metric, name).into_owned());
            assert_eq!(escaped, [underscores, dots, values, name]);
            assert!(escaped[..3].iter().all(|name| name.is_empty() || Named::Metric.is_plain(name)));
        }
        assert_eq!(Escaping::Underscores.name(Named::Label, "a:b"), "a_b", "names of labels have no colon");
        assert!(Named::Metric.is_plain("a:b") && !Named::Label.is_plain("a:b") && !Named::Label.is_plain(""));
    }

    #[test]
    fn parameters_name_escapings() {
        for escaping in Escaping::ALL {
            assert_eq!(Escaping::of(escaping.parameter()), Some(escaping));
        }
        assert_eq!((Escaping::of("what"), Escaping::of("")), (None, None));
    }
}
