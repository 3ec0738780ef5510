//! Reads the configuration file: strict TOML over the option table.
//!
//! Every key must be in the table, and every error has the line it is about.

use std::cell::RefCell;
use std::collections::BTreeMap;

use sandur_base::spelling::nearest;
use sandur_model::{Limits, TenantId};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::error::Error;
use super::foreign;
use super::limits_table::LIMITS;
use super::settings::Settings;
use super::table::Named;

/// Keys of limits that were removed. They are accepted with a warning for one release.
const REMOVED: &[&str] = &["max_cache_freshness_per_query"];

/// The most errors of a file that are reported.
const ERRORS_MAX: usize = 100;

/// Applies the text of a file named `path` to the settings.
pub fn apply(settings: &mut Settings, path: &str, text: &str) -> Result<(), Error> {
    let file = File::new(path, text);
    let document = file.parse()?;
    let known = Named::every();
    let mut pairs = Vec::new();
    let mut tenants = Vec::new();
    for (key, value) in document.get_ref() {
        match (key.get_ref().as_ref(), value.get_ref()) {
            ("tenants", DeValue::Table(table)) => tenants.extend(table.iter()),
            (name, _) => file.flatten(name, key.span().start, value, &mut pairs),
        }
    }
    for pair in &pairs {
        if pair.key.strip_prefix("limits.").is_some_and(|key| file.is_removed(key, pair)) {
            continue;
        }
        let Some(named) = known.iter().find(|n| n.key == pair.key) else {
            file.note(pair.offset, file.unknown(pair, known.iter().map(|n| n.key.as_str())));
            continue;
        };
        if let Err(reason) = named.slot(settings).set(&pair.value) {
            file.note(pair.offset, file.bad_value(pair, reason));
        }
    }
    // After `[limits]`, from which a tenant's limits start, wherever the tables are in the file.
    for (name, table) in tenants {
        if let Some(limits) = file.tenant("tenants", name, table, &settings.limits) {
            settings.tenants.insert(name.get_ref().to_string(), limits);
        }
    }
    settings.removed = file.removed.take();
    file.finish()
}

/// Reads a file of overrides named `path`: limits per tenant, on top of those that `base` returns.
pub fn overrides(
    path: &str,
    text: &str,
    base: impl Fn(&str) -> Limits,
) -> Result<BTreeMap<String, Limits>, Error> {
    let file = File::new(path, text);
    let document = file.parse()?;
    let mut all = BTreeMap::new();
    for (key, value) in document.get_ref() {
        let tenants = value.get_ref().as_table().filter(|_| key.get_ref() == "overrides");
        let Some(tenants) = tenants else {
            let (key, offset) = (key.get_ref().to_string(), key.span().start);
            file.note(offset, file.unknown(&Pair { key, value: String::new(), offset }, ["overrides"]));
            continue;
        };
        for (name, table) in tenants {
            if let Some(limits) = file.tenant("overrides", name, table, &base(name.get_ref())) {
                all.insert(name.get_ref().to_string(), limits);
            }
        }
    }
    file.finish()?;
    file.removed.take().iter().for_each(|key| tracing::warn!("{key} has no effect any more: remove it"));
    Ok(all)
}

struct File<'a> {
    path: &'a str,
    text: &'a str,
    /// Places of removed keys, and the keys.
    removed: RefCell<Vec<String>>,
    /// The errors so far, with their places in the text.
    errors: RefCell<Vec<(usize, Error)>>,
}

/// A key and its value as text.
struct Pair {
    key: String,
    value: String,
    offset: usize,
}

impl<'a> File<'a> {
    fn new(path: &'a str, text: &'a str) -> Self {
        Self { path, text, removed: RefCell::default(), errors: RefCell::default() }
    }

    /// Notes an error. A file with errors is not used, but all of them are reported.
    fn note(&self, offset: usize, error: Error) {
        let mut errors = self.errors.borrow_mut();
        if errors.len() < ERRORS_MAX {
            errors.push((offset, error));
        }
    }

    /// Fails if there was an error.
    fn finish(&self) -> Result<(), Error> {
        let mut errors = self.errors.take();
        errors.sort_by_key(|(offset, _)| *offset);
        let mut errors: Vec<Error> = errors.into_iter().map(|(_, error)| error).collect();
        match errors.len() {
            0 => Ok(()),
            1 => Err(errors.remove(0)),
            _ => Err(Error::Several(errors.iter().map(ToString::to_string).collect())),
        }
    }

