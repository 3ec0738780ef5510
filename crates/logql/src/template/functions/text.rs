//! Text: case, trimming, cutting, padding, searching, replacing.

use super::{Function, Site, Value, int_argument, text_argument};

/// Longest text that a function may make, in bytes.
const TEXT_BYTES_MAX: usize = 1 << 20;

pub const TABLE: &[Function] = &[
    Function {
        name: "__line__",
        arguments: (0, 0),
        doc: "The line.",
        call: |site, _| Ok(Value::Text(String::from_utf8_lossy(site.line).into_owned())),
    },
    Function { name: "ToLower", arguments: (1, 1), doc: "Lower case.", call: |_, a| one(&a, lower) },
    Function { name: "ToUpper", arguments: (1, 1), doc: "Upper case.", call: |_, a| one(&a, upper) },
    Function { name: "lower", arguments: (1, 1), doc: "Lower case.", call: |_, a| one(&a, lower) },
    Function { name: "upper", arguments: (1, 1), doc: "Upper case.", call: |_, a| one(&a, upper) },
    Function {
        name: "title",
        arguments: (1, 1),
        doc: "First letter of each word in upper case.",
        call: |_, a| one(&a, title),
    },
    Function {
        name: "Replace",
        arguments: (4, 4),
        doc: "Replace text old new count: at most count times, all when negative.",
        call: |_, a| replace_count(&a),
    },
    Function {
        name: "replace",
        arguments: (3, 3),
        doc: "replace old new text: everywhere.",
        call: |_, a| {
            Ok(Value::Text(text_argument(&a[2])?.replace(text_argument(&a[0])?, text_argument(&a[1])?)))
        },
    },
    Function {
        name: "Trim",
        arguments: (2, 2),
        doc: "Trim text characters: off both ends.",
        call: |_, a| set(&a[0], &a[1], |t, s| t.trim_matches(s)),
    },
    Function {
        name: "TrimLeft",
        arguments: (2, 2),
        doc: "TrimLeft text characters.",
        call: |_, a| set(&a[0], &a[1], |t, s| t.trim_start_matches(s)),
    },
    Function {
        name: "TrimRight",
        arguments: (2, 2),
        doc: "TrimRight text characters.",
        call: |_, a| set(&a[0], &a[1], |t, s| t.trim_end_matches(s)),
    },
    Function {
        name: "TrimPrefix",
        arguments: (2, 2),
        doc: "TrimPrefix text prefix.",
        call: |_, a| two(&a[0], &a[1], |t, p| t.strip_prefix(p).unwrap_or(t)),
    },
    Function {
        name: "TrimSuffix",
        arguments: (2, 2),
        doc: "TrimSuffix text suffix.",
        call: |_, a| two(&a[0], &a[1], |t, p| t.strip_suffix(p).unwrap_or(t)),
    },
    Function {
        name: "TrimSpace",
        arguments: (1, 1),
        doc: "Without blanks at both ends.",
        call: |_, a| one(&a, |t| t.trim().to_owned()),
    },
    Function {
        name: "trim",
        arguments: (1, 1),
        doc: "Without blanks at both ends.",
        call: |_, a| one(&a, |t| t.trim().to_owned()),
    },
    Function {
        name: "trimAll",
        arguments: (2, 2),
        doc: "trimAll characters text: off both ends.",
        call: |_, a| set(&a[1], &a[0], |t, s| t.trim_matches(s)),
    },
    Function {
        name: "trimPrefix",
        arguments: (2, 2),
        doc: "trimPrefix prefix text.",
        call: |_, a| two(&a[1], &a[0], |t, p| t.strip_prefix(p).unwrap_or(t)),
    },
    Function {
        name: "trimSuffix",
        arguments: (2, 2),
        doc: "trimSuffix suffix text.",
        call: |_, a| two(&a[1], &a[0], |t, p| t.strip_suffix(p).unwrap_or(t)),
    },
    Function {
        name: "trunc",
        arguments: (2, 2),
        doc: "trunc count text: the first characters, the last when negative.",
        call: |_, a| trunc(&a),
    },
    Function { name: "substr", arguments: (3, 3), doc: "substr start end text.", call: |_, a| substr(&a) },
    Function {
        name: "contains",
        arguments: (2, 2),
        doc: "contains part text.",
        call: |_, a| Ok(Value::Bool(text_argument(&a[1])?.contains(text_argument(&a[0])?))),
    },
    Function {
        name: "hasPrefix",
        arguments: (2, 2),
        doc: "hasPrefix prefix text.",
        call: |_, a| Ok(Value::Bool(text_argument(&a[1])?.starts_with(text_argument(&a[0])?))),
    },
    Function {
        name: "hasSuffix",
        arguments: (2, 2),
        doc: "hasSuffix suffix text.",
        call: |_, a| Ok(Value::Bool(text_argument(&a[1])?.ends_with(text_argument(&a[0])?))),
    },
    Function {
        name: "indent",
        arguments: (2, 2),
        doc: "indent count text: blanks before each line.",
        call: |_, a| indent(&a, ""),
    },
    Function {
        name: "nindent",
        arguments: (2, 2),
        doc: "Like indent, on a new line.",
        call: |_, a| indent(&a, "\n"),
    },
    Function { name: "repeat", arguments: (2, 2), doc: "repeat count text.", call: |_, a| repeat(&a) },
    Function {
        name: "alignLeft",
        arguments: (2, 2),
        doc: "alignLeft width text: cut or filled on the right.",
        call: |_, a| align(&a, true),
    },
    Function {
        name: "alignRight",
        arguments: (2, 2),
        doc: "alignRight width text: cut or filled on the left.",
        call: |_, a| align(&a, false),
    },
    Function {
        name: "regexReplaceAll",
        arguments: (3, 3),
        doc: "regexReplaceAll regex text replacement: $1 is the first group.",
        call: |site, a| regex_replace(site, &a, false),
    },
    Function {
        name: "regexReplaceAllLiteral",
        arguments: (3, 3),
        doc: "regexReplaceAllLiteral regex text replacement.",
        call: |site, a| regex_replace(site, &a, true),
    },
    Function {
        name: "count",
        arguments: (2, 2),
        doc: "count regex text: how often it matches.",
        call: |site, a| {
            let regex = site.regexes.get(text_argument(&a[0])?)?;
            Ok(Value::Int(regex.find_iter(text_argument(&a[1])?).count() as i64))
        },
    },
];

