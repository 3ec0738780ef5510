//! What a query reads from: the index of series, versions of what is stored, and log rows.

use std::sync::Arc;

use sandur_base::BoxFuture;
use sandur_model::{Labels, Level, LineAutomaton, LineColumn, LogPage, Matcher, TenantId, TimeRange};

use crate::context::QueryContext;
use crate::error::Error;
use crate::holdings::Holding;
use crate::joined_values::{JoinedLabels, known_joined};
use crate::known_series::known_series;
use crate::sample_source::SampleScan;
use crate::text_scan::{TextBatch, TextScan, known_values};

/// Order in which a scan delivers its items.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// By falling last timestamp; of equal ones the one that was stored later comes first.
    NewestFirst,
    /// By rising first timestamp; of equal ones the one that was stored earlier comes first.
    OldestFirst,
    /// As is cheapest.
    Any,
}

/// A byte string that must stand in a line for the line to matter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Needle {
    /// The bytes; lower case when `ignore_ascii_case` is set.
    pub literal: Vec<u8>,
    /// ASCII letters match in either case.
    pub ignore_ascii_case: bool,
}

/// What a line must hold: every element's alternatives, of which one must be there. A source may use
/// it to skip pages; rows that do not hold the needles may still be delivered.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Needles(pub Vec<Vec<Needle>>);

/// Which columns a scan needs. A page with a [`sandur_model::Suspect`] run gives its lines and its
/// metadata whatever was asked for: the reader needs them to tell repeated rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Columns {
    /// The lines, for at least some rows of most pages.
    pub lines: bool,
    /// Structured metadata and detected level.
    pub metadata: bool,
}

/// What a query wants of a source.
#[derive(Clone, Debug)]
pub struct Selection {
    /// Conditions on stream labels; all must pass.
    pub matchers: Vec<Matcher>,
    /// Rows with a timestamp inside.
    pub range: TimeRange,
    /// Order of the items.
    pub order: Order,
    /// For skipping pages.
    pub needles: Needles,
    /// For fetching less.
    pub columns: Columns,
    /// The query can use [`StreamCounts`] for rows of whole minutes instead of pages. Only when every
    /// matching row counts alike: no filter, no stage that looks at the row.
    pub counts: bool,
    /// With `counts`: the labels that the query groups by. Counts know a row's stream and level, nothing
    /// else: a source gives pages for a stream that lacks one of these labels when rows may carry it as
    /// structured metadata (`detected_level` excepted, which counts know unless clients sent their own).
    pub counts_by: Vec<String>,
}

/// Lines and bytes of one stream and level in one minute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MinuteCount {
    /// The minute's end in minutes since the epoch: rows with
    /// `(minute - 1) * 60 s < timestamp <= minute * 60 s`, the windows of LogQL.
    pub minute: i32,
    /// Rows.
    pub lines: u32,
    /// Bytes of their lines.
    pub bytes: u64,
}

/// Counts of one stream and level; the minutes rise and lie wholly inside the selection's range.
#[derive(Clone, Debug)]
pub struct StreamCounts {
    /// The stream.
    pub labels: Arc<Labels>,
    /// The level of the counted rows.
    pub level: Level,
    /// Shared storage of the counts.
    pub minutes: Arc<Vec<MinuteCount>>,
    /// The part of `minutes` that is meant.
    pub from: usize,
    /// End of that part.
    pub to: usize,
}

impl StreamCounts {
    /// The counts that are meant.
    pub fn minutes(&self) -> &[MinuteCount] {
        &self.minutes[self.from..self.to]
    }
}

/// One piece of a scan, fetched but not decoded. `decode` parts are pure computation for the CPU pool.
pub enum ScanItem {
    /// Pre-aggregated rows.
    Counts(Box<dyn CountsTask>),
    /// A page of rows.
    Page(Box<dyn PageTask>),
}

impl ScanItem {
    /// Bytes that decoding takes at most, for the reservation.
    pub fn memory_bytes(&self) -> u64 {
        match self {
            Self::Counts(task) => task.memory_bytes(),
            Self::Page(task) => task.memory_bytes(),
        }
    }
}

/// Counts that wait for decoding.
pub trait CountsTask: Send {
    /// Bytes that decoding takes, for the reservation.
    fn memory_bytes(&self) -> u64;
    /// The counts of the selected streams.
    fn decode(self: Box<Self>) -> Result<Vec<StreamCounts>, Error>;
}

/// A page that waits for decoding.
pub trait PageTask: Send {
    /// First and last timestamp that the page may hold.
    fn bounds(&self) -> (i64, i64);
    /// Bytes that the decoded page takes at most, lines included when they were asked for or when a run
    /// is suspect.
    fn memory_bytes(&self) -> u64;
    /// Decodes everything but the lines, with the runs narrowed to the selection.
    fn narrow(&mut self) -> Result<LogPage, Error>;
    /// Decodes the lines of the whole page; only when the selection asked for them or when a run of the
    /// narrowed page is suspect.
    fn lines(&mut self) -> Result<LineColumn, Error>;

    /// Clears the rows of `alive`, one per row of the page, whose lines fail the test; with `negated`, those
    /// whose lines pass it. False when the page cannot tell without putting its lines together; then nothing
    /// changes. Allowed where [`PageTask::lines`] is.
    fn retain(&mut self, test: &LineAutomaton, negated: bool, alive: &mut [bool]) -> Result<bool, Error>;

