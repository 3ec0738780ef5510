//! One row during its processing by the stages: its line, and its labels by origin.
//!
//! Labels of the stream and structured metadata are read from the page. Labels that stages set are stored
//! in one buffer, which is reused from row to row, so that a row costs no allocation. A label set by a
//! stage hides a label of the stream or the metadata with the same name.

use sandur_memory::Stopped;
use sandur_memory::job::{JobMemory, spend};
use sandur_model::go_text::put_spaces;
use sandur_model::{Labels, Level, LogPage};

use crate::names::{NameId, Names};

/// The label that names the error of a failed stage.
pub const ERROR: &str = "__error__";
/// The label with the details of the error.
pub const ERROR_DETAILS: &str = "__error_details__";

/// The numbers of names that every pipeline knows, in the order in which [`seed_names`] adds them.
pub const ERROR_ID: NameId = 0;
/// See [`ERROR_ID`].
pub const ERROR_DETAILS_ID: NameId = 1;

/// Names that include those that every pipeline knows.
pub fn seed_names() -> Names {
    let mut names = Names::default();
    assert_eq!((names.id(ERROR), names.id(ERROR_DETAILS)), (ERROR_ID, ERROR_DETAILS_ID));
    names
}

/// The labels that the rest of the query reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// All.
    All,
    /// Only these.
    Only(WantedNames),
}

/// The names that the query reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WantedNames {
    ids: Vec<NameId>,
    /// A bit for the combination of length and first byte of each name. Most keys of a line match none.
    shapes: u64,
}

fn shape(first: u8, length: usize) -> u64 {
    1 << ((length as u64 * 11 + u64::from(first)) & 63)
}

impl WantedNames {
    /// The set of these names.
    pub fn new(mut ids: Vec<NameId>, names: &Names) -> Self {
        ids.sort_unstable();
        ids.dedup();
        let shapes = ids.iter().fold(0, |all, id| {
            let name = names.name(*id).as_bytes();
            all | shape(name.first().copied().unwrap_or(0), name.len())
        });
        Self { ids, shapes }
    }

    /// Whether a key may be one of the names, with false positives but no false negatives.
    pub fn may_be(&self, key: &[u8]) -> bool {
        self.may_be_shape(key.first().copied().unwrap_or(0), key.len())
    }

    /// Whether one of the names may have this first byte and length.
    pub fn may_be_shape(&self, first: u8, length: usize) -> bool {
        self.shapes & shape(first, length) != 0
    }

    /// The names.
    pub fn ids(&self) -> &[NameId] {
        &self.ids
    }
}

impl Wanted {
    /// Whether no label is wanted, so that parsers need not run.
    pub fn nothing(&self) -> bool {
        matches!(self, Self::Only(names) if names.ids.is_empty())
    }
}

#[derive(Clone, Copy)]
struct Parsed {
    name: NameId,
    start: u32,
    len: u32,
}

/// The buffers of a worker, reused for all of its rows.
pub struct Scratch {
    /// The names that the worker has met.
    pub names: Names,
    parsed: Vec<Parsed>,
    text: Vec<u8>,
    line: Vec<u8>,
    hidden: Vec<NameId>,
    removed: Vec<NameId>,
    details: String,
    /// Filters that run as soon as a parser has extracted their label: the first of each label.
    pub early: Vec<(NameId, Box<dyn Stage>)>,
    /// The start time of the query, in nanoseconds since the epoch; `None`: each row's own time.
    pub now_ns: Option<i64>,
    /// A buffer for stages to use within a row; its content is arbitrary at the start of each use.
    pub spare: Vec<u8>,
    /// A second such buffer, for nested names.
    pub path: Vec<u8>,
    /// The reservation for all of these.
    held: JobMemory,
}

