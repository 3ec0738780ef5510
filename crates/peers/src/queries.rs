//! Messages about running queries and about requests to the store.
//!
//! **Invariant.** A list of queries never has more than [`QUERIES_MAX`] entries, and no more bytes than its
//! caller allows: what does not fit is left out and counted.

use sandur_protobuf::{Reader, Wire, Writer as _};

use crate::malformed::Malformed;

/// Maximum number of queries in one answer.
pub const QUERIES_MAX: usize = 4_000;
/// Maximum length of a tenant in a request, in bytes: several tenants are joined in one name.
const TENANT_BYTES_MAX: usize = 16 << 10;

/// A running query, as its process describes it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PeerQuery {
    /// The number of the query in its process.
    pub id: u64,
    /// Who asked.
    pub tenant: String,
    /// The beginning of the text.
    pub text: String,
    /// As in the log of queries.
    pub query_type: String,
    /// `logs` or `metrics`.
    pub signal: String,
    /// The client.
    pub user_agent: String,
    /// Start of the range, nanoseconds since the epoch.
    pub start_ns: i64,
    /// End of the range, nanoseconds since the epoch.
    pub end_ns: i64,
    /// Microseconds since the query began.
    pub elapsed_us: u64,
    /// Microseconds in the queue.
    pub queue_us: u64,
    /// Microseconds of requests to the store.
    pub store_us: u64,
    /// Microseconds of execution.
    pub execution_us: u64,
    /// Bytes that the query holds.
    pub memory_bytes: u64,
    /// Bytes of lines or samples that were read.
    pub read_bytes: u64,
    /// Lines or samples that were read.
    pub read_rows: u64,
}

/// Running queries of one process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PeerQueries {
    /// Queries, the oldest first.
    pub queries: Vec<PeerQuery>,
    /// The number of queries that did not fit.
    pub left_out: u64,
}

impl PeerQueries {
    /// The first queries that fit into `most` bytes of a message; the others are counted.
    pub fn fitting(queries: impl ExactSizeIterator<Item = PeerQuery>, most: usize) -> Self {
        let (all, mut bytes, mut kept) = (queries.len(), ANSWER_BYTES, Vec::new());
        for query in queries.take(QUERIES_MAX) {
            bytes += query.bytes_max();
            if bytes > most {
                break;
            }
            kept.push(query);
        }
        let left_out = (all - kept.len()) as u64;
        Self { queries: kept, left_out }
    }
}

/// The requests of a process to the store since it started.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PeerUsage {
    /// Number of requests.
    pub requests: u64,
    /// What they cost by the price table.
    pub dollars: f64,
    /// What 30 days cost at the rate of the last hour.
    pub dollars_per_month: f64,
}

/// Bytes of an answer in addition to its queries.
const ANSWER_BYTES: usize = 32;
/// The most bytes of a query without its texts: 15 keys, 5 lengths, 10 integers, and the key and the length
/// of the message.
const FIXED_BYTES: usize = 15 + 5 * 3 + 10 * 10 + 6;

impl PeerQuery {
    /// The most bytes that the query needs in a message.
    fn bytes_max(&self) -> usize {
        let texts = [&self.tenant, &self.text, &self.query_type, &self.signal, &self.user_agent];
        FIXED_BYTES + texts.iter().map(|text| text.len()).sum::<usize>()
    }

    /// Appends the fields.
    pub(crate) fn write(&self, message: &mut Vec<u8>) {
        message.number(1, self.id);
        message.text(2, &self.tenant);
        message.text(3, &self.text);
        message.text(4, &self.query_type);
        message.text(5, &self.signal);
        message.text(6, &self.user_agent);
        message.number(7, self.start_ns.cast_unsigned());
        message.number(8, self.end_ns.cast_unsigned());
        message.number(9, self.elapsed_us);
        message.number(10, self.queue_us);
        message.number(11, self.store_us);
        message.number(12, self.execution_us);
        message.number(13, self.memory_bytes);
        message.number(14, self.read_bytes);
        message.number(15, self.read_rows);
    }

    /// Reads the fields.
    pub(crate) fn read(mut fields: Reader<'_>) -> Result<Self, Malformed> {
        let mut query = Self::default();
        while let Some((field, wire)) = fields.key()? {
            match (field, wire) {
                (1, Wire::Varint) => query.id = fields.varint()?,
                (2, Wire::Bytes) => query.tenant = text(fields.bytes()?)?,
                (3, Wire::Bytes) => query.text = text(fields.bytes()?)?,
                (4, Wire::Bytes) => query.query_type = text(fields.bytes()?)?,
                (5, Wire::Bytes) => query.signal = text(fields.bytes()?)?,
                (6, Wire::Bytes) => query.user_agent = text(fields.bytes()?)?,
                (7, Wire::Varint) => query.start_ns = fields.varint()?.cast_signed(),
                (8, Wire::Varint) => query.end_ns = fields.varint()?.cast_signed(),
                (9, Wire::Varint) => query.elapsed_us = fields.varint()?,
                (10, Wire::Varint) => query.queue_us = fields.varint()?,
                (11, Wire::Varint) => query.store_us = fields.varint()?,
                (12, Wire::Varint) => query.execution_us = fields.varint()?,
                (13, Wire::Varint) => query.memory_bytes = fields.varint()?,
                (14, Wire::Varint) => query.read_bytes = fields.varint()?,
                (15, Wire::Varint) => query.read_rows = fields.varint()?,
                (_, wire) => fields.skip(wire)?,
            }
        }
        Ok(query)
    }
}

