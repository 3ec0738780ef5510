//! Loki's push: `PushRequest{streams=1:{labels=1, entries=2:{timestamp=1:{seconds=1, nanos=2}, line=2,
//! structuredMetadata=3:{name=1, value=2}}}}`.

use sandur_model::SECOND_NS;

use crate::Writer;

/// Adds a stream, whose entries `write` adds with [`entry`].
pub fn stream<W: Writer>(request: &mut W, labels: &str, write: impl FnOnce(&mut W)) {
    request.message(1, |stream| {
        stream.bytes(1, labels.as_bytes());
        write(stream);
    });
}

/// Adds an entry with its structured metadata to a stream.
pub fn entry<'a>(
    stream: &mut impl Writer,
    timestamp_ns: i64,
    line: &[u8],
    metadata: impl IntoIterator<Item = (&'a str, &'a str)>,
) {
    stream.message(2, |entry| {
        entry.message(1, |timestamp| {
            timestamp.varint(1, timestamp_ns.div_euclid(SECOND_NS) as u64);
            timestamp.varint(2, timestamp_ns.rem_euclid(SECOND_NS) as u64);
        });
        entry.bytes(2, line);
        for (name, value) in metadata {
            entry.message(3, |pair| {
                pair.bytes(1, name.as_bytes());
                pair.bytes(2, value.as_bytes());
            });
        }
    });
}
