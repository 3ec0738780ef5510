//! One scrape: converts a text to batches, with stale markers for series that ended and the series of
//! the report.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use sandur_base::units::ByteSize;
use sandur_ingest::{
    ExpositionFormat, ExpositionLine, ExpositionReader, ExpositionSample, LineExemplar, SERIES_LABELS_MAX,
    series_pairs,
};
use sandur_memory::{OverBudget, Reservation};
use sandur_model::{Exemplar, Labels, MetricMetadata, STALE_BITS, StreamId, TenantId};

use crate::batches::Batches;
use crate::config::JobConfig;
use crate::series::SeriesMemory;
use sandur_targets::{LabelSet, relabel};

const NAME: &str = "__name__";
/// Prefix of a label of the text that the target has too.
const EXPORTED: &str = "exported_";
/// Milliseconds by which a timestamp of the text may be in the future.
const AHEAD_MAX_MS: i64 = 10 * 60 * 1_000;
/// The largest number of characters of the labels of an exemplar.
const EXEMPLAR_LABELS_MAX: usize = 128;
/// The largest number of metric families whose descriptions are read per scrape.
const FAMILIES_MAX: usize = 100_000;

/// The counts of a scrape, for its report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) scraped: u64,
    pub(crate) after_relabelling: u64,
    pub(crate) added: u64,
}

/// Reads the scrapes of one target.
pub(crate) struct ScrapeReader<'a> {
    pub(crate) job: &'a JobConfig,
    pub(crate) labels: &'a LabelSet,
    pub(crate) memory: &'a mut SeriesMemory,
    pub(crate) tenant: &'a TenantId,
    /// The start of the scrape, in milliseconds since the epoch.
    pub(crate) now_ms: i64,
    /// The reservation for remembered series and for the batches.
    pub(crate) held: &'a mut Reservation,
    /// Called between lines, so that other work can use the thread.
    pub(crate) give_way: &'a dyn Fn(),
}

/// The least number of bytes by which the reservation grows.
const PIECE_BYTES: u64 = 256 << 10;
/// Number of lines between two calls of `give_way`.
const LINES_A_TURN: u64 = 1_000;
/// Bytes of a metric family without its texts, and the number of copies that are in memory at once.
const FAMILY_BYTES: u64 = 256;
const FAMILY_COPIES: u64 = 2;

