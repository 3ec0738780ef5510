//! Verifies the WAL: every frame of writers whose rows are not all in blocks, and missing frames.
//!
//! Known: a sealed writer's WAL ends at its fence, so every frame from its floor to the fence must exist;
//! frames are numbered, so a gap is visible. Unknown: the last frame of a writer that did not stop
//! cleanly. Its last frames, or all of them, may have been deleted, or a file truncated at the end of a
//! frame, without a trace. In this case the report says that it cannot tell.

use std::collections::BTreeSet;

use sandur_base::Id;
use sandur_format::catalog_entry::{WalKind, Writer};
use sandur_format::wal_segment::{FrameHeader, FrameId, FrameKind, FrameReader};
use sandur_store::{Intent, ObjectInfo, Store};

use crate::check_report::{CheckReport, Severity};
use crate::error::Error;
use crate::names;
use crate::snapshot::Snapshot;

/// Findings after which the check stops: damaged numbers could produce any number of them.
const FINDINGS_MAX: usize = 10_000;

pub(crate) async fn check_wal(
    store: &Store,
    snapshot: &Snapshot,
    report: &mut CheckReport,
) -> Result<(), Error> {
    for writer in snapshot.writers().values().filter(|writer| !writer.is_drained()) {
        let objects = store.list(&names::wal_of(writer.incarnation), Intent::wal()).await?;
        let mut frames = Frames::default();
        for object in &objects {
            check_object(store, object, (writer.incarnation, Some(writer)), report, &mut frames).await?;
        }
        check_numbers(writer, &frames, report);
        if report.findings.len() > FINDINGS_MAX {
            report.damage(names::WAL, "there are too many findings to list");
            return Ok(());
        }
    }
    for name in store.list_prefixes(names::WAL, Intent::wal()).await? {
        let Ok(incarnation) = name.parse::<Id>() else {
            let unknown = "is not the WAL of a writer, so its contents are unknown";
            report.add(Severity::Unknown, format!("{}/{name}", names::WAL), unknown);
            continue;
        };
        if snapshot.writer(incarnation).is_none() {
            check_unknown_writer(store, incarnation, report).await?;
        }
    }
    Ok(())
}

/// The frames that were found of one writer.
#[derive(Default)]
struct Frames {
    present: BTreeSet<u64>,
    fence: Option<u64>,
}

/// Verifies every frame of one object. In the file that was being written, a torn end is normal.
async fn check_object(
    store: &Store,
    object: &ObjectInfo,
    (incarnation, writer): (Id, Option<&Writer>),
    report: &mut CheckReport,
    found: &mut Frames,
) -> Result<(), Error> {
    let bytes = match store.get(&object.path, Intent::wal()).await {
        Ok(bytes) => bytes,
        // The object was flushed and deleted since it was listed.
        Err(error) if error.is_not_found() => return Ok(()),
        Err(error) => return Err(error.into()),
    };
    let (size, mut reader) = (bytes.len(), FrameReader::new(bytes));
    // In a bucket the object's name gives the frame's number, even if its bytes are damaged.
    let in_bucket = writer.is_some_and(|writer| writer.wal == WalKind::Bucket);
    let named = names::wal_sequence(&object.path).filter(|_| in_bucket);
    found.present.extend(named);
    loop {
        let problem = match reader.next_frame() {
            Ok(None) => return Ok(()),
            Ok(Some(frame)) => {
                let header = frame.header();
                if let Some(problem) = misplaced(header, incarnation, named) {
                    report.damage(&object.path, problem);
                    return Ok(());
                }
                if header.kind == FrameKind::Fence {
                    found.fence = Some(header.id.sequence);
                    found.present.remove(&header.id.sequence);
                    continue;
                }
                found.present.insert(header.id.sequence);
                match frame.batches() {
                    Ok(batches) => {
                        report.frames += 1;
                        report.wal_rows += batches.iter().map(|b| b.rows() as u64).sum::<u64>();
                        continue;
                    }
                    Err(error) => error.to_string(),
                }
            }
            Err(sandur_format::Error::Torn { valid_len })
                if writer.is_none_or(|w| w.wal == WalKind::Local) =>
            {
                let problem = torn(&reader, size, valid_len);
                report.add(Severity::Unknown, &object.path, problem);
                return Ok(());
            }
            Err(error) => error.to_string(),
        };
        let live = match writer.is_some_and(|writer| writer.is_sealed()) {
            true => "",
            false => "; its writer may be running, check again",
        };
        report.damage(&object.path, format!("{problem}{live}"));
        return Ok(());
    }
}