fn one(arguments: &[Value], f: impl Fn(&str) -> String) -> Result<Value, String> {
    Ok(Value::Text(f(text_argument(&arguments[0])?)))
}

fn two(text: &Value, other: &Value, f: impl for<'a> Fn(&'a str, &str) -> &'a str) -> Result<Value, String> {
    Ok(Value::Text(f(text_argument(text)?, text_argument(other)?).to_owned()))
}

fn set(
    text: &Value,
    characters: &Value,
    f: impl for<'a> Fn(&'a str, &[char]) -> &'a str,
) -> Result<Value, String> {
    let characters: Vec<char> = text_argument(characters)?.chars().collect();
    Ok(Value::Text(f(text_argument(text)?, &characters).to_owned()))
}

/// Go changes the case of each character for itself: what would become several characters stays.
fn upper(text: &str) -> String {
    text.chars().map(upper_char).collect()
}

fn upper_char(c: char) -> char {
    let mut upper = c.to_uppercase();
    if upper.len() == 1 { upper.next().unwrap_or(c) } else { c }
}

fn lower(text: &str) -> String {
    // The first of several is the letter, what follows are marks.
    text.chars().map(|c| c.to_lowercase().next().unwrap_or(c)).collect()
}

fn title(text: &str) -> String {
    let mut start = true;
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if start {
            out.push(upper_char(c))
        } else {
            out.push(c)
        }
        start = !(c.is_alphanumeric() || c == '_' || c == '\'');
    }
    out
}