impl ScrapeReader<'_> {
    /// Returns the batches and counts of a text. If the scrape fails, the error says why; then nothing
    /// of the text is stored, and every series of the target ends.
    pub(crate) fn read(&mut self, content_type: &str, body: &[u8]) -> (Batches, Counts, Option<String>) {
        let mut batches = Batches::of(self.tenant);
        self.memory.scrape += 1;
        match self.lines(content_type, body, &mut batches) {
            Ok(counts) => {
                self.end_vanished(&mut batches);
                self.memory.forget();
                (batches, counts, None)
            }
            Err(why) => (self.failed(), Counts::default(), Some(why)),
        }
    }

    /// Returns the batches of a scrape that got no text: stale markers for all series.
    pub(crate) fn missed(&mut self) -> Batches {
        self.memory.scrape += 1;
        self.failed()
    }

    fn failed(&mut self) -> Batches {
        let mut batches = Batches::of(self.tenant);
        self.end_present(&mut batches);
        self.end_vanished(&mut batches);
        self.memory.clear();
        batches
    }

    fn end_vanished(&self, batches: &mut Batches) {
        for series in self.memory.vanished() {
            mark(batches, series, self.now_ms);
        }
    }

    /// Ends the series that this scrape has already read.
    fn end_present(&self, batches: &mut Batches) {
        for series in self.memory.present() {
            mark(batches, series, self.now_ms);
        }
    }

    fn lines(&mut self, content_type: &str, body: &[u8], batches: &mut Batches) -> Result<Counts, String> {
        let text = std::str::from_utf8(body).map_err(|error| format!("invalid UTF-8: {error}"))?;
        let mut counts = Counts::default();
        let mut families: BTreeMap<&str, MetricMetadata> = BTreeMap::new();
        for (number, line) in (1u64..).zip(ExpositionReader::new(text, ExpositionFormat::of(content_type))) {
            if number.is_multiple_of(LINES_A_TURN) {
                (self.give_way)();
            }
            let (family, bytes, change): (&str, usize, Change) =
                match line.map_err(|error| error.to_string())? {
                    ExpositionLine::Sample(sample) => {
                        self.sample(&sample, batches, &mut counts)?;
                        continue;
                    }
                    ExpositionLine::Kind(family, kind) => (family, 0, Box::new(move |m| m.kind = kind)),
                    ExpositionLine::Help(family, help) => {
                        (family, help.len(), Box::new(move |m| m.help = help.into()))
                    }
                    ExpositionLine::Unit(family, unit) => {
                        (family, unit.len(), Box::new(move |m| m.unit = unit.into()))
                    }
                };
            if families.len() < FAMILIES_MAX || families.contains_key(family) {
                batches.add_bytes(FAMILY_BYTES + FAMILY_COPIES * (family.len() + bytes) as u64);
                self.pay(batches)?;
                let new = || MetricMetadata { family: family.into(), ..MetricMetadata::default() };
                change(families.entry(family).or_insert_with(new));
            }
        }
        let metadata: Vec<MetricMetadata> = families.into_values().collect();
        if self.memory.is_new_metadata(&metadata) {
            batches.describe(metadata);
        }
        Ok(counts)
    }

    fn sample(
        &mut self,
        sample: &ExpositionSample<'_>,
        batches: &mut Batches,
        counts: &mut Counts,
    ) -> Result<(), String> {
        counts.scraped += 1;
        let scrape = self.memory.scrape;
        if self.memory.get(sample.series).is_none() {
            let labels = self.labels_of(sample.series)?;
            self.memory.insert(sample.series, labels);
        }
        self.pay(batches)?;
        let own_time = sample.time_ms.filter(|_| self.job.honor_timestamps);
        let Some(known) = self.memory.get(sample.series) else { return Ok(()) };
        counts.added += u64::from(known.series.is_some() && (known.seen == 0 || known.seen + 1 < scrape));
        known.seen = scrape;
        known.ends_with_marker = own_time.is_none() || self.job.track_timestamps_staleness;
        let Some((id, labels)) = known.series.clone() else { return Ok(()) };
        counts.after_relabelling += 1;
        if self.job.sample_limit > 0 && counts.after_relabelling > self.job.sample_limit {
            return Err(format!("sample limit exceeded (sample_limit: {})", self.job.sample_limit));
        }
        let time_ms = own_time.unwrap_or(self.now_ms);
        if time_ms > self.now_ms.saturating_add(AHEAD_MAX_MS) || time_ms < 0 {
            return Ok(());
        }
        batches.push(id, labels, (time_ms, sample.value));
        if let Some(exemplar) = sample.exemplar.as_ref().and_then(|one| self.exemplar(one, time_ms)) {
            batches.push_exemplar(exemplar);
            self.pay(batches)?;
        }
        Ok(())
    }

    /// Converts an exemplar. Returns `None` if it cannot be stored.
    fn exemplar(&self, one: &LineExemplar<'_>, sample_ms: i64) -> Option<Exemplar> {
        let timestamp = one.time_ms.unwrap_or(sample_ms);
        let pairs = series_pairs(one.labels).ok()?;
        let characters = |text: &str| text.chars().count();
        let all: usize = pairs.iter().map(|(name, value)| characters(name) + characters(value)).sum();
        if timestamp > self.now_ms.saturating_add(AHEAD_MAX_MS) || timestamp < 0 || all > EXEMPLAR_LABELS_MAX
        {
            return None;
        }
        let pairs = pairs.iter().map(|(name, value)| (&**name, &**value));
        Some(Exemplar { labels: Labels::from_pairs(pairs), value: one.value, timestamp })
    }

    /// Reserves memory for one more sample before it is added.
    fn pay(&mut self, batches: &Batches) -> Result<(), String> {
        let needed = self.memory.bytes() + batches.bytes_with_one_more();
        match needed.checked_sub(self.held.bytes()) {
            None | Some(0) => Ok(()),
            Some(missing) => self.held.grow(missing.max(PIECE_BYTES)).map_err(|error| short_of(&error)),
        }
    }

    /// Returns the labels of a series of the text, with those of its target and after relabelling;
    /// `None` if it is dropped.
    fn labels_of(&self, text: &str) -> Result<Option<Labels>, String> {
        expect_short(text.len(), text, "fix the target")?;
        let pairs = series_pairs(text).map_err(|what| format!("{what}: '{text}'"))?;
        let mut labels = LabelSet::new();
        for (name, value) in pairs {
            if labels.insert(name.into_owned(), value.into_owned()).is_some() {
                return Err(format!("a label name occurs twice: '{text}'"));
            }
        }
        labels.retain(|_, value| !value.is_empty());
        self.add_target(&mut labels);
        if !relabel(&self.job.metric_relabel, &mut labels) {
            return Ok(None);
        }
        labels.retain(|_, value| !value.is_empty());
        if !labels.contains_key(NAME) {
            return Err(format!("metric name {:?} is invalid", Cow::from(text)));
        }
        self.check_limits(&labels)?;
        let bytes = labels.iter().map(|(name, value)| name.len() + value.len()).sum();
        expect_short(bytes, text, "drop some with metric_relabel_configs (labeldrop)")?;
        Ok(Some(Labels::from_pairs(labels)))
    }

    fn add_target(&self, labels: &mut LabelSet) {
        for (name, value) in self.labels {
            match labels.get(name).cloned() {
                Some(_) if self.job.honor_labels => {}
                Some(own) => {
                    let mut renamed = format!("{EXPORTED}{name}");
                    while labels.contains_key(&renamed) || self.labels.contains_key(&renamed) {
                        renamed = format!("{EXPORTED}{renamed}");
                    }
                    labels.insert(renamed, own);
                    labels.insert(name.clone(), value.clone());
                }
                None => drop(labels.insert(name.clone(), value.clone())),
            }
        }
    }

    fn check_limits(&self, labels: &LabelSet) -> Result<(), String> {
        let beyond = |value: usize, limit: u64| limit > 0 && value as u64 > limit;
        let (names, values) = (self.job.label_name_length_limit, self.job.label_value_length_limit);
        if beyond(labels.len(), self.job.label_limit) {
            return Err(format!(
                "label_limit exceeded (number of labels: {}, limit: {})",
                labels.len(),
                self.job.label_limit
            ));
        }
        for (name, value) in labels {
            if beyond(name.len(), names) {
                return Err(format!("label_name_length_limit exceeded (label: {name:.50}, limit: {names})"));
            }
            if beyond(value.len(), values) {
                return Err(format!(
                    "label_value_length_limit exceeded (label: {name:.50}, limit: {values})"
                ));
            }
        }
        Ok(())
    }
}

