//! Warnings and infos about a query, in Prometheus's words, with their places in its text.
//!
//! Equal notes are stored once, with the place of the last one. A note holds only numbers, so that adding
//! one for every sample costs no allocation.

use foldhash::{HashMap, HashMapExt};

use crate::labels::{LabelPool, Text};
use crate::span::Span;
use crate::text::{GoNumber, quote};
use crate::token::Kind;

/// The operation during which histograms needed a note.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HistogramOperation {
    /// A sum of two histograms.
    Addition,
    /// A difference of two histograms.
    Subtraction,
    /// A sum over the histograms of an aggregation or a window.
    Aggregation,
}

impl HistogramOperation {
    fn name(self) -> &'static str {
        match self {
            Self::Addition => "addition",
            Self::Subtraction => "subtraction",
            Self::Aggregation => "aggregation",
        }
    }
}

/// A warning or an info. Floats are stored as their bits, so that notes can be compared and hashed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)] // their texts are below
pub enum Note {
    InvalidQuantile(u64),
    InvalidIntegralRule(u64),
    InvalidRatio(u64, u64),
    BadBucketLabel(Text, Text),
    MixedFloatsHistograms(Text),
    MixedInAggregation,
    MixedClassicNative(Text),
    NotCounter(Text),
    NotGauge(Text),
    MixedExponentialCustom(Text),
    IncompatibleLayout(Kind),
    SortInRange,
    ResetCollision(HistogramOperation),
    StartOverlap(Text),
    NonCounter(Text),
    NonCounterType(Text, Text),
    ForcedMonotonicity(Text),
    IncompatibleTypes(bool, Kind, bool),
    IgnoredInAggregation(Kind),
    IgnoredInRange(Text),
    QuantileNan(Text),
    QuantileSkew(Text),
    FractionNans(Text),
    MismatchedBounds(HistogramOperation),
    /// A note of another process: whether it is a warning, whether its occurrences are counted, and its text.
    Foreign(bool, bool, Text),
}

/// A note for another process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForeignNote {
    /// Whether it is a warning.
    pub is_warning: bool,
    /// Whether its occurrences are counted.
    pub is_counted: bool,
    /// Its text.
    pub text: String,
    /// Its place in the query.
    pub span: Span,
    /// The number of occurrences.
    pub count: u64,
}

impl Note {
    /// Whether its occurrences are counted.
    fn is_counted(self) -> bool {
        matches!(self, Self::StartOverlap(_) | Self::Foreign(_, true, _))
    }

    /// The note with its text numbers replaced.
    fn with_texts(self, number: &mut impl FnMut(Text) -> Text) -> Self {
        match self {
            Self::BadBucketLabel(metric, label) => Self::BadBucketLabel(number(metric), number(label)),
            Self::NonCounterType(metric, kind) => Self::NonCounterType(number(metric), number(kind)),
            Self::MixedFloatsHistograms(metric) => Self::MixedFloatsHistograms(number(metric)),
            Self::MixedClassicNative(metric) => Self::MixedClassicNative(number(metric)),
            Self::NotCounter(metric) => Self::NotCounter(number(metric)),
            Self::NotGauge(metric) => Self::NotGauge(number(metric)),
            Self::MixedExponentialCustom(metric) => Self::MixedExponentialCustom(number(metric)),
            Self::StartOverlap(metric) => Self::StartOverlap(number(metric)),
            Self::NonCounter(metric) => Self::NonCounter(number(metric)),
            Self::ForcedMonotonicity(metric) => Self::ForcedMonotonicity(number(metric)),
            Self::IgnoredInRange(metric) => Self::IgnoredInRange(number(metric)),
            Self::QuantileNan(metric) => Self::QuantileNan(number(metric)),
            Self::QuantileSkew(metric) => Self::QuantileSkew(number(metric)),
            Self::FractionNans(metric) => Self::FractionNans(number(metric)),
            Self::Foreign(is_warning, is_counted, text) => {
                Self::Foreign(is_warning, is_counted, number(text))
            }
            Self::InvalidQuantile(_)
            | Self::InvalidIntegralRule(_)
            | Self::InvalidRatio(..)
            | Self::MixedInAggregation
            | Self::IncompatibleLayout(_)
            | Self::SortInRange
            | Self::ResetCollision(_)
            | Self::IncompatibleTypes(..)
            | Self::IgnoredInAggregation(_)
            | Self::MismatchedBounds(_) => self,
        }
    }
}

