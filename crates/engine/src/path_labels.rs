//! Labels of series whose names are paths or names with tags, and of their archives.
//!
//! Each node of a path has a label, that of its level. An archive has the points of a path over longer
//! steps; a rollup is an archive that the engine made. Of several values of one instant in such a
//! series the last one counts. Graphite's names are such paths, and the mapping of [`sandur_model`] to
//! labels is the only thing of Graphite that the engine knows. Which archives there are, and for how
//! long, is handed in ([`crate::policy`]).

pub(crate) use sandur_model::{
    GRAPHITE_ARCHIVE as ARCHIVE, GRAPHITE_ROLLUP as ROLLUP, graphite_level_of as level_of,
    is_graphite_label as is_path_label, last_write_wins,
};
use sandur_model::{GRAPHITE_MARK, Labels, graphite_level, graphite_path_labels, graphite_tagged_labels};
#[cfg(test)]
pub(crate) use sandur_model::{graphite_level as label_of_level, graphite_path_labels as labels_of_path};

/// The label with a series' name.
const NAME: &str = "__name__";

/// Whether a label distinguishes an archive from the series that was sent.
pub(crate) fn is_archive_label(label: &str) -> bool {
    matches!(label, ARCHIVE | ROLLUP)
}

/// The labels of a series' path, or of a series with tags; `None` if it has other labels, except those
/// of archives and rollups.
pub(crate) fn path_of<'a>(pairs: impl Iterator<Item = (&'a str, &'a str)> + Clone) -> Option<Labels> {
    let of_path = || pairs.clone().filter(|(label, _)| !is_archive_label(label));
    let has = |name: &str| pairs.clone().any(|(label, _)| label == name);
    let is_tagged = has(GRAPHITE_MARK);
    if !is_tagged && !has(graphite_level(0)?) {
        return None;
    }
    let (_, name) = pairs.clone().find(|(label, _)| *label == NAME)?;
    let made = match is_tagged {
        true => {
            let tags = of_path().filter(|(label, _)| !matches!(*label, GRAPHITE_MARK | NAME));
            graphite_tagged_labels(name, tags)
        }
        false => graphite_path_labels(name),
    };
    let labels = Labels::from_pairs(of_path());
    (made.ok()? == labels).then_some(labels)
}
