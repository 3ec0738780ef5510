//! Codings: base 64, URLs, JSON.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::{Function, Value, text_argument};

pub const TABLE: &[Function] = &[
    Function {
        name: "b64enc",
        arguments: (1, 1),
        doc: "Base 64 of the text.",
        call: |_, a| Ok(Value::Text(STANDARD.encode(text_argument(&a[0])?))),
    },
    Function {
        name: "b64dec",
        arguments: (1, 1),
        doc: "The text that was base 64.",
        call: |_, a| Ok(Value::Text(base64_text(text_argument(&a[0])?))),
    },
    Function {
        name: "urlencode",
        arguments: (1, 1),
        doc: "The text as a part of a URL's query.",
        call: |_, a| Ok(Value::Text(url_encode(text_argument(&a[0])?))),
    },
    Function {
        name: "urldecode",
        arguments: (1, 1),
        doc: "The text that was a part of a URL's query.",
        call: |_, a| url_decode(text_argument(&a[0])?).map(Value::Text),
    },
    Function {
        name: "urlquery",
        arguments: (1, 1),
        doc: "Like urlencode, of any value.",
        call: |_, a| Ok(Value::Text(url_encode(&a[0].to_text()))),
    },
    Function {
        name: "html",
        arguments: (0, 99),
        doc: "The values as text of HTML.",
        call: |_, a| Ok(Value::Text(html(&joined(&a)))),
    },
    Function {
        name: "js",
        arguments: (0, 99),
        doc: "The values as text of a JavaScript string.",
        call: |_, a| Ok(Value::Text(js(&joined(&a)))),
    },
    Function {
        name: "fromJson",
        arguments: (1, 1),
        doc: "The value that the JSON text says; nothing when it is not JSON.",
        call: |_, a| Ok(from_json(text_argument(&a[0])?)),
    },
];

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Missing padding is added; what cannot be decoded becomes Go's error text, as Loki does it.
fn base64_text(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3);
    let plain: Vec<u8> = text.bytes().filter(|b| !matches!(b, b'\n' | b'\r')).collect();
    let padding = plain.iter().rev().take_while(|b| **b == b'=').count().min(2);
    let digits = &plain[..plain.len() - padding];
    for (n, chunk) in digits.chunks(4).enumerate() {
        let mut word = 0u32;
        for (m, digit) in chunk.iter().enumerate() {
            let Some(value) = ALPHABET.iter().position(|a| a == digit) else {
                return format!("illegal base64 data at input byte {}", n * 4 + m);
            };
            word |= (value as u32) << (18 - 6 * m);
        }
        if chunk.len() == 1 {
            return format!("illegal base64 data at input byte {}", n * 4);
        }
        bytes.extend_from_slice(&word.to_be_bytes()[1..chunk.len()]);
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn url_encode(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b' ' => out.push('+'),
            b if b.is_ascii_alphanumeric() || b"-_.~".contains(&b) => out.push(b as char),
            b => out.push_str(&format!("%{b:02X}")),
        }
    }
    out
}

fn url_decode(text: &str) -> Result<String, String> {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        match bytes[at] {
            b'+' => out.push(b' '),
            b'%' => {
                let digits = text.get(at + 1..at + 3).filter(|d| d.bytes().all(|b| b.is_ascii_hexdigit()));
                let value = digits.and_then(|d| u8::from_str_radix(d, 16).ok());
                let escape = text.get(at..(at + 3).min(text.len())).unwrap_or("%");
                out.push(value.ok_or_else(|| format!("invalid URL escape {}", crate::units::quote(escape)))?);
                at += 2;
            }
            byte => out.push(byte),
        }
        at += 1;
    }
    Ok(String::from_utf8_lossy(&out).into_owned())
}

/// The arguments as one text, as `print` writes them.
fn joined(arguments: &[Value]) -> String {
    super::print::print(arguments)
}

fn html(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '"' => out.push_str("&#34;"),
            '\'' => out.push_str("&#39;"),
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '\0' => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

fn js(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\\' | '\'' | '"' => out.extend(['\\', c]),
            '<' | '>' | '&' | '=' => out.push_str(&format!("\\u{:04X}", c as u32)),
            c if c.is_control() => out.push_str(&format!("\\u{:04X}", c as u32)),
            c => out.push(c),
        }
    }
    out
}

fn from_json(text: &str) -> Value {
    serde_json::from_str::<serde_json::Value>(text).map_or(Value::Nil, convert)
}

fn convert(json: serde_json::Value) -> Value {
    match json {
        serde_json::Value::Null => Value::Nil,
        serde_json::Value::Bool(b) => Value::Bool(b),
        serde_json::Value::Number(n) => Value::Float(n.as_f64().unwrap_or(f64::NAN)),
        serde_json::Value::String(text) => Value::Text(text),
        serde_json::Value::Array(list) => Value::List(list.into_iter().map(convert).collect()),
        serde_json::Value::Object(map) => Value::Map(map.into_iter().map(|(k, v)| (k, convert(v))).collect()),
    }
}
