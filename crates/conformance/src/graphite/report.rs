//! The results of one file of cases, and the cases whose answers differ for a known reason.

use crate::world::Place;

/// whisper's tree has folders for tagged series.
const TAGGED: &str = "tagged series are in no folder of the tree";

/// graphite-web answers only because its parameter checks are disabled.
const VALIDATED: &str = "refused, as graphite-web does where it checks parameters";

const CALLBACK: &str =
    "a callback that does not reduce many series to one is refused, as where parameters are checked";

const TEXT: &str = "a name is a string, also when it was given as a number";

const DATABASE: &str = "names from an external database are not supported";

const NAMED: &str = "named as in a later version of graphite-web, which does not fail here";

const ONCE: &str = "a path has only one series of each name";

const LOG: &str = "named after the function's name in graphite-web";

const RANDOM: &str = "values are random";

/// Cases with other answers than the recorded ones, and why.
const EXPLAINED: &[(&str, &str)] = &[
    ("attime/generated/028", "local times before 1902: the time zone database is newer and more complete"),
    ("attime/generated/200", "local times before 1902: the time zone database is newer and more complete"),
    ("fn/hitcount/009", "an interval below zero is refused"),
    ("fn/hitcount/010", "an interval below zero is refused"),
    ("fn/alias/010", "a name is a string, also when it was given as a number"),
    ("fn/verticalLine/001", "a name is a string, also when there is none"),
    ("find/treejson/033", TAGGED),
    ("find/treejson/101", TAGGED),
    ("find/nodelist/038", TAGGED),
    ("find/version/001", "the version is that of the product"),
    ("fn/fallbackSeries/011", "a series argument that is passed by name is fetched"),
    ("function/dashed/003", VALIDATED),
    ("function/group/001", "the answer was recorded as values, without series"),
    ("function/groupByNode/001", CALLBACK),
    ("function/groupByNode/002", CALLBACK),
    ("function/groupByNode/003", CALLBACK),
    ("function/groupByNode/004", CALLBACK),
    ("function/groupByNode/006", CALLBACK),
    ("function/groupByNodes/001", CALLBACK),
    ("function/groupByNodes/002", CALLBACK),
    ("function/groupByNodes/003", CALLBACK),
    ("function/groupByTags/001", VALIDATED),
    ("function/highestMax/003", "the call was recorded with values, without series"),
    ("function/highestMax/004", "the call was recorded with values, without series"),
    ("function/transformNull/003", "the call was recorded with a list of lists, which no target produces"),
    ("vm/ok/029", VALIDATED),
    ("vm/fail/033", TEXT),
    ("vm/ok/112", LOG),
    ("carbonapi/logarithm/001", LOG),
    ("carbonapi/pearson/001", "series keep their original times"),
    ("carbonapi/alias/004", TEXT),
    ("carbonapi/aliasByRedis/001", DATABASE),
    ("carbonapi/aliasByRedis/003", DATABASE),
    ("carbonapi/aliasByTags/007", ONCE),
    (
        "carbonapi/compressPeriodicGaps/001",
        "as in a later version of graphite-web, which recognizes a value at the first position",
    ),
    ("carbonapi/sum/006", ONCE),
    ("carbonapi/groupByNode/007", ONCE),
    ("carbonapi/nonNegativeDerivative/003", NAMED),
    ("carbonapi/nonNegativeDerivative/004", NAMED),
    ("carbonapi/perSecond/002", NAMED),
    ("carbonapi/perSecond/003", NAMED),
    ("carbonapi/randomWalk/001", RANDOM),
    ("carbonapi/randomWalk/002", RANDOM),
    ("carbonapi/randomWalk/003", RANDOM),
    ("carbonapi/randomWalk/004", RANDOM),
    ("carbonapi/sum/011", "an input series ends before its last value"),
];

/// Cases with other answers than the recorded ones where series are stored as samples, by the beginning
/// of their ids, and why.
const EXPLAINED_OF_SAMPLES: &[(&str, &str)] = &[
    ("fn/events/", "events are not stored"),
    ("find/sequence/", "a series exists from its first value on"),
    ("find/treejson/110", TAGGED),
    ("find/treejson/111", TAGGED),
    ("find/expand/110", TAGGED),
    ("find/params/012", "there is no value in the future"),
    ("fn/seriesByTag/038", "a name is found with its tags in any order"),
];

/// The results of one file of cases.
pub struct Report {
    /// Name of the file.
    pub name: &'static str,
    /// Where the series were stored.
    pub place: Place,
    /// Number of cases in the file.
    pub cases: usize,
    /// Descriptions of the failures; each begins with the id of its case.
    pub failures: Vec<String>,
    /// Cases whose answers differ for a known reason: the id and the reason.
    pub explained: Vec<(String, String)>,
}

impl Report {
    pub fn new(name: &'static str, place: Place, cases: usize, failures: Vec<String>) -> Self {
        let reason = |failure: &str| {
            let id = failure.split(':').next().unwrap_or_default();
            let of_samples = EXPLAINED_OF_SAMPLES.iter().filter(|_| place != Place::Memory);
            let of_samples = of_samples.filter(|(begin, _)| id.starts_with(begin));
            let alone = EXPLAINED.iter().filter(|(own, _)| *own == id);
            alone.chain(of_samples).next().map(|(_, why)| (id.to_owned(), (*why).to_owned()))
        };
        let explained = failures.iter().filter_map(|failure| reason(failure)).collect();
        let failures: Vec<String> =
            failures.into_iter().filter(|failure| reason(failure).is_none()).collect();
        Self { name, place, cases, failures, explained }
    }
}
