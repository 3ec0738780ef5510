//! Names of tagged series: `name;tag=value;..`, and the form with braces that is read as well.

use std::fmt::Write;

use sandur_base::job::spend;

use super::set::Tags;
use crate::error::{Error, Result};

/// Signs that no name of a tag has.
const FORBIDDEN: [char; 4] = [';', '!', '^', '='];

/// Most tags of a name: a series that is stored has far fewer.
const TAGS_MAX: usize = 1_000;

/// The tags of a name; an untagged path has the tag `name` alone.
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

/// A value up to its quote, and what comes after.
fn quoted(text: &str) -> Option<(String, &str)> {
    let (mut value, mut signs) = (String::new(), text.char_indices());
    while let Some((at, sign)) = signs.next() {
        match sign {
            '"' => return Some((value, &text[at + 1..])),
            '\\' => value.push(signs.next().map(|(_, sign)| sign).filter(|sign| matches!(sign, '"' | '\\'))?),
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

/// Sets a tag, each of which is compared with all before it.
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
        return Err(Error::invalid(format!("the name '{metric}' is nothing but ~")));
    }
    tags.set("name", name);
    Ok(tags)
}

/// The one name of a set of tags: the written pairs are sorted, not the names of the tags.
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
    fn a_name_is_read_in_both_forms_and_written_in_one() {
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