impl Scratch {
    /// Buffers for a worker with the pipeline's names.
    pub fn new(names: Names) -> Self {
        Self {
            names,
            parsed: Vec::new(),
            text: Vec::new(),
            line: Vec::new(),
            hidden: Vec::new(),
            removed: Vec::new(),
            details: String::new(),
            early: Vec::new(),
            now_ns: None,
            spare: Vec::new(),
            path: Vec::new(),
            held: JobMemory::default(),
        }
    }

    /// The bytes of the buffers and names.
    fn memory_bytes(&self) -> u64 {
        let buffers = [&self.text, &self.line, &self.spare, &self.path].map(Vec::capacity);
        let labels = self.parsed.capacity() * size_of::<Parsed>();
        let names = (self.hidden.capacity() + self.removed.capacity()) * size_of::<NameId>();
        (buffers.iter().sum::<usize>() + labels + names + self.details.capacity()) as u64
            + self.names.memory_bytes()
    }

    /// Reserves `more` bytes in addition to the buffers and names.
    fn hold(&mut self, more: usize) -> Result<(), Stopped> {
        self.held.at_least(self.memory_bytes() + more as u64)
    }

    /// Makes room for the text of a label.
    fn make_room(&mut self, more: usize) -> Result<(), Stopped> {
        if self.parsed.len() == self.parsed.capacity() {
            let count = self.parsed.len().max(8);
            self.hold(count * size_of::<Parsed>())?;
            self.parsed.reserve_exact(count);
        }
        let (length, capacity) = (self.text.len(), self.text.capacity());
        if capacity - length < more {
            let wanted = (length + more).max(2 * capacity);
            self.hold(wanted)?;
            self.text.reserve_exact(wanted - length);
        }
        Ok(())
    }

    /// The number of a name, which is added if it is new. `None` if there is no memory for it, which ends
    /// the query.
    pub fn name_id(&mut self, name: &str) -> Option<NameId> {
        if let Some(known) = self.names.find(name) {
            return Some(known);
        }
        // Names and their tables double when they grow.
        self.hold(2 * name.len() + 256).ok()?;
        Some(self.names.id(name))
    }
}

enum Line<'p> {
    Page(&'p [u8]),
    Own,
}

/// The source of a metadata label in a page.
#[derive(Clone, Copy)]
enum Column {
    Level,
    Number(u32),
}

/// The labels that all rows of a run share, and the sources of the others.
pub struct RunLabels<'p> {
    stream: Vec<(NameId, &'p str)>,
    columns: Vec<(NameId, Column)>,
}

impl<'p> RunLabels<'p> {
    /// For the rows of the page that belong to this stream.
    pub fn new(page: &'p LogPage, labels: &'p Labels, names: &mut Names) -> Self {
        let stream: Vec<(NameId, &str)> =
            labels.iter().map(|(name, value)| (names.id(name), value)).collect();
        let mut columns = Vec::with_capacity(page.metadata.len() + 1);
        let mut add = |name: &str, column: Column| {
            let id = names.id(name);
            let taken = stream.iter().any(|(n, _)| *n == id);
            let id = if taken { names.extracted(id) } else { id };
            if id != ERROR_ID && id != ERROR_DETAILS_ID {
                columns.push((id, column));
            }
        };
        for (n, column) in page.metadata.iter().enumerate() {
            add(&column.name, Column::Number(n as u32));
        }
        if !page.levels.is_empty() {
            add(LogPage::DETECTED_LEVEL, Column::Level);
        }
        Self { stream, columns }
    }

    /// The source of a label before any stage ran.
    pub fn place_of(&self, name: NameId) -> Place {
        if self.stream.iter().any(|(n, _)| *n == name) {
            return Place::Stream;
        }
        let mut columns = self.columns.iter().filter(|(n, _)| *n == name);
        match (columns.next(), columns.next()) {
            (None, _) => Place::Nowhere,
            (Some((_, Column::Level)), None) => Place::Level,
            _ => Place::Row,
        }
    }
}

