//! Functions that format and take apart: `printf`, `print`, `len`, `index`, `slice`.

use std::sync::Arc;

use sandur_model::go_text::write_quoted;

use super::arguments::{int_argument, text_argument};
use super::function::{Function, Site, function};
use crate::template::results::{TextSink, VALUE_BYTES};
use crate::template::value::Value;
use crate::template::value_text::format_general;

/// The greatest width and precision of `printf`, as in Go.
const NUMBER_MAX: i64 = 1_000_000;
/// The most significant digits of a float.
const SIGNIFICANT_MAX: usize = 767;
/// The most digits after the decimal point that may differ from zero. The standard library panics above
/// 65,534.
const DIGITS_MAX: usize = 1_100;

pub const TABLE: &[Function] = &[
    function("printf", (1, 99), "Formats values as Go's `fmt.Sprintf`.", |site, a| {
        site.results.text(|out| printf(site, &a, out))
    }),
    function(
        "print",
        (0, 99),
        "Joins the values, with a space between two values that are not text.",
        |site, a| site.results.text(|out| print(&a, out)),
    ),
    function("println", (0, 99), "Joins the values with spaces and appends a line break.", |site, a| {
        site.results.text(|out| println(&a, out))
    }),
    function("len", (1, 1), "The number of bytes of a text, or of items of a list or map.", |_, a| {
        length(&a[0])
    }),
    function("index", (1, 99), "`index list-or-map key..`: the item at an index or key.", |_, a| index(a)),
    function(
        "slice",
        (1, 3),
        "`slice text start end`: the part from `start`, inclusive, to `end`, exclusive.",
        |site, a| slice(site, &a),
    ),
];

pub fn print(values: &[Value], out: &mut TextSink<'_>) -> Result<(), String> {
    for (n, value) in values.iter().enumerate() {
        let both = n > 0 && !matches!(value, Value::Text(_)) && !matches!(values[n - 1], Value::Text(_));
        out.write(if both { " " } else { "" })?;
        value.write(out)?;
    }
    Ok(())
}

fn println(values: &[Value], out: &mut TextSink<'_>) -> Result<(), String> {
    for (n, value) in values.iter().enumerate() {
        out.write(if n > 0 { " " } else { "" })?;
        value.write(out)?;
    }
    out.write("\n")
}

fn length(value: &Value) -> Result<Value, String> {
    let length = match value {
        Value::Text(text) => text.len(),
        Value::List(list) => list.len(),
        Value::Map(map) => map.len(),
        Value::Texts(map) => map.len(),
        other => return Err(format!("len of type {}", other.type_name())),
    };
    Ok(Value::Int(length as i64))
}

