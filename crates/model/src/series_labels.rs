//! The labels of a series of a batch: ready, or parsed from a Graphite name on first use.
//!
//! Graphite senders repeat the path of a series in every point. Once the id of a series is known, most
//! of its labels are never read, so they are not stored but parsed from the name when they are needed.

use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;

use crate::arena::Span;
use crate::graphite_name::GraphiteName;
use crate::labels::Labels;

/// Bytes that a separately allocated name uses besides its text.
const NAME_BYTES: u64 = 48;

/// Labels of a series; dereferences to [`Labels`].
#[derive(Clone, Debug)]
pub struct SeriesLabels {
    source: Source,
    count: u32,
}

#[derive(Clone, Debug)]
enum Source {
    AtHand(Arc<Labels>),
    Named(Name),
}

/// A Graphite name, and its labels once they have been parsed.
#[derive(Clone, Debug, Default)]
struct Name {
    labels: OnceLock<Arc<Labels>>,
    /// A text that contains the name as it was sent.
    text: Option<Arc<Bytes>>,
    place: Span,
    has_own_text: bool,
}

impl SeriesLabels {
    /// Labels that exist already; `count` is their number.
    #[inline]
    pub fn ready(labels: Arc<Labels>, count: u32) -> Self {
        Self { source: Source::AtHand(labels), count }
    }

    /// The `count` labels of a Graphite name, which must be valid.
    pub fn of_name(name: &str, count: u32) -> Self {
        let place = Span { start: 0, len: name.len() as u32 };
        let text = Some(Arc::new(Bytes::copy_from_slice(name.as_bytes())));
        let name = Name { labels: OnceLock::new(), text, place, has_own_text: true };
        Self { source: Source::Named(name), count }
    }

    /// `count` labels of a name that [`Self::set_text`] provides before the labels are used.
    pub fn unnamed(count: u32) -> Self {
        Self { source: Source::Named(Name::default()), count }
    }

    /// Whether neither the labels nor the name are known.
    #[inline]
    pub fn is_unnamed(&self) -> bool {
        matches!(&self.source, Source::Named(name) if name.is_unknown())
    }

    /// Sets the text that contains the name, and its position, unless the name or the labels are known.
    #[inline]
    pub fn set_text(&mut self, text: &Arc<Bytes>, place: Span) {
        match &mut self.source {
            Source::Named(name) if name.is_unknown() => {
                (name.text, name.place) = (Some(Arc::clone(text)), place);
            }
            Source::Named(_) | Source::AtHand(_) => {}
        }
    }

    /// The number of labels; does not parse the name.
    pub fn count(&self) -> usize {
        self.count as usize
    }

    /// The labels as a shared pointer; parses the name on first use.
    pub fn shared(&self) -> &Arc<Labels> {
        match &self.source {
            Source::AtHand(labels) => labels,
            Source::Named(name) => name.labels.get_or_init(|| Arc::new(name.read().unwrap_or_default())),
        }
    }

    /// Bytes of the name, if it is allocated for these labels only; else 0.
    #[inline]
    pub fn name_bytes(&self) -> u64 {
        match &self.source {
            Source::Named(name) if name.has_own_text => u64::from(name.place.len) + NAME_BYTES,
            Source::Named(_) | Source::AtHand(_) => 0,
        }
    }
}

impl Name {
    #[inline]
    fn is_unknown(&self) -> bool {
        self.text.is_none() && self.labels.get().is_none()
    }

    fn read(&self) -> Option<Labels> {
        let place = self.place.start as usize..self.place.end();
        let name = std::str::from_utf8(self.text.as_ref()?.get(place)?).ok()?;
        GraphiteName::parse(name).labels().ok()
    }
}

impl From<Arc<Labels>> for SeriesLabels {
    fn from(labels: Arc<Labels>) -> Self {
        let count = labels.len() as u32;
        Self::ready(labels, count)
    }
}

impl Deref for SeriesLabels {
    type Target = Labels;

    fn deref(&self) -> &Labels {
        self.shared()
    }
}

impl fmt::Display for SeriesLabels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.shared().fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_parsed_from_the_name_on_first_use() {
        let of_name = SeriesLabels::of_name("m;a=b", 3);
        assert_eq!((of_name.count(), of_name.name_bytes()), (3, 5 + NAME_BYTES));
        assert_eq!((of_name.len(), of_name.get("a")), (3, Some("b")));
        let mut in_text = SeriesLabels::unnamed(3);
        in_text.set_text(&Arc::new(Bytes::from_static(b"..m;a=b 1")), Span { start: 2, len: 5 });
        assert_eq!((in_text.count(), in_text.name_bytes(), in_text.get("a")), (3, 0, Some("b")));
        let at_hand = SeriesLabels::from(Arc::new(Labels::from_pairs([("__name__", "m")])));
        assert_eq!((at_hand.count(), at_hand.name_bytes(), at_hand.get("__name__")), (1, 0, Some("m")));
    }
}
