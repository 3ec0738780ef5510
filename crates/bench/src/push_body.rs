//! Push bodies as protobuf in a snappy block: Loki's from generated streams, remote write 1 from series.

use sandur_model::SECOND_NS;

use crate::services::Stream;

/// Encodes a push of these streams as protobuf.
pub fn protobuf(streams: &[Stream]) -> Vec<u8> {
    let text: u64 = streams.iter().map(Stream::text_bytes).sum();
    let mut request = Vec::with_capacity(text as usize * 5 / 4);
    let (mut stream_bytes, mut entry) = (Vec::new(), Vec::new());
    for stream in streams {
        stream_bytes.clear();
        field(&mut stream_bytes, 1, stream.labels.to_string().as_bytes());
        for line in &stream.lines {
            entry.clear();
            let mut time = Vec::with_capacity(16);
            number(&mut time, 1, line.timestamp.div_euclid(SECOND_NS) as u64);
            number(&mut time, 2, line.timestamp.rem_euclid(SECOND_NS) as u64);
            field(&mut entry, 1, &time);
            field(&mut entry, 2, line.text.as_bytes());
            for (name, value) in &line.metadata {
                let mut pair = Vec::with_capacity(name.len() + value.len() + 4);
                field(&mut pair, 1, name.as_bytes());
                field(&mut pair, 2, value.as_bytes());
                field(&mut entry, 3, &pair);
            }
            field(&mut stream_bytes, 2, &entry);
        }
        field(&mut request, 1, &stream_bytes);
    }
    request
}

/// Encodes a push of these streams as it is sent, with `Content-Type: application/x-protobuf`.
pub fn snappy(streams: &[Stream]) -> Vec<u8> {
    let plain = protobuf(streams);
    snap::raw::Encoder::new().compress_vec(&plain).expect("a push is far below snappy's 4 GiB")
}

/// A series with samples in milliseconds.
#[derive(Clone, Debug)]
pub struct SampledSeries {
    /// Label names and values.
    pub labels: Vec<(&'static str, String)>,
    /// Times in milliseconds since the epoch, and values.
    pub samples: Vec<(i64, f64)>,
}

/// Encodes a body of Prometheus's remote write 1 as it is sent.
pub fn remote_write(series: &[SampledSeries]) -> Vec<u8> {
    let (mut request, mut one, mut part) = (Vec::new(), Vec::new(), Vec::new());
    for SampledSeries { labels, samples } in series {
        one.clear();
        for (name, value) in labels {
            part.clear();
            field(&mut part, 1, name.as_bytes());
            field(&mut part, 2, value.as_bytes());
            field(&mut one, 1, &part);
        }
        for (time, value) in samples {
            part.clear();
            varint(&mut part, 1 << 3 | 1);
            part.extend_from_slice(&value.to_le_bytes());
            number(&mut part, 2, *time as u64);
            field(&mut one, 2, &part);
        }
        field(&mut request, 1, &one);
    }
    snap::raw::Encoder::new().compress_vec(&request).expect("a push is far below snappy's 4 GiB")
}

fn varint(into: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        into.push(value as u8 | 0x80);
        value >>= 7;
    }
    into.push(value as u8);
}

fn number(into: &mut Vec<u8>, field: u64, value: u64) {
    varint(into, field << 3);
    varint(into, value);
}

fn field(into: &mut Vec<u8>, field: u64, value: &[u8]) {
    varint(into, field << 3 | 2);
    varint(into, value.len() as u64);
    into.extend_from_slice(value);
}

#[cfg(test)]
mod tests {
    use sandur_ingest::{PushHeaders, loki_push};
    use sandur_model::{Level, Limits, TenantId};

    use super::*;
    use crate::services::Services;

    #[test]
    fn the_decoder_decodes_generated_pushes() {
        let second = 1_795_176_000;
        let streams = Services::new(3, 2).between(second, second + 20, 20.0);
        let body = snappy(&streams).into();
        let now = (second + 20) * SECOND_NS;
        let tenant = TenantId::default_tenant();
        let decoded = loki_push(&tenant, &Limits::default(), now, PushHeaders::default(), body).unwrap();
        assert!(decoded.refused.is_empty(), "{:?}", decoded.refused.text());
        let batch = decoded.batch;
        assert_eq!(batch.streams.len(), streams.len());
        let mut levels = Vec::new();
        for (sent, stored) in streams.iter().zip(&batch.streams) {
            assert_eq!(stored.labels.get("app"), sent.labels.get("app"));
            assert_eq!(sent.lines.len(), stored.entries.len());
            for (line, entry) in sent.lines.iter().zip(&stored.entries) {
                assert_eq!(
                    (line.timestamp, line.text.as_bytes()),
                    (entry.timestamp, entry.line.of(&batch.arena.bytes))
                );
                let metadata: Vec<(&[u8], &[u8])> = batch.metadata_of(entry).collect();
                assert_eq!(metadata.len(), line.metadata.len());
                levels.push(entry.level);
            }
        }
        for level in [Level::Debug, Level::Info, Level::Warn, Level::Unknown] {
            assert!(levels.contains(&level), "{level:?}");
        }
    }
}