/// Details of buckets that had to be made monotonic.
#[derive(Clone, Copy, Debug)]
pub struct Forced {
    /// The first and last step, in milliseconds.
    pub times: (i64, i64),
    /// The lowest and highest upper bound of the buckets.
    pub buckets: (f64, f64),
    /// The largest difference between neighbouring buckets that was corrected.
    pub difference: f64,
}

impl Forced {
    fn widen(&mut self, new: &Self) {
        self.times = (self.times.0.min(new.times.0), self.times.1.max(new.times.1));
        self.buckets = (self.buckets.0.min(new.buckets.0), self.buckets.1.max(new.buckets.1));
        self.difference = self.difference.max(new.difference);
    }
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    span: Span,
    count: u64,
    forced: Option<Forced>,
}

/// The notes of a query, each once.
#[derive(Default)]
pub struct Notes {
    order: Vec<Note>,
    entries: HashMap<Note, Entry>,
}

/// The most notes that are kept. Notes name metrics, of which there may be many.
const NOTES_MAX: usize = 1000;

impl Notes {
    /// Adds a note about a place.
    pub fn add(&mut self, note: Note, span: Span) {
        match self.entries.get_mut(&note) {
            Some(entry) if note.is_counted() => entry.count += 1,
            Some(entry) => entry.span = span,
            None => self.insert(note, Entry { span, count: 1, forced: None }),
        }
    }

    fn insert(&mut self, note: Note, entry: Entry) {
        if self.order.len() < NOTES_MAX {
            if self.order.is_empty() {
                self.entries = HashMap::new();
            }
            self.order.push(note);
            self.entries.insert(note, entry);
        }
    }

    /// Adds a note that buckets had to be made monotonic.
    pub fn add_forced(&mut self, metric: Text, span: Span, new: Forced) {
        let note = Note::ForcedMonotonicity(metric);
        let Some(entry) = self.entries.get_mut(&note) else {
            return self.insert(note, Entry { span, count: 1, forced: Some(new) });
        };
        entry.count += 1;
        if let Some(forced) = &mut entry.forced {
            forced.widen(&new);
        }
    }

    /// Adds the notes of a separate job, as if they were made now.
    pub fn append(&mut self, later: Notes) {
        for note in later.order {
            let Some(new) = later.entries.get(&note).copied() else { continue };
            let Some(entry) = self.entries.get_mut(&note) else {
                self.insert(note, new);
                continue;
            };
            match (&mut entry.forced, new.forced) {
                (Some(forced), Some(new)) => forced.widen(&new),
                _ if note.is_counted() => {}
                _ => entry.span = new.span,
            }
            entry.count += new.count;
        }
    }

    /// The notes with their text numbers replaced.
    pub fn with_texts(mut self, mut number: impl FnMut(Text) -> Text) -> Self {
        let before = std::mem::take(&mut self.order);
        let mut entries = HashMap::new();
        for note in before {
            let Some(entry) = self.entries.remove(&note) else { continue };
            let note = note.with_texts(&mut number);
            self.order.push(note);
            entries.insert(note, entry);
        }
        self.entries = entries;
        self
    }