/// Describes the end of a file that is not a complete frame.
fn torn(reader: &FrameReader, size: usize, at: u64) -> String {
    match reader.ends_within_frame() {
        true => format!(
            "ends at byte {size} in the middle of a frame that begins at byte {at}: cannot tell whether that \
             frame was being written when the writer stopped, and so was never acknowledged, or \
             whether the file was cut later"
        ),
        false => format!(
            "its last frame, from byte {at} to byte {size}, is not what was written: cannot tell whether \
             power was lost while it was written, so that it was never acknowledged, or whether it was \
             damaged later"
        ),
    }
}

/// Returns why a complete frame is in the wrong place: it belongs to another writer, or its number
/// differs from the object's name. Readers of the WAL skip such a frame.
fn misplaced(header: &FrameHeader, incarnation: Id, named: Option<u64>) -> Option<String> {
    let FrameId { incarnation: found, sequence } = header.id;
    let is_here = found == incarnation && named.is_none_or(|named| named == sequence);
    (!is_here).then(|| format!("holds frame {sequence} of writer {found}, which belongs elsewhere"))
}

/// Reports frames that are missing from the sequence.
fn check_numbers(writer: &Writer, frames: &Frames, report: &mut CheckReport) {
    let Writer { incarnation, floor, fence, wal, .. } = *writer;
    let directory = names::wal_of(incarnation);
    let end = fence.or_else(|| frames.present.last().map(|last| last + 1)).unwrap_or(floor);
    let mut next = floor;
    for present in frames.present.range(floor..end.max(floor)).copied().chain([end.max(floor)]) {
        if next < present {
            let missing = match present - next {
                1 => format!("frame {next} is missing"),
                count => format!("{count} frames from {next} on are missing"),
            };
            if wal == WalKind::Bucket && fence.is_some() {
                let rows = if present - next == 1 { "its rows are lost" } else { "their rows are lost" };
                report.damage(names::wal_object(incarnation, next), format!("{missing}: {rows}"));
            } else {
                let problem = format!(
                    "{missing}: cannot tell whether they were never acknowledged, as after a failed \
                     write, or whether they were deleted and their rows are lost"
                );
                report.add(Severity::Unknown, names::wal_object(incarnation, next), problem);
            }
        }
        next = present + 1;
    }
    if fence.is_none() {
        let last = match frames.present.last() {
            Some(last) => format!("more than frame {last}"),
            None => format!("frames from {floor} on, none of which exists"),
        };
        let problem = format!(
            "cannot tell whether this writer acknowledged {last}: it is running or did not stop cleanly, \
             and nothing else says where its WAL ends"
        );
        report.add(Severity::Unknown, directory, problem);
    }
}

/// Reports the WAL of a writer that the catalog does not know.
async fn check_unknown_writer(store: &Store, incarnation: Id, report: &mut CheckReport) -> Result<(), Error> {
    let objects = store.list(&names::wal_of(incarnation), Intent::wal()).await?;
    let mut frames = Frames::default();
    for object in &objects {
        check_object(store, object, (incarnation, None), report, &mut frames).await?;
    }
    let before_fence = |sequence: &&u64| frames.fence.is_none_or(|fence| **sequence < fence);
    let count = frames.present.iter().filter(before_fence).count();
    if count > 0 {
        let problem = format!(
            "the catalog does not know this writer, of which {count} frames exist: cannot tell whether they \
             were written too late to be acknowledged, or the catalog has lost the writer"
        );
        report.add(Severity::Unknown, names::wal_of(incarnation), problem);
    }
    Ok(())
}
