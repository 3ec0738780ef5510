//! The `stats` object of an answer: Prometheus's fields, and the time by phase.
//!
//! `docs/reference/query-statistics.md` explains every field.

use sandur_service::Cost;

use crate::marshal::json;

/// Encodes the object. `samples` is the number of samples that were read, `peak_samples` that of the
/// largest piece, and `reserved` the peak of reserved bytes.
pub fn object(cost: &Cost, (samples, peak_samples): (u64, u64), reserved: u64) -> Vec<u8> {
    let c = &cost.counters;
    let seconds = |ns: u64| ns as f64 / 1e9;
    let (queue, execution) = (seconds(c.queue_ns), cost.execution.as_secs_f64());
    let mut out = Vec::new();
    json::push(
        &mut out,
        format_args!(
            "{{\"timings\":{{\"evalTotalTime\":{execution},\"resultSortTime\":0,\"queryPreparationTime\":{},\
             \"innerEvalTime\":{},\"execQueueTime\":{queue},\"execTotalTime\":{}}}",
            seconds(c.index_ns),
            seconds(c.execution_ns),
            execution + queue,
        ),
    );
    json::push(
        &mut out,
        format_args!(
            ",\"samples\":{{\"totalQueryableSamples\":{samples},\"samplesRead\":{samples},\
             \"peakSamples\":{peak_samples}}}"
        ),
    );
    let times = [
        ("queue", c.queue_ns),
        ("index", c.index_ns),
        ("ram", c.page_cache_ns),
        ("flash", c.page_flash_ns),
        ("store", c.store_ns),
        ("evaluation", c.execution_ns),
        ("keptSteps", c.result_cache_ns),
    ];
    out.extend_from_slice(b",\"phases\":{");
    for (n, (name, ns)) in times.iter().enumerate() {
        let comma = if n == 0 { "" } else { "," };
        json::push(&mut out, format_args!("{comma}\"{name}\":{}", seconds(*ns)));
    }
    let amounts = [
        ("splits", c.splits),
        ("blocks", c.blocks_opened),
        ("series", c.streams),
        ("heads", c.heads_asked),
        ("pagesRead", c.pages_read),
        ("pagesFromRam", c.page_cache_hits),
        ("pagesFromFlash", c.page_flash_hits),
        ("storeRequests", c.store_requests),
        ("storeBytes", c.store_bytes),
        ("keptUnitsAsked", c.result_cache_requests),
        ("keptUnitsFound", c.result_cache_hits),
        ("keptUnitsStored", c.result_cache_stored),
        ("memoryPeakBytes", reserved),
    ];
    out.extend_from_slice(b"},\"amounts\":{");
    for (n, (name, amount)) in amounts.iter().enumerate() {
        let comma = if n == 0 { "" } else { "," };
        json::push(&mut out, format_args!("{comma}\"{name}\":{amount}"));
    }
    out.extend_from_slice(b"}}");
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_object_is_json_with_prometheus_fields() {
        let object: serde_json::Value = serde_json::from_slice(&object(&Cost::default(), (5, 3), 7)).unwrap();
        for path in ["/timings/evalTotalTime", "/timings/execQueueTime", "/phases/store", "/amounts/blocks"] {
            assert_eq!(object.pointer(path).and_then(serde_json::Value::as_f64), Some(0.0), "{path}");
        }
        assert_eq!(object["samples"]["totalQueryableSamples"], 5);
        assert_eq!(object["samples"]["peakSamples"], 3);
        assert_eq!(object["amounts"]["memoryPeakBytes"], 7);
    }
}
