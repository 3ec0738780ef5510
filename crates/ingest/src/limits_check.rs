//! The limits of a tenant and of a request, and their error messages.
//!
//! Streams are checked for their labels. Entries are checked for age, line length and structured
//! metadata, in this order, which is Loki's; the first broken limit decides the reason. The messages are
//! Loki's.

use sandur_model::{DAY_NS, Labels, Limits, SECOND_NS};

use crate::labels_cache::KnownStream;
use crate::refused::Reason;

/// Most streams of one request, so that memory stays in proportion to the body.
pub const STREAMS_MAX: usize = 200_000;
/// Most entries of one request.
pub const ENTRIES_MAX: usize = 2_000_000;
/// Most structured-metadata pairs of all entries of one request.
pub const METADATA_PAIRS_MAX: usize = 4_000_000;
/// Most bytes of one stream's label text as sent.
pub const LABELS_TEXT_MAX: usize = 64 << 10;
/// Most bytes of all label texts of one request: a label set takes about ten times its text in memory.
pub const REQUEST_LABELS_TEXT_MAX: usize = 16 << 20;
/// Most levels of nested values (attributes and bodies of OTLP).
pub const VALUE_DEPTH_MAX: u32 = 24;

/// A limit that an entry breaks: the reason, and the number that its message names.
pub(crate) type Broken = (Reason, i64);

/// The limits of one entry, converted so that each check is one comparison.
#[derive(Clone, Debug)]
pub(crate) struct EntryLimits {
    oldest: i64,
    newest: i64,
    line_size: u64,
    truncate: bool,
    metadata_size: u64,
    metadata_count: u64,
}

/// The first and the last time that an entry may have, whatever the tenant's limits are. Code that works
/// with time windows needs the start and end of the surrounding day, and these must be valid times too.
const EARLIEST_NS: i64 = i64::MIN + 2 * DAY_NS;
const LATEST_NS: i64 = i64::MAX - 2 * DAY_NS;

impl EntryLimits {
    /// Returns the limits as of `now_ns`.
    pub(crate) fn new(limits: &Limits, now_ns: i64) -> Self {
        let unlimited = |limit: u64| if limit == 0 { u64::MAX } else { limit };
        let oldest = match limits.reject_old_samples_max_age {
            0 => i64::MIN,
            age => now_ns.saturating_sub(age),
        };
        Self {
            oldest: oldest.max(EARLIEST_NS),
            newest: now_ns.saturating_add(limits.creation_grace_period).min(LATEST_NS),
            line_size: unlimited(limits.max_line_size),
            truncate: limits.max_line_size_truncate,
            metadata_size: unlimited(limits.max_structured_metadata_size),
            // `detected_level` may be added: one more pair must fit a 16-bit count.
            metadata_count: unlimited(limits.max_structured_metadata_entries_count)
                .min(u64::from(u16::MAX) - 1),
        }
    }

    /// Checks the timestamp of an entry, in nanoseconds.
    #[inline]
    pub(crate) fn check_time(&self, timestamp: i64) -> Result<(), Broken> {
        if timestamp < self.oldest {
            return Err((Reason::TooOld, timestamp.div_euclid(SECOND_NS)));
        }
        if timestamp > self.newest {
            return Err((Reason::TooNew, timestamp.div_euclid(SECOND_NS)));
        }
        Ok(())
    }

    /// Returns how many bytes of a line to keep: all, or the limit when longer lines are truncated.
    #[inline]
    pub(crate) fn check_line(&self, line: &[u8]) -> Result<usize, Broken> {
        if line.len() as u64 <= self.line_size {
            return Ok(line.len());
        }
        if !self.truncate {
            return Err((Reason::LineTooLong, line.len() as i64));
        }
        let mut end = self.line_size as usize;
        // do not cut a character; it has at most three continuation bytes
        while end > 0 && self.line_size as usize - end < 3 && line[end] & 0xC0 == 0x80 {
            end -= 1;
        }
        Ok(end)
    }

