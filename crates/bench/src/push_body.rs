//! Push bodies as protobuf in a snappy block: Loki's from generated streams, remote write 1 from series.

use sandur_protobuf::{loki, prometheus};

use crate::services::Stream;

/// Encodes a push of these streams as protobuf.
pub fn protobuf(streams: &[Stream]) -> Vec<u8> {
    let text: u64 = streams.iter().map(Stream::text_bytes).sum();
    let mut request = Vec::with_capacity(text as usize * 5 / 4);
    for stream in streams {
        loki::stream(&mut request, &stream.labels.to_string(), |entries| {
            for line in &stream.lines {
                let metadata = line.metadata.iter().map(|(name, value)| (&**name, &**value));
                loki::entry(entries, line.timestamp, line.text.as_bytes(), metadata);
            }
        });
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
    let mut request = Vec::new();
    for SampledSeries { labels, samples } in series {
        let pairs = labels.iter().map(|(name, value)| (*name, value.as_str()));
        prometheus::series(&mut request, pairs, samples.iter().copied());
    }
    snap::raw::Encoder::new().compress_vec(&request).expect("a push is far below snappy's 4 GiB")
}

#[cfg(test)]
mod tests {
    use sandur_ingest::{PushHeaders, loki_push};
    use sandur_model::{Level, Limits, SECOND_NS, TenantId};

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
