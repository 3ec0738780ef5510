//! Python's regular expressions and replacements, on an engine that runs in linear time.
//!
//! Features that the engine lacks (look-around, backreferences) are refused by name. Sizes are bounded by
//! the engine's limit on compiled expressions.

use regex::{Captures, Regex, RegexBuilder};
use sandur_memory::Stopped;
use sandur_memory::job::spend;
use sandur_model::{BoundedRegex, RegexError, RegexOptions, TextPattern};

use crate::error::{Error, Result};

/// The longest expression, in bytes.
const TEXT_BYTES_MAX: usize = 16 << 10;
/// The most memory of a compiled expression, in bytes.
const COMPILED_BYTES_MAX: usize = 1 << 20;
/// The longest text that a replacement may produce, in bytes.
pub(crate) const REPLACED_BYTES_MAX: usize = 64 << 10;

/// An expression whose searches report their work to the current job (see [`sandur_memory::job`]), and end
/// with it.
pub(crate) struct PythonRegex {
    /// Finds positions and groups in short texts.
    regex: Regex,
    /// Decides whether there is a match, in pieces that can be cancelled.
    bounded: BoundedRegex,
}

impl PythonRegex {
    /// Compiles an expression in the syntax of Python's `re`.
    pub(crate) fn new(text: &str) -> Result<Self> {
        let regex = python_regex(text)?;
        let options = RegexOptions { utf8: true, prefilter: false, groups: false };
        let bounded =
            BoundedRegex::parse(regex.as_str(), true).and_then(|hir| BoundedRegex::new(&hir, options));
        Ok(Self { regex, bounded: bounded.map_err(|error| refused(text, &error))? })
    }

    /// Whether the text contains a match.
    pub(crate) fn is_match(&self, text: &str) -> Result<bool> {
        Ok(self.bounded.is_match(text.as_bytes())?)
    }

    /// Reports the work of a search in a number of bytes.
    fn report_work(&self, bytes: usize) -> Result<()> {
        Ok(spend((bytes + 1).saturating_mul(self.bounded.steps_per_byte()))?)
    }
}

/// Compiles an expression that matches texts of which Python's `re` matches the beginning.
pub(crate) fn python_beginning(text: &str) -> Result<TextPattern> {
    let translated = translated(text)?;
    TextPattern::new(&format!("^(?:{translated})(?s:.*)$")).map_err(|error| refused(text, &error))
}

fn refused(text: &str, error: &RegexError) -> Error {
    match error {
        RegexError::Stopped => Error::Stopped(Stopped),
        RegexError::TooLarge | RegexError::TooLong(_) => Error::Limit(error.to_string()),
        RegexError::Invalid(_) => {
            Error::invalid(format!("the regular expression '{text}' cannot be read: {error}"))
        }
    }
}

fn translated(text: &str) -> Result<String> {
    if text.len() > TEXT_BYTES_MAX {
        return Err(Error::Limit(format!("the regular expression is longer than {TEXT_BYTES_MAX} bytes")));
    }
    translate(text)
}

/// Compiles an expression in the syntax of Python's `re`.
pub(crate) fn python_regex(text: &str) -> Result<Regex> {
    let translated = translated(text)?;
    let built = RegexBuilder::new(&translated).size_limit(COMPILED_BYTES_MAX).nest_limit(100).build();
    built.map_err(|error| match error {
        regex::Error::CompiledTooBig(limit) => {
            Error::Limit(format!("the regular expression '{text}' takes more than {limit} bytes; shorten it"))
        }
        other => Error::invalid(format!("the regular expression '{text}' cannot be read: {other}")),
    })
}