    /// Checks the size in bytes and the number of pairs of structured metadata.
    #[inline]
    pub(crate) fn check_metadata(&self, bytes: u64, pairs: usize) -> Result<(), Broken> {
        if bytes > self.metadata_size {
            return Err((Reason::MetadataTooLarge, bytes as i64));
        }
        if pairs as u64 > self.metadata_count {
            return Err((Reason::MetadataTooMany, pairs as i64));
        }
        Ok(())
    }

    /// Returns the message for a broken limit.
    pub(crate) fn text(&self, (reason, number): Broken, labels: &Labels) -> String {
        match reason {
            Reason::TooOld => format!(
                "entry for stream '{labels}' has timestamp too old: {}, oldest acceptable timestamp is: {}",
                rfc3339(number),
                rfc3339(self.oldest.div_euclid(SECOND_NS))
            ),
            Reason::TooNew => {
                format!("entry for stream '{labels}' has timestamp too new: {}", rfc3339(number))
            }
            Reason::LineTooLong => format!(
                "max entry size '{}' bytes exceeded for stream '{labels}' while adding an entry with length \
                 '{number}' bytes",
                self.line_size
            ),
            Reason::MetadataTooLarge => format!(
                "stream '{labels}' has structured metadata too large: '{number}' bytes, limit: '{}' bytes. \
                 Please see `limits_config.max_structured_metadata_size` or contact your administrator to \
                 increase it",
                self.metadata_size
            ),
            _ => format!(
                "stream '{labels}' has too many structured metadata labels: '{number}', limit: '{}'. Please \
                 see `limits_config.max_structured_metadata_entries_count` or contact your administrator to \
                 increase it",
                self.metadata_count
            ),
        }
    }
}

/// Formats seconds since the epoch in RFC 3339, in UTC.
fn rfc3339(seconds: i64) -> String {
    match jiff::Timestamp::from_second(seconds) {
        Ok(time) => time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
        Err(_) => format!("{seconds} s"),
    }
}

