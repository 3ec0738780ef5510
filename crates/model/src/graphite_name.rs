//! Parses the names that Graphite senders write: a path, or a name with tags in one of two notations.
//!
//! carbon writes `name;tag=value`, OpenMetrics writes `name{tag="value"}`. A name that is well-formed in
//! neither notation is a path, as in carbon: a malformed tag does not cause a point to be refused.
//! Leading `~` of a name are dropped, the last value of a repeated tag counts, and the tag `name` is
//! dropped, because it is the name itself.
//!
//! **Invariant.** The canonical form sorts the texts `;tag=value`, not the tags, so `;a1=0` comes before
//! `;a=1`. Hash rings and files on disk depend on this order.

use std::borrow::Cow;

use crate::graphite_path::{GraphitePathError, graphite_path_labels, graphite_tagged_labels};
use crate::labels::Labels;

/// A parsed name: the path, or the name and its tags.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GraphiteName<'a> {
    name: &'a str,
    tags: Vec<(Cow<'a, str>, Cow<'a, str>)>,
}

impl<'a> GraphiteName<'a> {
    /// Parses a name; one that is not well-formed is a path without tags.
    pub fn parse(sent: &'a str) -> Self {
        Self::tagged(sent).unwrap_or(Self { name: sent, tags: Vec::new() })
    }

    fn tagged(sent: &'a str) -> Option<Self> {
        let is_braced = sent.ends_with("\"}") && sent.contains('{');
        let (metric, mut tags) = if is_braced { braced(sent)? } else { separated(sent)? };
        let name = metric.trim_start_matches('~');
        if name.is_empty() {
            return None;
        }
        // The sort is stable, so the last of equal tags stays the last one.
        tags.sort_by(|(a, _), (b, _)| a.cmp(b));
        tags.reverse();
        tags.dedup_by(|(a, _), (b, _)| a == b);
        tags.retain(|(tag, _)| tag != "name");
        Some(Self { name, tags })
    }

    /// The path, or the name before the tags.
    pub fn name(&self) -> &'a str {
        self.name
    }

    /// The tags, each once, in no particular order.
    pub fn tags(&self) -> impl ExactSizeIterator<Item = (&str, &str)> {
        self.tags.iter().map(|(tag, value)| (&**tag, &**value))
    }

    /// The canonical form, which is the same for all notations and orders of tags.
    pub fn canonical(&self) -> String {
        let mut parts: Vec<String> = self.tags().map(|(tag, value)| format!(";{tag}={value}")).collect();
        parts.sort_unstable();
        parts.insert(0, self.name.to_owned());
        parts.concat()
    }

    /// The labels under which the series is stored.
    pub fn labels(&self) -> Result<Labels, GraphitePathError> {
        match self.tags.is_empty() {
            true => graphite_path_labels(self.name),
            false => graphite_tagged_labels(self.name, self.tags()),
        }
    }
}

type Parts<'a> = (&'a str, Vec<(Cow<'a, str>, Cow<'a, str>)>);

/// Parses `name;tag=value;...`.
fn separated(sent: &str) -> Option<Parts<'_>> {
    let mut segments = sent.split(';');
    let metric = segments.next()?;
    let tags = segments.map(|segment| {
        let (tag, value) = segment.split_once('=')?;
        is_tag(tag, value).then_some((Cow::Borrowed(tag), Cow::Borrowed(value)))
    });
    Some((metric, tags.collect::<Option<Vec<_>>>()?))
}

/// Parses `name{tag="value",...}`.
fn braced(sent: &str) -> Option<Parts<'_>> {
    let (metric, mut rest) = sent.strip_suffix('}')?.split_once('{')?;
    if rest.contains('{') {
        return None;
    }
    let mut tags = Vec::new();
    while !rest.is_empty() {
        let (tag, quoted) = rest.split_once('=')?;
        let quoted = quoted.strip_prefix('"')?;
        let length = quoted_length(quoted)?;
        let value = &quoted[..length];
        let value = match value.contains('\\') {
            true => Cow::Owned(value.replace("\\\"", "\"").replace("\\\\", "\\")),
            false => Cow::Borrowed(value),
        };
        if !is_tag(tag, &value) {
            return None;
        }
        tags.push((Cow::Borrowed(tag), value));
        let after = &quoted[length + 1..];
        rest = match after.strip_prefix(",").or_else(|| after.strip_prefix(":,")) {
            Some(next) => next,
            None if after.is_empty() => after,
            None => return None,
        };
    }
    Some((metric, tags))
}

/// Bytes before the closing quote; a backslash may only precede a quote or a backslash.
fn quoted_length(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    let mut at = 0;
    loop {
        match bytes.get(at)? {
            b'"' => return Some(at),
            b'\\' => match bytes.get(at + 1)? {
                b'"' | b'\\' => at += 2,
                _ => return None,
            },
            _ => at += 1,
        }
    }
}

fn is_tag(tag: &str, value: &str) -> bool {
    let is_name = !tag.is_empty() && !tag.contains([';', '!', '^', '=']);
    is_name && !value.is_empty() && !value.starts_with('~') && !value.contains(';')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_one_canonical_form() {
        for (sent, canonical) in [
            ("a.b.c", "a.b.c"),
            ("m;b=2;a=1", "m;a=1;b=2"),
            ("m;a=1;a1=0", "m;a1=0;a=1"),
            ("m;a=1;a=2", "m;a=2"),
            ("m;name=x;a=1", "m;a=1"),
            ("m;name=x", "m"),
            ("~m;a=b", "m;a=b"),
            ("~~~", "~~~"),
            ("m;a=b=c", "m;a=b=c"),
            ("m;a", "m;a"),
            ("m;a!=b", "m;a!=b"),
            ("m;a=~b", "m;a=~b"),
            (";a=b", ";a=b"),
            (r#"m{b="2",a="1"}"#, "m;a=1;b=2"),
            (r#"m{a="b\\c",b="\""}"#, r#"m;a=b\c;b=""#),
            (r#"m{a="1":,b="2"}"#, "m;a=1;b=2"),
            (r#"m{a="1",}"#, r#"m{a="1",}"#),
            (r#"m{a="\n"}"#, r#"m{a="\n"}"#),
            (r#"m;b=2{a="1"}"#, "m;b=2;a=1"),
            ("m{}", "m{}"),
            (r#"m{"}"#, r#"m{"}"#),
        ] {
            assert_eq!(GraphiteName::parse(sent).canonical(), canonical, "{sent}");
        }
    }

    #[test]
    fn labels_distinguish_paths_and_tagged_names() {
        let shown = |sent| GraphiteName::parse(sent).labels().map(|labels| labels.to_string());
        assert_eq!(shown("a.b").unwrap(), r#"{__g0__="a", __g1__="b", __name__="a.b"}"#);
        assert_eq!(shown("m;t=v").unwrap(), r#"{__graphite__="tagged", __name__="m", t="v"}"#);
        assert_eq!(shown("m;t").unwrap(), r#"{__g0__="m;t", __name__="m;t"}"#);
        assert!(shown("m;__g0__=v").is_err());
        assert!(shown("").is_err());
    }
}