type Change<'a> = Box<dyn FnOnce(&mut MetricMetadata) + 'a>;

/// Refuses a series with more bytes of labels than a push may have, because its labels are processed
/// without yielding.
fn expect_short(bytes: usize, text: &str, remedy: &str) -> Result<(), String> {
    match bytes > SERIES_LABELS_MAX {
        true => Err(format!(
            "a series has {bytes} bytes of labels, at most {SERIES_LABELS_MAX} are stored; {remedy}: \
             '{text:.80}'"
        )),
        false => Ok(()),
    }
}

/// Returns the error of a scrape for which there is no memory, with a remedy.
pub fn short_of(error: &OverBudget) -> String {
    let OverBudget { asked, used, limit, .. } = error;
    format!(
        "all targets together use {} of the {} that scrapes may use, and {} more are needed; scrape fewer \
         series (sample_limit, metric_relabel_configs), or raise memory_limit",
        ByteSize(*used),
        ByteSize(*limit),
        ByteSize(*asked)
    )
}

fn mark(batches: &mut Batches, (id, labels): &(StreamId, Arc<Labels>), time_ms: i64) {
    batches.push(*id, Arc::clone(labels), (time_ms, f64::from_bits(STALE_BITS)));
}

/// The series that every scrape writes about itself.
pub(crate) struct Report<'a> {
    pub(crate) labels: &'a LabelSet,
    pub(crate) now_ms: i64,
}

