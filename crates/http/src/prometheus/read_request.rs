//! Decodes remote read requests.
//!
//! `ReadRequest{queries=1:{start=1, end=2, matchers=3:{type=1, name=2, value=3}}, accepted=2}`.

use sandur_model::{MatchOp, Matcher};
use sandur_protobuf::{Malformed, Reader, Wire};

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

/// Why a request cannot be decoded, as text for the client.
#[derive(Debug)]
pub struct Unreadable(pub String);

impl From<Malformed> for Unreadable {
    fn from(error: Malformed) -> Self {
        Self(error.to_string())
    }
}

impl ReadRequest {
    /// Decodes a message.
    pub fn decode(bytes: &[u8]) -> Result<Self, Unreadable> {
        let (mut fields, mut request) = (Reader::new(bytes), Self::default());
        while let Some(key) = fields.key()? {
            match key {
                (1, Wire::Bytes) => request.queries.push(read_query(fields.message()?)?),
                (2, Wire::Varint) => request.accepted.push(fields.varint()?),
                (2, Wire::Bytes) => {
                    let mut kinds = fields.message()?;
                    while !kinds.is_at_end() && request.accepted.len() <= QUERIES_MAX {
                        request.accepted.push(kinds.varint()?);
                    }
                }
                (_, wire) => fields.skip(wire)?,
            }
            if request.queries.len().max(request.accepted.len()) > QUERIES_MAX {
                return Err(Unreadable(format!("a request has at most {QUERIES_MAX} queries")));
            }
        }
        Ok(request)
    }
}

fn read_query(mut fields: Reader<'_>) -> Result<ReadQuery, Unreadable> {
    let mut query = ReadQuery::default();
    while let Some(key) = fields.key()? {
        match key {
            (1, Wire::Varint) => query.bounds_ms.0 = fields.varint()? as i64,
            (2, Wire::Varint) => query.bounds_ms.1 = fields.varint()? as i64,
            (3, Wire::Bytes) => query.matchers.push(read_matcher(fields.message()?)?),
            (_, wire) => fields.skip(wire)?,
        }
        if query.matchers.len() > MATCHERS_MAX {
            return Err(Unreadable(format!("a query has at most {MATCHERS_MAX} matchers")));
        }
    }
    Ok(query)
}

fn read_matcher(mut fields: Reader<'_>) -> Result<Matcher, Unreadable> {
    let (mut op, mut name, mut value) = (0, "", "");
    let text =
        |bytes| std::str::from_utf8(bytes).map_err(|_| Unreadable("a matcher is not UTF-8".to_owned()));
    while let Some(key) = fields.key()? {
        match key {
            (1, Wire::Varint) => op = fields.varint()?,
            (2, Wire::Bytes) => name = text(fields.bytes()?)?,
            (3, Wire::Bytes) => value = text(fields.bytes()?)?,
            (_, wire) => fields.skip(wire)?,
        }
    }
    let op = match op {
        0 => MatchOp::Equal,
        1 => MatchOp::NotEqual,
        2 => MatchOp::Regex,
        3 => MatchOp::NotRegex,
        other => return Err(Unreadable(format!("invalid matcher type {other}"))),
    };
    Matcher::new(name, op, value).map_err(|error| Unreadable(error.to_string()))
}

#[cfg(test)]
mod tests {
    use sandur_protobuf::Writer as _;

    use super::*;

    #[test]
    fn requests_are_decoded_and_truncated_ones_refused() {
        let mut request = Vec::new();
        request.message(1, |query| {
            query.number(1, -5i64 as u64);
            query.number(2, 7);
            query.message(3, |matcher| {
                matcher.number(1, 2);
                matcher.text(2, "job");
                matcher.text(3, "a|b");
            });
            query.bytes(4, b"");
        });
        request.packed(2, [1, 0]);
        request.number(2, 1);
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
        assert!(ReadRequest::decode(&many).unwrap_err().0.contains("at most"));
    }
}