    /// The notes for another process. None of them is about buckets that were made monotonic, because a
    /// query does not divide what makes such notes.
    pub fn foreign(&self, pool: &LabelPool) -> Vec<ForeignNote> {
        let of = |(note, entry): (&Note, &Entry)| {
            let (is_warning, text) = describe(*note, pool);
            let (span, count) = (entry.span, entry.count);
            ForeignNote { is_warning, is_counted: note.is_counted(), text, span, count }
        };
        self.order.iter().filter_map(|note| Some(of((note, self.entries.get(note)?)))).collect()
    }

    /// The notes of another process.
    pub fn of_foreign(notes: Vec<ForeignNote>, pool: &mut LabelPool) -> Self {
        let mut own = Self::default();
        for ForeignNote { is_warning, is_counted, text, span, count } in notes {
            let note = Note::Foreign(is_warning, is_counted, pool.text_id(&text));
            own.insert(note, Entry { span, count, forced: None });
        }
        own
    }

    /// The texts of warnings and of infos.
    pub fn texts(&self, pool: &LabelPool, query: &str) -> (Vec<String>, Vec<String>) {
        let (mut warnings, mut infos) = (Vec::new(), Vec::new());
        for note in &self.order {
            let Some(entry) = self.entries.get(note) else { continue };
            let (is_warning, what) = describe(*note, pool);
            let sort = if is_warning { "warning" } else { "info" };
            let more = entry.forced.map(|forced| forced_text(&forced, entry.count)).unwrap_or_default();
            let times = match entry.count {
                count @ 2.. if note.is_counted() => format!(" ({count} occurrences)"),
                _ => String::new(),
            };
            let text = format!("PromQL {sort}: {what}{more}{times} ({})", entry.span.place(query));
            if is_warning { warnings.push(text) } else { infos.push(text) }
        }
        (warnings, infos)
    }
}

fn forced_text(forced: &Forced, count: u64) -> String {
    let (low, high) = (GoNumber(forced.buckets.0), GoNumber(forced.buckets.1));
    let difference = two_digits(forced.difference);
    let [first, last] = [forced.times.0, forced.times.1].map(crate::functions::civil::rfc3339);
    format!(
        ", from buckets {low} to {high}, with a max diff of {difference}, over {count} samples from {first} \
         to {last}"
    )
}

/// A number with two significant digits, as Go writes it with `%.2g`.
fn two_digits(number: f64) -> String {
    if !number.is_finite() {
        return GoNumber(number).to_string();
    }
    let text = format!("{number:.1e}");
    let Some((digits, exponent)) = text.split_once('e') else { return text };
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..2).contains(&exponent) {
        let places = (1 - exponent).max(0) as usize;
        let plain = format!("{number:.places$}");
        return match plain.contains('.') {
            true => plain.trim_end_matches('0').trim_end_matches('.').to_owned(),
            false => plain,
        };
    }
    let digits = digits.trim_end_matches('0').trim_end_matches('.');
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", exponent.abs())
}

/// Whether the note is a warning, and its text.
fn describe(note: Note, pool: &LabelPool) -> (bool, String) {
    if let Note::Foreign(is_warning, _, text) = note {
        return (is_warning, pool.text(text).to_owned());
    }
    match warning(note, pool) {
        Some(text) => (true, text),
        None => (false, info(note, pool).unwrap_or_default()),
    }
}

