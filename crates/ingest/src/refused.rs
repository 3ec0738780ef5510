//! The refused entries of a request and why: counts for metrics, and the text that the client reads.
//!
//! The reasons have the names in Loki's and Mimir's `discarded_samples_total`. The text has Loki's form:
//! equal messages are written once with a count. At most [`TEXTS_MAX`] different messages are kept, each
//! of at most [`TEXT_LENGTH_MAX`] bytes; further ones are only counted.
//!
//! The positions of refused entries are kept too, as runs of neighbours: at most [`RUNS_MAX`]. A run
//! takes less memory than its entries would have taken if they had been accepted.

use std::fmt::Write;

use sandur_model::StreamId;

/// Most different messages that are kept.
const TEXTS_MAX: usize = 10;
/// Most bytes of one message: a stream's labels may be long.
const TEXT_LENGTH_MAX: usize = 2 << 10;
/// Most bytes of a name that is kept with a message.
const NAME_LENGTH_MAX: usize = 256;
/// Most runs of refused entries that are kept.
pub const RUNS_MAX: usize = 10_000;

/// Why an entry, or all entries of a stream, were refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Reason {
    /// The label text cannot be parsed.
    InvalidLabels,
    /// The stream has no label.
    MissingLabels,
    /// The stream has more labels than allowed.
    TooManyLabels,
    /// The Graphite path has more nodes than allowed.
    TooManyNodes,
    /// A label's name is too long.
    LabelNameTooLong,
    /// A label's value is too long.
    LabelValueTooLong,
    /// A label name occurs twice.
    DuplicateLabelNames,
    /// The timestamp is older than allowed.
    TooOld,
    /// The timestamp is further in the future than allowed.
    TooNew,
    /// The line is too long.
    LineTooLong,
    /// The structured metadata is too large.
    MetadataTooLarge,
    /// There are too many pairs of structured metadata.
    MetadataTooMany,
    /// The sample is older than allowed.
    SampleTooOld,
    /// The series has no metric name.
    MissingMetricName,
    /// The metric name is invalid.
    MetricNameInvalid,
    /// A label's value is not UTF-8.
    LabelValueInvalid,
    /// The parts of a native histogram contradict each other.
    InvalidHistogram,
    /// The native histogram has more buckets than allowed.
    TooManyBuckets,
    /// The labels of an exemplar are missing, too long or not UTF-8.
    InvalidExemplar,
    /// The tenant has as many series in memory as allowed.
    TooManySeries,
    /// The sample cannot be parsed.
    InvalidSample,
    /// The data point is of a kind or temporality that is not accepted.
    UnsupportedPoint,
    /// The point of delta temporality is not newer than its series.
    DeltaOutOfOrder,
    /// The point of delta temporality has a start before that of its series.
    DeltaOlderStart,
    /// The tenant has reached its limit of series of delta temporality, or there is no memory.
    TooManyDeltaStreams,
    /// The series has another value for the same timestamp.
    DuplicateSample,
    /// The timestamp cannot be stored, whatever the limits are.
    TimestampOutOfRange,
}

impl Reason {
    /// Every reason, in the order of its discriminant.
    pub const EVERY: [Self; 27] = [
        Self::InvalidLabels,
        Self::MissingLabels,
        Self::TooManyLabels,
        Self::TooManyNodes,
        Self::LabelNameTooLong,
        Self::LabelValueTooLong,
        Self::DuplicateLabelNames,
        Self::TooOld,
        Self::TooNew,
        Self::LineTooLong,
        Self::MetadataTooLarge,
        Self::MetadataTooMany,
        Self::SampleTooOld,
        Self::MissingMetricName,
        Self::MetricNameInvalid,
        Self::LabelValueInvalid,
        Self::InvalidHistogram,
        Self::TooManyBuckets,
        Self::InvalidExemplar,
        Self::TooManySeries,
        Self::InvalidSample,
        Self::UnsupportedPoint,
        Self::DeltaOutOfOrder,
        Self::DeltaOlderStart,
        Self::TooManyDeltaStreams,
        Self::DuplicateSample,
        Self::TimestampOutOfRange,
    ];

