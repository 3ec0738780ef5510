//! Parses store URLs: `file://` and bare paths, `s3://`, `gs://`, `az://`, `memory://`.
//!
//! A URL must not contain credentials: they come from the environment or the machine's role. Error
//! messages about URLs do not repeat anything that could be a secret.

use std::path::PathBuf;

use url::Url;

use crate::error::Error;

/// A parsed store URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Location {
    /// An absolute path of a local directory.
    Directory(PathBuf),
    /// A bucket or container of a service, with a prefix.
    Bucket { service: Service, bucket: String, prefix: String, settings: Settings },
    /// A store in memory, for tests.
    Memory,
}

/// The services with buckets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Service {
    S3,
    Google,
    Azure,
}

/// The settings in the query of a bucket URL.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Settings {
    pub region: Option<String>,
    pub endpoint: Option<String>,
    pub account: Option<String>,
    pub allow_http: Option<bool>,
    pub virtual_hosted_style: Option<bool>,
    pub unsigned_payload: Option<bool>,
    pub skip_signature: Option<bool>,
    pub bulk_delete: Option<bool>,
}

const FORMS: &str = "write file:///absolute/path, file://./relative/path, \
    s3://bucket/prefix?region=..&endpoint=.., gs://bucket/prefix or az://container/prefix?account=..";

impl Service {
    fn scheme(self) -> &'static str {
        match self {
            Self::S3 => "s3",
            Self::Google => "gs",
            Self::Azure => "az",
        }
    }

    /// The names of the settings that the service supports.
    fn settings(self) -> &'static [&'static str] {
        match self {
            Self::S3 => &[
                "region",
                "endpoint",
                "allow_http",
                "virtual_hosted_style",
                "unsigned_payload",
                "skip_signature",
                "bulk_delete",
            ],
            Self::Google => &["endpoint", "allow_http", "skip_signature"],
            Self::Azure => &["account", "endpoint", "allow_http", "skip_signature"],
        }
    }

    fn credentials_remedy(self) -> &'static str {
        match self {
            Self::S3 => "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or attach a role",
            Self::Google => "set GOOGLE_SERVICE_ACCOUNT to the key file's path, or attach a service account",
            Self::Azure => "set AZURE_STORAGE_ACCOUNT_KEY, or attach an identity",
        }
    }
}

impl Location {
    /// Parses a store URL or a bare path.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let Some((scheme, rest)) = text.split_once("://") else {
            return directory(text);
        };
        match scheme {
            "file" => file(rest),
            "memory" => Ok(Self::Memory),
            "s3" => bucket(Service::S3, text),
            "gs" => bucket(Service::Google, text),
            "az" => bucket(Service::Azure, text),
            other => Err(Error::invalid(format!("a store cannot be '{other}://': {FORMS}"))),
        }
    }

    /// The canonical URL, without secrets.
    pub fn url(&self) -> String {
        match self {
            Self::Directory(path) => format!("file://{}", path.display()),
            Self::Memory => "memory://".to_owned(),
            Self::Bucket { service, bucket, prefix, settings } => {
                let base = format!("{}://{bucket}", service.scheme());
                let base = if prefix.is_empty() { base } else { format!("{base}/{prefix}") };
                let shown = [
                    ("region", &settings.region),
                    ("account", &settings.account),
                    ("endpoint", &settings.endpoint),
                ];
                let query = shown.iter().filter_map(|(k, v)| v.as_ref().map(|v| format!("{k}={v}")));
                let query = query.collect::<Vec<_>>().join("&");
                if query.is_empty() { base } else { format!("{base}?{query}") }
            }
        }
    }
}

/// Parses the part of a URL after `file://`.
fn file(rest: &str) -> Result<Location, Error> {
    let path = rest.strip_prefix("localhost/").map_or(rest.to_owned(), |p| format!("/{p}"));
    if !path.starts_with(['/', '.']) {
        return Err(Error::invalid(format!(
            "'file://{rest}' names a host, not a path: write file:///{rest} (absolute) or \
             file://./{rest} (relative)"
        )));
    }
    directory(&percent_decoded("path", &path)?)
}

fn directory(path: &str) -> Result<Location, Error> {
    if path.is_empty() {
        return Err(Error::invalid(format!("a store needs a location: {FORMS}")));
    }
    if path.starts_with('~') {
        let reason = format!("'{path}' is not expanded here: write the home directory in full");
        return Err(Error::invalid(reason));
    }
    let unreadable =
        |e| Error::invalid(format!("'{path}' cannot be made absolute ({e}): write an absolute path"));
    let absolute = std::path::absolute(path).map_err(unreadable)?;
    Ok(Location::Directory(without_dots(&absolute)))
}