/// The text of the note, if it is a warning.
fn warning(note: Note, pool: &LabelPool) -> Option<String> {
    let name = |id: Text| quote(pool.text(id));
    let maybe = |id: Text| match id {
        Text::EMPTY => String::new(),
        id => format!(" for metric name {}", name(id)),
    };
    let number = |bits: u64| GoNumber(f64::from_bits(bits));
    Some(match note {
        Note::InvalidQuantile(q) => format!("quantile value should be between 0 and 1, got {}", number(q)),
        Note::InvalidIntegralRule(rule) => {
            format!("strategy should be 0, 1, or 2 (default), using 2, got {}", number(rule))
        }
        Note::InvalidRatio(r, to) => {
            let what = "ratio value should be between -1 and 1";
            format!("{what}, got {}, capping to {}", number(r), number(to))
        }
        Note::BadBucketLabel(metric, label) => {
            let what = "bucket label \"le\" is missing or has a malformed value of";
            format!("{what} {}{}", name(label), maybe(metric))
        }
        Note::MixedFloatsHistograms(metric) => {
            format!("encountered a mix of histograms and floats for metric name {}", name(metric))
        }
        Note::MixedInAggregation => "encountered a mix of histograms and floats for aggregation".to_owned(),
        Note::MixedClassicNative(metric) => {
            format!("vector contains a mix of classic and native histograms{}", maybe(metric))
        }
        Note::NotCounter(metric) => {
            format!("this native histogram metric is not a counter: {}", name(metric))
        }
        Note::NotGauge(metric) => format!("this native histogram metric is not a gauge: {}", name(metric)),
        Note::MixedExponentialCustom(metric) => {
            let what = "vector contains a mix of histograms with exponential and custom buckets schemas";
            format!("{what} for metric name {}", name(metric))
        }
        Note::IncompatibleLayout(op) => {
            format!("incompatible bucket layout encountered for binary operator {}", op.text())
        }
        Note::SortInRange => {
            "sort is ineffective for range queries since results are always ordered by labels".to_owned()
        }
        Note::ResetCollision(operation) => {
            format!("conflicting counter resets during histogram {}", operation.name())
        }
        Note::StartOverlap(metric) => {
            let what = "sample has start time that overlaps with previous sample timestamp";
            format!("{what} for metric {}", name(metric))
        }
        _ => return None,
    })
}

/// The text of the note, if it is an info.
fn info(note: Note, pool: &LabelPool) -> Option<String> {
    let name = |id: Text| quote(pool.text(id));
    let maybe = |id: Text| match id {
        Text::EMPTY => String::new(),
        id => format!(" for metric name {}", name(id)),
    };
    let sample = |is_histogram: bool| if is_histogram { "histogram" } else { "float" };
    Some(match note {
        Note::NonCounter(metric) => {
            let what = "metric might not be a counter, name does not end in _total/_sum/_count/_bucket:";
            format!("{what} {}", name(metric))
        }
        Note::NonCounterType(metric, kind) => {
            let what =
                "metric might not be a counter, __type__ label is not set to \"counter\" or \"histogram\"";
            format!("{what}, got {}: {}", name(kind), name(metric))
        }
        Note::ForcedMonotonicity(metric) => {
            let what = "input to histogram_quantile needed to be fixed for monotonicity (see \
                        https://prometheus.io/docs/prometheus/latest/querying/functions/#histogram_quantile)";
            format!("{what}{}", maybe(metric))
        }
        Note::IncompatibleTypes(left, op, right) => {
            let (op, left, right) = (op.text(), sample(left), sample(right));
            let what = "incompatible sample types encountered for binary operator";
            format!("{what} {}: {left} {op} {right}", quote(op))
        }
        Note::IgnoredInAggregation(op) => format!("ignored histogram in {} aggregation", op.text()),
        Note::IgnoredInRange(metric) => {
            let what = "ignored histograms in a range containing both floats and histograms for metric name";
            format!("{what} {}", name(metric))
        }
        Note::QuantileNan(metric) => {
            let what = "input to histogram_quantile has NaN observations, result is NaN";
            format!("{what}{}", maybe(metric))
        }
        Note::QuantileSkew(metric) => {
            let what = "input to histogram_quantile has NaN observations, result is skewed higher";
            format!("{what}{}", maybe(metric))
        }
        Note::FractionNans(metric) => {
            let what =
                "input to histogram_fraction has NaN observations, which are excluded from all fractions";
            format!("{what}{}", maybe(metric))
        }
        Note::MismatchedBounds(operation) => {
            format!("mismatched custom buckets were reconciled during {}", operation.name())
        }
        _ => return None,
    })
}
