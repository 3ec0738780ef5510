//! Printing and taking apart: `printf`, `print`, `len`, `index`, `slice`.

use super::{Function, Value, int_argument, text_argument};
use crate::template::value::format_general;
use crate::units::quote;

/// Widest field of `printf`.
const WIDTH_MAX: usize = 1 << 16;

pub const TABLE: &[Function] = &[
    Function {
        name: "printf",
        arguments: (1, 99),
        doc: "Formats as Go's fmt.Sprintf.",
        call: |_, a| printf(&a).map(Value::Text),
    },
    Function {
        name: "print",
        arguments: (0, 99),
        doc: "The values, a blank between two that are not text.",
        call: |_, a| Ok(Value::Text(print(&a))),
    },
    Function {
        name: "println",
        arguments: (0, 99),
        doc: "The values with blanks between and a line break behind.",
        call: |_, a| Ok(Value::Text(println(&a))),
    },
    Function {
        name: "len",
        arguments: (1, 1),
        doc: "Bytes of a text, items of a list or map.",
        call: |_, a| length(&a[0]),
    },
    Function {
        name: "index",
        arguments: (1, 99),
        doc: "index list-or-map key..: the item.",
        call: |_, a| index(a),
    },
    Function { name: "slice", arguments: (1, 3), doc: "slice text start end.", call: |_, a| slice(&a) },
];

pub fn print(values: &[Value]) -> String {
    let mut out = String::new();
    for (n, value) in values.iter().enumerate() {
        let both = n > 0 && !matches!(value, Value::Text(_)) && !matches!(values[n - 1], Value::Text(_));
        if both {
            out.push(' ');
        }
        out.push_str(&value.to_text());
    }
    out
}

fn println(values: &[Value]) -> String {
    let texts: Vec<String> = values.iter().map(Value::to_text).collect();
    format!("{}\n", texts.join(" "))
}

fn length(value: &Value) -> Result<Value, String> {
    let length = match value {
        Value::Text(text) => text.len(),
        Value::List(list) => list.len(),
        Value::Map(map) => map.len(),
        other => return Err(format!("len of type {}", other.type_name())),
    };
    Ok(Value::Int(length as i64))
}

fn index(arguments: Vec<Value>) -> Result<Value, String> {
    let mut arguments = arguments.into_iter();
    let mut value = arguments.next().unwrap_or(Value::Nil);
    for key in arguments {
        value = match value {
            Value::Map(mut map) => map.remove(text_argument(&key)?).unwrap_or(Value::Nil),
            Value::List(list) => {
                let at = position(&key)?;
                let item = usize::try_from(at).ok().and_then(|at| list.get(at).cloned());
                item.ok_or_else(|| format!("index out of range: {at}"))?
            }
            Value::Text(text) => {
                let at = position(&key)?;
                let byte = usize::try_from(at).ok().and_then(|at| text.as_bytes().get(at).copied());
                Value::Int(i64::from(byte.ok_or_else(|| format!("index out of range: {at}"))?))
            }
            other => return Err(format!("can't index item of type {}", other.type_name())),
        };
    }
    Ok(value)
}

/// A place in a list or text, as `index` and `slice` take it.
fn position(value: &Value) -> Result<i64, String> {
    int_argument(value).map_err(|_| format!("cannot index slice/array with type {}", value.type_name()))
}

fn slice(arguments: &[Value]) -> Result<Value, String> {
    let (length, text) = match &arguments[0] {
        Value::Text(text) => (text.len(), Some(text)),
        Value::List(list) => (list.len(), None),
        other => return Err(format!("can't slice item of type {}", other.type_name())),
    };
    let bound = |n: usize, default: usize| match arguments.get(n) {
        None => Ok(default),
        Some(value) => {
            let at = position(value)?;
            let inside = usize::try_from(at).ok().filter(|&at| at <= length);
            inside.ok_or_else(|| format!("index out of range: {at}"))
        }
    };
    let (start, end) = (bound(1, 0)?, bound(2, length)?);
    if start > end {
        return Err(format!("invalid slice index: {start} > {end}"));
    }
    Ok(match (text, &arguments[0]) {
        (Some(text), _) => Value::Text(String::from_utf8_lossy(&text.as_bytes()[start..end]).into_owned()),
        (None, Value::List(list)) => Value::List(list[start..end].to_vec()),
        _ => Value::Nil,
    })
}

#[derive(Default)]
struct Verb {
    left: bool,
    plus: bool,
    zero: bool,
    alternate: bool,
    blank: bool,
    width: usize,
    precision: Option<usize>,
}

