//! Names that options have in Loki, Prometheus and go-carbon, or that users guess, and our names for
//! them.
//!
//! One table serves flags and keys of YAML files: `-` and `_` are equivalent, and leading dashes are
//! ignored. It is used only for messages; these names set nothing.

use super::foreign_names::{Foreign, OF_CARBON_AND_PEOPLE, OF_SERVERS};
use super::limits_table::LIMITS;
use super::table::Named;

/// Our name for a foreign name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Whether one of our options has this meaning.
    pub is_named: bool,
    /// The option and the difference, or why there is none.
    pub text: String,
}

/// Groups in which other programs have limits of a tenant with the same names as ours.
const GROUPS_OF_LIMITS: [&str; 9] = [
    "limits_config",
    "limits",
    "validation",
    "distributor",
    "ingester",
    "querier",
    "frontend",
    "store",
    "compactor",
];

/// Normalizes a name as in the table.
fn written(name: &str) -> String {
    name.trim_start_matches('-').replace('-', "_").to_ascii_lowercase()
}

fn names() -> impl Iterator<Item = &'static Foreign> {
    OF_SERVERS.iter().chain(OF_CARBON_AND_PEOPLE)
}

/// The entry of a name: its own, or that of the longest group with this name.
fn entry(written: &str) -> Option<&'static Foreign> {
    let length_of_group = |foreign: &&Foreign| {
        let group = foreign.theirs.strip_suffix(".*")?;
        let rest = written.strip_prefix(group)?;
        (rest.is_empty() || rest.starts_with('.')).then_some(group.len())
    };
    names().find(|foreign| foreign.theirs == written).or_else(|| {
        let groups = names().filter_map(|foreign| Some((length_of_group(&foreign)?, foreign)));
        groups.max_by_key(|(length, _)| *length).map(|(_, foreign)| foreign)
    })
}

/// Our limit with the same name.
fn limit(written: &str) -> Option<&'static str> {
    let (group, limit) = written.split_once('.')?;
    let known = LIMITS.iter().find(|known| known.key == limit)?;
    GROUPS_OF_LIMITS.contains(&group).then_some(known.key)
}

/// Looks up a name. `shown` formats our key like the name that was given.
fn find(name: &str, shown: impl Fn(&str) -> String) -> Option<(&'static str, Answer)> {
    let written = written(name);
    let own = entry(&written).filter(|foreign| !foreign.theirs.ends_with(".*"));
    if own.is_none()
        && let Some(limit) = limit(&written)
    {
        return Some((limit, Answer { is_named: true, text: shown(&format!("limits.{limit}")) }));
    }
    let Foreign { theirs, ours, note } = entry(&written)?;
    let colon = if ours.is_empty() || note.is_empty() { "" } else { ": " };
    let named = if ours.is_empty() { String::new() } else { shown(ours) };
    let text = format!("{named}{colon}{}", with_keys(note, &shown));
    Some((theirs, Answer { is_named: !ours.is_empty(), text }))
}

/// Formats the keys in the braces of a note with `shown`.
fn with_keys(note: &str, shown: impl Fn(&str) -> String) -> String {
    let mut parts = note.split('{');
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        match part.split_once('}') {
            Some((key, rest)) if is_key(key) => text.extend([&*shown(key), rest]),
            _ => text.extend(["{", part]),
        }
    }
    text
}

/// Whether the text in braces is a key, and not a selector.
fn is_key(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"._".contains(&byte))
}

fn key_of(ours: &str) -> String {
    if ours == "config" { "--config".to_owned() } else { ours.to_owned() }
}

fn flag_of(ours: &str) -> String {
    format!("--{}", ours.replace(['.', '_'], "-"))
}

/// Our name for the key of a file.
pub fn key(name: &str) -> Option<String> {
    find(name, key_of).map(|(_, answer)| answer.text)
}

/// Our name for a flag. Our own flags may be given with one dash, or as keys.
pub fn flag(name: &str) -> Option<Answer> {
    let flag = flag_of(&written(name));
    if flag == "--config" || Named::every().iter().any(|named| named.flag() == flag[2..]) {
        return Some(Answer { is_named: true, text: flag });
    }
    find(name, flag_of).map(|(_, answer)| answer)
}

/// Maximum number of keys of a file that are explained.
const KEYS_SHOWN_MAX: usize = 15;