impl Report<'_> {
    /// Adds the series to the last batch.
    pub(crate) fn write(&self, batches: &mut Batches, up: bool, took: Duration, counts: Counts) {
        self.each(
            batches,
            [
                f64::from(u8::from(up)),
                took.as_secs_f64(),
                counts.scraped as f64,
                counts.after_relabelling as f64,
                counts.added as f64,
            ],
        );
    }

    /// Ends the series, because the target was removed.
    pub(crate) fn end(&self, batches: &mut Batches) {
        self.each(batches, [f64::from_bits(STALE_BITS); 5]);
    }

    fn each(&self, batches: &mut Batches, values: [f64; 5]) {
        let names = [
            "up",
            "scrape_duration_seconds",
            "scrape_samples_scraped",
            "scrape_samples_post_metric_relabeling",
            "scrape_series_added",
        ];
        for (name, value) in names.into_iter().zip(values) {
            let target = self.labels.iter().map(|(name, value)| (name.as_str(), value.as_str()));
            let labels = Arc::new(Labels::from_pairs(target.chain([(NAME, name)])));
            batches.push(labels.stream_id(), labels, (self.now_ms, value));
        }
    }
}

#[cfg(test)]
mod tests {
    use sandur_model::{SampleBatch, SeriesSamples};

    use super::*;
    use crate::config::ScrapeFile;

    struct Bench {
        job: JobConfig,
        labels: LabelSet,
        memory: SeriesMemory,
        now_ms: i64,
    }

    impl Bench {
        fn of(rest: &str) -> Self {
            let file = ScrapeFile::parse(&format!("scrape_configs:\n- job_name: j\n{rest}")).unwrap();
            let labels = [("job", "j"), ("instance", "i")].map(|(n, v)| (n.to_owned(), v.to_owned()));
            Self {
                job: file.jobs[0].clone(),
                labels: labels.into(),
                memory: SeriesMemory::default(),
                now_ms: 1_000,
            }
        }

        fn scrape(&mut self, text: Option<&str>) -> (Vec<String>, Counts, Option<String>) {
            self.now_ms += 1_000;
            let tenant = TenantId::default_tenant();
            let Self { job, labels, memory, now_ms } = self;
            let mut held = sandur_memory::MemoryBudget::root("scrapes", 1 << 20).reserve(0).unwrap();
            let held = &mut held;
            let give_way = &|| {};
            let mut reader =
                ScrapeReader { job, labels, memory, tenant: &tenant, now_ms: *now_ms, held, give_way };
            let (batches, counts, error) = match text {
                Some(text) => reader.read("text/plain", text.as_bytes()),
                None => (reader.missed(), Counts::default(), None),
            };
            let of_batch = |batch: &SampleBatch| {
                let of_series = |series: &SeriesSamples| {
                    let shown = |(time, value): (i64, f64)| match sandur_model::is_stale(value) {
                        true => format!("{} stale @{time}", series.labels),
                        false => format!("{} {value} @{time}", series.labels),
                    };
                    batch.samples_of(series).map(shown).collect::<Vec<_>>()
                };
                batch.series.iter().flat_map(of_series).collect::<Vec<_>>()
            };
            let mut lines: Vec<String> = batches.into_vec().iter().flat_map(of_batch).collect();
            lines.sort();
            (lines, counts, error)
        }
    }