    fn parse(&self) -> Result<Spanned<DeTable<'a>>, Error> {
        DeTable::parse(self.text).map_err(|error| {
            if foreign::is_yaml(self.path, self.text) {
                return Error::Yaml { path: self.path.to_owned(), keys: foreign::explain_yaml(self.text) };
            }
            let start = error.span().map_or(0, |s| s.start);
            Error::Syntax { place: self.place(start), reason: error.message().to_owned() }
        })
    }

    fn place(&self, offset: usize) -> String {
        let before = &self.text.as_bytes()[..offset.min(self.text.len())];
        let line = 1 + before.iter().filter(|&&b| b == b'\n').count();
        format!("{}:{line}", self.path)
    }

    fn unknown<'n>(&self, pair: &Pair, names: impl IntoIterator<Item = &'n str>) -> Error {
        if let Some(ours) = foreign::key(&pair.key) {
            return Error::Foreign { place: self.place(pair.offset), name: pair.key.clone(), ours };
        }
        let nearest = nearest(&pair.key, names).map(str::to_owned);
        let place = self.place(pair.offset);
        Error::Unknown { place, name: pair.key.clone(), nearest }
    }

    /// Whether the key of a limit was removed; notes its place.
    fn is_removed(&self, key: &str, pair: &Pair) -> bool {
        let is_removed = REMOVED.contains(&key);
        if is_removed {
            self.removed.borrow_mut().push(format!("{}: {}", self.place(pair.offset), pair.key));
        }
        is_removed
    }

    fn bad_value(&self, pair: &Pair, reason: String) -> Error {
        Error::Value { place: self.place(pair.offset), name: pair.key.clone(), reason }
    }

    /// The limits of `[tenants.NAME]`: the common limits, overridden by those in the table. `None` if its
    /// name is wrong, or it is no table.
    fn tenant(
        &self,
        group: &str,
        name: &Spanned<std::borrow::Cow<'_, str>>,
        table: &Spanned<DeValue<'_>>,
        common: &Limits,
    ) -> Option<Limits> {
        let offset = name.span().start;
        let wrong = |reason: String| Error::Value {
            place: self.place(offset),
            name: format!("{group}.{}", name.get_ref()),
            reason,
        };
        if let Err(error) = TenantId::new(name.get_ref()) {
            self.note(offset, wrong(error.to_string()));
            return None;
        }
        let (mut pairs, mut limits) = (Vec::new(), common.clone());
        let Some(keys) = table.get_ref().as_table() else {
            self.note(offset, wrong("expected a table of limits".to_owned()));
            return None;
        };
        for (key, value) in keys {
            self.flatten(key.get_ref(), key.span().start, value, &mut pairs);
        }
        for pair in pairs.iter().filter(|pair| !self.is_removed(&pair.key, pair)) {
            let Some(spec) = LIMITS.iter().find(|l| l.key == pair.key) else {
                self.note(pair.offset, self.unknown_limit(pair));
                continue;
            };
            if let Err(reason) = (spec.slot)(&mut limits).set(&pair.value) {
                self.note(pair.offset, self.bad_value(pair, reason));
            }
        }
        Some(limits)
    }

    /// The error of an unknown key in the limits of a tenant, which have no `limits.` before their names.
    fn unknown_limit(&self, pair: &Pair) -> Error {
        let short = pair.key.strip_prefix("limits.").unwrap_or_default();
        match LIMITS.iter().find(|limit| limit.key == short) {
            Some(limit) => Error::Unknown {
                place: self.place(pair.offset),
                name: pair.key.clone(),
                nearest: Some(limit.key.to_owned()),
            },
            None => self.unknown(pair, LIMITS.iter().map(|limit| limit.key)),
        }
    }

    /// Converts nested tables to dotted keys, and values to text.
    fn flatten(&self, key: &str, offset: usize, value: &Spanned<DeValue<'_>>, pairs: &mut Vec<Pair>) {
        let value = match value.get_ref() {
            DeValue::Table(table) => {
                for (name, inner) in table {
                    let key = format!("{key}.{}", name.get_ref());
                    self.flatten(&key, name.span().start, inner, pairs);
                }
                return;
            }
            value => scalar(value),
        };
        let Some(value) = value else {
            let (place, name) = (self.place(offset), key.to_owned());
            let reason = "expected text, a number, true or false, or a list of texts".to_owned();
            return self.note(offset, Error::Value { place, name, reason });
        };
        pairs.push(Pair { key: key.to_owned(), value, offset });
    }
}

