//! Functions that encode and decode: base64, URLs, HTML, JavaScript, JSON.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};

use super::arguments::text_argument;
use super::function::{Function, Site, function};
use crate::template::results::{Results, TextSink, VALUE_BYTES};
use crate::template::value::Value;

pub const TABLE: &[Function] = &[
    function("b64enc", (1, 1), "Encodes the text in base64.", |site, a| {
        base64_encoded(site, text_argument(&a[0])?)
    }),
    function("b64dec", (1, 1), "Decodes base64 to text.", |site, a| base64_text(site, text_argument(&a[0])?)),
    function("urlencode", (1, 1), "Escapes the text for the query of a URL.", |site, a| {
        url_encode(site, text_argument(&a[0])?)
    }),
    function("urldecode", (1, 1), "Reverses `urlencode`.", |site, a| url_decode(site, text_argument(&a[0])?)),
    function("urlquery", (1, 1), "The same as `urlencode`, for values of any type.", |site, a| {
        url_encode(site, &site.results.make(|out| a[0].write(out))?)
    }),
    function("html", (0, 99), "Joins the values, escaped for HTML.", |site, a| escaped(site, &a, html)),
    function("js", (0, 99), "Joins the values, escaped for a JavaScript string.", |site, a| {
        escaped(site, &a, js)
    }),
    function("fromJson", (1, 1), "Parses JSON text to a value; empty if the text is not JSON.", |site, a| {
        from_json(site, text_argument(&a[0])?)
    }),
];

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

type Made = Result<Value, String>;

fn base64_encoded(site: &Site<'_>, text: &str) -> Made {
    site.results.text(|out| {
        // A multiple of three bytes is encoded as a multiple of four characters.
        text.as_bytes().chunks(3 << 10).try_for_each(|chunk| out.write(&STANDARD.encode(chunk)))
    })
}

/// Decodes base64. As in Loki, missing padding is added, and invalid input becomes Go's error text.
fn base64_text(site: &Site<'_>, text: &str) -> Made {
    // Reserves the decoded bytes, in addition to the text that is made of them.
    site.results.take(2 * text.len())?;
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3 + 3);
    let plain: Vec<u8> = text.bytes().filter(|b| !matches!(b, b'\n' | b'\r')).collect();
    let padding = plain.iter().rev().take_while(|b| **b == b'=').count().min(2);
    let digits = &plain[..plain.len() - padding];
    let illegal = |place: usize| {
        site.results.text(|out| out.print(format_args!("illegal base64 data at input byte {place}")))
    };
    for (n, chunk) in digits.chunks(4).enumerate() {
        let mut word = 0u32;
        for (m, digit) in chunk.iter().enumerate() {
            let Some(value) = ALPHABET.iter().position(|a| a == digit) else { return illegal(n * 4 + m) };
            word |= (value as u32) << (18 - 6 * m);
        }
        if chunk.len() == 1 {
            return illegal(n * 4);
        }
        bytes.extend_from_slice(&word.to_be_bytes()[1..chunk.len()]);
    }
    site.results.lossy(&bytes).map(Value::Text)
}

fn url_encode(site: &Site<'_>, text: &str) -> Made {
    site.results.text(|out| {
        text.bytes().try_for_each(|byte| match byte {
            b' ' => out.write("+"),
            b if b.is_ascii_alphanumeric() || b"-_.~".contains(&b) => out.character(b as char),
            b => out.print(format_args!("%{b:02X}")),
        })
    })
}

fn url_decode(site: &Site<'_>, text: &str) -> Made {
    let bytes = text.as_bytes();
    site.results.take(bytes.len())?;
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        match bytes[at] {
            b'+' => out.push(b' '),
            b'%' => {
                let digits = text.get(at + 1..at + 3).filter(|d| d.bytes().all(|b| b.is_ascii_hexdigit()));
                let value = digits.and_then(|d| u8::from_str_radix(d, 16).ok());
                let escape = text.get(at..(at + 3).min(text.len())).unwrap_or("%");
                out.push(
                    value.ok_or_else(|| {
                        format!("invalid URL escape {}", sandur_model::go_text::quote(escape))
                    })?,
                );
                at += 2;
            }
            byte => out.push(byte),
        }
        at += 1;
    }
    site.results.lossy(&out).map(Value::Text)
}