fn replace_count(arguments: &[Value]) -> Result<Value, String> {
    let [text, old, new] = [0, 1, 2].map(|n| text_argument(&arguments[n]));
    let count = int_argument(&arguments[3])?;
    let (text, old, new) = (text?, old?, new?);
    let replaced = if count < 0 { text.replace(old, new) } else { text.replacen(old, new, count as usize) };
    Ok(Value::Text(replaced))
}

/// Cuts between bytes, as sprig does; half a character becomes the replacement character.
fn cut(bytes: &[u8]) -> Value {
    Value::Text(String::from_utf8_lossy(bytes).into_owned())
}

fn trunc(arguments: &[Value]) -> Result<Value, String> {
    let (count, text) = (int_argument(&arguments[0])?, text_argument(&arguments[1])?.as_bytes());
    let size = usize::try_from(count.unsigned_abs()).unwrap_or(usize::MAX);
    Ok(match count < 0 {
        true if size < text.len() => cut(&text[text.len() - size..]),
        false if size < text.len() => cut(&text[..size]),
        _ => cut(text),
    })
}

/// From `start` to `end`; a negative start is the beginning, an end outside is the end.
fn substr(arguments: &[Value]) -> Result<Value, String> {
    let (start, end) = (int_argument(&arguments[0])?, int_argument(&arguments[1])?);
    let text = text_argument(&arguments[2])?.as_bytes();
    // A slice that Go panics at, in the words of its runtime.
    let outside = |why: String| Err(format!("runtime error: slice bounds out of range [{why}"));
    let size = text.len() as i64;
    if start < 0 {
        return match end {
            ..0 => outside(format!(":{end}]")),
            end if end > size => outside(format!(":{end}] with length {size}")),
            end => Ok(cut(&text[..end as usize])),
        };
    }
    let end = if end < 0 || end > size { size } else { end };
    if start > end {
        return outside(format!("{start}:{end}]"));
    }
    Ok(cut(&text[start as usize..end as usize]))
}

fn indent(arguments: &[Value], before: &str) -> Result<Value, String> {
    let count = int_argument(&arguments[0])?.clamp(0, 1000) as usize;
    let text = text_argument(&arguments[1])?;
    let pad = " ".repeat(count);
    let padded = format!("{before}{pad}{}", text.replace('\n', &format!("\n{pad}")));
    Ok(Value::Text(padded))
}

fn repeat(arguments: &[Value]) -> Result<Value, String> {
    let (count, text) = (int_argument(&arguments[0])?.max(0) as usize, text_argument(&arguments[1])?);
    if text.len().saturating_mul(count) > TEXT_BYTES_MAX {
        return Err(format!("the text would be longer than {TEXT_BYTES_MAX} bytes"));
    }
    Ok(Value::Text(text.repeat(count)))
}

fn align(arguments: &[Value], left: bool) -> Result<Value, String> {
    let (width, text) = (int_argument(&arguments[0])?, text_argument(&arguments[1])?);
    let length = text.chars().count();
    if width < 0 || width as usize == length {
        return Ok(Value::Text(text.to_owned()));
    }
    let width = width as usize;
    if width > TEXT_BYTES_MAX {
        return Err(format!("the text would be longer than {TEXT_BYTES_MAX} bytes"));
    }
    let aligned = match (left, width > length) {
        (true, true) => format!("{text}{}", " ".repeat(width - length)),
        (false, true) => format!("{}{text}", " ".repeat(width - length)),
        (true, false) => text.chars().take(width).collect(),
        (false, false) => text.chars().skip(length - width).collect(),
    };
    Ok(Value::Text(aligned))
}

fn regex_replace(site: &Site<'_>, arguments: &[Value], literal: bool) -> Result<Value, String> {
    let [pattern, text, replacement] = [0, 1, 2].map(|n| text_argument(&arguments[n]));
    let (regex, text, replacement) = (site.regexes.get(pattern?)?, text?, replacement?);
    let replaced = if literal {
        regex.replace_all(text, regex::NoExpand(replacement))
    } else {
        regex.replace_all(text, replacement)
    };
    Ok(Value::Text(replaced.into_owned()))
}