/// Removes `.` and resolves `..` without accessing the file system, so that messages show a plain path.
fn without_dots(path: &std::path::Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            std::path::Component::CurDir => {}
            std::path::Component::ParentDir => {
                plain.pop();
            }
            part => plain.push(part),
        }
    }
    plain
}

/// Decodes %-escapes. An error names the part of the URL (`part`) and does not repeat its text.
fn percent_decoded(part: &str, text: &str) -> Result<String, Error> {
    let bad = || {
        Error::invalid(format!(
            "the {part} of the store URL has a broken %-escape: write '%25' for a percent sign"
        ))
    };
    let (mut decoded, mut bytes) = (Vec::new(), text.bytes());
    while let Some(byte) = bytes.next() {
        if byte != b'%' {
            decoded.push(byte);
            continue;
        }
        let digit = |b: Option<u8>| b.and_then(|b| char::from(b).to_digit(16)).ok_or_else(bad);
        decoded.push((digit(bytes.next())? * 16 + digit(bytes.next())?) as u8);
    }
    String::from_utf8(decoded).map_err(|_| bad())
}

fn bucket(service: Service, text: &str) -> Result<Location, Error> {
    let scheme = service.scheme();
    let parsed = Url::parse(text).map_err(|error| {
        Error::invalid(format!("the {scheme}:// URL of the store is malformed ({error}): {FORMS}"))
    })?;
    if !parsed.username().is_empty() || parsed.password().is_some() {
        return Err(no_secrets(service, "a user or password"));
    }
    let bucket = parsed.host_str().unwrap_or_default().to_owned();
    if bucket.is_empty() {
        return Err(Error::invalid(format!("{scheme}:// needs a bucket: write {scheme}://bucket/prefix")));
    }
    if bucket.contains('%') {
        return Err(Error::invalid(format!(
            "'{bucket}' is not a bucket: names of buckets have no %-escapes"
        )));
    }
    if parsed.port().is_some() {
        let reason = format!(
            "'{bucket}' is taken as the bucket, and buckets have no port: name the server with \
             ?endpoint=http://host:port"
        );
        return Err(Error::invalid(reason));
    }
    let prefix = percent_decoded("prefix", parsed.path().trim_matches('/'))?;
    if prefix.split('/').any(|part| part == ".." || part == ".") || prefix.contains("//") {
        return Err(Error::invalid(format!("'{prefix}' is not a prefix: no empty parts, '.' or '..'")));
    }
    percent_decoded("query", parsed.query().unwrap_or_default())?;
    let mut settings = Settings::default();
    for (name, value) in parsed.query_pairs() {
        set(service, &mut settings, &name, value.into_owned())?;
    }
    // An endpoint with http:// implies allow_http.
    let is_http = settings.endpoint.as_ref().is_some_and(|e| e.starts_with("http://"));
    if is_http && settings.allow_http == Some(false) {
        return Err(Error::invalid("endpoint=http://.. contradicts allow_http=false: remove one of them"));
    }
    settings.allow_http = settings.allow_http.or(is_http.then_some(true));
    Ok(Location::Bucket { service, bucket, prefix, settings })
}

fn no_secrets(service: Service, what: &str) -> Error {
    let remedy = service.credentials_remedy();
    Error::invalid(format!("the store URL contains {what}: URLs end up in logs; remove it and {remedy}"))
}

fn set(service: Service, settings: &mut Settings, name: &str, value: String) -> Result<(), Error> {
    let secrets = ["key", "secret", "token", "password", "sas", "sig", "credential"];
    let known = service.settings();
    if !known.contains(&name) {
        let lower = name.to_ascii_lowercase();
        if secrets.iter().any(|s| lower.contains(s)) {
            return Err(no_secrets(service, &format!("'{name}'")));
        }
        let known = known.join(", ");
        return Err(Error::invalid(format!("unknown setting '{name}' in the store URL; known: {known}")));
    }
    match name {
        "region" => settings.region = Some(value),
        "account" => settings.account = Some(value),
        "endpoint" => settings.endpoint = Some(endpoint(value)?),
        "allow_http" => settings.allow_http = Some(switch(name, &value)?),
        "virtual_hosted_style" => settings.virtual_hosted_style = Some(switch(name, &value)?),
        "unsigned_payload" => settings.unsigned_payload = Some(switch(name, &value)?),
        "skip_signature" => settings.skip_signature = Some(switch(name, &value)?),
        "bulk_delete" => settings.bulk_delete = Some(switch(name, &value)?),
        _ => unreachable!("every supported setting has an arm"),
    }
    Ok(())
}

