//! `storage-schemas.conf` and `storage-aggregation.conf`: the steps and retentions at which values are
//! read, and how several values are aggregated to one.
//!
//! Rules apply when values are read. They also determine which points may become rollups, which store all
//! aggregates. A changed rule therefore applies to all of the past. For each name, the first section in the
//! file whose pattern matches it applies.
//!
//! **Invariants.** The archives of a rule have ascending steps, each a multiple of the previous one, and
//! ascending retentions. Rules that cannot be honoured are refused with their file and line.

mod aggregation;
mod archive;
mod file;
mod retention;

use sandur_model::Labels;

use crate::stored::name_of_pairs;

pub use aggregation::Method;
pub use archive::{Archive, Reading};
pub use file::{RulesError, RulesFile};

use aggregation::Aggregation;
use file::{Section, pattern_of};
use retention::archives_of;

/// The step without a file, in seconds.
const STEP: i64 = 60;
/// carbon's rule for a name that no section matches: a value a minute for a week.
const CARBON_DEFAULT: Archive = Archive { step: STEP, retention: 7 * 86_400 };
/// The seconds of a day.
const DAY: i64 = 86_400;
/// The most sections of a file.
const SECTIONS_MAX: usize = 1000;

/// The rules of both files.
#[derive(Debug, Default)]
pub struct StorageRules {
    /// `None` if there is no file: then all values are kept forever.
    schemas: Option<Vec<Schema>>,
    aggregations: Vec<Aggregation>,
}

/// A section of `storage-schemas.conf`.
#[derive(Debug)]
struct Schema {
    pattern: regex::Regex,
    archives: Vec<Archive>,
}

/// The rule for a name.
#[derive(Clone, Copy, Debug)]
pub struct Rule<'a> {
    /// The archives, the finest first.
    pub archives: &'a [Archive],
    /// How values of an archive are aggregated to those of the next.
    pub method: Method,
    /// The fraction of values that an aggregated value requires.
    pub x_files_factor: f64,
}

/// The bytes of a whisper file before its archives, of the head of an archive, and of a point.
const WHISPER_BYTES: [u64; 3] = [16, 12, 12];

impl Rule<'_> {
    /// The size of a whisper file with these archives, in bytes; `None` if values are kept forever.
    pub fn whisper_bytes(&self) -> Option<u64> {
        let [file, archive, point] = WHISPER_BYTES;
        self.archives.iter().try_fold(file, |bytes, own| {
            let points = u32::try_from(own.retention / own.step.max(1)).ok()?;
            Some(bytes + archive + point * u64::from(points))
        })
    }
}

static WITHOUT_FILE: [Archive; 1] = [Archive { step: STEP, retention: i64::MAX }];
static WITHOUT_SECTION: [Archive; 1] = [CARBON_DEFAULT];

impl StorageRules {
    /// Parses the files that exist.
    pub fn read(
        schemas: Option<RulesFile<'_>>,
        aggregation: Option<RulesFile<'_>>,
    ) -> Result<Self, RulesError> {
        let schemas = schemas.map(|file| of_sections(file, Schema::of)).transpose()?;
        let aggregations = aggregation.map(|file| of_sections(file, Aggregation::of)).transpose()?;
        Ok(Self { schemas, aggregations: aggregations.unwrap_or_default() })
    }

