//! Decodes pickles: a list of `(path, (timestamp, value))` in Python's protocols 0 to 5.
//!
//! A pickle is a program. Only operations that create texts, numbers, booleans, tuples and lists are
//! executed; any other operation, in particular one that imports or calls something, makes the payload
//! refused. As in carbon, items that are not points are skipped and the others are kept. There is no
//! recursion: a tree is inspected two levels deep, however deep it is.

use std::ops::ControlFlow;

use crate::pickle_stack::{Stack, StackError, Value};
use crate::pickle_text::{quoted, raw_unicode};
use crate::point::{Sink, hand_on};
use crate::python_number::float;
use crate::refusal::{Reason, Refusal};

/// The newest supported protocol.
const PROTOCOL_MAX: u8 = 5;

/// Decodes one payload.
pub(crate) fn read(payload: &[u8], now: i64, sink: &mut dyn Sink) -> ControlFlow<()> {
    let mut machine = Machine { payload, at: 0, stack: Stack::default() };
    let found = match machine.run() {
        Ok(found) => found,
        Err(refusal) => {
            sink.refused(refusal, payload);
            return ControlFlow::Continue(());
        }
    };
    let stack = machine.stack;
    let Some(items) = stack.items(found) else {
        sink.refused(Refusal::of(Reason::PickleShape), payload);
        return ControlFlow::Continue(());
    };
    for item in items {
        match point(&stack, payload, *item) {
            Ok(point) => hand_on(sink, point, now, point.0.as_bytes())?,
            Err(reason) => sink.refused(Refusal::of(reason), payload),
        }
    }
    ControlFlow::Continue(())
}

/// Converts an item of the list to a point.
fn point<'a>(stack: &'a Stack, payload: &'a [u8], item: Value) -> Result<(&'a str, f64, f64), Reason> {
    let Some([name, pair]) = stack.items(item) else { return Err(Reason::PickleShape) };
    let Some([seconds, value]) = stack.items(*pair) else { return Err(Reason::PickleShape) };
    let name = stack.text(payload, *name).ok_or(Reason::PickleShape)?;
    let name = std::str::from_utf8(name).map_err(|_| Reason::Utf8)?;
    let value = number(stack, payload, *value).ok_or(Reason::Value)?;
    let seconds = number(stack, payload, *seconds).ok_or(Reason::Timestamp)?;
    Ok((name, seconds, value))
}

/// Returns a number, or the number that a text contains.
fn number(stack: &Stack, payload: &[u8], value: Value) -> Option<f64> {
    match value {
        Value::Number(number) => Some(number),
        text => float(std::str::from_utf8(stack.text(payload, text)?).ok()?),
    }
}

struct Machine<'a> {
    payload: &'a [u8],
    at: usize,
    stack: Stack,
}

fn malformed(detail: &'static str) -> Refusal {
    Refusal::with(Reason::PickleMalformed, detail)
}

impl From<StackError> for Refusal {
    fn from(error: StackError) -> Self {
        malformed(match error {
            StackError::Underflow => "the pickle pops more values from its stack than it pushed",
            StackError::Full => "the pickle has more than 262144 values; send several",
            StackError::NoList => "the pickle appends to a value that is not a list",
            StackError::NoMemo => "the pickle refers to a memo entry that it did not store",
        })
    }
}

impl<'a> Machine<'a> {
    /// Runs to the end and returns the value on top of the stack.
    fn run(&mut self) -> Result<Value, Refusal> {
        loop {
            let operation = self.byte()?;
            if operation == b'.' {
                return Ok(self.stack.pop()?);
            }
            if !(self.collect(operation)? || self.literal(operation)?) {
                return Err(Refusal::of(Reason::PickleOperation));
            }
        }
    }