/// The source of a label of a run's rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// The stream: equal for all rows.
    Stream,
    /// The detected level.
    Level,
    /// The structured metadata of each row.
    Row,
    /// No source: no row has it.
    Nowhere,
}

/// A running stage.
pub trait Stage: Send {
    /// Processes a row; returns false to drop it.
    fn process(&mut self, row: &mut Row<'_>) -> bool;
}

/// A cursor over the rows of a page, with the current row's labels.
pub struct Row<'p> {
    /// Nanoseconds since the epoch.
    pub timestamp: i64,
    /// The buffers and names.
    pub scratch: &'p mut Scratch,
    page: &'p LogPage,
    index: usize,
    line: Line<'p>,
    lines_replaced: u32,
    base: &'p RunLabels<'p>,
    error: Option<&'static str>,
    rejected: bool,
    wanted: &'p Wanted,
}

impl<'p> Row<'p> {
    /// A cursor over a page, before its first row.
    pub fn new(
        page: &'p LogPage,
        base: &'p RunLabels<'p>,
        wanted: &'p Wanted,
        scratch: &'p mut Scratch,
    ) -> Self {
        Self {
            timestamp: 0,
            scratch,
            page,
            index: 0,
            line: Line::Page(&[]),
            lines_replaced: 0,
            base,
            error: None,
            rejected: false,
            wanted,
        }
    }

    /// Moves to the rows of another run.
    pub fn switch(&mut self, base: &'p RunLabels<'p>) {
        self.base = base;
    }

    /// Moves to a row of the page.
    pub fn load(&mut self, index: usize, line: &'p [u8]) {
        self.timestamp = self.page.timestamps[index];
        self.index = index;
        self.line = Line::Page(line);
        self.error = None;
        self.rejected = false;
        let scratch = &mut *self.scratch;
        scratch.parsed.clear();
        scratch.text.clear();
        scratch.hidden.clear();
        scratch.removed.clear();
        scratch.details.clear();
    }

    /// The line, as changed by the stages so far.
    pub fn line(&self) -> &[u8] {
        match self.line {
            Line::Page(line) => line,
            Line::Own => &self.scratch.line,
        }
    }

    /// Calls `f` with the line, and with the row without its line.
    pub fn with_line<T>(&mut self, f: impl FnOnce(&mut Self, &[u8]) -> T) -> T {
        match self.line {
            Line::Page(line) => f(self, line),
            Line::Own => {
                let own = std::mem::take(&mut self.scratch.line);
                let before = self.lines_replaced;
                let result = f(self, &own);
                // A line that `f` set takes precedence over the one that it read.
                if self.lines_replaced == before {
                    self.scratch.line = own;
                } else {
                    self.scratch.spare = own;
                }
                result
            }
        }
    }

    /// Replaces the line with the output of `write`, which writes at most `most` bytes.
    pub fn replace_line(&mut self, most: usize, write: impl FnOnce(&mut Self, &mut Vec<u8>)) {
        let mut buffer = std::mem::take(&mut self.scratch.spare);
        buffer.clear();
        if buffer.capacity() < most {
            // The current line may be borrowed by its stage.
            if self.scratch.hold(2 * most + buffer.capacity()).is_err() {
                self.rejected = true;
                return;
            }
            buffer.reserve_exact(most);
        }
        write(self, &mut buffer);
        self.scratch.spare = std::mem::replace(&mut self.scratch.line, buffer);
        self.line = Line::Own;
        self.lines_replaced += 1;
    }

    /// Whether the stream or the row's structured metadata has a label of this name.
    pub fn base_has(&self, name: NameId) -> bool {
        self.base.stream.iter().any(|(n, _)| *n == name)
            || (!self.is_hidden(name) && self.metadata_value(name).is_some())
    }

    /// The name for a label of a parser: its own, or with `_extracted` appended if it is taken.
    pub fn free_name(&mut self, name: NameId) -> NameId {
        if self.base_has(name) { self.scratch.names.extracted(name) } else { name }
    }