    /// The rule for a name with its tags in canonical form.
    pub fn of(&self, name: &str) -> Rule<'_> {
        let archives = match &self.schemas {
            None => WITHOUT_FILE.as_slice(),
            Some(schemas) => match schemas.iter().find(|schema| schema.pattern.is_match(name)) {
                Some(schema) => &schema.archives,
                None => WITHOUT_SECTION.as_slice(),
            },
        };
        let aggregation = self.aggregations.iter().find(|one| one.pattern.is_match(name));
        let (method, x_files_factor) = aggregation.map_or((Method::Average, 0.5), Aggregation::rule);
        Rule { archives, method, x_files_factor }
    }

    /// How many seconds the values of a series are kept; `None` if no section matches it.
    pub fn kept(&self, labels: &Labels) -> Option<i64> {
        let schemas = self.schemas.as_ref()?;
        let name = name_of_pairs(|| labels.iter());
        schemas.iter().find(|schema| schema.pattern.is_match(&name)).map(Schema::kept)
    }

    /// The pattern of each section, in order, and its retention in seconds.
    pub fn each_kept(&self) -> impl Iterator<Item = (&str, i64)> {
        self.schemas.iter().flatten().map(|schema| (schema.pattern.as_str(), schema.kept()))
    }

    /// The step of a series's points, and the step of the rollups that they may become when the youngest
    /// point has this age in seconds. This is the step of the finest archive that reaches back that far,
    /// because no request reads older points at a finer step. `None` if no section matches the series, if
    /// its finest archive still reaches back that far, or if the step of an archive does not divide a day.
    pub fn rolled(&self, labels: &Labels, age: i64) -> Option<(i64, i64)> {
        let name = name_of_pairs(|| labels.iter());
        let schema = self.schemas.as_ref()?.iter().find(|schema| schema.pattern.is_match(&name))?;
        let archives = schema.archives.as_slice();
        if !schema.divides_days() {
            return None;
        }
        let read = archives.iter().find(|archive| archive.retention >= age).or(archives.last())?;
        let finest = archives.first()?;
        (read.step > finest.step).then_some((finest.step, read.step))
    }

    /// The sections whose points may become rollups, with their archives.
    pub fn each_rolled(&self) -> impl Iterator<Item = (&str, &[Archive])> {
        let rolled = self.schemas.iter().flatten().filter(|schema| schema.divides_days());
        rolled.map(|schema| (schema.pattern.as_str(), schema.archives.as_slice()))
    }

    /// The archives of every rule that may apply to a name.
    pub fn each_archives(&self) -> impl Iterator<Item = &[Archive]> {
        let instead = if self.schemas.is_some() { &WITHOUT_SECTION } else { &WITHOUT_FILE };
        let schemas = self.schemas.iter().flatten().map(|schema| schema.archives.as_slice());
        schemas.chain([instead.as_slice()])
    }
}