fn text(bytes: &[u8]) -> Result<String, Malformed> {
    let text = std::str::from_utf8(bytes).map_err(|_| Malformed::Value("a text is not UTF-8"))?;
    Ok(text.to_owned())
}

/// A tenant in a request.
pub(crate) fn tenant(bytes: &[u8]) -> Result<String, Malformed> {
    match bytes.len() > TENANT_BYTES_MAX {
        true => Err(Malformed::Value("the tenant of a call has more than 16 KiB")),
        false => text(bytes),
    }
}

/// Writes a list of queries.
pub(crate) fn write_queries(message: &mut Vec<u8>, list: &PeerQueries) {
    list.queries.iter().for_each(|query| message.message(1, |fields| query.write(fields)));
    message.number(2, list.left_out);
}

/// Reads a list of queries.
pub(crate) fn read_queries(mut fields: Reader<'_>) -> Result<PeerQueries, Malformed> {
    let mut list = PeerQueries::default();
    while let Some((field, wire)) = fields.key()? {
        match (field, wire) {
            (1, Wire::Bytes) if list.queries.len() < QUERIES_MAX => {
                list.queries.push(PeerQuery::read(fields.message()?)?);
            }
            (1, Wire::Bytes) => return Err(Malformed::Value("an answer has too many queries")),
            (2, Wire::Varint) => list.left_out = fields.varint()?,
            (_, wire) => fields.skip(wire)?,
        }
    }
    Ok(list)
}

/// Writes the requests to the store.
pub(crate) fn write_usage(message: &mut Vec<u8>, usage: &PeerUsage) {
    message.number(1, usage.requests);
    message.double(2, usage.dollars);
    message.double(3, usage.dollars_per_month);
}

/// Reads the requests to the store.
pub(crate) fn read_usage(mut fields: Reader<'_>) -> Result<PeerUsage, Malformed> {
    let mut usage = PeerUsage::default();
    while let Some((field, wire)) = fields.key()? {
        match (field, wire) {
            (1, Wire::Varint) => usage.requests = fields.varint()?,
            (2, Wire::Fixed64) => usage.dollars = amount(fields.double()?)?,
            (3, Wire::Fixed64) => usage.dollars_per_month = amount(fields.double()?)?,
            (_, wire) => fields.skip(wire)?,
        }
    }
    Ok(usage)
}

/// An amount of dollars: JSON has no other numbers than finite ones.
fn amount(dollars: f64) -> Result<f64, Malformed> {
    match dollars.is_finite() {
        true => Ok(dollars),
        false => Err(Malformed::Value("an amount of dollars is not finite")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn query(id: u64, text_bytes: usize) -> PeerQuery {
        PeerQuery {
            id,
            tenant: "t".to_owned(),
            text: "x".repeat(text_bytes),
            start_ns: -5,
            end_ns: i64::MAX,
            elapsed_us: u64::MAX,
            queue_us: u64::MAX,
            store_us: u64::MAX,
            execution_us: u64::MAX,
            memory_bytes: u64::MAX,
            read_bytes: u64::MAX,
            read_rows: u64::MAX,
            ..PeerQuery::default()
        }
    }

    #[test]
    fn a_list_has_no_more_bytes_than_its_caller_allows_and_counts_the_rest() {
        let all: Vec<PeerQuery> = (0..100).map(|n| query(n, 300)).collect();
        for most in [0, 40, 500, 5_000, 50_000, 1 << 20] {
            let list = PeerQueries::fitting(all.clone().into_iter(), most);
            assert_eq!(list.queries.len() as u64 + list.left_out, 100);
            let mut message = Vec::new();
            write_queries(&mut message, &list);
            assert!(message.len() <= most.max(ANSWER_BYTES), "{} of {most}", message.len());
            assert_eq!(read_queries(Reader::new(&message)).unwrap(), list);
        }
        let many = PeerQueries::fitting(vec![query(1, 0); QUERIES_MAX + 7].into_iter(), usize::MAX);
        assert_eq!((many.queries.len(), many.left_out), (QUERIES_MAX, 7));
    }

    #[test]
    fn a_list_of_too_many_queries_and_texts_of_other_bytes_are_refused() {
        let mut message = Vec::new();
        (0..=QUERIES_MAX).for_each(|_| message.bytes(1, &[]));
        assert!(read_queries(Reader::new(&message)).unwrap_err().to_string().contains("too many queries"));
        let mut message = Vec::new();
        message.message(1, |fields: &mut Vec<u8>| fields.bytes(3, &[0xff]));
        assert!(read_queries(Reader::new(&message)).is_err());
        assert!(tenant(&vec![b'a'; TENANT_BYTES_MAX + 1]).is_err());
        let mut message = Vec::new();
        message.double(2, f64::NAN);
        assert!(read_usage(Reader::new(&message)).is_err());
    }
}
