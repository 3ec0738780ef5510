//! Functions of text: case, trimming, cutting, padding, searching, replacing.

use sandur_model::group_span;

use super::arguments::{int_argument, text_argument};
use super::function::{Function, Site, function};
use crate::go_regex::{each_match, expand};
use crate::template::value::Value;

pub const TABLE: &[Function] = &[
    function("__line__", (0, 0), "The line.", |site, _| site.results.lossy(site.line).map(Value::Text)),
    function("ToLower", (1, 1), "Converts to lower case.", |site, a| each(site, &a, lower)),
    function("ToUpper", (1, 1), "Converts to upper case.", |site, a| each(site, &a, upper)),
    function("lower", (1, 1), "Converts to lower case.", |site, a| each(site, &a, lower)),
    function("upper", (1, 1), "Converts to upper case.", |site, a| each(site, &a, upper)),
    function("title", (1, 1), "Converts the first letter of each word to upper case.", |site, a| {
        each(site, &a, title)
    }),
    function(
        "Replace",
        (4, 4),
        "`Replace text old new count`: replaces the first `count` occurrences; all if it is \
              negative.",
        |site, a| replace_count(site, &a),
    ),
    function("replace", (3, 3), "`replace old new text`: replaces all occurrences.", |site, a| {
        replace(site, [&a[2], &a[0], &a[1]], usize::MAX)
    }),
    function("Trim", (2, 2), "`Trim text characters`: removes the characters from both ends.", |site, a| {
        set(site, &a[0], &a[1], |t, s| t.trim_matches(s))
    }),
    function(
        "TrimLeft",
        (2, 2),
        "`TrimLeft text characters`: removes the characters from the start.",
        |site, a| set(site, &a[0], &a[1], |t, s| t.trim_start_matches(s)),
    ),
    function(
        "TrimRight",
        (2, 2),
        "`TrimRight text characters`: removes the characters from the end.",
        |site, a| set(site, &a[0], &a[1], |t, s| t.trim_end_matches(s)),
    ),
    function("TrimPrefix", (2, 2), "`TrimPrefix text prefix`: removes the prefix.", |site, a| {
        two(site, &a[0], &a[1], |t, p| t.strip_prefix(p).unwrap_or(t))
    }),
    function("TrimSuffix", (2, 2), "`TrimSuffix text suffix`: removes the suffix.", |site, a| {
        two(site, &a[0], &a[1], |t, p| t.strip_suffix(p).unwrap_or(t))
    }),
    function("TrimSpace", (1, 1), "Removes white space from both ends.", |site, a| {
        site.results.copy(text_argument(&a[0])?.trim()).map(Value::Text)
    }),
    function("trim", (1, 1), "Removes white space from both ends.", |site, a| {
        site.results.copy(text_argument(&a[0])?.trim()).map(Value::Text)
    }),
    function(
        "trimAll",
        (2, 2),
        "`trimAll characters text`: removes the characters from both ends.",
        |site, a| set(site, &a[1], &a[0], |t, s| t.trim_matches(s)),
    ),
    function("trimPrefix", (2, 2), "`trimPrefix prefix text`: removes the prefix.", |site, a| {
        two(site, &a[1], &a[0], |t, p| t.strip_prefix(p).unwrap_or(t))
    }),
    function("trimSuffix", (2, 2), "`trimSuffix suffix text`: removes the suffix.", |site, a| {
        two(site, &a[1], &a[0], |t, p| t.strip_suffix(p).unwrap_or(t))
    }),
    function(
        "trunc",
        (2, 2),
        "`trunc count text`: the first `count` characters; the last ones if `count` is negative.",
        |site, a| trunc(site, &a),
    ),
    function(
        "substr",
        (3, 3),
        "`substr start end text`: the part from `start`, inclusive, to `end`, exclusive.",
        |site, a| substr(site, &a),
    ),
    function("contains", (2, 2), "`contains part text`: whether the text contains the part.", |_, a| {
        Ok(Value::Bool(text_argument(&a[1])?.contains(text_argument(&a[0])?)))
    }),
    function(
        "hasPrefix",
        (2, 2),
        "`hasPrefix prefix text`: whether the text begins with the prefix.",
        |_, a| Ok(Value::Bool(text_argument(&a[1])?.starts_with(text_argument(&a[0])?))),
    ),
    function(
        "hasSuffix",
        (2, 2),
        "`hasSuffix suffix text`: whether the text ends with the suffix.",
        |_, a| Ok(Value::Bool(text_argument(&a[1])?.ends_with(text_argument(&a[0])?))),
    ),
    function("indent", (2, 2), "`indent count text`: inserts spaces before each line.", |site, a| {
        indent(site, &a, "")
    }),
    function("nindent", (2, 2), "The same as `indent`, preceded by a line break.", |site, a| {
        indent(site, &a, "\n")
    }),
    function("repeat", (2, 2), "`repeat count text`: repeats the text.", |site, a| repeat(site, &a)),
    function(
        "alignLeft",
        (2, 2),
        "`alignLeft width text`: truncates or pads the text on the right to the width.",
        |site, a| align(site, &a, true),
    ),
    function(
        "alignRight",
        (2, 2),
        "`alignRight width text`: truncates or pads the text on the left to the width.",
        |site, a| align(site, &a, false),
    ),
    function(
        "regexReplaceAll",
        (3, 3),
        "`regexReplaceAll regex text replacement`: replaces all matches; `$1` is the first group.",
        |site, a| regex_replace(site, &a, false),
    ),
    function(
        "regexReplaceAllLiteral",
        (3, 3),
        "`regexReplaceAllLiteral regex text replacement`: replaces all matches with the \
              unchanged replacement.",
        |site, a| regex_replace(site, &a, true),
    ),
    function("count", (2, 2), "`count regex text`: the number of matches.", |site, a| {
        let regex = site.regexes.get(text_argument(&a[0])?)?;
        let mut count = 0;
        each_match(&regex, text_argument(&a[1])?, 2, |_| {
            count += 1;
            Ok(())
        })?;
        Ok(Value::Int(count))
    }),
];

