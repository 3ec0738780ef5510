//! Functions of text: case, trimming, cutting, padding, searching, replacing.

use sandur_model::group_span;

use super::{Function, Site, Value, int_argument, text_argument};
use crate::go_regex::{each_match, expand};

pub const TABLE: &[Function] = &[
    Function {
        name: "__line__",
        arguments: (0, 0),
        doc: "The line.",
        call: |site, _| site.results.lossy(site.line).map(Value::Text),
    },
    Function {
        name: "ToLower",
        arguments: (1, 1),
        doc: "Converts to lower case.",
        call: |site, a| each(site, &a, lower),
    },
    Function {
        name: "ToUpper",
        arguments: (1, 1),
        doc: "Converts to upper case.",
        call: |site, a| each(site, &a, upper),
    },
    Function {
        name: "lower",
        arguments: (1, 1),
        doc: "Converts to lower case.",
        call: |site, a| each(site, &a, lower),
    },
    Function {
        name: "upper",
        arguments: (1, 1),
        doc: "Converts to upper case.",
        call: |site, a| each(site, &a, upper),
    },
    Function {
        name: "title",
        arguments: (1, 1),
        doc: "Converts the first letter of each word to upper case.",
        call: |site, a| each(site, &a, title),
    },
    Function {
        name: "Replace",
        arguments: (4, 4),
        doc: "`Replace text old new count`: replaces the first `count` occurrences; all if it is \
              negative.",
        call: |site, a| replace_count(site, &a),
    },
    Function {
        name: "replace",
        arguments: (3, 3),
        doc: "`replace old new text`: replaces all occurrences.",
        call: |site, a| replace(site, [&a[2], &a[0], &a[1]], usize::MAX),
    },
    Function {
        name: "Trim",
        arguments: (2, 2),
        doc: "`Trim text characters`: removes the characters from both ends.",
        call: |site, a| set(site, &a[0], &a[1], |t, s| t.trim_matches(s)),
    },
    Function {
        name: "TrimLeft",
        arguments: (2, 2),
        doc: "`TrimLeft text characters`: removes the characters from the start.",
        call: |site, a| set(site, &a[0], &a[1], |t, s| t.trim_start_matches(s)),
    },
    Function {
        name: "TrimRight",
        arguments: (2, 2),
        doc: "`TrimRight text characters`: removes the characters from the end.",
        call: |site, a| set(site, &a[0], &a[1], |t, s| t.trim_end_matches(s)),
    },
    Function {
        name: "TrimPrefix",
        arguments: (2, 2),
        doc: "`TrimPrefix text prefix`: removes the prefix.",
        call: |site, a| two(site, &a[0], &a[1], |t, p| t.strip_prefix(p).unwrap_or(t)),
    },
    Function {
        name: "TrimSuffix",
        arguments: (2, 2),
        doc: "`TrimSuffix text suffix`: removes the suffix.",
        call: |site, a| two(site, &a[0], &a[1], |t, p| t.strip_suffix(p).unwrap_or(t)),
    },
    Function {
        name: "TrimSpace",
        arguments: (1, 1),
        doc: "Removes white space from both ends.",
        call: |site, a| site.results.copy(text_argument(&a[0])?.trim()).map(Value::Text),
    },
    Function {
        name: "trim",
        arguments: (1, 1),
        doc: "Removes white space from both ends.",
        call: |site, a| site.results.copy(text_argument(&a[0])?.trim()).map(Value::Text),
    },
    Function {
        name: "trimAll",
        arguments: (2, 2),
        doc: "`trimAll characters text`: removes the characters from both ends.",
        call: |site, a| set(site, &a[1], &a[0], |t, s| t.trim_matches(s)),
    },
    Function {
        name: "trimPrefix",
        arguments: (2, 2),
        doc: "`trimPrefix prefix text`: removes the prefix.",
        call: |site, a| two(site, &a[1], &a[0], |t, p| t.strip_prefix(p).unwrap_or(t)),
    },
    Function {
        name: "trimSuffix",
        arguments: (2, 2),
        doc: "`trimSuffix suffix text`: removes the suffix.",
        call: |site, a| two(site, &a[1], &a[0], |t, p| t.strip_suffix(p).unwrap_or(t)),
    },
    Function {
        name: "trunc",
        arguments: (2, 2),
        doc: "`trunc count text`: the first `count` characters; the last ones if `count` is negative.",
        call: |site, a| trunc(site, &a),
    },
    Function {
        name: "substr",
        arguments: (3, 3),
        doc: "`substr start end text`: the part from `start`, inclusive, to `end`, exclusive.",
        call: |site, a| substr(site, &a),
    },
    Function {
        name: "contains",
        arguments: (2, 2),
        doc: "`contains part text`: whether the text contains the part.",
        call: |_, a| Ok(Value::Bool(text_argument(&a[1])?.contains(text_argument(&a[0])?))),
    },
    Function {
        name: "hasPrefix",
        arguments: (2, 2),
        doc: "`hasPrefix prefix text`: whether the text begins with the prefix.",
        call: |_, a| Ok(Value::Bool(text_argument(&a[1])?.starts_with(text_argument(&a[0])?))),
    },
    Function {
        name: "hasSuffix",
        arguments: (2, 2),
        doc: "`hasSuffix suffix text`: whether the text ends with the suffix.",
        call: |_, a| Ok(Value::Bool(text_argument(&a[1])?.ends_with(text_argument(&a[0])?))),
    },
    Function {
        name: "indent",
        arguments: (2, 2),
        doc: "`indent count text`: inserts spaces before each line.",
        call: |site, a| indent(site, &a, ""),
    },
    Function {
        name: "nindent",
        arguments: (2, 2),
        doc: "The same as `indent`, preceded by a line break.",
        call: |site, a| indent(site, &a, "\n"),
    },
    Function {
        name: "repeat",
        arguments: (2, 2),
        doc: "`repeat count text`: repeats the text.",
        call: |site, a| repeat(site, &a),
    },
    Function {
        name: "alignLeft",
        arguments: (2, 2),
        doc: "`alignLeft width text`: truncates or pads the text on the right to the width.",
        call: |site, a| align(site, &a, true),
    },
    Function {
        name: "alignRight",
        arguments: (2, 2),
        doc: "`alignRight width text`: truncates or pads the text on the left to the width.",
        call: |site, a| align(site, &a, false),
    },
    Function {
        name: "regexReplaceAll",
        arguments: (3, 3),
        doc: "`regexReplaceAll regex text replacement`: replaces all matches; `$1` is the first group.",
        call: |site, a| regex_replace(site, &a, false),
    },
    Function {
        name: "regexReplaceAllLiteral",
        arguments: (3, 3),
        doc: "`regexReplaceAllLiteral regex text replacement`: replaces all matches with the \
              unchanged replacement.",
        call: |site, a| regex_replace(site, &a, true),
    },
    Function {
        name: "count",
        arguments: (2, 2),
        doc: "`count regex text`: the number of matches.",
        call: |site, a| {
            let regex = site.regexes.get(text_argument(&a[0])?)?;
            let mut count = 0;
            each_match(&regex, text_argument(&a[1])?, 2, |_| {
                count += 1;
                Ok(())
            })?;
            Ok(Value::Int(count))
        },
    },
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

fn regex_replace(site: &Site<'_>, arguments: &[Value], literal: bool) -> Made {
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