fn index(arguments: Vec<Value>) -> Result<Value, String> {
    let mut arguments = arguments.into_iter();
    let mut value = arguments.next().unwrap_or(Value::Nil);
    for key in arguments {
        value = match value {
            Value::Map(map) => map.get(text_argument(&key)?).cloned().unwrap_or(Value::Nil),
            Value::Texts(map) => Value::Text(map.get(text_argument(&key)?).cloned().unwrap_or_default()),
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

/// The index argument of `index` and `slice`.
fn position(value: &Value) -> Result<i64, String> {
    int_argument(value).map_err(|_| format!("cannot index slice/array with type {}", value.type_name()))
}

fn slice(site: &Site<'_>, arguments: &[Value]) -> Result<Value, String> {
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
    match (text, &arguments[0]) {
        (Some(text), _) => site.results.lossy(&text.as_bytes()[start..end]).map(Value::Text),
        (None, Value::List(list)) => {
            site.results.take((end - start + 1) * VALUE_BYTES)?;
            Ok(Value::List(Arc::new(list[start..end].to_vec())))
        }
        _ => Ok(Value::Nil),
    }
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

/// Go's `fmt.Sprintf` for the types of template values.
fn printf(site: &Site<'_>, arguments: &[Value], out: &mut TextSink<'_>) -> Result<(), String> {
    let format = text_argument(&arguments[0])?;
    let mut values = arguments[1..].iter();
    let mut chars = format.chars().peekable();
    while let Some(c) = chars.next() {
        if c != '%' {
            out.character(c)?;
            continue;
        }
        let verb = read_verb(&mut chars, &mut values, out)?;
        match chars.next() {
            None => out.write("%!(NOVERB)")?,
            Some('%') => out.write("%")?,
            Some(letter) => match values.next() {
                None => out.print(format_args!("%!{letter}(MISSING)"))?,
                Some(value) if fits(letter, value) => formatted(site, &verb, letter, value, out)?,
                Some(value) => {
                    // As in Go, width and precision apply to the value inside the error text.
                    out.print(format_args!("%!{letter}({}=", value.type_name()))?;
                    formatted(site, &verb, 'v', value, out)?;
                    out.write(")")?;
                }
            },
        }
    }
    let mut open = "%!(EXTRA ";
    for value in values {
        out.print(format_args!("{}{}=", std::mem::replace(&mut open, ", "), value.type_name()))?;
        value.write(out)?;
    }
    if open == ", " { out.write(")") } else { Ok(()) }
}

fn formatted(
    site: &Site<'_>,
    verb: &Verb,
    letter: char,
    value: &Value,
    out: &mut TextSink<'_>,
) -> Result<(), String> {
    let text = site.results.make(|out| format_one(verb, letter, value, out))?;
    pad(out, verb, &text)
}

/// Whether the verb accepts values of this type.
fn fits(letter: char, value: &Value) -> bool {
    match value {
        Value::Nil => true,
        Value::Text(_) => "vTsqxX".contains(letter),
        Value::Int(_) => "vTdxXobc".contains(letter),
        Value::Float(_) => "vTfFeg".contains(letter),
        Value::Bool(_) => "vTt".contains(letter),
        Value::Time(_) | Value::List(_) | Value::Map(_) | Value::Texts(_) | Value::Record(_) => {
            "vTs".contains(letter)
        }
    }
}

type Chars<'a> = std::iter::Peekable<std::str::Chars<'a>>;

/// Parses the flags, width and precision between the percent sign and the verb.
fn read_verb<'a>(
    chars: &mut Chars<'_>,
    values: &mut impl Iterator<Item = &'a Value>,
    out: &mut TextSink<'_>,
) -> Result<Verb, String> {
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
    if chars.next_if_eq(&'*').is_some() {
        match number_argument(values.next()) {
            Some(width) => {
                (verb.left, verb.zero) = (verb.left || width < 0, verb.zero && width >= 0);
                verb.width = width.unsigned_abs() as usize;
            }
            None => out.write("%!(BADWIDTH)")?,
        }
    } else {
        verb.width = read_number(chars);
    }
    if chars.next_if_eq(&'.').is_none() {
        return Ok(verb);
    }
    if chars.next_if_eq(&'*').is_some() {
        let given = number_argument(values.next()).and_then(|given| usize::try_from(given).ok());
        out.write(if given.is_none() { "%!(BADPREC)" } else { "" })?;
        verb.precision = given;
    } else {
        verb.precision = Some(read_number(chars));
    }
    Ok(verb)
}

/// A width or precision from an argument.
fn number_argument(value: Option<&Value>) -> Option<i64> {
    match value {
        Some(Value::Int(n)) if (-NUMBER_MAX..=NUMBER_MAX).contains(n) => Some(*n),
        _ => None,
    }
}

/// Parses a width or precision in the format. As in Go, one that is too large ends the format.
fn read_number(chars: &mut Chars<'_>) -> usize {
    let mut number = 0;
    while let Some(digit) = chars.peek().and_then(|c| c.to_digit(10)) {
        number = number * 10 + i64::from(digit);
        chars.next();
        if number > NUMBER_MAX {
            chars.by_ref().for_each(drop);
            return 0;
        }
    }
    number as usize
}

fn format_one(verb: &Verb, letter: char, value: &Value, out: &mut TextSink<'_>) -> Result<(), String> {
    let precision = verb.precision.unwrap_or(6);
    match (letter, value) {
        ('v' | 'g', Value::Float(n)) => {
            signed(verb, *n < 0.0, out)?;
            match verb.precision {
                Some(digits) if n.is_finite() => general(*n, digits, out),
                _ => out.write(&format_general(*n)),
            }
        }
        ('v' | 'd', Value::Int(n)) => signed(verb, *n < 0, out).and_then(|()| out.print(format_args!("{n}"))),
        ('v', other) => other.write(out),
        ('s', Value::Text(text)) => out.write(cut(verb, text)),
        ('s', Value::Time(_) | Value::List(_) | Value::Map(_) | Value::Texts(_) | Value::Record(_)) => {
            value.write(out)
        }
        ('q', Value::Text(text)) => write_quoted(cut(verb, text), |piece| out.write(piece)),
        ('x', Value::Int(n)) if verb.alternate => out.print(format_args!("{n:#x}")),
        ('x', Value::Int(n)) => out.print(format_args!("{n:x}")),
        ('X', Value::Int(n)) => out.print(format_args!("{n:X}")),
        ('o', Value::Int(n)) => out.print(format_args!("{n:o}")),
        ('b', Value::Int(n)) => out.print(format_args!("{n:b}")),
        ('c', Value::Int(n)) => {
            out.character(u32::try_from(*n).ok().and_then(char::from_u32).unwrap_or('\u{fffd}'))
        }
        ('x', Value::Text(text)) => text.bytes().try_for_each(|b| out.print(format_args!("{b:02x}"))),
        ('X', Value::Text(text)) => text.bytes().try_for_each(|b| out.print(format_args!("{b:02X}"))),
        ('f' | 'F' | 'e', Value::Float(n)) if !n.is_finite() => out.write(&format_general(*n)),
        ('f' | 'F', Value::Float(n)) => {
            signed(verb, *n < 0.0, out)?;
            let digits = precision.min(DIGITS_MAX);
            out.print(format_args!("{n:.digits$}"))?;
            out.repeat("0", precision - digits)
        }
        ('e', Value::Float(n)) => signed(verb, *n < 0.0, out).and_then(|()| exponent(*n, precision, out)),
        ('t', Value::Bool(b)) => out.print(format_args!("{b}")),
        ('T', value) => out.write(value.type_name()),
        (letter, Value::Nil) => out.print(format_args!("%!{letter}(<nil>)")),
        (_, value) => value.write(out),
    }
}

/// Writes the sign that a flag requires before a number without one.
fn signed(verb: &Verb, negative: bool, out: &mut TextSink<'_>) -> Result<(), String> {
    match (negative, verb.plus, verb.blank) {
        (false, true, _) => out.write("+"),
        (false, false, true) => out.write(" "),
        _ => Ok(()),
    }
}

/// Cuts the text to the number of characters in the precision.
fn cut<'t>(verb: &Verb, text: &'t str) -> &'t str {
    let end = verb.precision.and_then(|n| text.char_indices().nth(n));
    end.map_or(text, |(end, _)| &text[..end])
}

/// `%g` with a precision: that many significant digits, without trailing zeros. The form has an exponent if
/// it would be below -4 or not below the number of digits.
fn general(value: f64, digits: usize, out: &mut TextSink<'_>) -> Result<(), String> {
    // A float has no more significant digits than this.
    let digits = digits.clamp(1, SIGNIFICANT_MAX);
    let scientific = format!("{value:.*e}", digits - 1);
    let (mantissa, power) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let power: i64 = power.parse().unwrap_or(0);
    let trimmed = |text: &str| match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text.to_owned(),
    };
    if power < -4 || power >= digits as i64 {
        let (sign, power) = if power < 0 { ('-', -power) } else { ('+', power) };
        return out.print(format_args!("{}e{sign}{power:0>2}", trimmed(mantissa)));
    }
    let decimals = (digits as i64 - 1 - power) as usize;
    out.write(&trimmed(&format!("{value:.decimals$}")))
}

fn exponent(value: f64, precision: usize, out: &mut TextSink<'_>) -> Result<(), String> {
    let digits = precision.min(DIGITS_MAX);
    let text = format!("{value:.digits$e}");
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    out.write(mantissa)?;
    out.repeat("0", precision - digits)?;
    match exponent.strip_prefix('-') {
        Some(digits) => out.print(format_args!("e-{digits:0>2}")),
        None => out.print(format_args!("e+{exponent:0>2}")),
    }
}

fn pad(out: &mut TextSink<'_>, verb: &Verb, text: &str) -> Result<(), String> {
    let missing = verb.width.saturating_sub(text.chars().count());
    if verb.left {
        out.write(text)?;
        return out.repeat(" ", missing);
    }
    if !verb.zero {
        out.repeat(" ", missing)?;
        return out.write(text);
    }
    let (sign, digits) = match text.strip_prefix(['-', '+']) {
        Some(digits) => text.split_at(text.len() - digits.len()),
        None => ("", text),
    };
    out.write(sign)?;
    out.repeat("0", missing)?;
    out.write(digits)
}