    #[test]
    fn a_series_that_vanishes_gets_one_stale_marker() {
        let mut bench = Bench::of("");
        let (lines, counts, _) = bench.scrape(Some("a 1\nb 2\n"));
        assert_eq!(lines[0], r#"{__name__="a", instance="i", job="j"} 1 @2000"#);
        assert_eq!(counts, Counts { scraped: 2, after_relabelling: 2, added: 2 });
        let (lines, counts, _) = bench.scrape(Some("a 1\n"));
        assert_eq!(lines[1], r#"{__name__="b", instance="i", job="j"} stale @3000"#);
        assert_eq!((lines.len(), counts.added), (2, 0));
        assert_eq!(bench.scrape(Some("a 1\n")).0.len(), 1, "one marker is enough");
        let (lines, counts, _) = bench.scrape(Some("a 1\nb 2\n"));
        assert_eq!((lines.len(), counts.added), (2, 1), "it appeared again");
        assert_eq!(bench.scrape(None).0.iter().filter(|line| line.contains("stale")).count(), 2);
        assert!(bench.scrape(None).0.is_empty());
    }

    #[test]
    fn an_invalid_text_ends_all_series() {
        let mut bench = Bench::of("");
        bench.scrape(Some("a 1\nb 2\n"));
        let (lines, counts, error) = bench.scrape(Some("a 1\nb two\n"));
        assert!(error.unwrap().contains("line 2: expected a value"));
        assert_eq!((lines.len(), counts), (2, Counts::default()));
        assert!(lines.iter().all(|line| line.contains("stale")), "{lines:?}");
    }

    #[test]
    fn timestamps_of_the_text_are_used_unless_turned_off() {
        let mut bench = Bench::of("");
        assert!(bench.scrape(Some("a 1 500\n")).0[0].ends_with("1 @500"));
        assert!(bench.scrape(Some("b 1\n")).0.iter().all(|line| !line.contains("stale")));
        let mut bench = Bench::of("  honor_timestamps: false");
        assert!(bench.scrape(Some("a 1 500\n")).0[0].ends_with("1 @2000"));
    }

    #[test]
    fn labels_of_the_target_take_precedence_unless_honor_labels_is_set() {
        let text = "a{job=\"x\",exported_job=\"y\"} 1\n";
        let (lines, ..) = Bench::of("").scrape(Some(text));
        assert!(
            lines[0].contains(r#"exported_exported_job="x", exported_job="y", instance="i", job="j""#),
            "{lines:?}"
        );
        let (lines, ..) = Bench::of("  honor_labels: true").scrape(Some(text));
        assert!(lines[0].contains(r#"exported_job="y", instance="i", job="x""#), "{lines:?}");
    }

    #[test]
    fn series_that_do_not_fit_memory_fail_the_scrape() {
        let text: String = (0..100_000).map(|n| format!("a{n} 1\n")).collect();
        let (lines, _, error) = Bench::of("").scrape(Some(&text));
        let error = error.unwrap();
        assert!(error.contains("scrapes") && error.contains("raise memory_limit"), "{error}");
        assert!(lines.iter().all(|line| line.contains("stale")));
    }

    #[test]
    fn texts_of_families_and_exemplars_count_as_memory() {
        let help: String = (0..2_000).map(|n| format!("# HELP a{n} {}\n", "h".repeat(1_000))).collect();
        let (_, _, error) = Bench::of("").scrape(Some(&help));
        assert!(error.unwrap().contains("raise memory_limit"));
    }

    #[test]
    fn a_series_with_too_many_bytes_of_labels_is_refused() {
        let value = "x".repeat(SERIES_LABELS_MAX);
        let (lines, _, error) = Bench::of("").scrape(Some(&format!("a{{b=\"{value}\"}} 1\n")));
        let error = error.unwrap();
        assert!(error.contains("at most 65536 are stored") && error.len() < 400, "{error}");
        assert!(lines.is_empty());
        let doubled = "  metric_relabel_configs:\n  - {source_labels: [b], target_label: c, regex: (.*)}\n  \
                       - {source_labels: [b], target_label: d, regex: (.*)}";
        let text = format!("a{{b=\"{}\"}} 1\n", "x".repeat(SERIES_LABELS_MAX / 2));
        let (_, _, error) = Bench::of(doubled).scrape(Some(&text));
        assert!(error.unwrap().contains("at most 65536 are stored"), "also after relabelling");
    }

    #[test]
    fn rules_and_limits_are_applied() {
        let drop = "  metric_relabel_configs: [{action: drop, source_labels: [__name__], regex: b}]";
        let (lines, counts, _) = Bench::of(drop).scrape(Some("a 1\nb 2\n"));
        assert_eq!((lines.len(), counts), (1, Counts { scraped: 2, after_relabelling: 1, added: 1 }));
        let (_, _, error) = Bench::of("  sample_limit: 1").scrape(Some("a 1\nb 2\n"));
        assert_eq!(error.as_deref(), Some("sample limit exceeded (sample_limit: 1)"));
        let (_, _, error) = Bench::of("  label_limit: 3").scrape(Some("a{b=\"c\"} 1\n"));
        assert!(error.unwrap().starts_with("label_limit exceeded"));
        let (_, _, error) = Bench::of("  label_value_length_limit: 2").scrape(Some("a{b=\"ccc\"} 1\n"));
        assert!(error.unwrap().starts_with("label_value_length_limit exceeded"));
    }
}
