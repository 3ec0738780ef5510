//! `'text %d' % value` for one number, which is a float or an integer.

use crate::error::{Error, Result};
use crate::number::{fixed, general, repr, whole};

/// The greatest field width in a format.
const WIDTH_MAX: usize = 200;

/// Formats a number with a Python format string, which must have exactly one placeholder.
pub(super) fn python_format(text: &str, value: f64, is_integer: bool) -> Result<String> {
    let wrong = || Error::invalid(format!("'{text}' is not a format for one number"));
    let (mut out, mut chars, mut places) = (String::new(), text.chars().peekable(), 0);
    while let Some(character) = chars.next() {
        if character != '%' {
            out.push(character);
            continue;
        }
        if chars.next_if_eq(&'%').is_some() {
            out.push('%');
            continue;
        }
        let mut flags = String::new();
        while let Some(flag) = chars.next_if(|character| "-+ 0#".contains(*character)) {
            flags.push(flag);
        }
        let mut digits = || {
            let mut digits = String::new();
            while let Some(digit) = chars.next_if(char::is_ascii_digit) {
                digits.push(digit);
            }
            digits
        };
        let width: usize = digits().parse().unwrap_or(0);
        let precision = chars.next_if_eq(&'.').is_some();
        let mut digits = String::new();
        while let Some(digit) = chars.next_if(char::is_ascii_digit) {
            digits.push(digit);
        }
        let precision = precision.then(|| digits.parse::<usize>().unwrap_or(0));
        if width.max(precision.unwrap_or(0)) > WIDTH_MAX {
            return Err(Error::Limit(format!("'{text}' has a width of more than {WIDTH_MAX} characters")));
        }
        let mut written = match (chars.next(), precision) {
            (Some('d' | 'i' | 'u'), _) => whole(value).ok_or_else(wrong)?,
            (Some('f' | 'F'), precision) => fixed(value, precision.unwrap_or(6)),
            (Some('g' | 'G'), None) => general(value),
            (Some('s' | 'r'), None) if is_integer => whole(value).unwrap_or_else(|| repr(value)),
            (Some('s' | 'r'), None) => repr(value),
            (Some('e'), precision) => exponent(value, precision.unwrap_or(6)),
            _ => return Err(wrong()),
        };
        if flags.contains('+') && value >= 0.0 {
            written.insert(0, '+');
        }
        let missing = width.saturating_sub(written.chars().count());
        match () {
            () if flags.contains('-') => written.push_str(&" ".repeat(missing)),
            () if flags.contains('0') => {
                let at = usize::from(written.starts_with(['-', '+']));
                written.insert_str(at, &"0".repeat(missing));
            }
            () => written.insert_str(0, &" ".repeat(missing)),
        }
        out.push_str(&written);
        places += 1;
    }
    if places == 1 { Ok(out) } else { Err(wrong()) }
}

fn exponent(value: f64, precision: usize) -> String {
    let text = format!("{value:.precision$e}");
    let Some((mantissa, exponent)) = text.split_once('e') else { return text };
    let (sign, digits) = exponent.strip_prefix('-').map_or(('+', exponent), |digits| ('-', digits));
    format!("{mantissa}e{sign}{digits:0>2}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_are_written_without_a_point() {
        let of = |text: &str, value: f64, is_integer: bool| python_format(text, value, is_integer).unwrap();
        assert_eq!([of("%s", 1.0, true), of("%s", 1.0, false)], ["1", "1.0"]);
        assert_eq!([of("a%5r|", -2.0, true), of("%d", 2.5, false)], ["a   -2|", "2"]);
        assert!(python_format("no placeholder", 1.0, true).is_err());
    }
}