/// Translates the expression to the syntax of the engine.
fn translate(text: &str) -> Result<String> {
    let chars: Vec<char> = text.chars().collect();
    let refuse = |what: &str| Err(Error::invalid(format!("'{text}' uses {what}, which is not supported")));
    let (mut out, mut at) = (String::with_capacity(text.len()), 0);
    let mut in_class = None;
    while let Some(&character) = chars.get(at) {
        let next = chars.get(at + 1).copied();
        match (character, in_class) {
            ('\\', None) if next.is_some_and(|next| matches!(next, '1'..='9')) => {
                return refuse("a reference back");
            }
            ('\\', _) => {
                match next {
                    Some('Z') => out.push_str(r"\z"),
                    Some(next) if next.is_ascii_alphanumeric() || !next.is_ascii() => {
                        out.extend(['\\', next])
                    }
                    Some(next) => out.push_str(&regex::escape(&next.to_string())),
                    None => return refuse("a backslash at its end"),
                }
                at += 1;
            }
            ('[', None) => {
                out.push('[');
                let negated = next == Some('^');
                if negated {
                    out.push('^');
                    at += 1;
                }
                in_class = Some(at + 1);
            }
            (']', Some(begin)) if at > begin => {
                out.push(']');
                in_class = None;
            }
            ('[' | ']' | '&' | '~', Some(_)) => out.extend(['\\', character]),
            ('-', Some(begin)) if next == Some('-') || at == begin => out.push_str(r"\-"),
            ('(', None) if next == Some('?') => match look_around(&chars[at..]) {
                Some(what) => return refuse(what),
                None => out.push('('),
            },
            ('{', None) if !is_count(&chars[at..]) => out.push_str(r"\{"),
            ('}', None) if !closes_count(&chars[..at]) => out.push_str(r"\}"),
            (other, _) => out.push(other),
        }
        at += 1;
    }
    Ok(out)
}

fn look_around(chars: &[char]) -> Option<&'static str> {
    match (chars.get(2), chars.get(3)) {
        (Some('=' | '!'), _) | (Some('<'), Some('=' | '!')) => Some("looking around"),
        (Some('('), _) => Some("a condition"),
        (Some('P'), Some('=')) => Some("a reference back"),
        (Some('#'), _) => Some("a comment"),
        _ => None,
    }
}

/// Whether braces contain a count of repetitions.
fn is_count(chars: &[char]) -> bool {
    let Some(end) = chars.iter().position(|character| *character == '}') else { return false };
    let inner = &chars[1..end];
    let digits = inner.iter().filter(|character| character.is_ascii_digit()).count();
    let commas = inner.iter().filter(|character| **character == ',').count();
    digits > 0 && commas <= 1 && digits + commas == inner.len() && inner[0] != ','
}

fn closes_count(before: &[char]) -> bool {
    let Some(begin) = before.iter().rposition(|character| *character == '{') else { return false };
    let mut chars = before[begin..].to_vec();
    chars.push('}');
    is_count(&chars)
}

/// A parsed replacement: texts and references to groups.
pub(crate) struct Replacement(Vec<Part>);

enum Part {
    Text(String),
    Group(usize),
    Named(String),
}

impl Replacement {
    /// Parses a replacement; its groups must exist in the expression.
    pub(crate) fn parse(text: &str, regex: &Regex) -> Result<Self> {
        if text.len() > REPLACED_BYTES_MAX {
            return Err(Error::Limit(format!("the replacement is longer than {REPLACED_BYTES_MAX} bytes")));
        }
        let wrong = |what: &str| Error::invalid(format!("the replacement '{text}' has {what}"));
        let (mut parts, mut plain) = (Vec::new(), String::new());
        let mut chars = text.chars();
        while let Some(character) = chars.next() {
            if character != '\\' {
                plain.push(character);
                continue;
            }
            let group = match chars.next() {
                Some('g') => {
                    let inner = chars.as_str().strip_prefix('<').and_then(|rest| rest.split_once('>'));
                    let (name, rest) = inner.ok_or_else(|| wrong(r"\g without <name>"))?;
                    chars = rest.chars();
                    match name.parse() {
                        Ok(number) => Part::Group(number),
                        Err(_) => Part::Named(name.to_owned()),
                    }
                }
                Some(digit) if digit.is_ascii_digit() && digit != '0' => {
                    let mut number = digit.to_digit(10).unwrap_or_default() as usize;
                    if let Some(second) = chars.clone().next().and_then(|character| character.to_digit(10)) {
                        number = number * 10 + second as usize;
                        chars.next();
                    }
                    Part::Group(number)
                }
                Some('n') => Part::Text("\n".to_owned()),
                Some('t') => Part::Text("\t".to_owned()),
                Some('r') => Part::Text("\r".to_owned()),
                Some(letter) if letter.is_ascii_alphanumeric() => return Err(wrong("an unknown escape")),
                Some(other) => Part::Text(if other == '\\' { "\\".into() } else { format!("\\{other}") }),
                None => return Err(wrong("a backslash at its end")),
            };
            if !plain.is_empty() {
                parts.push(Part::Text(std::mem::take(&mut plain)));
            }
            let exists = match &group {
                Part::Text(_) => true,
                Part::Group(number) => *number < regex.captures_len(),
                Part::Named(name) => regex.capture_names().flatten().any(|own| own == name),
            };
            if !exists {
                return Err(wrong("a group that the expression does not have"));
            }
            parts.push(group);
        }
        parts.push(Part::Text(plain));
        Ok(Self(parts))
    }