fn scalar(value: &DeValue<'_>) -> Option<String> {
    match value {
        DeValue::String(text) => Some(text.to_string()),
        DeValue::Boolean(on) => Some(on.to_string()),
        DeValue::Integer(number) => {
            Some(i64::from_str_radix(number.as_str(), number.radix()).ok()?.to_string())
        }
        DeValue::Float(number) => Some(number.as_str().to_owned()),
        DeValue::Array(items) if items.iter().any(|item| item.get_ref().is_table()) => {
            Some(json(value)?.to_string())
        }
        DeValue::Array(items) => {
            let words: Option<Vec<String>> = items
                .iter()
                .map(|item| match item.get_ref() {
                    DeValue::String(text) if !text.contains(',') => Some(text.to_string()),
                    _ => None,
                })
                .collect();
            Some(words?.join(","))
        }
        DeValue::Datetime(_) | DeValue::Table(_) => None,
    }
}

/// Converts a structured value to JSON.
fn json(value: &DeValue<'_>) -> Option<serde_json::Value> {
    use serde_json::Value;
    Some(match value {
        DeValue::String(text) => Value::from(text.to_string()),
        DeValue::Boolean(on) => Value::from(*on),
        DeValue::Integer(number) => Value::from(i64::from_str_radix(number.as_str(), number.radix()).ok()?),
        DeValue::Array(items) => {
            Value::Array(items.iter().map(|item| json(item.get_ref())).collect::<Option<_>>()?)
        }
        DeValue::Table(table) => {
            let member = |(name, value): (&Spanned<std::borrow::Cow<'_, str>>, &Spanned<DeValue<'_>>)| {
                Some((name.get_ref().to_string(), json(value.get_ref())?))
            };
            Value::Object(table.iter().map(member).collect::<Option<_>>()?)
        }
        DeValue::Float(_) | DeValue::Datetime(_) => return None,
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn read(text: &str) -> Result<Settings, String> {
        let mut settings = Settings::default();
        apply(&mut settings, "s.toml", text).map(|()| settings).map_err(|e| e.to_string())
    }

    #[test]
    fn a_file_with_everything_is_read() {
        let text = r#"
            store = "s3://logs/prod"
            memory_limit = "2GiB"
            [tenants.team-a]
            max_line_size = 1024
            [flush]
            max_age = "5m"
            [limits]
            retention_period = "30d"
            discover_service_name = ["app", "job"]
        "#;
        let settings = read(text).unwrap();
        assert_eq!((settings.store.as_str(), settings.memory_limit), ("s3://logs/prod", 2 << 30));
        assert_eq!(settings.flush.max_age, Duration::from_secs(300));
        assert_eq!(settings.limits.discover_service_name, ["app", "job"]);
        let team = settings.limits_of("team-a");
        assert_eq!((team.max_line_size, team.retention_period), (1024, 30 * 86_400 * 1_000_000_000));
        assert_eq!(settings.limits_of("other").max_line_size, 256 << 10);
    }

    #[test]
    fn policies_and_overrides_are_read() {
        let text = r#"
            [[limits.blocked_queries]]
            pattern = "rate"
            regex = true
            types = ["metric"]
            [tenants.a]
            max_query_series = 7
            required_labels = ["app"]
        "#;
        let settings = read(text).unwrap();
        assert_eq!(settings.limits.blocked_queries[0].types, ["metric"]);
        let base = |tenant: &str| settings.limits_of(tenant).clone();
        let text = "[overrides.a]\nmax_query_length = '1d'\n[overrides.b]\nmax_query_series = 9";
        let limits = overrides("o.toml", text, base).unwrap();
        let (a, b) = (&limits["a"], &limits["b"]);
        assert_eq!((a.max_query_series, a.max_query_length), (7, 86_400_000_000_000));
        assert_eq!((a.required_labels.len(), b.max_query_series, b.blocked_queries.len()), (1, 9, 1));
        for (text, message) in [
            ("[override.a]", "o.toml:1: unknown key 'override'; did you mean 'overrides'?"),
            ("overrides = 1", "o.toml:1: unknown key 'overrides'; did you mean 'overrides'?"),
            (
                "[overrides.a]\nmax_query_serie = 1",
                "o.toml:2: unknown key 'max_query_serie'; did you mean 'max_query_series'?",
            ),
        ] {
            assert_eq!(overrides("o.toml", text, base).unwrap_err().to_string(), message);
        }
    }

    #[test]
    fn all_mistakes_of_a_file_are_reported_in_the_order_of_their_lines() {
        let text = "a = 1\nmemory_limit = 'lots'\n[tenants.'a/b']\n[tenants.x]\n\
                    limits.metrics.max_label_names_per_series = 1\n\
                    max_line_size = 'x'\n[flush]\nmax_age = 1979-05-27";
        let message = read(text).unwrap_err();
        let places: Vec<&str> = message.lines().filter_map(|line| line.split(": ").next()).collect();
        assert_eq!(
            places,
            ["s.toml:1", "s.toml:2", "s.toml:3", "s.toml:5", "s.toml:6", "s.toml:8"],
            "{message}"
        );
        let text = "[overrides.a]\nx = 1\n[other]\n[overrides.b]\ny = 1";
        let message = overrides("o.toml", text, |_| Limits::default()).unwrap_err().to_string();
        assert_eq!(message.lines().count(), 3, "{message}");
    }

    #[test]
    fn the_limits_of_a_tenant_have_no_prefix() {
        let key = LIMITS.iter().map(|limit| limit.key).find(|key| key.contains('.')).unwrap();
        let message = read(&format!("[tenants.x]\nlimits.{key} = 1")).unwrap_err();
        assert!(
            message.ends_with(&format!("unknown key 'limits.{key}'; did you mean '{key}'?")),
            "{message}"
        );
    }

    #[test]
    fn removed_keys_are_accepted_and_reported() {
        let text = "[limits]\nmax_cache_freshness_per_query = '1m'\n[tenants.a]\nmax_query_series = 7\n\
                    max_cache_freshness_per_query = '2m'";
        let settings = read(text).unwrap();
        assert_eq!(settings.limits_of("a").max_query_series, 7);
        let places =
            ["s.toml:2: limits.max_cache_freshness_per_query", "s.toml:5: max_cache_freshness_per_query"];
        assert_eq!(settings.removed, places);
        assert!(read("[flush]\nmax_cache_freshness_per_query = '1m'").is_err());
        let text = "[overrides.a]\nmax_cache_freshness_per_query = '1m'\nmax_query_series = 9";
        assert_eq!(overrides("o.toml", text, |_| Limits::default()).unwrap()["a"].max_query_series, 9);
    }

    #[test]
    fn mistakes_are_errors_with_line_and_remedy() {
        for (text, message) in [
            ("[flush]\nmax_ag = 1", "s.toml:2: unknown key 'flush.max_ag'; did you mean 'flush.max_age'?"),
            ("a.b = 1", "s.toml:1: unknown key 'a.b'; docs/reference/options.md lists all options"),
            (
                "\nmemory_limit = 'lots'",
                "s.toml:2: memory_limit: 'lots' is not a size: write it like 512MiB or 2GB",
            ),
            (
                "[tenants.x]\nmax_line = 1",
                "s.toml:2: unknown key 'max_line'; docs/reference/options.md lists all options",
            ),
            (
                "[tenants.x]\nmax_line_siz = 1",
                "s.toml:2: unknown key 'max_line_siz'; did you mean 'max_line_size'?",
            ),
            (
                "[tenants.'a/b']",
                "s.toml:1: tenants.a/b: tenant ID 'a/b' contains unsupported characters: \
                 allowed are letters, digits and !-_.*'()",
            ),
            (
                "[limits_config]\nretention_period = '7d'",
                "s.toml:2: unknown key 'limits_config.retention_period'; in Sandur: limits.retention_period",
            ),
            (
                "schema_config = 1",
                "s.toml:1: unknown key 'schema_config'; in Sandur: not needed: blocks are \
                 self-describing, there is no schema or index to configure",
            ),
            (
                "server:\n  http_listen_port: 1",
                "'s.toml' is YAML, but Sandur reads TOML; docs/reference/options.md lists all options\n  \
                 server.http_listen_port -> listen: an address with its port, such as 0.0.0.0:3100",
            ),
            ("listen = [1]", "s.toml:1: listen: expected text, a number, true or false, or a list of texts"),
        ] {
            assert_eq!(read(text).unwrap_err(), message);
        }
        assert!(read("x = ").unwrap_err().starts_with("s.toml:1: not valid TOML"));
    }
}
