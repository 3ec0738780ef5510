//! The configuration file: strict TOML over the option table.
//!
//! Every key must be in the table; every error carries the line it is about.

use sandur_model::{Limits, TenantId};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::error::{Error, nearest};
use super::settings::Settings;
use super::table::{LIMITS, Named};

/// Applies the text of a file named `path` to the settings.
pub fn apply(settings: &mut Settings, path: &str, text: &str) -> Result<(), Error> {
    let file = File { path, text };
    let document = DeTable::parse(text).map_err(|error| {
        let start = error.span().map_or(0, |s| s.start);
        Error::Syntax { place: file.place(start), reason: error.message().to_owned() }
    })?;
    let known = Named::every();
    let mut pairs = Vec::new();
    let mut tenants = Vec::new();
    for (key, value) in document.get_ref() {
        match (key.get_ref().as_ref(), value.get_ref()) {
            ("tenants", DeValue::Table(table)) => tenants.extend(table.iter()),
            (name, _) => file.flatten(name, key.span().start, value, &mut pairs)?,
        }
    }
    for pair in &pairs {
        let Some(named) = known.iter().find(|n| n.key == pair.key) else {
            return Err(file.unknown(pair, known.iter().map(|n| n.key.as_str())));
        };
        named.slot(settings).set(&pair.value).map_err(|reason| file.bad_value(pair, reason))?;
    }
    // After [limits], which a tenant's own limits start from wherever they stand in the file.
    for (name, table) in tenants {
        let limits = file.tenant(name, table, &settings.limits)?;
        settings.tenants.insert(name.get_ref().to_string(), limits);
    }
    Ok(())
}

struct File<'a> {
    path: &'a str,
    text: &'a str,
}

/// A key with its value as text.
struct Pair {
    key: String,
    value: String,
    offset: usize,
}

impl File<'_> {
    fn place(&self, offset: usize) -> String {
        let before = &self.text.as_bytes()[..offset.min(self.text.len())];
        let line = 1 + before.iter().filter(|&&b| b == b'\n').count();
        format!("{}:{line}", self.path)
    }

    fn unknown<'a>(&self, pair: &Pair, names: impl IntoIterator<Item = &'a str>) -> Error {
        let nearest = nearest(&pair.key, names);
        let place = self.place(pair.offset);
        Error::Unknown { place, name: pair.key.clone(), nearest }
    }

    fn bad_value(&self, pair: &Pair, reason: String) -> Error {
        Error::Value { place: self.place(pair.offset), name: pair.key.clone(), reason }
    }

    /// The limits of `[tenants.NAME]`: the common ones with those that stand there.
    fn tenant(
        &self,
        name: &Spanned<std::borrow::Cow<'_, str>>,
        table: &Spanned<DeValue<'_>>,
        common: &Limits,
    ) -> Result<Limits, Error> {
        let place = || self.place(name.span().start);
        TenantId::new(name.get_ref()).map_err(|e| Error::Value {
            place: place(),
            name: format!("tenants.{}", name.get_ref()),
            reason: e.to_string(),
        })?;
        let mut pairs = Vec::new();
        let mut limits = common.clone();
        let Some(keys) = table.get_ref().as_table() else {
            let reason = "expected a table of limits".to_owned();
            return Err(Error::Value { place: place(), name: format!("tenants.{}", name.get_ref()), reason });
        };
        for (key, value) in keys {
            self.flatten(key.get_ref(), key.span().start, value, &mut pairs)?;
        }
        for pair in &pairs {
            let Some(spec) = LIMITS.iter().find(|l| l.key == pair.key) else {
                return Err(self.unknown(pair, LIMITS.iter().map(|l| l.key)));
            };
            (spec.slot)(&mut limits).set(&pair.value).map_err(|reason| self.bad_value(pair, reason))?;
        }
        Ok(limits)
    }

    /// Turns nested tables into dotted keys and values into text.
    fn flatten(
        &self,
        key: &str,
        offset: usize,
        value: &Spanned<DeValue<'_>>,
        pairs: &mut Vec<Pair>,
    ) -> Result<(), Error> {
        let value = match value.get_ref() {
            DeValue::Table(table) => {
                for (name, inner) in table {
                    let key = format!("{key}.{}", name.get_ref());
                    self.flatten(&key, name.span().start, inner, pairs)?;
                }
                return Ok(());
            }
            value => scalar(value),
        };
        let Some(value) = value else {
            let (place, name) = (self.place(offset), key.to_owned());
            let reason = "expected text, a number, true or false, or a list of texts".to_owned();
            return Err(Error::Value { place, name, reason });
        };
        pairs.push(Pair { key: key.to_owned(), value, offset });
        Ok(())
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
    fn slips_are_errors_with_line_and_remedy() {
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
            ("listen = [1]", "s.toml:1: listen: expected text, a number, true or false, or a list of texts"),
        ] {
            assert_eq!(read(text).unwrap_err(), message);
        }
        assert!(read("x = ").unwrap_err().starts_with("s.toml:1: not valid TOML"));
    }
}