    /// Replaces every match in the text.
    fn apply(&self, regex: &PythonRegex, text: &str) -> Result<String> {
        if text.len() > REPLACED_BYTES_MAX {
            return Err(Error::Limit(format!(
                "a name of {} bytes is too long to replace parts of; at most {REPLACED_BYTES_MAX}",
                text.len()
            )));
        }
        let (mut out, mut done, mut from) = (String::with_capacity(text.len()), 0, 0);
        // As in Python, an empty match directly after another match counts.
        loop {
            // Each search may read the complete rest.
            regex.report_work(text.len() - from)?;
            let Some(captures) = regex.regex.captures_at(text, from) else { break };
            let Some(whole) = captures.get(0) else { break };
            push_within(&mut out, &text[done..whole.start()])?;
            self.write(&captures, &mut out)?;
            done = whole.end();
            let next = text[done..].chars().next().map_or(1, char::len_utf8);
            from = if whole.is_empty() { done + next } else { done };
            if from > text.len() {
                break;
            }
        }
        out.push_str(&text[done..]);
        Ok(out)
    }

    fn write(&self, captures: &Captures<'_>, out: &mut String) -> Result<()> {
        for part in &self.0 {
            let text = match part {
                Part::Text(text) => Some(text.as_str()),
                Part::Group(number) => captures.get(*number).map(|group| group.as_str()),
                Part::Named(name) => captures.name(name).map(|group| group.as_str()),
            };
            push_within(out, text.unwrap_or_default())?;
        }
        Ok(())
    }
}

/// Appends a text, if the result is within the limit.
fn push_within(out: &mut String, text: &str) -> Result<()> {
    if out.len() + text.len() > REPLACED_BYTES_MAX {
        return Err(Error::Limit(format!("a replaced name is longer than {REPLACED_BYTES_MAX} bytes")));
    }
    out.push_str(text);
    Ok(())
}

/// Replaces every occurrence of `place`, if the result has at most `most` bytes.
pub(crate) fn replaced(text: &str, place: &str, with: &str, most: usize) -> Result<String> {
    let places = text.matches(place).count();
    let length = (text.len() - places * place.len()).saturating_add(places.saturating_mul(with.len()));
    match length > most {
        true => Err(Error::Limit(format!(
            "a text in which '{place}' is replaced would have {length} bytes, more than {most}"
        ))),
        false => Ok(text.replace(place, with)),
    }
}

/// Python's `re.sub(search, replace, text)`, for several texts.
pub(crate) struct Substitution(PythonRegex, Replacement);

impl Substitution {
    /// Compiles the expression and parses the replacement.
    pub(crate) fn new(search: &str, replace: &str) -> Result<Self> {
        let regex = PythonRegex::new(search)?;
        let replacement = Replacement::parse(replace, &regex.regex)?;
        Ok(Self(regex, replacement))
    }

