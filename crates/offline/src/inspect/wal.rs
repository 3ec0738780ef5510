//! Prints a WAL segment or file: its frames and some of their rows.

use std::process::ExitCode;

use sandur_base::units::ByteSize;
use sandur_cli::moment;
use sandur_format::wal_segment::{Frame, FrameKind, FrameReader};
use sandur_model::{Batch, Exemplar, HistogramSample, LogBatch, MetricMetadata, SampleBatch, SeriesExemplar};
use sandur_terminal::Failed;

use crate::target::Object;

/// Prints the frames.
pub async fn show(object: &Object, rows: usize) -> Result<ExitCode, Failed> {
    let bytes = object.read_all().await.map_err(Failed::new)?;
    println!("WAL {} with {}", object.path, ByteSize(object.size));
    let mut reader = FrameReader::new(bytes);
    loop {
        match reader.next_frame() {
            Ok(Some(frame)) => show_frame(&frame, rows),
            Ok(None) => return Ok(ExitCode::SUCCESS),
            Err(sandur_format::Error::Torn { valid_len }) => {
                println!(
                    "the rest from byte {valid_len} on is an incomplete frame: it was being written when the \
                     writer stopped and was not acknowledged, or the file was cut later"
                );
                return Ok(ExitCode::SUCCESS);
            }
            Err(error) => return Err(Failed::new(format!("'{}': {error}", object.path))),
        }
    }
}

fn show_frame(frame: &Frame, rows: usize) {
    let header = frame.header();
    let (incarnation, sequence) = (header.id.incarnation, header.id.sequence);
    let place = format!("frame {sequence} of {incarnation} at byte {}", frame.offset());
    if header.kind == FrameKind::Fence {
        println!("{place}: a fence; the writer was sealed here");
        return;
    }
    let (version, bytes) = (header.version, ByteSize(header.body_len));
    println!("{place}, version {version}: {} batches in {bytes}", frame.len());
    for record in 0..frame.len() {
        let batch = match frame.batch(record) {
            Ok(batch) => batch,
            Err(error) => {
                println!("  batch {record} of tenant {}: {error}", frame.tenant(record));
                continue;
            }
        };
        println!("  {}: {} rows, {}", batch.dataset(), batch.rows(), ByteSize(batch.raw_bytes()));
        match batch {
            Batch::Logs(batch) => show_entries(&batch, rows),
            Batch::Metrics(batch) => show_samples(&batch, rows),
        }
    }
}

fn show_entries(batch: &LogBatch, rows: usize) {
    let entries = batch.streams.iter().flat_map(|s| s.entries.iter().map(move |e| (s, e)));
    for (stream, entry) in entries.take(rows) {
        let line = String::from_utf8_lossy(entry.line.of(&batch.arena.bytes));
        println!("    {} {} {line}", moment::show(entry.timestamp), stream.labels);
    }
}

fn show_samples(batch: &SampleBatch, rows: usize) {
    let moment = |timestamp_ms: i64| moment::show(timestamp_ms.saturating_mul(1_000_000));
    let floats = batch.series.iter().flat_map(|s| batch.samples_of(s).map(move |sample| (s, sample)));
    for (series, (timestamp, value)) in floats.take(rows) {
        println!("    {} {} {value}", moment(timestamp), series.labels);
    }
    let histograms = batch.series.iter().flat_map(|s| batch.histograms_of(s).iter().map(move |h| (s, h)));
    for (series, HistogramSample { timestamp, histogram, .. }) in histograms.take(rows) {
        let (count, sum) = (histogram.count, histogram.sum);
        println!("    {} {} histogram with count {count} and sum {sum}", moment(*timestamp), series.labels);
    }
    for SeriesExemplar { series, exemplar } in batch.exemplars.iter().take(rows) {
        let Some(series) = batch.series.get(*series as usize) else { continue };
        let Exemplar { labels, value, timestamp } = exemplar;
        println!("    {} {} exemplar {labels} {value}", moment(*timestamp), series.labels);
    }
    for MetricMetadata { family, kind, unit, help } in batch.metadata.iter().take(rows) {
        println!("    metadata of {family}: {kind}, unit {unit:?}, {help:?}");
    }
}