fn of_sections<T>(
    file: RulesFile<'_>,
    of: impl Fn(&Section<'_>) -> Result<T, RulesError>,
) -> Result<Vec<T>, RulesError> {
    let sections = file::sections(file)?;
    if let Some(section) = sections.get(SECTIONS_MAX) {
        return Err(section.wrong(format!("there are more than {SECTIONS_MAX} sections; join some")));
    }
    sections.iter().filter(|section| !section.is_no_rule()).map(of).collect()
}

impl Schema {
    fn of(section: &Section<'_>) -> Result<Self, RulesError> {
        let pattern = pattern_of(section)?;
        let retentions = section.needed("retentions")?;
        let archives = archives_of(retentions.value).map_err(|why| retentions.wrong(why))?;
        Ok(Self { pattern, archives })
    }

    fn divides_days(&self) -> bool {
        self.archives.iter().all(|archive| DAY % archive.step == 0)
    }

    /// The retention of its last archive, in seconds.
    fn kept(&self) -> i64 {
        self.archives.last().map_or(i64::MAX, |archive| archive.retention)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCHEMAS: &str = "# a comment\n[carbon]\npattern = ^carbon\\.\nretentions = 60:90d\n\n\
        [fast]\nPattern: \\.cpu\\.\nretentions = 10s:6h,1m:7d,\n 10m:5y\n";

    fn file(text: &str) -> Option<RulesFile<'_>> {
        Some(RulesFile { name: "f.conf", text })
    }

    #[test]
    fn the_first_section_whose_pattern_matches_applies() {
        let aggregation = "[max]\npattern = \\.max$\nxFilesFactor = 0\naggregationMethod = max\n";
        let rules = StorageRules::read(file(SCHEMAS), file(aggregation)).unwrap();
        let steps = |name| rules.of(name).archives.iter().map(|archive| archive.step).collect::<Vec<_>>();
        assert_eq!(steps("carbon.cpu.x"), [60]);
        assert_eq!(steps("a.cpu.max"), [10, 60, 600]);
        assert_eq!(rules.of("other").archives, [Archive { step: 60, retention: 604_800 }]);
        assert_eq!((rules.of("a.max").method, rules.of("a.max").x_files_factor), (Method::Max, 0.0));
        assert_eq!((rules.of("a").method, rules.of("a").x_files_factor), (Method::Average, 0.5));
        let path = |path| sandur_model::graphite_path_labels(path).unwrap();
        assert_eq!([rules.kept(&path("carbon.x")), rules.kept(&path("other"))], [Some(90 * 86_400), None]);
        let tagged = sandur_model::graphite_tagged_labels("a", [("b", "x.cpu.y")]).unwrap();
        assert_eq!(rules.kept(&tagged), Some(5 * 365 * 86_400));
        // The rollup has the step of the finest archive that still reaches back; a step that does not
        // divide a day prevents rollups.
        let rolled = |age| rules.rolled(&tagged, age);
        assert_eq!([0, 21_600, 21_601, 604_800].map(rolled), [None, None, Some((10, 60)), Some((10, 60))]);
        assert_eq!([604_801, i64::MAX].map(rolled), [Some((10, 600)); 2]);
        assert_eq!([rules.rolled(&path("carbon.x"), i64::MAX), rules.rolled(&path("other"), 9)], [None; 2]);
        let odd = StorageRules::read(file("[a]\npattern = .*\nretentions = 7s:1d,7m:9d\n"), None).unwrap();
        assert_eq!((odd.rolled(&tagged, i64::MAX), odd.each_rolled().count()), (None, 0));
        assert_eq!(rules.each_rolled().count(), 2);
        let none = StorageRules::read(None, None).unwrap();
        assert_eq!((none.kept(&tagged), none.each_kept().count(), rules.each_kept().count()), (None, 0, 2));
        assert_eq!(none.of("a").archives, [Archive { step: 60, retention: i64::MAX }]);
    }

    /// Files from configuration templates have indented options. These lines were parsed as one value, and
    /// all names got the defaults.
    #[test]
    fn indented_options_are_parsed_as_in_carbon() {
        let schemas = "[DEFAULT]\n  retentions = 10s:1d\n[fast]\n  pattern = ^a\\.\n";
        let aggregation = "[max]\n    pattern = x$\n    xFilesFactor = 0.1\n    aggregationMethod = max\n";
        let rules = StorageRules::read(file(schemas), file(aggregation)).unwrap();
        let rule = rules.of("a.x");
        assert_eq!((rule.archives[0].step, rule.method, rule.x_files_factor), (10, Method::Max, 0.1));
        assert_eq!((rules.of("b.x").archives[0].step, rules.of("b.y").method), (60, Method::Average));
    }

    #[test]
    fn errors_name_the_file_and_line() {
        for (text, line, what) in [
            ("pattern = a\n", 1, "section"),
            ("[a\npattern = a\n", 1, "]"),
            ("[a]\nretentions = 1s:1d\n", 1, "pattern"),
            ("[a]\npattern = .*\n", 1, "retentions"),
            ("[a]\n\npattern = (\nretentions = 1s:1d\n", 3, "regular expression"),
            ("[a]\npattern = .*\nretentions = 1s\n", 3, "1s"),
            ("[a]\npattern = .*\nretentions = 1m:1d,90s:7d\n", 3, "multiple"),
            ("[a]\npattern = .*\nretentions = 1m:7d,10m:1d\n", 3, "longer"),
            ("[a]\npattern = .*\nretentions = 1m:7d,1m:8d\n", 3, "twice"),
            ("[a]\npattern = .*\nretentions = 0:7\n", 3, "0:7"),
            ("[a]\npattern = .*\nretentions = 1s:99999999999999999999y\n", 3, "99999"),
            ("[a]\npattern = .*\nretentions = 1s:9000000000000000000\n", 3, "long"),
            ("[a]\npattern = a\nretentions = 1s:1d\n[a]\npattern = b\n", 4, "twice"),
            ("[a]\nwhat\n", 2, "what"),
            (" x\n", 1, "section"),
        ] {
            let error = StorageRules::read(file(text), None).unwrap_err().to_string();
            assert!(error.starts_with(&format!("f.conf:{line}: ")) && error.contains(what), "{error}");
        }
        for (text, what) in [
            ("[a]\npattern = a\nxFilesFactor = 2\n", "xFilesFactor"),
            ("[a]\npattern = a\naggregationMethod = mean\n", "average"),
        ] {
            let error = StorageRules::read(None, file(text)).unwrap_err().to_string();
            assert!(error.starts_with("f.conf:3: ") && error.contains(what), "{error}");
        }
        let many: String = (0..=SECTIONS_MAX).map(|n| format!("[{n}]\npattern=a\n")).collect();
        assert!(StorageRules::read(None, file(&many)).unwrap_err().to_string().contains("1000"));
    }
}
