//! Decodes remote read requests, and encodes the protobuf fields of answers.

use sandur_model::{FloatHistogram, MatchOp, Matcher};

/// Maximum number of queries of a request.
const QUERIES_MAX: usize = 100;
/// Maximum number of matchers of a query.
const MATCHERS_MAX: usize = 1_000;

/// One query of a request.
#[derive(Debug, Default)]
pub struct ReadQuery {
    /// First and last timestamp, milliseconds, inclusive.
    pub bounds_ms: (i64, i64),
    /// Matchers on labels.
    pub matchers: Vec<Matcher>,
}

/// A remote read request.
#[derive(Debug, Default)]
pub struct ReadRequest {
    /// The queries.
    pub queries: Vec<ReadQuery>,
    /// Response types that the client accepts, in order of preference; empty: `SAMPLES`.
    pub accepted: Vec<u64>,
}

/// The value of a field.
enum Value<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

/// Iterates over the fields of a message. Fields with other wire types are skipped.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn varint(&mut self) -> Result<u64, String> {
        let mut value = 0u64;
        for (n, byte) in self.0.iter().enumerate().take(10) {
            value |= u64::from(byte & 0x7F) << (7 * n);
            if byte & 0x80 == 0 {
                self.0 = &self.0[n + 1..];
                return Ok(value);
            }
        }
        Err("an integer is truncated or too long".to_owned())
    }

    fn take(&mut self, count: u64) -> Result<&'a [u8], String> {
        let count = usize::try_from(count).ok().filter(|count| *count <= self.0.len());
        let (taken, rest) = self.0.split_at(count.ok_or("a length exceeds the message")?);
        self.0 = rest;
        Ok(taken)
    }

    fn next(&mut self) -> Result<Option<(u64, Value<'a>)>, String> {
        loop {
            if self.0.is_empty() {
                return Ok(None);
            }
            let key = self.varint()?;
            let value = match key & 7 {
                0 => Value::Number(self.varint()?),
                2 => {
                    let length = self.varint()?;
                    Value::Bytes(self.take(length)?)
                }
                1 => {
                    self.take(8)?;
                    continue;
                }
                5 => {
                    self.take(4)?;
                    continue;
                }
                _ => return Err("unsupported wire type".to_owned()),
            };
            return Ok(Some((key >> 3, value)));
        }
    }
}

impl ReadRequest {
    /// Decodes a message.
    pub fn decode(bytes: &[u8]) -> Result<Self, String> {
        let (mut fields, mut request) = (Fields(bytes), Self::default());
        while let Some(field) = fields.next()? {
            match field {
                (1, Value::Bytes(query)) => request.queries.push(read_query(query)?),
                (2, Value::Number(kind)) => request.accepted.push(kind),
                (2, Value::Bytes(packed)) => {
                    let mut kinds = Fields(packed);
                    while !kinds.0.is_empty() && request.accepted.len() <= QUERIES_MAX {
                        request.accepted.push(kinds.varint()?);
                    }
                }
                _ => {}
            }
            if request.queries.len().max(request.accepted.len()) > QUERIES_MAX {
                return Err(format!("a request has at most {QUERIES_MAX} queries"));
            }
        }
        Ok(request)
    }
}

fn read_query(bytes: &[u8]) -> Result<ReadQuery, String> {
    let (mut fields, mut query) = (Fields(bytes), ReadQuery::default());
    while let Some(field) = fields.next()? {
        match field {
            (1, Value::Number(start)) => query.bounds_ms.0 = start as i64,
            (2, Value::Number(end)) => query.bounds_ms.1 = end as i64,
            (3, Value::Bytes(matcher)) => query.matchers.push(read_matcher(matcher)?),
            _ => {}
        }
        if query.matchers.len() > MATCHERS_MAX {
            return Err(format!("a query has at most {MATCHERS_MAX} matchers"));
        }
    }
    Ok(query)
}

fn read_matcher(bytes: &[u8]) -> Result<Matcher, String> {
    let (mut fields, mut op, mut name, mut value) = (Fields(bytes), 0, "", "");
    let text = |bytes| std::str::from_utf8(bytes).map_err(|_| "a matcher is not UTF-8".to_owned());
    while let Some(field) = fields.next()? {
        match field {
            (1, Value::Number(kind)) => op = kind,
            (2, Value::Bytes(bytes)) => name = text(bytes)?,
            (3, Value::Bytes(bytes)) => value = text(bytes)?,
            _ => {}
        }
    }
    let op = match op {
        0 => MatchOp::Equal,
        1 => MatchOp::NotEqual,
        2 => MatchOp::Regex,
        3 => MatchOp::NotRegex,
        other => return Err(format!("invalid matcher type {other}")),
    };
    Matcher::new(name, op, value).map_err(|error| error.to_string())
}