    /// Replaces every match in the text.
    pub(crate) fn apply(&self, text: &str) -> Result<String> {
        self.1.apply(&self.0, text)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use sandur_memory::job::{Owner, run};
    use sandur_memory::{MemoryBudget, OverBudget};

    use super::*;

    #[test]
    fn replacements_refer_to_groups() {
        let replace = |search, with, text| Substitution::new(search, with).and_then(|s| s.apply(text));
        assert_eq!(replace(r"^.*TCP(\d+)", r"\1", "ip-1TCP25").unwrap(), "25");
        assert_eq!(replace(r"(?P<a>x)", r"[\g<a>\g<1>]", "x").unwrap(), "[xx]");
        assert_eq!(replace("a{", "b", "a{1}").unwrap(), "b1}");
        assert_eq!(replace("[[]", "_", "a[b").unwrap(), "a_b");
        assert_eq!(replace("a{1,2}", "b", "caat").unwrap(), "cbt");
        assert_eq!(replace(".*", "x", "abc").unwrap(), "xx");
        assert_eq!(replace("", "-", "aé").unwrap(), "-a-é-");
        for (search, with) in
            [("(", ""), (r"(a)\1", ""), ("(?=a)", ""), ("a", r"\1"), ("a", r"\q"), ("a", "\\")]
        {
            assert!(replace(search, with, "a").is_err(), "{search} {with}");
        }
        assert!(replace("", &"x".repeat(1000), &"a".repeat(1000)).is_err());
    }

    /// Goal: neither applying nor parsing a replacement of many groups uses more memory than its text
    /// justifies.
    #[test]
    fn a_too_long_replacement_is_refused_before_it_is_built() {
        let name = "A".repeat(REPLACED_BYTES_MAX / 2);
        let long = name.repeat(3);
        assert!(matches!(Substitution::new("A*B|A", "").and_then(|s| s.apply(&long)), Err(Error::Limit(_))));
        let error =
            Substitution::new("(.*)", &r"\1".repeat(20_000)).and_then(|s| s.apply(&name)).unwrap_err();
        assert!(matches!(error, Error::Limit(_)), "{error}");
        let mut out = String::new();
        push_within(&mut out, &name).unwrap();
        push_within(&mut out, &name).unwrap();
        assert!(push_within(&mut out, "A").is_err() && out.len() == REPLACED_BYTES_MAX);
        let groups = r"\g<1>".repeat(REPLACED_BYTES_MAX / 5);
        assert!(Substitution::new("(a)", &groups).is_ok());
        assert!(matches!(Substitution::new("(a)", &(groups + "12345")), Err(Error::Limit(_))));
        assert_eq!(replaced("a%%", "%", "bc", 5).unwrap(), "abcbc");
        assert!(matches!(replaced("a%%", "%", "bc", 4), Err(Error::Limit(_))));
        assert!(matches!(
            replaced(&"%".repeat(1 << 20), "%", &"x".repeat(1 << 20), 1 << 20),
            Err(Error::Limit(_))
        ));
    }

    struct Patient {
        looks: AtomicUsize,
        budget: MemoryBudget,
    }

    impl Owner for Patient {
        fn goes_on(&self) -> bool {
            self.looks.fetch_add(1, Ordering::Relaxed) < 3
        }
        fn budget(&self) -> &MemoryBudget {
            &self.budget
        }
        fn refused(&self, _: OverBudget) {}
    }

    /// Goal: a replacement that searches the rest of a name after each match ends when its query does.
    #[test]
    fn searches_end_with_their_job() {
        let name = "x".repeat(REPLACED_BYTES_MAX);
        let job = |search: &dyn Fn() -> bool| {
            let budget = MemoryBudget::root("query", 64 << 20);
            run(Arc::new(Patient { looks: AtomicUsize::new(0), budget }), || assert!(search()))
        };
        let replaces = || {
            let substitution = Substitution::new("x*y|x", "").unwrap();
            matches!(substitution.apply(&name), Err(Error::Stopped(_)))
        };
        assert_eq!(job(&replaces), Err(Stopped));
        let greps = || {
            let regex = PythonRegex::new("[ax]*a[ax]{100}[^ax]").unwrap();
            matches!(regex.is_match(&name.repeat(10)), Err(Error::Stopped(_)))
        };
        assert_eq!(job(&greps), Err(Stopped));
    }

    #[test]
    fn an_expression_that_compiles_to_much_memory_is_refused() {
        let error = python_regex("(((a{100}){100}){100}){100}").unwrap_err();
        assert!(matches!(error, Error::Limit(_)), "{error}");
        assert!(python_regex(&"(".repeat(5000)).is_err());
    }
}
