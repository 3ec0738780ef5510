//! Decodes the parts of msgpack and pickle that render answers use, so that answers can be compared by
//! their contents.

use serde_json::{Map, Value};

/// Deepest nesting that is decoded.
const DEPTH_MAX: usize = 16;

fn number(value: f64) -> Value {
    match value {
        f64::INFINITY => "inf".into(),
        f64::NEG_INFINITY => "-inf".into(),
        other => other.into(),
    }
}

fn take<'a>(bytes: &mut &'a [u8], count: usize) -> Option<&'a [u8]> {
    let (head, rest) = bytes.split_at_checked(count)?;
    *bytes = rest;
    Some(head)
}

fn array<const N: usize>(bytes: &mut &[u8]) -> Option<[u8; N]> {
    take(bytes, N)?.try_into().ok()
}

fn text(bytes: &mut &[u8], length: usize) -> Option<String> {
    String::from_utf8(take(bytes, length)?.to_vec()).ok()
}

/// Decodes a msgpack body, which must contain exactly one value.
pub(super) fn msgpack(mut bytes: &[u8]) -> Option<Value> {
    let value = msgpack_value(&mut bytes, DEPTH_MAX)?;
    bytes.is_empty().then_some(value)
}

fn msgpack_value(bytes: &mut &[u8], depth: usize) -> Option<Value> {
    let depth = depth.checked_sub(1)?;
    let [head] = array(bytes)?;
    Some(match head {
        0..=0x7f => head.into(),
        0x80..=0x8f => msgpack_map(bytes, usize::from(head & 15), depth)?,
        0x90..=0x9f => msgpack_list(bytes, usize::from(head & 15), depth)?,
        0xa0..=0xbf => text(bytes, usize::from(head & 31))?.into(),
        0xc0 => Value::Null,
        0xc2 => false.into(),
        0xc3 => true.into(),
        0xcb => number(f64::from_be_bytes(array(bytes)?)),
        0xcc => array::<1>(bytes)?[0].into(),
        0xcd => u16::from_be_bytes(array(bytes)?).into(),
        0xce => u32::from_be_bytes(array(bytes)?).into(),
        0xd3 => i64::from_be_bytes(array(bytes)?).into(),
        0xd9 => {
            let [length] = array(bytes)?;
            text(bytes, length.into())?.into()
        }
        0xda => {
            let length = u16::from_be_bytes(array(bytes)?);
            text(bytes, length.into())?.into()
        }
        0xdc => {
            let count = u16::from_be_bytes(array(bytes)?);
            msgpack_list(bytes, count.into(), depth)?
        }
        0xe0..=0xff => (head as i8).into(),
        _ => return None,
    })
}

fn msgpack_list(bytes: &mut &[u8], count: usize, depth: usize) -> Option<Value> {
    (0..count).map(|_| msgpack_value(bytes, depth)).collect()
}

fn msgpack_map(bytes: &mut &[u8], count: usize, depth: usize) -> Option<Value> {
    let mut map = Map::new();
    for _ in 0..count {
        let Value::String(name) = msgpack_value(bytes, depth)? else { return None };
        map.insert(name, msgpack_value(bytes, depth)?);
    }
    Some(Value::Object(map))
}

/// Decodes a pickle of lists, dictionaries, strings and numbers.
pub(super) fn pickle(mut bytes: &[u8]) -> Option<Value> {
    let bytes = &mut bytes;
    if array(bytes)? != [0x80, 3] {
        return None;
    }
    let (mut stack, mut marks): (Vec<Value>, Vec<usize>) = (Vec::new(), Vec::new());
    loop {
        let [code] = array(bytes)?;
        let value = match code {
            b'.' => return stack.pop().filter(|_| stack.is_empty() && bytes.is_empty()),
            b'(' => {
                marks.push(stack.len());
                continue;
            }
            b'e' => {
                let parts = stack.split_off(marks.pop()?);
                stack.last_mut()?.as_array_mut()?.extend(parts);
                continue;
            }
            b'u' => {
                let mut parts = stack.split_off(marks.pop()?).into_iter();
                let map = stack.last_mut()?.as_object_mut()?;
                while let Some(name) = parts.next() {
                    map.insert(name.as_str()?.to_owned(), parts.next()?);
                }
                continue;
            }
            0x86 => {
                let parts = stack.split_off(stack.len().checked_sub(2)?);
                Value::Array(parts)
            }
            b']' => Value::Array(Vec::new()),
            b'}' => Value::Object(Map::new()),
            b'N' => Value::Null,
            0x88 => true.into(),
            0x89 => false.into(),
            b'G' => number(f64::from_be_bytes(array(bytes)?)),
            b'J' => i32::from_le_bytes(array(bytes)?).into(),
            0x8a => match array(bytes)? {
                [8] => i64::from_le_bytes(array(bytes)?).into(),
                _ => return None,
            },
            b'X' => {
                let length = u32::from_le_bytes(array(bytes)?);
                text(bytes, usize::try_from(length).ok()?)?.into()
            }
            _ => return None,
        };
        stack.push(value);
    }
}

/// Whether two values are equal; numbers are compared as floats.
pub(super) fn is_same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| is_same(a, b))
        }
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(name, a)| b.get(name).is_some_and(|b| is_same(a, b)))
        }
        (Value::Number(_), Value::Number(_)) => super::compare::is_close(a, b, 0.0),
        (a, b) => a == b,
    }
}
