//! Carbon's protocols, from the bytes of a connection to a batch and its WAL record.

use std::rc::Rc;

use sandur_carbon::{FRAME_BYTES_MAX, PICKLE, PLAINTEXT, PROTOBUF, Protocol};
use sandur_ingest::{CARBON_SAMPLES_MAX, Push, PushHeaders, SamplePush, SeriesCache, carbon};
use sandur_model::{Limits, TenantId};

use super::counted::Counted;
use super::push::NOW_NS;

/// Memory that a decoder may request, in bytes. An input of a few KiB that requests more is a finding.
const MEMORY_MAX: u64 = 64 << 20;

/// The input is lines of the plaintext protocol.
pub fn plaintext(input: &[u8]) {
    run(&PLAINTEXT, input);
}

/// The input is pickle frames.
pub fn pickle(input: &[u8]) {
    run(&PICKLE, input);
}

/// The input is protobuf frames.
pub fn protobuf(input: &[u8]) {
    run(&PROTOBUF, input);
}

/// Decodes the input as the body of a request, and as the bytes of a connection.
fn run(protocol: &'static Protocol, input: &[u8]) {
    decode(protocol, true, input);
    let whole = match protocol.framing.cut(input, FRAME_BYTES_MAX) {
        Ok(cut) => cut.whole,
        Err(endless) => endless.whole,
    };
    assert!(whole <= input.len());
    decode(protocol, false, &input[..whole]);
}

fn decode(protocol: &'static Protocol, alone: bool, bytes: &[u8]) {
    let (limits, cache) = (Limits::default(), SeriesCache::new(64 << 10, 7));
    let tenants = [TenantId::default_tenant(), TenantId::new("b").expect("a valid name")];
    let pushes = tenants.each_ref().map(|tenant| {
        let push = Push { tenant, limits: &limits, now_ns: NOW_NS, headers: PushHeaders::default() };
        SamplePush::new(push, &cache)
    });
    let memory = Rc::new(Counted::up_to(MEMORY_MAX));
    let tenant_of = |name: &str| name.len() % 3;
    let decoded = carbon(&pushes, &tenant_of, (protocol, alone), bytes, memory);
    let decoded = decoded.expect("a few KiB exceed no limit of a request");
    assert!(decoded.rejected.shown.len() <= CARBON_SAMPLES_MAX);
    for decoded in decoded.batches {
        let batch = decoded.batch;
        assert_eq!(batch.timestamps.len(), batch.values.len());
        assert!(batch.values.iter().all(|value| !value.is_nan()));
        for series in &batch.series {
            assert!(series.text.end() <= batch.arena.bytes.len());
            assert!(sandur_model::last_write_wins(&series.labels));
        }
        super::wal::is_read_as_written(batch);
    }
}
