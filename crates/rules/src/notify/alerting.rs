//! The section `alerting` of Prometheus's configuration: to which Alertmanagers alerts are sent, and rules
//! that change labels of alerts or drop them.
//!
//! **Invariants.** An unknown key is an error with its line. A file with an error keeps what held before.
//! Alertmanagers come from files of the operator only.

use std::collections::{BTreeMap, HashSet};
use std::path::PathBuf;
use std::time::Duration;

use sandur_base::small_file;
use sandur_memory::MemoryBudget;
use sandur_targets::{FileDiscovery, KnownFiles, LabelSet, Relabel, TargetGroup, relabel};
use sandur_yaml::{ConfigError, Keys, Node};

/// The largest file.
const FILE_BYTES_MAX: u64 = 1 << 20;
/// The most Alertmanagers; each has a queue of its own.
pub const ALERTMANAGERS_MAX: usize = 100;
/// Memory of lists of targets.
const LISTS_BYTES_MAX: u64 = 8 << 20;

const SCHEME: &str = "__scheme__";
const ADDRESS: &str = "__address__";
const PATH: &str = "__alerts_path__";

/// An Alertmanager and what is sent to it.
#[derive(Clone, Debug)]
pub struct Destination {
    /// The URL of its API, with a user and password if it needs them.
    pub url: String,
    /// `alert_relabel_configs` of the Alertmanager.
    pub relabel: Vec<Relabel>,
}

/// Alertmanagers with common options.
#[derive(Clone, Debug)]
struct Managers {
    scheme: String,
    path_prefix: String,
    /// User and password, escaped for a URL.
    user: Option<String>,
    groups: Vec<TargetGroup>,
    files: Vec<FileDiscovery>,
    relabel: Vec<Relabel>,
    alert_relabel: Vec<Relabel>,
}

/// A parsed file.
#[derive(Clone, Debug, Default)]
pub struct Alerting {
    relabel: Vec<Relabel>,
    managers: Vec<Managers>,
}

impl Alerting {
    /// Reads a file. Keys of Prometheus's configuration outside of `alerting` are ignored.
    pub fn parse(text: &str) -> Result<Self, ConfigError> {
        let root = Node::parse(text)?;
        let mut keys = Keys::of(&root)?;
        let Some(section) = keys.take("alerting") else {
            return Err(ConfigError::at(root.line, "there is no section `alerting`".to_owned()));
        };
        let mut keys = Keys::of(section)?;
        let relabel = sandur_targets::rules(&mut keys, "alert_relabel_configs")?;
        let managers = keys.list("alertmanagers")?.iter().map(managers).collect::<Result<_, _>>()?;
        keys.finish(&[], &mut Vec::new())?;
        Ok(Self { relabel, managers })
    }

    /// The Alertmanagers, with those of files, and how many are too many.
    fn destinations(
        &self,
        known: &mut BTreeMap<String, KnownFiles>,
        memory: &MemoryBudget,
    ) -> (Vec<Destination>, usize) {
        let (mut found, mut urls): (Vec<Destination>, HashSet<String>) = (Vec::new(), HashSet::new());
        for managers in &self.managers {
            let mut groups = managers.groups.clone();
            for files in &managers.files {
                let key = files.patterns.join("\0");
                groups.extend(known.entry(key).or_default().read(&files.patterns, memory));
            }
            let all =
                groups.iter().flat_map(|group| group.targets.iter().map(move |address| (group, address)));
            for (group, address) in all {
                let Some(url) = managers.url(group, address) else { continue };
                if urls.insert(url.clone()) && found.len() < ALERTMANAGERS_MAX {
                    found.push(Destination { url, relabel: managers.alert_relabel.clone() });
                }
            }
        }
        let left_out = urls.len() - found.len();
        (found, left_out)
    }
}