fn key(out: &mut Vec<u8>, field: u32, wire: u32) {
    varint(out, u64::from(field << 3 | wire));
}

/// Appends a varint.
pub fn varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Appends an integer field; 0 is left out.
pub fn number(out: &mut Vec<u8>, field: u32, value: u64) {
    if value != 0 {
        key(out, field, 0);
        varint(out, value);
    }
}

/// Appends a field of bytes.
pub fn bytes(out: &mut Vec<u8>, field: u32, value: &[u8]) {
    key(out, field, 2);
    varint(out, value.len() as u64);
    out.extend_from_slice(value);
}

fn double(out: &mut Vec<u8>, field: u32, value: f64) {
    key(out, field, 1);
    out.extend_from_slice(&value.to_bits().to_le_bytes());
}

/// Appends labels, each as a message in this field.
pub fn labels<'a>(out: &mut Vec<u8>, field: u32, labels: impl Iterator<Item = (&'a str, &'a str)>) {
    let mut label = Vec::new();
    for (name, value) in labels {
        label.clear();
        bytes(&mut label, 1, name.as_bytes());
        bytes(&mut label, 2, value.as_bytes());
        bytes(out, field, &label);
    }
}

/// Appends a sample as a message in this field.
pub fn sample(out: &mut Vec<u8>, field: u32, time: i64, value: f64) {
    let mut sample = Vec::with_capacity(20);
    double(&mut sample, 1, value);
    number(&mut sample, 2, time as u64);
    bytes(out, field, &sample);
}

/// Appends a histogram as a message in this field.
pub fn histogram(out: &mut Vec<u8>, field: u32, time: i64, of: &FloatHistogram) {
    let mut message = Vec::new();
    double(&mut message, 2, of.count);
    double(&mut message, 3, of.sum);
    number(&mut message, 4, zigzag(i64::from(of.schema)));
    double(&mut message, 5, of.zero_threshold);
    double(&mut message, 7, of.zero_count);
    for (spans, counts, buckets) in [(8, 10, &of.negative), (11, 13, &of.positive)] {
        for span in buckets.spans() {
            let mut part = Vec::new();
            number(&mut part, 1, zigzag(i64::from(span.offset)));
            number(&mut part, 2, u64::from(span.length));
            bytes(&mut message, spans, &part);
        }
        doubles(&mut message, counts, buckets.iter().map(|(_, count)| count));
    }
    number(&mut message, 14, of.reset as u64);
    number(&mut message, 15, time as u64);
    doubles(&mut message, 16, of.bounds.iter().copied());
    bytes(out, field, &message);
}

fn doubles(out: &mut Vec<u8>, field: u32, values: impl Iterator<Item = f64>) {
    let packed: Vec<u8> = values.flat_map(|value| value.to_bits().to_le_bytes()).collect();
    if !packed.is_empty() {
        bytes(out, field, &packed);
    }
}

fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_decoded_and_truncated_ones_refused() {
        let mut matcher = Vec::new();
        number(&mut matcher, 1, 2);
        bytes(&mut matcher, 2, b"job");
        bytes(&mut matcher, 3, b"a|b");
        let mut query = Vec::new();
        number(&mut query, 1, -5i64 as u64);
        number(&mut query, 2, 7);
        bytes(&mut query, 3, &matcher);
        bytes(&mut query, 4, b"");
        let mut request = Vec::new();
        bytes(&mut request, 1, &query);
        bytes(&mut request, 2, &[1, 0]);
        number(&mut request, 2, 1);
        let read = ReadRequest::decode(&request).unwrap();
        assert_eq!(read.accepted, [1, 0, 1]);
        assert_eq!(read.queries[0].bounds_ms, (-5, 7));
        assert_eq!(read.queries[0].matchers[0].to_string(), r#"job=~"a|b""#);
        for end in 1..request.len() - 4 {
            // A truncated request may be decoded only if it ends with a field.
            let _ = ReadRequest::decode(&request[..end]);
        }
        for bad in [&[0x0A, 0xFF, 0xFF, 0xFF, 0xFF, 0x0F][..], &[0x0B], &[0x80; 11]] {
            assert!(ReadRequest::decode(bad).is_err(), "{bad:?}");
        }
        let many = [0x0A, 0x00].repeat(QUERIES_MAX + 1);
        assert!(ReadRequest::decode(&many).unwrap_err().contains("at most"));
    }
}