fn endpoint(value: String) -> Result<String, Error> {
    let bad = "endpoint in the store URL must look like https://host or http://host:port, without \
               user, path or query";
    let parsed = Url::parse(&value).map_err(|_| Error::invalid(bad))?;
    let is_plain = matches!(parsed.scheme(), "http" | "https")
        && parsed.has_host()
        && parsed.username().is_empty()
        && parsed.password().is_none()
        && parsed.query().is_none();
    if is_plain { Ok(value.trim_end_matches('/').to_owned()) } else { Err(Error::invalid(bad)) }
}

fn switch(name: &str, value: &str) -> Result<bool, Error> {
    match value {
        "true" | "1" | "" => Ok(true),
        "false" | "0" => Ok(false),
        _ => Err(Error::invalid(format!("{name} in the store URL must be true or false"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Location {
        Location::parse(text).unwrap()
    }

    fn refusal(text: &str) -> String {
        Location::parse(text).unwrap_err().to_string()
    }

    #[test]
    fn directories_have_several_forms() {
        let here = std::path::absolute(".").unwrap();
        let relative = Location::Directory(here.join("sandur-data"));
        for text in ["file://./sandur-data", "./sandur-data", "sandur-data", "file://./x/../sandur-data/"] {
            assert_eq!(parse(text), relative, "{text}");
        }
        let absolute = Location::Directory("/var/lib/my data".into());
        for text in ["file:///var/lib/my%20data", "/var/lib/my data", "file://localhost/var/lib/my data"] {
            assert_eq!(parse(text), absolute, "{text}");
        }
        assert_eq!(absolute.url(), "file:///var/lib/my data");
    }

    #[test]
    fn bucket_urls_have_prefixes_and_settings() {
        let location = parse("s3://logs/a/b/?region=eu-west-1&endpoint=http://127.0.0.1:9000/");
        let Location::Bucket { service, bucket, prefix, settings } = &location else { panic!() };
        assert_eq!((*service, bucket.as_str(), prefix.as_str()), (Service::S3, "logs", "a/b"));
        assert_eq!(settings.endpoint.as_deref(), Some("http://127.0.0.1:9000"));
        assert_eq!(settings.allow_http, Some(true));
        assert_eq!(location.url(), "s3://logs/a/b?region=eu-west-1&endpoint=http://127.0.0.1:9000");
        assert_eq!(parse("gs://logs").url(), "gs://logs");
        assert_eq!(parse("az://logs/x?account=acme").url(), "az://logs/x?account=acme");
        assert_eq!(parse("memory://"), Location::Memory);
    }

    #[test]
    fn errors_name_the_correct_form_and_repeat_no_secret() {
        let cases = [
            ("file://var/lib", "file:///var/lib (absolute)"),
            ("file://", "names a host"),
            ("", "a store needs a location"),
            ("~/data", "home directory in full"),
            ("ftp://host/x", "cannot be 'ftp://'"),
            ("s3:///prefix", "write"),
            ("s3://host:9000/bucket", "?endpoint=http://host:port"),
            ("s3://bucket?regoin=x", "known: region, endpoint"),
            ("s3://bucket?allow_http=maybe", "true or false"),
            ("s3://bucket?endpoint=127.0.0.1:9000", "must look like"),
            ("s3://bucket/a/%2e%2e/b%zz", "%-escape"),
            ("file:///a%2", "the path of the store URL has a broken %-escape"),
            ("s3://bucket/a%zz", "the prefix of the store URL has a broken %-escape"),
            ("s3://bucket?region=eu%zz", "the query of the store URL has a broken %-escape"),
            ("gs://my%20bucket/x", "names of buckets have no %-escapes"),
            ("s3://bucket?endpoint=http://h&allow_http=false", "contradicts"),
        ];
        for (text, part) in cases {
            let refusal = refusal(text);
            assert!(refusal.contains(part), "{text}: {refusal}");
        }
        for text in [
            "s3://AKIAHUNTER2:hunter2@bucket/x",
            "s3://bucket?secret_access_key=hunter2",
            "az://c?sas_token=hunter2",
            "s3://bucket?endpoint=http://user:hunter2@host",
        ] {
            let refusal = refusal(text);
            assert!(!refusal.to_lowercase().contains("hunter2"), "{refusal}");
        }
    }
}
