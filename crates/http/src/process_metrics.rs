//! Metrics of the process from the kernel, with the names of all Prometheus client libraries.

use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use sandur_runtime::machine::{ProcessFigures, process_figures};

/// Reads the values when they are scraped.
#[derive(Debug)]
pub struct ProcessMetrics;

type Gauge = (&'static str, &'static str, fn(&ProcessFigures) -> f64);

const GAUGES: [Gauge; 6] = [
    ("process_start_time_seconds", "Start of the process since the epoch", |p| p.start_seconds),
    ("process_virtual_memory_bytes", "Address space", |p| p.virtual_bytes as f64),
    ("process_resident_memory_bytes", "Resident memory", |p| p.resident_bytes as f64),
    ("process_threads", "Threads of the process", |p| p.threads as f64),
    ("process_open_fds", "Open file descriptors", |p| p.open_files as f64),
    ("process_max_fds", "Maximum number of open file descriptors", |p| p.open_files_max as f64),
];

impl Collector for ProcessMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder) -> fmt::Result {
        let Some(figures) = process_figures() else { return Ok(()) };
        let text = "Processor time in user and kernel mode";
        let counter = encoder.encode_descriptor("process_cpu_seconds", text, None, MetricType::Counter)?;
        ConstCounter::new(figures.cpu_seconds).encode(counter)?;
        for (name, text, value) in GAUGES {
            let gauge = encoder.encode_descriptor(name, text, None, MetricType::Gauge)?;
            ConstGauge::new(value(&figures)).encode(gauge)?;
        }
        Ok(())
    }
}