    /// Whether a parser should extract the label: the query reads it, and no stage has set it before, not
    /// even if a later stage removed it.
    pub fn wants(&self, name: NameId) -> bool {
        let wanted = match self.wanted {
            Wanted::All => true,
            Wanted::Only(names) => names.ids.contains(&name),
        };
        // For lines with many keys, searching the row's labels is the slow part.
        let work = 16 + self.scratch.parsed.len() + self.scratch.removed.len();
        wanted && spend(work).is_ok() && !self.is_parsed(name) && !self.scratch.removed.contains(&name)
    }

    /// The labels that the rest of the query reads.
    pub fn wanted(&self) -> &'p Wanted {
        self.wanted
    }

    /// Whether all labels that the query reads are set, so that a parser may stop.
    pub fn has_all_wanted(&self) -> bool {
        match self.wanted {
            Wanted::All => false,
            Wanted::Only(names) => {
                !names.ids.is_empty() && names.ids.iter().all(|&name| self.is_parsed(name))
            }
        }
    }

    fn is_parsed(&self, name: NameId) -> bool {
        self.scratch.parsed.iter().any(|p| p.name == name)
    }

    fn is_hidden(&self, name: NameId) -> bool {
        self.scratch.hidden.contains(&name)
    }

    fn metadata_value(&self, name: NameId) -> Option<&'p str> {
        let mut columns = self.base.columns.iter().filter(|(n, _)| *n == name);
        columns.find_map(|(_, column)| self.column_value(*column))
    }

    fn column_value(&self, column: Column) -> Option<&'p str> {
        match column {
            Column::Level => {
                Some(self.page.level(self.index)).filter(|l| *l != Level::None).map(Level::as_str)
            }
            Column::Number(n) => self.page.metadata[n as usize].get(self.index),
        }
    }

    /// The value of a label from any source. `__error__` is not a label here: see [`Self::error`].
    pub fn get(&self, name: NameId) -> Option<&str> {
        if let Some(parsed) = self.scratch.parsed.iter().find(|p| p.name == name) {
            return Some(self.text_of(*parsed));
        }
        if !self.scratch.hidden.is_empty() && self.is_hidden(name) {
            return None;
        }
        self.metadata_value(name)
            .or_else(|| self.base.stream.iter().find(|(n, _)| *n == name).map(|(_, value)| *value))
    }

    /// The value of a label, including `__error__` and `__error_details__`; empty if absent.
    pub fn value(&self, name: NameId) -> &str {
        match name {
            ERROR_ID => self.error.unwrap_or(""),
            ERROR_DETAILS_ID => &self.scratch.details,
            _ => self.get(name).unwrap_or(""),
        }
    }

    fn text_of(&self, parsed: Parsed) -> &str {
        let bytes = &self.scratch.text[parsed.start as usize..(parsed.start + parsed.len) as usize];
        // Only UTF-8 enters the buffer: see `set` and `set_with`.
        std::str::from_utf8(bytes).unwrap_or("")
    }

    /// Sets a label.
    pub fn set(&mut self, name: NameId, value: &str) {
        self.set_with(name, value.len(), |text| text.extend_from_slice(value.as_bytes()));
    }

    /// Sets a label to what `write` appends to the buffer, at most `most` bytes. Bytes that are not UTF-8
    /// become spaces, as in Loki. If there is no memory for it, the row is rejected and the query ends.
    pub fn set_with(&mut self, name: NameId, most: usize, write: impl FnOnce(&mut Vec<u8>)) {
        let work = most + self.scratch.parsed.len();
        if spend(work).and_then(|()| self.scratch.make_room(most)).is_err() {
            self.rejected = true;
            return;
        }
        let text = &mut self.scratch.text;
        let start = text.len();
        write(text);
        if std::str::from_utf8(&text[start..]).is_err() {
            put_spaces(text, start);
        }
        let (start, len) = (start as u32, (self.scratch.text.len() - start) as u32);
        match self.scratch.parsed.iter_mut().find(|p| p.name == name) {
            Some(parsed) => *parsed = Parsed { name, start, len },
            None => self.scratch.parsed.push(Parsed { name, start, len }),
        }
    }

    /// Whether the row still passes after a parser set this label. If not, the parser stops and drops the
    /// row.
    pub fn passes_early(&mut self, name: NameId) -> bool {
        if self.scratch.early.iter().any(|(n, _)| *n == name) {
            let mut early = std::mem::take(&mut self.scratch.early);
            if let Some((_, filter)) = early.iter_mut().find(|(n, _)| *n == name) {
                self.rejected |= !filter.process(self);
            }
            self.scratch.early = early;
        }
        !self.rejected
    }

    /// Whether a filter rejected the row while a parser ran.
    pub fn is_rejected(&self) -> bool {
        self.rejected
    }

    /// Whether a stage set a label of this name, even if it was removed since.
    pub fn was_extracted(&self, name: &[u8]) -> bool {
        let scratch = &*self.scratch;
        let made = scratch.parsed.iter().map(|p| p.name).chain(scratch.removed.iter().copied());
        made.into_iter().any(|id| scratch.names.name(id).as_bytes() == name)
    }

    /// Removes a label of any source.
    pub fn delete(&mut self, name: NameId) {
        if spend(self.scratch.parsed.len() + self.scratch.hidden.len()).is_err() {
            return;
        }
        if self.is_parsed(name) {
            self.scratch.parsed.retain(|p| p.name != name);
            self.scratch.removed.push(name);
        }
        if !self.is_hidden(name) {
            self.scratch.hidden.push(name);
        }
    }

    /// The error of the stage that failed on the row.
    pub fn error(&self) -> Option<&'static str> {
        self.error
    }

    /// The error of the row for a metric query: that of a stage, or a label `__error__` that a parser found
    /// in the line.
    pub fn error_or_label(&self) -> Option<&str> {
        let label = || self.scratch.parsed.iter().find(|p| p.name == ERROR_ID).map(|p| self.text_of(*p));
        self.error.or_else(label).filter(|error| !error.is_empty())
    }

    /// The details of the error.
    pub fn error_details(&self) -> &str {
        &self.scratch.details
    }

    /// Marks the row as failed; its line stays.
    pub fn fail(&mut self, error: &'static str, details: impl std::fmt::Display) {
        use std::fmt::Write;
        self.error = Some(error);
        self.scratch.details.clear();
        let _ = write!(self.scratch.details, "{details}"); // writing to a string cannot fail
    }

    /// Marks the row as failed; keeps the details of an earlier failure.
    pub fn fail_without_details(&mut self, error: &'static str) {
        self.error = Some(error);
    }

    /// Marks the row as failed, unless it already is.
    pub fn fail_first(&mut self, error: &'static str, details: impl std::fmt::Display) {
        if self.error.is_none() {
            self.fail(error, details);
        }
    }

    /// Clears the error.
    pub fn clear_error(&mut self) {
        self.error = None;
    }

    /// Clears the details of the error.
    pub fn clear_error_details(&mut self) {
        self.scratch.details.clear();
    }

    /// Calls `f` for each visible label with its source; the error labels are left out.
    pub fn for_each_label(&self, mut f: impl FnMut(Origin, NameId, &str)) {
        let scratch = &*self.scratch;
        let shadowed = |name: NameId| self.is_hidden(name) || self.is_parsed(name);
        let plain = scratch.hidden.is_empty() && scratch.parsed.is_empty();
        for (name, value) in &self.base.stream {
            if plain || !shadowed(*name) {
                f(Origin::Stream, *name, value);
            }
        }
        for (name, column) in &self.base.columns {
            if (plain || !shadowed(*name))
                && let Some(value) = self.column_value(*column)
            {
                f(Origin::Metadata, *name, value);
            }
        }
        for parsed in &scratch.parsed {
            f(Origin::Parsed, parsed.name, self.text_of(*parsed));
        }
    }

    /// The number of labels that stages set.
    pub fn label_count(&self) -> usize {
        self.scratch.parsed.len()
    }

    /// Whether no stage has changed the labels of the stream and the metadata.
    pub fn labels_untouched(&self) -> bool {
        self.scratch.hidden.is_empty() && self.scratch.parsed.is_empty() && self.error.is_none()
    }
}