/// Joins the arguments as `print` does, with special characters escaped.
fn escaped(
    site: &Site<'_>,
    arguments: &[Value],
    escape: fn(char, &mut TextSink<'_>) -> Result<(), String>,
) -> Made {
    let text = site.results.make(|out| super::print::print(arguments, out))?;
    site.results.text(|out| text.chars().try_for_each(|c| escape(c, out)))
}

fn html(c: char, out: &mut TextSink<'_>) -> Result<(), String> {
    match c {
        '"' => out.write("&#34;"),
        '\'' => out.write("&#39;"),
        '&' => out.write("&amp;"),
        '<' => out.write("&lt;"),
        '>' => out.write("&gt;"),
        '\0' => out.write("\u{fffd}"),
        c => out.character(c),
    }
}

fn js(c: char, out: &mut TextSink<'_>) -> Result<(), String> {
    match c {
        '\\' | '\'' | '"' => out.print(format_args!("\\{c}")),
        '<' | '>' | '&' | '=' => out.print(format_args!("\\u{:04X}", c as u32)),
        c if c.is_control() => out.print(format_args!("\\u{:04X}", c as u32)),
        c => out.character(c),
    }
}

fn from_json(site: &Site<'_>, text: &str) -> Made {
    let refusal = std::cell::RefCell::new(None);
    let mut reader = serde_json::Deserializer::from_str(text);
    let read = Json { results: site.results, refusal: &refusal }.deserialize(&mut reader);
    match (read, refusal.into_inner()) {
        (_, Some(refusal)) => Err(refusal),
        (Ok(value), None) if reader.end().is_ok() => Ok(value),
        _ => Ok(Value::Nil),
    }
}

/// Parses a JSON value; each part of it is reserved before it is created.
#[derive(Clone, Copy)]
struct Json<'a> {
    results: &'a Results,
    /// Why the reservation was refused.
    refusal: &'a std::cell::RefCell<Option<String>>,
}

impl Json<'_> {
    fn made<T, E: serde::de::Error>(&self, made: Result<T, String>) -> Result<T, E> {
        made.map_err(|refusal| {
            *self.refusal.borrow_mut() = Some(refusal);
            E::custom("refused")
        })
    }
}

impl<'de> DeserializeSeed<'de> for Json<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Json<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E: serde::de::Error>(self) -> Result<Value, E> {
        Ok(Value::Nil)
    }

    fn visit_bool<E: serde::de::Error>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E: serde::de::Error>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Float(value as f64))
    }

    fn visit_u64<E: serde::de::Error>(self, value: u64) -> Result<Value, E> {
        Ok(Value::Float(value as f64))
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<Value, E> {
        Ok(Value::Float(value))
    }

    fn visit_str<E: serde::de::Error>(self, value: &str) -> Result<Value, E> {
        self.made(self.results.copy(value)).map(Value::Text)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        self.made(self.results.take(VALUE_BYTES))?;
        while let Some(item) = items.next_element_seed(self)? {
            self.made(self.results.take(VALUE_BYTES))?;
            list.push(item);
        }
        Ok(Value::List(Arc::new(list)))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut map = BTreeMap::new();
        // A node of the tree map has room for eleven entries.
        self.made(self.results.take(11 * VALUE_BYTES))?;
        while let Some(key) = entries.next_key::<std::borrow::Cow<'_, str>>()? {
            let key = self.made(self.results.copy(&key))?;
            self.made(self.results.take(2 * VALUE_BYTES))?;
            let value = entries.next_value_seed(self)?;
            map.insert(key, value);
        }
        Ok(Value::Map(Arc::new(map)))
    }
}