/// Go's `fmt.Sprintf` for the types that a template has.
fn printf(arguments: &[Value]) -> Result<String, String> {
    let format = text_argument(&arguments[0])?;
    let mut values = arguments[1..].iter();
    let mut out = String::new();
    let mut chars = format.chars().peekable();
    while let Some(c) = chars.next() {
        if c != '%' {
            out.push(c);
            continue;
        }
        let verb = read_verb(&mut chars, &mut values);
        match chars.next() {
            None => out.push_str("%!(NOVERB)"),
            Some('%') => out.push('%'),
            Some(letter) => match values.next() {
                None => out.push_str(&format!("%!{letter}(MISSING)")),
                Some(value) => pad(&mut out, &verb, &format_one(&verb, letter, value)),
            },
        }
    }
    let extra: Vec<String> = values.map(|v| format!("{}={}", v.type_name(), v.to_text())).collect();
    if !extra.is_empty() {
        out.push_str(&format!("%!(EXTRA {})", extra.join(", ")));
    }
    Ok(out)
}

fn read_verb<'a>(
    chars: &mut std::iter::Peekable<std::str::Chars<'_>>,
    values: &mut impl Iterator<Item = &'a Value>,
) -> Verb {
    let mut verb = Verb::default();
    while let Some(flag) = chars.peek() {
        match flag {
            '-' => verb.left = true,
            '+' => verb.plus = true,
            '0' => verb.zero = true,
            '#' => verb.alternate = true,
            ' ' => verb.blank = true,
            _ => break,
        }
        chars.next();
    }
    let mut number = |chars: &mut std::iter::Peekable<std::str::Chars<'_>>| {
        if chars.next_if_eq(&'*').is_some() {
            return values.next().map_or(0, |v| super::to_int(v).clamp(0, WIDTH_MAX as i64) as usize);
        }
        let mut number = 0usize;
        while let Some(digit) = chars.peek().and_then(|c| c.to_digit(10)) {
            number = (number * 10 + digit as usize).min(WIDTH_MAX);
            chars.next();
        }
        number
    };
    verb.width = number(chars);
    if chars.next_if_eq(&'.').is_some() {
        verb.precision = Some(number(chars));
    }
    verb
}

fn format_one(verb: &Verb, letter: char, value: &Value) -> String {
    let sign = |text: String, negative: bool| match (negative, verb.plus, verb.blank) {
        (false, true, _) => format!("+{text}"),
        (false, false, true) => format!(" {text}"),
        _ => text,
    };
    let cut = |text: &str| match verb.precision {
        Some(n) => text.chars().take(n).collect(),
        None => text.to_owned(),
    };
    let precision = verb.precision.unwrap_or(6);
    match (letter, value) {
        ('v', Value::Float(n)) => sign(format_general(*n), *n < 0.0),
        ('v', Value::Int(n)) => sign(n.to_string(), *n < 0),
        ('v', other) => other.to_text(),
        ('s', Value::Text(text)) => cut(text),
        ('s', Value::Time(_) | Value::List(_) | Value::Map(_)) => value.to_text(),
        ('q', Value::Text(text)) => quote(&cut(text)),
        ('d', Value::Int(n)) => sign(n.to_string(), *n < 0),
        ('x', Value::Int(n)) if verb.alternate => format!("{n:#x}"),
        ('x', Value::Int(n)) => format!("{n:x}"),
        ('X', Value::Int(n)) => format!("{n:X}"),
        ('o', Value::Int(n)) => format!("{n:o}"),
        ('b', Value::Int(n)) => format!("{n:b}"),
        ('c', Value::Int(n)) => {
            u32::try_from(*n).ok().and_then(char::from_u32).unwrap_or('\u{fffd}').to_string()
        }
        ('x', Value::Text(text)) => text.bytes().map(|b| format!("{b:02x}")).collect(),
        ('X', Value::Text(text)) => text.bytes().map(|b| format!("{b:02X}")).collect(),
        ('f' | 'F', Value::Float(n)) => sign(format!("{n:.precision$}"), *n < 0.0),
        ('e', Value::Float(n)) => sign(exponent(*n, precision), *n < 0.0),
        ('g', Value::Float(n)) => sign(format_general(*n), *n < 0.0),
        ('t', Value::Bool(b)) => b.to_string(),
        ('T', value) => value.type_name().to_owned(),
        (letter, Value::Nil) => format!("%!{letter}(<nil>)"),
        (letter, value) => format!("%!{letter}({}={})", value.type_name(), value.to_text()),
    }
}

fn exponent(value: f64, precision: usize) -> String {
    let text = format!("{value:.precision$e}");
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    match exponent.strip_prefix('-') {
        Some(digits) => format!("{mantissa}e-{digits:0>2}"),
        None => format!("{mantissa}e+{exponent:0>2}"),
    }
}

fn pad(out: &mut String, verb: &Verb, text: &str) {
    let missing = verb.width.saturating_sub(text.chars().count());
    if verb.left {
        out.push_str(text);
        out.extend(std::iter::repeat_n(' ', missing));
    } else if verb.zero {
        let (sign, digits) = match text.strip_prefix(['-', '+']) {
            Some(digits) => text.split_at(text.len() - digits.len()),
            None => ("", text),
        };
        out.push_str(sign);
        out.extend(std::iter::repeat_n('0', missing));
        out.push_str(digits);
    } else {
        out.extend(std::iter::repeat_n(' ', missing));
        out.push_str(text);
    }
}