/// The source of a label.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The stream.
    Stream,
    /// The row's structured metadata.
    Metadata,
    /// A stage.
    Parsed,
}

#[cfg(test)]
mod tests {
    use super::*;
    use sandur_model::{MetadataColumn, MetadataValues};

    fn page() -> LogPage {
        LogPage {
            timestamps: vec![7],
            levels: vec![Level::Warn],
            metadata: vec![
                MetadataColumn { name: "app".into(), values: MetadataValues::Constant("meta".into()) },
                MetadataColumn { name: "trace".into(), values: MetadataValues::Constant("t1".into()) },
            ],
            ..LogPage::default()
        }
    }

    fn labels(row: &Row<'_>) -> Vec<String> {
        let mut all = Vec::new();
        row.for_each_label(|origin, name, value| {
            all.push(format!("{origin:?} {}={value}", row.scratch.names.name(name)));
        });
        all
    }

    #[test]
    fn stream_labels_precede_metadata_and_stages() {
        let (page, stream) = (page(), Labels::from_pairs([("app", "api")]));
        let mut scratch = Scratch::new(seed_names());
        let base = RunLabels::new(&page, &stream, &mut scratch.names);
        let mut row = Row::new(&page, &base, &Wanted::All, &mut scratch);
        row.load(0, b"line");
        assert_eq!(
            labels(&row),
            [
                "Stream app=api",
                "Metadata app_extracted=meta",
                "Metadata trace=t1",
                "Metadata detected_level=warn"
            ]
        );
        let trace = row.scratch.names.id("trace");
        let free = row.free_name(trace);
        assert_eq!(&**row.scratch.names.name(free), "trace_extracted");
        row.set(trace, "new");
        assert_eq!(row.get(trace), Some("new"));
        assert!(labels(&row).contains(&"Parsed trace=new".to_owned()));
        assert!(!labels(&row).contains(&"Metadata trace=t1".to_owned()));
        row.delete(trace);
        assert_eq!(row.get(trace), None);
        row.load(0, b"line");
        assert_eq!(row.get(trace), Some("t1"), "the next row has its own labels");
    }

    #[test]
    fn invalid_utf8_becomes_spaces() {
        let (page, stream) = (page(), Labels::default());
        let mut scratch = Scratch::new(seed_names());
        let base = RunLabels::new(&page, &stream, &mut scratch.names);
        let mut row = Row::new(&page, &base, &Wanted::All, &mut scratch);
        row.load(0, b"");
        let name = row.scratch.names.id("x");
        row.set_with(name, 9, |text| text.extend_from_slice(b"a\xffb\xe6\x97!\xef\xbf\xbd"));
        assert_eq!(row.get(name), Some("a b ! "));
    }

    #[test]
    fn a_replaced_line_can_be_replaced_again() {
        let (page, stream) = (page(), Labels::default());
        let mut scratch = Scratch::new(seed_names());
        let base = RunLabels::new(&page, &stream, &mut scratch.names);
        let mut row = Row::new(&page, &base, &Wanted::All, &mut scratch);
        row.load(0, b"abc");
        for expected in ["abc!", "abc!!"] {
            row.with_line(|row, line| {
                row.replace_line(9, |_, out| {
                    out.extend_from_slice(line);
                    out.push(b'!');
                })
            });
            assert_eq!(row.line(), expected.as_bytes());
        }
    }
}
