//! Names of tagged series: `name;tag=value;..`, and the form with braces, which is also accepted.

use std::fmt::Write;

use sandur_memory::job::spend;

use super::set::Tags;
use crate::error::{Error, Result};

/// Characters that are not allowed in names of tags.
const FORBIDDEN: [char; 4] = [';', '!', '^', '='];

/// The most tags of a name; stored series have far fewer.
const TAGS_MAX: usize = 1_000;

/// Parses the tags of a name; an untagged path has only the tag `name`.
pub fn parse_name(path: &str) -> Result<Tags> {
    match path.find('{') {
        Some(brace) if path.ends_with("\"}") => with_braces(path, brace),
        _ => with_semicolons(path),
    }
}

fn wrong(path: &str, why: &str) -> Error {
    Error::invalid(format!("Cannot parse path {path}, {why}"))
}

fn with_semicolons(path: &str) -> Result<Tags> {
    let mut segments = path.split(';');
    let metric = segments.next().unwrap_or_default();
    if metric.is_empty() {
        return Err(wrong(path, "no metric found"));
    }
    let mut tags = Tags::default();
    for segment in segments {
        let (tag, value) =
            segment.split_once('=').ok_or_else(|| wrong(path, "a segment is not tag=value"))?;
        check(tag, value)?;
        set(&mut tags, tag, value)?;
    }
    named(tags, metric)
}

fn with_braces(path: &str, brace: usize) -> Result<Tags> {
    let (metric, rest) = path.split_at(brace);
    let mut rest = rest[1..].strip_suffix('}').unwrap_or_default();
    if metric.is_empty() {
        return Err(wrong(path, "no metric found"));
    }
    let mut tags = Tags::default();
    while !rest.is_empty() {
        let (tag, after) =
            rest.split_once("=\"").ok_or_else(|| wrong(path, "a segment is not tag=\"value\""))?;
        let (value, after) = quoted(after).ok_or_else(|| wrong(path, "a quote is not closed"))?;
        check(tag, &value)?;
        set(&mut tags, tag, &value)?;
        rest = match after.strip_prefix(',') {
            Some(after) => after,
            None if after.is_empty() => after,
            None => return Err(wrong(path, "a comma is missing")),
        };
    }
    named(tags, metric)
}

/// Parses a value up to its closing quote; also returns the rest.
fn quoted(text: &str) -> Option<(String, &str)> {
    let (mut value, mut chars) = (String::new(), text.char_indices());
    while let Some((at, character)) = chars.next() {
        match character {
            '"' => return Some((value, &text[at + 1..])),
            '\\' => value.push(
                chars
                    .next()
                    .map(|(_, character)| character)
                    .filter(|character| matches!(character, '"' | '\\'))?,
            ),
            other => value.push(other),
        }
    }
    None
}

fn check(tag: &str, value: &str) -> Result<()> {
    let wrong = |why: &str| Err(Error::invalid(format!("the tag '{tag}' {why}")));
    match () {
        () if tag.is_empty() => wrong("has no name"),
        () if value.is_empty() => wrong("has no value"),
        () if tag.contains(FORBIDDEN) => wrong("has one of ;!^= in its name"),
        () if value.contains(';') => wrong("has a semicolon in its value"),
        () if value.starts_with('~') => wrong("has a value that begins with ~"),
        () => Ok(()),
    }
}

/// Sets a tag. Counts the work, because each tag is compared with all previous ones.
fn set(tags: &mut Tags, tag: &str, value: &str) -> Result<()> {
    spend(tags.len())?;
    tags.set(tag, value);
    match tags.len() > TAGS_MAX {
        true => Err(Error::Limit(format!("a name has more than {TAGS_MAX} tags"))),
        false => Ok(()),
    }
}

fn named(mut tags: Tags, metric: &str) -> Result<Tags> {
    let name = metric.trim_start_matches('~');
    if name.is_empty() {
        return Err(Error::invalid(format!("the name '{metric}' consists only of ~")));
    }
    tags.set("name", name);
    Ok(tags)
}

/// The canonical name of a set of tags: sorts the pairs by their text, not by the names of tags.
pub fn canonical_name(tags: &Tags) -> String {
    let others = tags.iter().filter(|(tag, _)| *tag != "name");
    let mut pairs: Vec<String> = others.map(|(tag, value)| format!(";{tag}={value}")).collect();
    pairs.sort();
    let mut name = tags.get("name").unwrap_or_default().to_owned();
    for pair in pairs {
        let _ = write!(name, "{pair}");
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_parsed_in_both_forms_and_written_in_one() {
        for text in ["m;b=2;a=1", "m{b=\"2\",a=\"1\"}"] {
            assert_eq!(canonical_name(&parse_name(text).unwrap()), "m;a=1;b=2");
        }
        assert_eq!(canonical_name(&parse_name("m;a=1;a1=0").unwrap()), "m;a1=0;a=1");
        for wrong in ["", ";a=b", "m;a", "m;a=", "m;=b", "m;a=~b", "~~", "m{\"}"] {
            assert!(parse_name(wrong).is_err(), "{wrong}");
        }
        let many = |count| (0..count).fold("m".to_owned(), |name, n| format!("{name};t{n}=v"));
        assert!(parse_name(&many(TAGS_MAX)).is_ok());
        assert!(matches!(parse_name(&many(TAGS_MAX + 1)), Err(Error::Limit(_))));
    }
}