    /// Returns the reason's name in metrics, which is Loki's.
    pub fn name(self) -> &'static str {
        match self {
            Self::InvalidLabels => "invalid_labels",
            Self::MissingLabels => "missing_labels",
            Self::TooManyLabels => "max_label_names_per_series",
            Self::TooManyNodes => "max_graphite_path_nodes",
            Self::LabelNameTooLong => "label_name_too_long",
            Self::LabelValueTooLong => "label_value_too_long",
            Self::DuplicateLabelNames => "duplicate_label_names",
            Self::TooOld => "greater_than_max_sample_age",
            Self::TooNew => "too_far_in_future",
            Self::LineTooLong => "line_too_long",
            Self::MetadataTooLarge => "structured_metadata_too_large",
            Self::MetadataTooMany => "structured_metadata_too_many",
            Self::SampleTooOld => "sample_too_old",
            Self::MissingMetricName => "missing_metric_name",
            Self::MetricNameInvalid => "metric_name_invalid",
            Self::LabelValueInvalid => "label_value_invalid",
            Self::InvalidHistogram => "invalid_native_histogram",
            Self::TooManyBuckets => "max_native_histogram_buckets",
            Self::InvalidExemplar => "exemplar_labels_invalid",
            Self::TooManySeries => "per_user_series_limit",
            Self::InvalidSample => "invalid_sample",
            Self::UnsupportedPoint => "unsupported_data_point",
            Self::DeltaOutOfOrder => "delta_out_of_order",
            Self::DeltaOlderStart => "delta_older_start",
            Self::TooManyDeltaStreams => "otlp_delta_max_streams",
            Self::DuplicateSample => "new_value_for_timestamp",
            Self::TimestampOutOfRange => "timestamp_out_of_range",
        }
    }
}

/// Refused lines and their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Count {
    lines: u64,
    bytes: u64,
}

/// One message and how often it occurred.
#[derive(Clone, Debug)]
struct KeptMessage {
    cause: Cause,
    text: String,
    /// The name as it was sent, if it is known; at most [`NAME_LENGTH_MAX`] bytes.
    name: String,
    times: u64,
}

/// Decides whether two messages are equal, so that repeated ones need not be formatted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cause {
    pub(crate) reason: Reason,
    /// The stream's id, or a hash of its name as sent.
    pub(crate) stream: StreamId,
    /// The number in the message: seconds, bytes or pairs.
    pub(crate) number: i64,
}

/// Neighbouring entries of a request that were refused for the same reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// Position of the first entry, counted from 0 across all streams of the request.
    pub first: u32,
    /// Number of entries.
    pub count: u32,
    /// The common reason.
    pub reason: Reason,
}

/// The refused part of a request. Empty when all entries were accepted.
#[derive(Clone, Debug, Default)]
pub struct Refused {
    counts: [Count; Reason::EVERY.len()],
    messages: Vec<KeptMessage>,
    others: u64,
    runs: Vec<Run>,
    /// Whether entries were refused that no run names.
    has_more_runs: bool,
}

impl Refused {
    /// Whether all entries were accepted.
    pub fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    /// Returns the number of refused lines.
    pub fn lines(&self) -> u64 {
        self.counts.iter().map(|c| c.lines).sum()
    }

    /// Returns refused lines and their bytes (line and structured metadata) by reason, without zeros.
    pub fn by_reason(&self) -> impl Iterator<Item = (Reason, u64, u64)> {
        let counted = Reason::EVERY.into_iter().zip(self.counts);
        counted.filter(|(_, c)| *c != Count::default()).map(|(reason, c)| (reason, c.lines, c.bytes))
    }

    /// Returns the positions of the refused entries; `None` when they form more than [`RUNS_MAX`] runs.
    pub fn runs(&self) -> Option<&[Run]> {
        (!self.has_more_runs).then_some(&self.runs)
    }

    /// Returns the plain-text body for the client; `None` when all entries were accepted.
    pub fn text(&self) -> Option<String> {
        joined(self.messages.iter(), self.others)
    }

    /// Returns the text of one reason, and the first name that it refused, which is empty if it is not
    /// known. Without a text of its own, as after many messages of other reasons, it is that of all.
    pub fn text_of(&self, reason: Reason) -> Option<(String, &str)> {
        let own = self.messages.iter().filter(|message| message.cause.reason == reason);
        let name = own.clone().find(|message| !message.name.is_empty()).map_or("", |message| &message.name);
        let text = match own.clone().next() {
            Some(_) => joined(own, 0),
            None => self.text(),
        };
        Some((text?, name))
    }

    /// Counts refused lines and bytes.
    pub(crate) fn count(&mut self, reason: Reason, lines: u64, bytes: u64) {
        let count = &mut self.counts[reason as usize];
        count.lines += lines;
        count.bytes += bytes;
    }