type Made = Result<Value, String>;

fn two(site: &Site<'_>, text: &Value, other: &Value, f: impl for<'a> Fn(&'a str, &str) -> &'a str) -> Made {
    site.results.copy(f(text_argument(text)?, text_argument(other)?)).map(Value::Text)
}

fn set(
    site: &Site<'_>,
    text: &Value,
    characters: &Value,
    f: impl for<'a> Fn(&'a str, &dyn Fn(char) -> bool) -> &'a str,
) -> Made {
    let characters = text_argument(characters)?;
    let few: Vec<char> = characters.chars().take(64).collect();
    // A large set of characters is sorted once, so that it is not scanned for each character.
    let sorted: std::collections::BTreeSet<char> = match characters.len() {
        0..=64 => std::collections::BTreeSet::new(),
        long => {
            site.results.take(long * 16)?;
            characters.chars().collect()
        }
    };
    let has = |c: char| if sorted.is_empty() { few.contains(&c) } else { sorted.contains(&c) };
    site.results.copy(f(text_argument(text)?, &has)).map(Value::Text)
}

/// Maps each character.
fn each(site: &Site<'_>, arguments: &[Value], f: impl Fn(&mut Words, char) -> char) -> Made {
    let text = text_argument(&arguments[0])?;
    let mut words = Words { start: true };
    site.results.text(|out| text.chars().try_for_each(|c| out.character(f(&mut words, c))))
}

/// Tracks where words begin.
struct Words {
    start: bool,
}

/// Go maps each character to one character; a character whose upper case has several stays unchanged.
fn upper(_: &mut Words, c: char) -> char {
    let mut upper = c.to_uppercase();
    if upper.len() == 1 { upper.next().unwrap_or(c) } else { c }
}

fn lower(_: &mut Words, c: char) -> char {
    // The first character is the letter; the following ones are marks.
    c.to_lowercase().next().unwrap_or(c)
}

fn title(words: &mut Words, c: char) -> char {
    let titled = if words.start { upper(words, c) } else { c };
    words.start = !(c.is_alphanumeric() || c == '_' || c == '\'');
    titled
}

fn replace_count(site: &Site<'_>, arguments: &[Value]) -> Made {
    let count = int_argument(&arguments[3])?;
    let most = usize::try_from(count).unwrap_or(usize::MAX);
    replace(site, [&arguments[0], &arguments[1], &arguments[2]], most)
}

fn replace(site: &Site<'_>, texts: [&Value; 3], most: usize) -> Made {
    let [text, old, new] = texts.map(text_argument);
    let (text, old, new) = (text?, old?, new?);
    site.results.text(|out| {
        let mut end = 0;
        for (start, found) in text.match_indices(old).take(most) {
            out.write(&text[end..start])?;
            out.write(new)?;
            end = start + found.len();
        }
        out.write(&text[end..])
    })
}