    /// The lines of the wanted rows; the others may be empty. In place of [`PageTask::lines`], once.
    fn lines_of(&mut self, wanted: &[bool]) -> Result<LineColumn, Error>;
}

/// The answer to a selection: items in the selection's order. Fetches ahead while items are used.
pub trait Scan: Send {
    /// The next item; `None` at the end.
    fn next(&mut self) -> BoxFuture<'_, Result<Option<ScanItem>, Error>>;
}

/// How much a stream holds in a time range. Whole minutes: what `index/stats` and `volume` need.
#[derive(Clone, Debug)]
pub struct StreamVolume {
    /// The stream.
    pub labels: Arc<Labels>,
    /// Rows.
    pub lines: u64,
    /// Bytes of their lines.
    pub bytes: u64,
    /// Pages that hold them ("chunks" in Loki's words).
    pub pages: u64,
}

/// What a follower receives.
pub enum Followed {
    /// New rows that match, lines and metadata included; followers of the same streams share it.
    Page(Arc<LogPage>),
    /// The follower was too slow: this many rows were left out.
    Dropped(u64),
}

/// New rows as they are acknowledged.
pub trait Follow: Send {
    /// Waits for news; `None` when the source is shutting down.
    fn next(&mut self) -> BoxFuture<'_, Option<Followed>>;
}

/// Lists of matchers of which one is to match: where there is none, one that everything matches.
pub fn any_or_all(lists: Vec<Vec<Matcher>>) -> Vec<Vec<Matcher>> {
    if lists.is_empty() { vec![Vec::new()] } else { lists }
}

/// The series that are stored of one signal: streams of logs, or series of samples. Every call sees the
/// tenant, budget and deadline in the context.
pub trait SeriesIndex: Send + Sync {
    /// The label sets of series that match any of the matcher lists (all series when there is no list)
    /// and have rows in the range (to the precision of a block), sorted.
    fn streams<'a>(
        &'a self,
        context: &'a QueryContext,
        any_of: Vec<Vec<Matcher>>,
        range: TimeRange,
    ) -> BoxFuture<'a, Result<Vec<Arc<Labels>>, Error>>;

    /// Names of labels of matching series in the range, sorted.
    fn label_names<'a>(
        &'a self,
        context: &'a QueryContext,
        matchers: Vec<Matcher>,
        range: TimeRange,
    ) -> BoxFuture<'a, Result<Vec<String>, Error>>;

    /// Values of one label of matching series in the range, sorted.
    fn label_values<'a>(
        &'a self,
        context: &'a QueryContext,
        name: String,
        matchers: Vec<Matcher>,
        range: TimeRange,
    ) -> BoxFuture<'a, Result<Vec<String>, Error>>;

    /// Values of one label of the series that match any of the lists (all series when there is no list),
    /// batch by batch: a source that has many does not hold all of them.
    fn value_scan<'a>(
        &'a self,
        context: &'a QueryContext,
        name: String,
        any_of: Vec<Vec<Matcher>>,
        range: TimeRange,
    ) -> BoxFuture<'a, Result<Box<dyn TextScan>, Error>> {
        Box::pin(known_values(self, context, name, any_of, range))
    }

    /// Values of several labels that matching series have together, each combination once, sorted.
    fn joined_values<'a>(
        &'a self,
        context: &'a QueryContext,
        wanted: JoinedLabels,
        matchers: Vec<Matcher>,
        range: TimeRange,
    ) -> BoxFuture<'a, Result<TextBatch, Error>> {
        Box::pin(known_joined(self, context, wanted, matchers, range))
    }

    /// Labels of the series that match any of the lists, batch by batch and each once, in the order in which
    /// the source has them. The batches have no samples.
    fn series_scan<'a>(
        &'a self,
        context: &'a QueryContext,
        any_of: Vec<Vec<Matcher>>,
        range: TimeRange,
    ) -> BoxFuture<'a, Result<Box<dyn SampleScan>, Error>> {
        Box::pin(known_series(self, context, any_of, range))
    }
}

/// What tells whether an answer may have changed.
pub trait Versions: Send + Sync {
    /// What the tenant's rows in the range are held by now; `None` when the source cannot say. Whatever
    /// changes an answer over some time changes the versions of the holdings that touch this time, after the
    /// change can be seen and before it is acknowledged.
    fn holdings(&self, _context: &QueryContext, _range: TimeRange) -> Option<Vec<Holding>> {
        None
    }

    /// A number that changes whenever the rows that deletes hide from the tenant's queries may have changed.
    /// An answer that is kept for later is filed under the number that was read *before* it was made, and is
    /// used only while the number is the same.
    fn delete_generation(&self, _tenant: &TenantId) -> u64 {
        0
    }
}

/// Where log rows come from. Every call sees the tenant, budget and deadline in the context.
pub trait LogSource: SeriesIndex + Versions {
    /// Starts reading rows.
    fn scan<'a>(
        &'a self,
        context: &'a QueryContext,
        selection: Selection,
    ) -> BoxFuture<'a, Result<Box<dyn Scan>, Error>>;

    /// Rows and bytes per matching stream in the range; minutes at its edges count whole.
    fn volumes<'a>(
        &'a self,
        context: &'a QueryContext,
        matchers: Vec<Matcher>,
        range: TimeRange,
    ) -> BoxFuture<'a, Result<Vec<StreamVolume>, Error>>;

    /// Follows new rows of matching streams from now on.
    fn follow(&self, context: &QueryContext, matchers: Vec<Matcher>) -> Result<Box<dyn Follow>, Error>;
}