/// Checks the labels of a stream. The error has the reason and the message.
pub(crate) fn check_labels(stream: &KnownStream, limits: &Limits) -> Result<(), (Reason, String)> {
    let labels = &*stream.labels;
    if labels.is_empty() {
        let text = "error at least one label pair is required per stream".to_owned();
        return Err((Reason::MissingLabels, text));
    }
    let names = labels.len() as u64 - u64::from(stream.has_service_name);
    let limit = limits.max_label_names_per_series;
    if limit > 0 && names > limit {
        let text = format!("entry for stream '{labels}' has {names} label names; limit {limit}");
        return Err((Reason::TooManyLabels, text));
    }
    let over = |length: u32, limit: u64| limit > 0 && u64::from(length) > limit;
    if over(stream.longest_name, limits.max_label_name_length)
        && let Some((name, _)) =
            labels.iter().find(|(n, _)| over(n.len() as u32, limits.max_label_name_length))
    {
        let text = format!("stream '{labels}' has label name too long: '{name}'");
        return Err((Reason::LabelNameTooLong, text));
    }
    if over(stream.longest_value, limits.max_label_value_length)
        && let Some((_, value)) =
            labels.iter().find(|(_, v)| over(v.len() as u32, limits.max_label_value_length))
    {
        let text = format!("stream '{labels}' has label value too long: '{value}'");
        return Err((Reason::LabelValueTooLong, text));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2026-11-20T12:00:00Z.
    const NOON: i64 = 1_795_176_000 * SECOND_NS;

    fn limits() -> Limits {
        Limits { max_line_size: 10, max_structured_metadata_size: 20, ..Limits::default() }
    }

    #[test]
    fn messages_name_stream_time_and_limit() {
        let entry = EntryLimits::new(&limits(), NOON);
        let labels = Labels::parse(r#"{app="a"}"#).unwrap();
        let text = |broken: Result<(), Broken>| entry.text(broken.unwrap_err(), &labels);
        assert_eq!(
            text(entry.check_time(NOON - 8 * 86_400 * SECOND_NS)),
            "entry for stream '{app=\"a\"}' has timestamp too old: 2026-11-12T12:00:00Z, oldest acceptable \
             timestamp is: 2026-11-13T12:00:00Z"
        );
        assert_eq!(
            text(entry.check_time(NOON + 3600 * SECOND_NS)),
            "entry for stream '{app=\"a\"}' has timestamp too new: 2026-11-20T13:00:00Z"
        );
        assert_eq!(
            text(entry.check_line(b"12345678901").map(|_| ())),
            "max entry size '10' bytes exceeded for stream '{app=\"a\"}' while adding an entry with length \
             '11' bytes"
        );
        assert!(text(entry.check_metadata(21, 1)).starts_with(
            "stream '{app=\"a\"}' has structured metadata too large: '21' bytes, limit: '20' bytes. Please"
        ));
        assert!(text(entry.check_metadata(1, 129)).starts_with(
            "stream '{app=\"a\"}' has too many structured metadata labels: '129', limit: '128'. Please"
        ));
        assert!(text(entry.check_time(i64::MIN)).contains("too old: 1677-09-21T"));
    }

    #[test]
    fn limits_are_inclusive_and_can_be_disabled() {
        let entry = EntryLimits::new(&limits(), NOON);
        let week = 7 * 86_400 * SECOND_NS;
        assert!(entry.check_time(NOON - week).is_ok() && entry.check_time(NOON - week - 1).is_err());
        let grace = 600 * SECOND_NS;
        assert!(entry.check_time(NOON + grace).is_ok() && entry.check_time(NOON + grace + 1).is_err());
        assert!(entry.check_line(b"1234567890").is_ok() && entry.check_metadata(20, 128).is_ok());
        let none = Limits {
            reject_old_samples_max_age: 0,
            max_line_size: 0,
            max_structured_metadata_size: 0,
            max_structured_metadata_entries_count: 0,
            ..limits()
        };
        let entry = EntryLimits::new(&none, NOON);
        assert!(entry.check_time(0).is_ok() && entry.check_line(&[0; 1000]).is_ok());
        assert!(entry.check_metadata(1 << 30, 65_534).is_ok() && entry.check_metadata(0, 65_535).is_err());
        let endless = Limits { creation_grace_period: i64::MAX, ..none };
        let entry = EntryLimits::new(&endless, NOON);
        assert!(entry.check_time(i64::MAX).is_err() && entry.check_time(i64::MIN).is_err(), "time bounds");
        assert!(entry.check_time(LATEST_NS).is_ok() && entry.check_time(EARLIEST_NS).is_ok());
    }

    #[test]
    fn lines_are_truncated_at_a_character_boundary() {
        let entry = EntryLimits::new(&Limits { max_line_size_truncate: true, ..limits() }, NOON);
        for (line, kept) in [("12345678901234", 10), ("123456789ä", 9), ("12345678€90", 8), ("short", 5)] {
            assert_eq!(entry.check_line(line.as_bytes()), Ok(kept), "{line}");
        }
        assert_eq!(entry.check_line(&[0x80; 20]), Ok(7)); // not UTF-8: the cut position does not matter
    }

    #[test]
    fn the_number_and_lengths_of_labels_are_limited() {
        let limits = Limits {
            max_label_names_per_series: 2,
            max_label_name_length: 4,
            max_label_value_length: 6,
            ..Limits::default()
        };
        let check = |text: &str| {
            let stream = KnownStream::new(Labels::parse(text).unwrap());
            check_labels(&stream, &limits).map_err(|(reason, text)| (reason.name(), text))
        };
        assert_eq!(check(r#"{a="b", c="d"}"#), Ok(()));
        assert!(check(r#"{a="b", c="d", e="f"}"#).unwrap_err().1.contains("has 3 label names; limit 2"));
        let text = r#"stream '{abcde="f"}' has label name too long: 'abcde'"#.to_owned();
        assert_eq!(check(r#"{abcde="f"}"#), Err(("label_name_too_long", text)));
        let text = r#"stream '{a="1234567"}' has label value too long: '1234567'"#.to_owned();
        assert_eq!(check(r#"{a="1234567"}"#), Err(("label_value_too_long", text)));
        assert_eq!(check("{}").unwrap_err().0, "missing_labels");
        assert_eq!(check(r#"{a=""}"#).unwrap_err().0, "missing_labels");
    }
}
