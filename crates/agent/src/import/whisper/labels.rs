//! The labels of the series of a file.

use std::path::Path;

use sandur_model::{GRAPHITE_ARCHIVE, Labels, graphite_path_labels, graphite_tagged_labels};
use sandur_whisper::metric_of;

/// The labels of the metric of a file below `folder`.
pub fn of_file(folder: &Path, file: &Path) -> Result<Labels, String> {
    let below = file.strip_prefix(folder).unwrap_or(file);
    let parts: Option<Vec<&str>> = below.iter().map(|part| part.to_str()).collect();
    let parts = parts.ok_or("its name is not valid UTF-8: rename it")?;
    let metric = metric_of(&parts).map_err(|error| error.to_string())?;
    let labels = match metric.split_once(';') {
        None => graphite_path_labels(&metric),
        Some((name, tags)) => {
            let pairs: Option<Vec<(&str, &str)>> = tags.split(';').map(|tag| tag.split_once('=')).collect();
            let pairs = pairs.ok_or_else(|| format!("'{metric}' has a tag without ="))?;
            graphite_tagged_labels(name, pairs)
        }
    };
    labels.map_err(|error| error.to_string())
}

/// The labels of an archive's series: those of the metric for the finest, with a mark that has the step
/// for others.
pub fn of_archive(metric: &Labels, archive: usize, step: u32) -> Labels {
    let step = step.to_string();
    let mark = (archive > 0).then_some((GRAPHITE_ARCHIVE, step.as_str()));
    Labels::from_pairs(metric.iter().chain(mark))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_have_the_labels_of_their_metric_and_archives_a_mark() {
        let of = |file: &str| of_file(Path::new("/tree"), &Path::new("/tree").join(file));
        let plain = of("a/b.wsp").unwrap();
        assert_eq!(plain, graphite_path_labels("a.b").unwrap());
        assert_eq!(of_archive(&plain, 0, 60), plain);
        assert_eq!(of_archive(&plain, 1, 3600).get("__archive__"), Some("3600"));
        let tagged = of("_tagged/abc/def/disk_DOT_used;host=a;dc=b.wsp").unwrap();
        assert_eq!(tagged.get("__name__"), Some("disk.used"));
        assert_eq!((tagged.get("host"), tagged.get("dc")), (Some("a"), Some("b")));
        assert!(of("_tagged/abc/def/m;host.wsp").unwrap_err().contains("without ="));
        assert!(of(&format!("{}x.wsp", "a/".repeat(64))).unwrap_err().contains("64"));
    }
}