    /// Adds the refusals of another part of the same request; positions of both count across the request.
    pub fn add(&mut self, other: Self) {
        for Run { first, count, reason } in other.runs {
            self.note(reason, first, count);
        }
        self.has_more_runs |= other.has_more_runs;
        for (count, more) in self.counts.iter_mut().zip(other.counts) {
            count.lines += more.lines;
            count.bytes += more.bytes;
        }
        self.others += other.others;
        for more in other.messages {
            let has_room = self.messages.len() < TEXTS_MAX;
            match self.messages.iter_mut().find(|messages| messages.cause == more.cause) {
                Some(messages) => messages.times += more.times,
                None if has_room => self.messages.push(more),
                None => self.others += more.times,
            }
        }
    }

    /// Records the positions of refused entries, and returns the bytes of memory that this took.
    pub(crate) fn note(&mut self, reason: Reason, first: u32, count: u32) -> u64 {
        if count == 0 {
            return 0;
        }
        let has_room = self.runs.len() < RUNS_MAX;
        match self.runs.last_mut() {
            Some(run) if run.reason == reason && run.first + run.count == first => run.count += count,
            _ if has_room => {
                self.runs.push(Run { first, count, reason });
                return size_of::<Run>() as u64;
            }
            _ => self.has_more_runs = true,
        }
        0
    }

    /// Records entries that are refused after all others were recorded; `positions` ascend. An entry that
    /// was recorded before keeps its first reason.
    pub(crate) fn note_later(&mut self, reason: Reason, positions: impl Iterator<Item = u32>) {
        self.runs.sort_unstable_by_key(|run| run.first);
        let known = self.runs.clone();
        for position in positions {
            let before = known.partition_point(|run| run.first <= position);
            let is_known =
                before.checked_sub(1).is_some_and(|at| position - known[at].first < known[at].count);
            if !is_known {
                self.note(reason, position, 1);
            }
        }
        self.runs.sort_unstable_by_key(|run| run.first);
    }

    /// Marks that the positions of some refused entries are not known.
    pub(crate) fn note_unnamed(&mut self) {
        self.has_more_runs = true;
    }

    /// Counts refusals for which the client reads no message of their own.
    pub(crate) fn count_others(&mut self, times: u64) {
        self.others += times;
    }

    /// Adds the name as it was sent to the message that was reported last, unless it has one. Callers that
    /// know names call this after every refusal.
    pub(crate) fn name_last(&mut self, name: &str) {
        if let Some(last) = self.messages.last_mut().filter(|last| last.name.is_empty()) {
            name[..name.floor_char_boundary(NAME_LENGTH_MAX)].clone_into(&mut last.name);
        }
    }

    /// Adds one refusal to the client's text; calls `text` only for a message that is kept.
    pub(crate) fn report(&mut self, cause: Cause, text: impl FnOnce() -> String) {
        if let Some(messages) = self.messages.iter_mut().find(|t| t.cause == cause) {
            messages.times += 1;
        } else if self.messages.len() < TEXTS_MAX {
            let mut text = text();
            if text.len() > TEXT_LENGTH_MAX {
                text.truncate(text.floor_char_boundary(TEXT_LENGTH_MAX));
                text.push_str("...");
            }
            self.messages.push(KeptMessage { cause, text, name: String::new(), times: 1 });
        } else {
            self.others += 1;
        }
    }
}