impl Managers {
    /// The URL of the API of a target; `None` if a rule drops it.
    fn url(&self, group: &TargetGroup, address: &str) -> Option<String> {
        let mut labels: LabelSet = group.labels.clone();
        let path = format!("{}/api/v2/alerts", self.path_prefix.trim_end_matches('/'));
        let own = [(SCHEME, self.scheme.as_str()), (ADDRESS, address), (PATH, &path)];
        for (name, value) in own {
            labels.entry(name.to_owned()).or_insert_with(|| value.to_owned());
        }
        if !relabel(&self.relabel, &mut labels) {
            return None;
        }
        let of = |name: &str| labels.get(name).map_or("", String::as_str);
        let user = self.user.as_ref().map(|user| format!("{user}@")).unwrap_or_default();
        let slash = if of(PATH).starts_with('/') { "" } else { "/" };
        Some(format!("{}://{user}{}{slash}{}", of(SCHEME), of(ADDRESS), of(PATH)))
    }
}

fn managers(node: &Node) -> Result<Managers, ConfigError> {
    let mut keys = Keys::of(node)?;
    let line = keys.line;
    let scheme = keys.text("scheme")?.unwrap_or_else(|| "http".to_owned());
    if !matches!(scheme.as_str(), "http" | "https") {
        return Err(ConfigError::at(line, format!("scheme: '{scheme}' is neither http nor https")));
    }
    if keys.text("api_version")?.is_some_and(|version| version != "v2") {
        return Err(ConfigError::at(line, "api_version: only v2 exists".to_owned()));
    }
    let path_prefix = keys.text("path_prefix")?.unwrap_or_default();
    let user = match keys.take("basic_auth") {
        None => None,
        Some(node) => {
            let mut basic = Keys::of(node)?;
            let (name, password) = (basic.text("username")?, basic.text("password")?);
            basic.finish(&[], &mut Vec::new())?;
            let escaped = |text: Option<String>| escape(&text.unwrap_or_default());
            Some(format!("{}:{}", escaped(name), escaped(password)))
        }
    };
    let groups = keys.take("static_configs").map(sandur_targets::groups).transpose()?.unwrap_or_default();
    let files = sandur_targets::files(&mut keys, &mut Vec::new())?;
    let relabel = sandur_targets::rules(&mut keys, "relabel_configs")?;
    let alert_relabel = sandur_targets::rules(&mut keys, "alert_relabel_configs")?;
    keys.finish(&[], &mut Vec::new())?;
    Ok(Managers { scheme, path_prefix, user, groups, files, relabel, alert_relabel })
}

/// Percent-encodes a part of the user information of a URL.
fn escape(text: &str) -> String {
    let mut out = String::new();
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => out.push(byte as char),
            _ => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}

/// What a round of [`AlertingFile::read`] found.
pub struct Found {
    /// `alert_relabel_configs` for all Alertmanagers.
    pub relabel: Vec<Relabel>,
    /// The Alertmanagers.
    pub destinations: Vec<Destination>,
}

/// The file, with what holds now.
pub struct AlertingFile {
    path: PathBuf,
    now: Alerting,
    known: BTreeMap<String, KnownFiles>,
    memory: MemoryBudget,
    /// How many Alertmanagers are too many.
    pub left_out: usize,
    /// Why the last version of the file is not in use.
    pub error: Option<String>,
}

impl AlertingFile {
    /// How often the file and the files of targets are read.
    pub const REFRESH: Duration = Duration::from_secs(10);

    /// Opens a file; one with an error is refused.
    pub fn open(path: PathBuf) -> Result<Self, String> {
        let memory = MemoryBudget::root("files of Alertmanagers", LISTS_BYTES_MAX);
        let now = Self::parse(&path)?;
        Ok(Self { path, now, known: BTreeMap::new(), memory, left_out: 0, error: None })
    }

    fn parse(path: &PathBuf) -> Result<Alerting, String> {
        let text = small_file::read_text(path, FILE_BYTES_MAX);
        let text = text.map_err(|error| format!("{} cannot be read: {error}", path.display()))?;
        Alerting::parse(&text).map_err(|error| format!("{}: {error}", path.display()))
    }