/// Cuts at byte offsets, as sprig does; a partial character becomes the replacement character.
fn cut(site: &Site<'_>, bytes: &[u8]) -> Made {
    site.results.lossy(bytes).map(Value::Text)
}

fn trunc(site: &Site<'_>, arguments: &[Value]) -> Made {
    let (count, text) = (int_argument(&arguments[0])?, text_argument(&arguments[1])?.as_bytes());
    let size = usize::try_from(count.unsigned_abs()).unwrap_or(usize::MAX);
    match count < 0 {
        true if size < text.len() => cut(site, &text[text.len() - size..]),
        false if size < text.len() => cut(site, &text[..size]),
        _ => cut(site, text),
    }
}

/// The text from `start` to `end`; a negative start is the beginning, an end out of range is the end.
fn substr(site: &Site<'_>, arguments: &[Value]) -> Made {
    let (start, end) = (int_argument(&arguments[0])?, int_argument(&arguments[1])?);
    let text = text_argument(&arguments[2])?.as_bytes();
    // A slice for which Go panics, with the text of its runtime.
    let outside = |why: String| Err(format!("runtime error: slice bounds out of range [{why}"));
    let size = text.len() as i64;
    if start < 0 {
        return match end {
            ..0 => outside(format!(":{end}]")),
            end if end > size => outside(format!(":{end}] with length {size}")),
            end => cut(site, &text[..end as usize]),
        };
    }
    let end = if end < 0 || end > size { size } else { end };
    if start > end {
        return outside(format!("{start}:{end}]"));
    }
    cut(site, &text[start as usize..end as usize])
}

fn indent(site: &Site<'_>, arguments: &[Value], before: &str) -> Made {
    let count = int_argument(&arguments[0])?.clamp(0, 1000) as usize;
    let text = text_argument(&arguments[1])?;
    site.results.text(|out| {
        out.write(before)?;
        for (n, line) in text.split('\n').enumerate() {
            out.write(if n > 0 { "\n" } else { "" })?;
            out.repeat(" ", count)?;
            out.write(line)?;
        }
        Ok(())
    })
}

fn repeat(site: &Site<'_>, arguments: &[Value]) -> Made {
    let (count, text) = (int_argument(&arguments[0])?.max(0) as usize, text_argument(&arguments[1])?);
    site.results.text(|out| out.repeat(text, count))
}

fn align(site: &Site<'_>, arguments: &[Value], left: bool) -> Made {
    let (width, text) = (int_argument(&arguments[0])?, text_argument(&arguments[1])?);
    let length = text.chars().count();
    if width < 0 || width as usize == length {
        return Ok(arguments[1].clone());
    }
    let width = width as usize;
    // The byte offset of the n-th character.
    let place = |n: usize| text.char_indices().nth(n).map_or(text.len(), |(at, _)| at);
    site.results.text(|out| match (left, width > length) {
        (true, true) => out.write(text).and_then(|()| out.repeat(" ", width - length)),
        (false, true) => out.repeat(" ", width - length).and_then(|()| out.write(text)),
        (true, false) => out.write(&text[..place(width)]),
        (false, false) => out.write(&text[place(length - width)..]),
    })
}

/// Replaces all matches: the arguments are regex, text and replacement. Unless the replacement is literal,
/// `$1` in it is the first group.
pub fn regex_replace(site: &Site<'_>, arguments: &[Value], literal: bool) -> Made {
    let [pattern, text, replacement] = [0, 1, 2].map(|n| text_argument(&arguments[n]));
    let (regex, text, replacement) = (site.regexes.get(pattern?)?, text?, replacement?);
    let slots = if literal { 2 } else { regex.slot_count() };
    site.results.text(|out| {
        let mut end = 0;
        each_match(&regex, text, slots, |slots| {
            let group = |n: usize| group_span(slots, n).map_or("", |(from, to)| &text[from..to]);
            let (from, to) = group_span(slots, 0).unwrap_or((end, end));
            out.write(&text[end..from])?;
            end = to;
            match literal {
                true => out.write(replacement),
                false => expand(&regex, replacement, group, |piece| out.write(piece)),
            }
        })?;
        out.write(&text[end..])
    })
}