    /// Executes an operation on the stack or the memo. Returns `false` if it is another operation.
    fn collect(&mut self, operation: u8) -> Result<bool, Refusal> {
        match operation {
            b'(' => self.stack.push(Value::Mark)?,
            b'0' => drop(self.stack.pop()?),
            b'1' => self.stack.pop_mark()?,
            b'2' => {
                let top = self.stack.top()?;
                self.stack.push(top)?;
            }
            b'a' => self.stack.append()?,
            b'e' => self.stack.append_after_mark()?,
            b'l' => self.stack.list_of_mark()?,
            b']' => self.stack.list(Vec::new())?,
            b't' => self.stack.tuple_of_mark()?,
            b')' => self.stack.tuple_of(0)?,
            0x85..=0x87 => self.stack.tuple_of(usize::from(operation - 0x84))?,
            b'p' => {
                let key = self.index()?;
                self.stack.put(key)?;
            }
            b'q' => {
                let key = self.byte()?;
                self.stack.put(key.into())?;
            }
            b'r' => {
                let key = u32::from_le_bytes(self.array()?);
                self.stack.put(key)?;
            }
            b'g' => {
                let key = self.index()?;
                self.stack.get(key)?;
            }
            b'h' => {
                let key = self.byte()?;
                self.stack.get(key.into())?;
            }
            b'j' => {
                let key = u32::from_le_bytes(self.array()?);
                self.stack.get(key)?;
            }
            0x94 => self.stack.memoize()?,
            0x80 => {
                if self.byte()? > PROTOCOL_MAX {
                    return Err(malformed("the protocol of the pickle is newer than 5"));
                }
            }
            0x95 => {
                let length = u64::from_le_bytes(self.array()?);
                if length > (self.payload.len() - self.at) as u64 {
                    return Err(malformed("a frame of the pickle is longer than the pickle"));
                }
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Executes an operation that pushes a value. Returns `false` if it is another operation.
    fn literal(&mut self, operation: u8) -> Result<bool, Refusal> {
        let value = match operation {
            b'N' => Value::Other,
            0x88 => Value::Number(1.0),
            0x89 => Value::Number(0.0),
            b'K' => Value::Number(self.byte()?.into()),
            b'M' => Value::Number(u16::from_le_bytes(self.array()?).into()),
            b'J' => Value::Number(i32::from_le_bytes(self.array()?).into()),
            b'G' => Value::Number(f64::from_be_bytes(self.array()?)),
            b'I' | b'L' => decimal_integer(self.line()?)?,
            b'F' => decimal_float(self.line()?)?,
            0x8A => {
                let length = self.byte()?.into();
                long(self.bytes(length)?)
            }
            0x8B => {
                let length = i32::from_le_bytes(self.array()?);
                let length = usize::try_from(length).map_err(|_| malformed("a length is negative"))?;
                long(self.bytes(length)?)
            }
            b'S' => self.written(quoted)?,
            b'V' => self.written(raw_unicode)?,
            b'U' | 0x8C => {
                let length = self.byte()?.into();
                self.text(length)?
            }
            b'T' | b'X' => {
                let length = u32::from_le_bytes(self.array()?);
                self.text(length.into())?
            }
            0x8D => {
                let length = u64::from_le_bytes(self.array()?);
                self.text(length)?
            }
            b'C' => self.passed_over(1)?,
            b'B' => self.passed_over(4)?,
            0x8E => self.passed_over(8)?,
            _ => return Ok(false),
        };
        self.stack.push(value)?;
        Ok(true)
    }

    fn byte(&mut self) -> Result<u8, Refusal> {
        Ok(self.array::<1>()?[0])
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Refusal> {
        let array = *self.payload[self.at..].first_chunk().ok_or_else(Self::ended)?;
        self.at += N;
        Ok(array)
    }

    fn bytes(&mut self, length: usize) -> Result<&'a [u8], Refusal> {
        let bytes = self.payload[self.at..].get(..length).ok_or_else(Self::ended)?;
        self.at += length;
        Ok(bytes)
    }

    #[cold]
    fn ended() -> Refusal {
        malformed("the pickle ends within an operation")
    }

    /// Returns the bytes before the next line feed.
    fn line(&mut self) -> Result<&'a [u8], Refusal> {
        let length = memchr::memchr(b'\n', &self.payload[self.at..]).ok_or_else(Self::ended)?;
        let line = self.bytes(length)?;
        self.at += 1;
        Ok(line)
    }

    /// Reads a memo index in decimal.
    fn index(&mut self) -> Result<u32, Refusal> {
        let text = std::str::from_utf8(self.line()?).ok();
        text.and_then(|text| text.parse().ok()).ok_or_else(|| malformed("a memo index is not a number"))
    }

    /// Reads a text of `length` bytes from the payload.
    fn text(&mut self, length: u64) -> Result<Value, Refusal> {
        let start = self.at as u32;
        let length = usize::try_from(length).map_err(|_| Self::ended())?;
        self.bytes(length)?;
        Ok(Value::Text { start, length: length as u32 })
    }

    /// Reads a text with escapes, which ends at the line feed.
    fn written(&mut self, read: fn(&[u8], &mut Vec<u8>) -> Option<()>) -> Result<Value, Refusal> {
        let line = self.line()?;
        let texts = &mut self.stack.texts;
        let start = texts.len();
        read(line, texts).ok_or_else(|| malformed("a text of the pickle cannot be decoded"))?;
        Ok(Value::Written { start: start as u32, length: (texts.len() - start) as u32 })
    }

    /// Skips a bytes value, whose length has `length_bytes` bytes: it is neither a name nor a number.
    fn passed_over(&mut self, length_bytes: usize) -> Result<Value, Refusal> {
        let mut length = [0; 8];
        length[..length_bytes].copy_from_slice(self.bytes(length_bytes)?);
        let length = usize::try_from(u64::from_le_bytes(length)).map_err(|_| Self::ended())?;
        self.bytes(length)?;
        Ok(Value::Other)
    }
}

/// Parses a decimal integer. Integers too large for a float are not numbers here, as Python cannot
/// convert them.
fn decimal_integer(line: &[u8]) -> Result<Value, Refusal> {
    let line = line.strip_suffix(b"L").unwrap_or(line);
    let digits = line.strip_prefix(b"-").or_else(|| line.strip_prefix(b"+")).unwrap_or(line);
    let is_integer = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
    let text = std::str::from_utf8(line).ok().filter(|_| is_integer);
    let number = text.and_then(|text| text.parse::<f64>().ok());
    let number = number.ok_or_else(|| malformed("an integer of the pickle cannot be decoded"))?;
    Ok(if number.is_finite() { Value::Number(number) } else { Value::Other })
}

fn decimal_float(line: &[u8]) -> Result<Value, Refusal> {
    let number = std::str::from_utf8(line).ok().and_then(float);
    number.map(Value::Number).ok_or_else(|| malformed("a number of the pickle cannot be decoded"))
}

/// Decodes an integer in little-endian two's complement.
fn long(bytes: &[u8]) -> Value {
    const WIDTH: usize = 16;
    let is_negative = bytes.last().is_some_and(|byte| *byte >= 0x80);
    let filler = if is_negative { 0xFF } else { 0 };
    let mut significant = bytes;
    while let [shorter @ .., last] = significant
        && shorter.len() >= WIDTH
        && *last == filler
        && shorter.last().is_some_and(|byte| (*byte >= 0x80) == is_negative)
    {
        significant = shorter;
    }
    let beyond = significant.len().saturating_sub(WIDTH);
    // Larger than every float: 2^1024 has 129 bytes.
    if beyond > 128 {
        return Value::Other;
    }
    let (low, high) = significant.split_at(beyond);
    let mut words = [filler; WIDTH];
    words[..high.len()].copy_from_slice(high);
    let mut number = i128::from_le_bytes(words);
    // The truncated bits affect the rounding only by whether any of them is set.
    if low.iter().any(|byte| *byte != 0) {
        number |= 1;
    }
    let scaled = number as f64 * 2f64.powi(8 * beyond as i32);
    if scaled.is_finite() { Value::Number(scaled) } else { Value::Other }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_of_any_length_become_the_nearest_float() {
        let number = |bytes: &[u8]| match long(bytes) {
            Value::Number(number) => number,
            other => panic!("{other:?}"),
        };
        assert_eq!(number(&[]), 0.0);
        assert_eq!(number(&[0xFF]), -1.0);
        assert_eq!(number(&[0, 0, 0, 0, 0, 0, 0, 0x80, 0]), 2f64.powi(63));
        let mut wide = vec![0; 40];
        wide[32] = 1;
        assert_eq!(number(&wide), 2f64.powi(256));
        wide[39] = 0xFF;
        assert!(number(&wide) < 0.0);
        assert!(matches!(long(&[0x7F; 300]), Value::Other));
    }
}