/// Joins messages in Loki's form; `None` if there are none.
fn joined<'a>(messages: impl Iterator<Item = &'a KeptMessage> + Clone, others: u64) -> Option<String> {
    let mut first = messages.clone();
    let is_alone = first.next()?.times == 1 && first.next().is_none();
    let mut all = String::new();
    for (n, message) in messages.enumerate() {
        all.push_str(if n == 0 { "" } else { "; " });
        if !is_alone || others > 0 {
            let _ = write!(all, "{} errors like: ", message.times);
        }
        all.push_str(&message.text);
    }
    if others > 0 {
        let _ = write!(all, "; and {others} other errors");
    }
    Some(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cause(reason: Reason, number: i64) -> Cause {
        Cause { reason, stream: StreamId(1), number }
    }

    #[test]
    fn a_single_message_has_no_count_and_equal_ones_are_grouped() {
        let mut refused = Refused::default();
        assert_eq!((refused.is_empty(), refused.text()), (true, None));
        refused.report(cause(Reason::LineTooLong, 5), || "too long".to_owned());
        assert_eq!(refused.text().unwrap(), "too long");
        refused.report(cause(Reason::LineTooLong, 5), || unreachable!());
        assert_eq!(refused.text().unwrap(), "2 errors like: too long");
        refused.report(cause(Reason::TooOld, 5), || "too old".to_owned());
        assert_eq!(refused.text().unwrap(), "2 errors like: too long; 1 errors like: too old");
    }

    #[test]
    fn messages_are_bounded_in_number_and_length() {
        let mut refused = Refused::default();
        for n in 0..1000 {
            refused.report(cause(Reason::TooOld, n), || format!("{n}{}", "ä".repeat(5000)));
        }
        let text = refused.text().unwrap();
        assert!(text.ends_with("; and 990 other errors"), "{text}");
        assert!(text.len() < 11 * (TEXT_LENGTH_MAX + 100));
    }

    #[test]
    fn positions_of_refused_entries_are_kept_up_to_a_bound() {
        let mut refused = Refused::default();
        refused.note(Reason::TooOld, 3, 1);
        refused.note(Reason::TooOld, 4, 2);
        refused.note(Reason::LineTooLong, 6, 1);
        refused.note(Reason::LineTooLong, 8, 0);
        refused.note(Reason::LineTooLong, 8, 1);
        let run = |first, count, reason| Run { first, count, reason };
        let expected =
            [run(3, 3, Reason::TooOld), run(6, 1, Reason::LineTooLong), run(8, 1, Reason::LineTooLong)];
        assert_eq!(refused.runs(), Some(&expected[..]));
        for n in 0..RUNS_MAX as u32 {
            refused.note(Reason::TooOld, 10 + 2 * n, 1);
        }
        assert_eq!(refused.runs(), None, "incomplete runs are not returned");
        assert_eq!(refused.runs.len(), RUNS_MAX);
    }

    #[test]
    fn later_refusals_are_recorded_once_and_in_order() {
        let mut refused = Refused::default();
        refused.note(Reason::TooOld, 3, 2);
        refused.note(Reason::TooOld, 8, 1);
        refused.note_later(Reason::DuplicateSample, [0, 3, 4, 5, 6, 8, 9].into_iter());
        let runs: Vec<_> = refused.runs().unwrap().iter().map(|run| (run.first, run.count)).collect();
        assert_eq!(runs, [(0, 1), (3, 2), (5, 2), (8, 1), (9, 1)]);
        refused.note_unnamed();
        assert_eq!(refused.runs(), None);
    }

    #[test]
    fn runs_of_all_parts_of_a_request_are_kept() {
        let (mut all, mut part) = (Refused::default(), Refused::default());
        all.note(Reason::TooOld, 3, 1);
        part.note(Reason::TooOld, 4, 1);
        part.note(Reason::TooNew, 9, 1);
        all.add(part);
        let run = |first, count, reason| Run { first, count, reason };
        assert_eq!(all.runs(), Some(&[run(3, 2, Reason::TooOld), run(9, 1, Reason::TooNew)][..]));
        let mut scattered = Refused::default();
        for n in 0..=RUNS_MAX as u32 {
            scattered.note(Reason::TooOld, 2 * n, 1);
        }
        all.add(scattered);
        assert_eq!(all.runs(), None);
    }

    #[test]
    fn counts_are_kept_by_reason() {
        let mut refused = Refused::default();
        refused.count(Reason::TooNew, 2, 30);
        refused.count(Reason::TooNew, 1, 5);
        refused.count(Reason::MetadataTooMany, 1, 1);
        let counts: Vec<_> = refused.by_reason().collect();
        assert_eq!(counts, [(Reason::TooNew, 3, 35), (Reason::MetadataTooMany, 1, 1)]);
        assert_eq!(refused.lines(), 4);
        for (n, reason) in Reason::EVERY.into_iter().enumerate() {
            assert_eq!(reason as usize, n);
        }
    }

    #[test]
    fn each_reason_has_its_own_text_and_name() {
        let mut refused = Refused::default();
        for (reason, text, name) in [
            (Reason::TooNew, "too new", "a.b"),
            (Reason::TooManyNodes, "too deep", "n.n.n"),
            (Reason::TooNew, "too new", "a.b"),
        ] {
            refused.count(reason, 1, 0);
            refused.report(cause(reason, 0), || text.to_owned());
            refused.name_last(name);
        }
        assert_eq!(refused.text_of(Reason::TooNew), Some(("2 errors like: too new".to_owned(), "a.b")));
        assert_eq!(refused.text_of(Reason::TooManyNodes), Some(("too deep".to_owned(), "n.n.n")));
        let all = "2 errors like: too new; 1 errors like: too deep";
        assert_eq!(refused.text_of(Reason::TooOld), Some((all.to_owned(), "")));
        assert_eq!(Refused::default().text_of(Reason::TooOld), None);
    }
}