/// Whether a text that is not TOML is YAML: its first line with content is a key with a colon.
pub fn is_yaml(path: &str, text: &str) -> bool {
    let first = text.lines().map(str::trim).find(|line| !line.is_empty() && !line.starts_with('#'));
    let has_key = first.is_some_and(|line| line == "---" || yaml_key(line).is_some());
    has_key || path.ends_with(".yaml") || path.ends_with(".yml")
}

/// Our names for the keys of a YAML file, one per line.
pub fn explain_yaml(text: &str) -> String {
    let mut lines: Vec<String> = Vec::new();
    let mut explained: Vec<&str> = Vec::new();
    for path in yaml_paths(text) {
        let Some((theirs, ours)) = find(&path, key_of) else { continue };
        if explained.contains(&theirs) || lines.len() == KEYS_SHOWN_MAX {
            continue;
        }
        explained.push(theirs);
        lines.push(format!("\n  {path} -> {}", ours.text));
    }
    lines.concat()
}

/// The paths of all keys with a value, in order: a simple subset of YAML that suffices for messages.
fn yaml_paths(text: &str) -> Vec<String> {
    let mut open: Vec<(usize, &str)> = Vec::new();
    let mut paths = Vec::new();
    for line in text.lines() {
        let inner = line.trim_start_matches([' ', '-']);
        let indent = line.len() - inner.len();
        let Some((key, value)) = yaml_key(inner) else { continue };
        while open.last().is_some_and(|(outer, _)| *outer >= indent) {
            open.pop();
        }
        if value.is_empty() {
            open.push((indent, key));
        } else {
            let path: Vec<&str> = open.iter().map(|(_, outer)| *outer).chain([key]).collect();
            paths.push(path.join("."));
        }
    }
    paths
}

