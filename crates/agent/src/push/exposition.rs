//! Recognises files in Prometheus's text format that are pushed as lines by mistake.

use std::fs::File;
use std::os::unix::fs::FileExt;

/// Bytes at the start of a file that are looked at.
const LOOK_BYTES: usize = 4 << 10;

/// Whether the file begins as Prometheus's text format does: it describes a metric, and nearly all lines are
/// comments or samples.
pub fn is_exposition(file: &File) -> bool {
    let mut start = vec![0; LOOK_BYTES];
    let read = file.read_at(&mut start, 0).unwrap_or_default();
    looks_like_exposition(&start[..read])
}

fn looks_like_exposition(start: &[u8]) -> bool {
    let text = String::from_utf8_lossy(start);
    // The last line may be cut.
    let complete = text.rsplit_once('\n').map_or("", |(lines, _)| lines);
    let lines: Vec<&str> = complete.lines().filter(|line| !line.trim().is_empty()).collect();
    let described = lines.iter().any(|line| line.starts_with("# TYPE ") || line.starts_with("# HELP "));
    let fitting = lines.iter().filter(|line| line.starts_with('#') || is_sample(line)).count();
    described && fitting * 10 >= lines.len() * 9
}

/// `name{label="value"} 1.5 1795132800000`
fn is_sample(line: &str) -> bool {
    let name = line.trim_start_matches(|c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | ':'));
    if name.len() == line.len() || line.starts_with(|c: char| c.is_ascii_digit()) {
        return false;
    }
    let values = match name.strip_prefix('{') {
        Some(labels) => labels.rsplit_once('}').map(|(_, values)| values),
        None => name.starts_with(' ').then_some(name),
    };
    values
        .and_then(|values| values.split_whitespace().next())
        .is_some_and(|value| value.parse::<f64>().is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_format_of_prometheus_is_recognised_and_logs_are_not() {
        let metrics = "# HELP up Whether it is up.\n# TYPE up gauge\nup{job=\"a} b\"} 1 1795132800000\n\
                       go:memory_bytes NaN\nup{jo";
        assert!(looks_like_exposition(metrics.as_bytes()));
        for log in [
            "",
            "up 1\nup 2\n",
            "# TYPE of the error\nError: a file\nis missing here\n",
            "2026-01-14 06:01:43 # TYPE x\n",
        ] {
            assert!(!looks_like_exposition(log.as_bytes()), "{log}");
        }
    }
}
