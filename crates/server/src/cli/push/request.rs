//! Loki's push request: lines of one stream as protobuf in a snappy block.

use bytes::Bytes;
use sandur_model::Labels;

/// Lines of one stream on their way to a request.
pub struct Lines {
    labels: String,
    entries: Vec<u8>,
    count: u64,
    line_bytes: u64,
}

impl Lines {
    /// None so far, of the stream with these labels.
    pub fn of(labels: &Labels) -> Self {
        Self { labels: labels.to_string(), entries: Vec::new(), count: 0, line_bytes: 0 }
    }

    /// Adds a line.
    pub fn add(&mut self, timestamp_ns: i64, line: &[u8]) {
        let mut stamp = Vec::with_capacity(16);
        field_number(&mut stamp, 1, timestamp_ns.div_euclid(1_000_000_000) as u64);
        field_number(&mut stamp, 2, timestamp_ns.rem_euclid(1_000_000_000) as u64);
        let mut entry = Vec::with_capacity(stamp.len() + line.len() + 8);
        field_bytes(&mut entry, 1, &stamp);
        field_bytes(&mut entry, 2, line);
        field_bytes(&mut self.entries, 2, &entry);
        self.count += 1;
        self.line_bytes += line.len() as u64;
    }

    /// Bytes of the lines so far.
    pub fn line_bytes(&self) -> u64 {
        self.line_bytes
    }

    /// Lines so far.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }
}

/// The body of a push of these streams.
pub fn push_body(streams: &[Lines]) -> Bytes {
    let mut plain = Vec::new();
    for stream in streams.iter().filter(|s| !s.is_empty()) {
        let mut message = Vec::with_capacity(stream.entries.len() + stream.labels.len() + 8);
        field_bytes(&mut message, 1, stream.labels.as_bytes());
        message.extend_from_slice(&stream.entries);
        field_bytes(&mut plain, 1, &message);
    }
    let packed = snap::raw::Encoder::new().compress_vec(&plain);
    packed.expect("a batch is far below the 4 GiB that snappy takes").into()
}

/// Content type of [`push_body`].
pub const PUSH_TYPE: &str = "application/x-protobuf";

fn varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

fn field_number(out: &mut Vec<u8>, field: u64, value: u64) {
    varint(out, field << 3);
    varint(out, value);
}

fn field_bytes(out: &mut Vec<u8>, field: u64, bytes: &[u8]) {
    varint(out, field << 3 | 2);
    varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

#[cfg(test)]
mod tests {
    use sandur_model::{Limits, TenantId};

    use super::*;

    #[test]
    fn the_decoder_of_the_server_reads_the_body() {
        let labels = Labels::from_pairs([("app", "a\"b")]);
        let mut lines = Lines::of(&labels);
        lines.add(1_500_000_000_123_456_789, b"one");
        lines.add(1_500_000_001_000_000_000, b"");
        let limits = Limits { reject_old_samples_max_age: 0, ..Limits::default() };
        let headers = sandur_ingest::PushHeaders { content_type: Some(PUSH_TYPE), content_encoding: None };
        let body = push_body(&[lines, Lines::of(&labels)]);
        let tenant = TenantId::default_tenant();
        let decoded =
            sandur_ingest::loki_push(&tenant, &limits, 1_600_000_000_000_000_000, headers, body).unwrap();
        let batch = &decoded.batch;
        assert_eq!(batch.rows(), 2);
        let entry = batch.streams[0].entries[0];
        assert_eq!(entry.timestamp, 1_500_000_000_123_456_789);
        assert_eq!(entry.line.of(&batch.arena.bytes), b"one");
        assert_eq!(batch.streams[0].entries[1].line.of(&batch.arena.bytes), b"");
    }
}