fn yaml_key(line: &str) -> Option<(&str, &str)> {
    let (key, value) = line.split_once(':')?;
    let is_name = !key.is_empty() && key.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-');
    let value = value.split('#').next().unwrap_or_default();
    (is_name && (value.is_empty() || value.starts_with(' '))).then_some((key, value.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Our keys in the braces of a note.
    fn keys_in(note: &str) -> Vec<&str> {
        let parts = note.split('{').skip(1).filter_map(|part| Some(part.split_once('}')?.0));
        parts.filter(|key| is_key(key)).collect()
    }

    #[test]
    fn every_name_of_ours_in_an_answer_exists() {
        let known: Vec<String> = Named::every().iter().map(|named| named.key.clone()).collect();
        let is_known = |key: &str| known.iter().any(|ours| ours == key);
        let wrappers = |c: char| !(c.is_ascii_lowercase() || c.is_ascii_digit() || "._-".contains(c));
        for Foreign { theirs, ours, note } in names() {
            assert!(*ours == "config" || ours.is_empty() || is_known(ours), "{theirs}: {ours}");
            assert!(!ours.is_empty() || !note.is_empty(), "{theirs}");
            keys_in(note).into_iter().for_each(|key| assert!(is_known(key), "{theirs}: {key}"));
            // A key outside of braces would be shown as a key when a flag was given.
            let bare = keys_in(note)
                .iter()
                .fold((*note).to_owned(), |note, key| note.replace(&format!("{{{key}}}"), ""));
            for word in bare.split(wrappers) {
                assert!(!word.contains(['.', '_']) || !is_known(word), "{theirs}: {word} needs braces");
                assert!(!word.starts_with("--"), "{theirs}: {word} is an option outside of braces");
            }
            let has_reason = note.starts_with("not needed: ") || note.starts_with("there is n");
            assert_eq!(ours.is_empty(), has_reason, "{theirs}: {note}");
        }
    }

    #[test]
    fn no_name_hides_another_one_or_one_of_our_keys() {
        let known: Vec<String> = Named::every().iter().map(|named| named.key.clone()).collect();
        let mut seen = std::collections::BTreeSet::new();
        for Foreign { theirs, ours, .. } in names() {
            assert!(!known.iter().any(|key| key == theirs), "{theirs} is one of our keys");
            assert!(seen.insert(theirs.trim_end_matches(".*")), "{theirs} is listed twice");
            assert_eq!(written(theirs), *theirs, "names are looked up in normalized form");
            let group = theirs.strip_suffix(".*");
            let asked = group.map_or((*theirs).to_owned(), |group| format!("{group}.anything_else"));
            assert_eq!(entry(&asked).map(|found| found.theirs), Some(*theirs));
            if group.is_none() && limit(theirs).is_some() {
                assert_eq!(ours.strip_prefix("limits."), limit(theirs), "{theirs} is a limit here");
            }
        }
    }

    #[test]
    fn names_of_loki_and_prometheus_are_known() {
        for (theirs, ours) in [
            ("--retention", "--limits-retention-period: how long"),
            ("-config.file", "--config: a TOML file"),
            ("--storage.tsdb.path", "--store"),
            (
                "-retentionFilter",
                "--limits-metrics-retention-series: rules with selector and period, such as {",
            ),
            ("-retentionPeriod", "--limits-retention-period: how long"),
            ("-storageDataPath", "--store"),
            ("--storage.tsdb.retention.time", "--limits-retention-period"),
            ("--web.listen-address", "--listen"),
            ("-server.http-listen-port", "--listen"),
            ("-limits_config.max_line_size", "--limits-max-line-size"),
            ("--port", "--listen: an address with its port"),
            ("-distributor.ingestion-rate-limit-mb", "--limits-ingestion-rate: a size per second"),
            ("-distributor.max-line-size", "--limits-max-line-size"),
            ("-validation.max-line-size", "--limits-max-line-size"),
            ("-querier.max-query-lookback", "--limits-max-query-lookback"),
            ("-querier.max-query-series", "--limits-max-query-series"),
            ("-store.max-query-length", "--limits-max-query-length"),
            ("-ingester.max-chunk-age", "--flush-max-age"),
            ("-log.level", "--log-level"),
            ("--query.lookback-delta", "--query-lookback-delta"),
            ("-store", "--store"),
        ] {
            let found = flag(theirs).unwrap();
            assert!(found.is_named && found.text.starts_with(ours), "{theirs}: {found:?}");
        }
        assert_eq!(flag("--flux-capacitor"), None);
        assert_eq!(key("compactor.compaction_interval").as_deref(), Some("compaction.interval"));
        assert!(key("schema_config").unwrap_or_default().starts_with("not needed"));
        assert!(key("common.storage.s3.bucketnames").unwrap_or_default().starts_with("store: a bucket"));
    }

    #[test]
    fn names_without_a_counterpart_are_explained() {
        for (theirs, why) in [
            ("-target", "not needed: each process does everything"),
            ("-ingester.wal-dir", "not needed: the write-ahead log"),
            (
                "--storage.tsdb.retention.size",
                "there is none: retention is by age, --limits-retention-period",
            ),
            ("-reporting.enabled", "not needed: nothing is reported"),
            ("-verify-config", "there is none: the server refuses to start"),
            ("-print-config-stderr", "there is none: /config"),
            ("--enable-feature", "not needed: experimental PromQL"),
            ("--web.enable-remote-write-receiver", "not needed: remote write is always accepted"),
            (
                "-ingester.concurrent-flushes",
                "there is none of this name: --flush-max-age and --flush-max-bytes",
            ),
            ("-distributor.replication-factor", "there is no such component"),
        ] {
            let found = flag(theirs).unwrap();
            assert!(!found.is_named && found.text.starts_with(why), "{theirs}: {found:?}");
        }
        let text = key("storage.tsdb.retention.size").unwrap();
        assert!(text.ends_with("by age, limits.retention_period"), "{text}");
    }

    #[test]
    fn a_file_of_loki_is_explained_key_by_key() {
        let file = "auth_enabled: false\n\nserver:\n  http_listen_port: 3100 # here\n\ncommon:\n  ring:\n    \
                    kvstore:\n      store: inmemory\n  replication_factor: 1\n  path_prefix: /tmp/loki\n\n\
                    schema_config:\n  configs:\n  - from: 2020-05-15\n    store: tsdb\n\nlimits_config:\n  \
                    retention_period: 744h\n  unknown_thing: 1\nunknown: 2\n";
        assert!(is_yaml("loki-config", file) && !is_yaml("x.toml", "a = 1"));
        assert!(is_yaml("x.yaml", "a = 1"));
        assert_eq!(
            explain_yaml(file).lines().collect::<Vec<_>>(),
            [
                "",
                "  auth_enabled -> auth.require_tenant: credentials are in auth.file",
                "  server.http_listen_port -> listen: an address with its port, such as 0.0.0.0:3100",
                "  common.ring.kvstore.store -> not needed: processes coordinate in the bucket, any number \
                 can share one",
                "  common.replication_factor -> not needed: an acknowledged line is in the store",
                "  common.path_prefix -> store: all data is stored in one place",
                "  schema_config.configs.from -> not needed: blocks are self-describing, there is no schema \
                 or index to configure",
                "  limits_config.retention_period -> limits.retention_period",
            ]
        );
    }
}