    /// Reads the files again. Blocks on file I/O.
    pub fn read(&mut self) -> Found {
        match Self::parse(&self.path) {
            Ok(now) => (self.now, self.error) = (now, None),
            Err(error) => {
                if self.error.as_ref() != Some(&error) {
                    tracing::error!(error, "the Alertmanagers of before stay in use");
                }
                self.error = Some(error);
            }
        }
        let (destinations, left_out) = self.now.destinations(&mut self.known, &self.memory);
        if left_out > 0 && left_out != self.left_out {
            let (file, most) = (self.path.display(), ALERTMANAGERS_MAX);
            tracing::error!(%file, left_out, most, "too many Alertmanagers: some get no alerts");
        }
        self.left_out = left_out;
        Found { relabel: self.now.relabel.clone(), destinations }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "
global: {scrape_interval: 15s}
alerting:
  alert_relabel_configs:
  - {action: labeldrop, regex: replica}
  alertmanagers:
  - static_configs: [{targets: ['a:9093', 'b:9093']}]
    path_prefix: /am/
    basic_auth: {username: u, password: 'p@ss'}
  - scheme: https
    file_sd_configs: [{files: ['FOLDER/*.json']}]
    relabel_configs:
    - {source_labels: [__address__], regex: 'drop.*', action: drop}
    alert_relabel_configs: [{source_labels: [severity], regex: info, action: drop}]
";

    fn urls(found: &Found) -> Vec<&str> {
        found.destinations.iter().map(|to| to.url.as_str()).collect()
    }

    #[test]
    fn alertmanagers_come_from_lists_and_files_and_a_broken_file_keeps_them() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("prometheus.yml");
        let text = FILE.replace("FOLDER", &folder.path().display().to_string());
        std::fs::write(&path, &text).unwrap();
        std::fs::write(folder.path().join("t.json"), r#"[{"targets": ["c:1", "drop:1"]}]"#).unwrap();
        let mut file = AlertingFile::open(path.clone()).unwrap();
        let found = file.read();
        let expected = [
            "http://u:p%40ss@a:9093/am/api/v2/alerts",
            "http://u:p%40ss@b:9093/am/api/v2/alerts",
            "https://c:1/api/v2/alerts",
        ];
        assert_eq!((urls(&found), found.relabel.len()), (expected.to_vec(), 1));
        assert_eq!(found.destinations[2].relabel.len(), 1);

        std::fs::write(&path, text.replace("path_prefix", "path_prefixx")).unwrap();
        std::fs::write(folder.path().join("t.json"), r#"[{"targets": ["#).unwrap();
        assert_eq!(urls(&file.read()), expected);
        let error = file.error.clone().unwrap();
        assert!(error.contains("line 8: unknown key 'path_prefixx'; did you mean 'path_prefix'?"), "{error}");
        std::fs::write(&path, text.replace("'b:9093'", "")).unwrap();
        std::fs::remove_file(folder.path().join("t.json")).unwrap();
        assert_eq!((urls(&file.read()), file.error.is_none()), (expected[..1].to_vec(), true));
    }

    /// They were left out without a word.
    #[test]
    fn too_many_alertmanagers_are_counted() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("prometheus.yml");
        let targets: Vec<String> = (0..110).chain(0..5).map(|n| format!("am{n}:9093")).collect();
        let targets = targets.join(", ");
        let text = format!("alerting: {{alertmanagers: [{{static_configs: [{{targets: [{targets}]}}]}}]}}");
        std::fs::write(&path, text).unwrap();
        let mut file = AlertingFile::open(path).unwrap();
        assert_eq!((file.read().destinations.len(), file.left_out), (100, 10));
    }

    #[test]
    fn errors_of_the_file_name_their_line() {
        for (text, expected) in [
            ("rule_files: []", "line 1: there is no section `alerting`"),
            ("alerting: {alertmanagers: [{scheme: ftp}]}", "line 1: scheme: 'ftp' is neither http nor https"),
            ("alerting: {alertmanagers: [{api_version: v1}]}", "line 1: api_version: only v2 exists"),
            (
                "alerting: {alert_relabel_configs: [{action: x}]}",
                "line 1: action: unknown relabel action 'x'",
            ),
        ] {
            assert_eq!(Alerting::parse(text).unwrap_err().to_string(), expected);
        }
    }
}
