//! Finds credentials for S3 in the order of the AWS SDKs:
//!
//! 1. environment: `AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY`, `AWS_SESSION_TOKEN`
//! 2. web identity: `AWS_WEB_IDENTITY_TOKEN_FILE` and `AWS_ROLE_ARN`
//! 3. profile files: `~/.aws/credentials` and `~/.aws/config` (`AWS_SHARED_CREDENTIALS_FILE`,
//!    `AWS_CONFIG_FILE`), the profile of `AWS_PROFILE` or `default`
//! 4. container: `AWS_CONTAINER_CREDENTIALS_RELATIVE_URI`, or `.._FULL_URI` with
//!    `AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE`
//! 5. instance metadata, unless `AWS_EC2_METADATA_DISABLED` is `true`
//!
//! The first source that exists is used. This module reads profiles; `object_store` reads the other
//! sources.
//!
//! **Invariant.** Messages about the sources name variables, files and profiles, never a value that
//! could be a secret.

use std::collections::HashMap;
use std::io;

use sandur_base::small_file;
use sandur_runtime::environment;

/// The largest profile file, in bytes.
const FILE_BYTES_MAX: u64 = 1 << 20;
/// Settings by which a profile gets credentials that are not supported here.
const UNSUPPORTED: [&str; 6] =
    ["sso_session", "sso_start_url", "credential_process", "source_profile", "credential_source", "role_arn"];

/// The credentials of a profile.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Keys {
    pub id: String,
    pub secret: String,
    pub token: Option<String>,
}

/// The result of the search.
#[derive(Default)]
pub(crate) struct Chain {
    /// The keys of the profile, if the profile is the source.
    pub keys: Option<Keys>,
    /// The region that the profile names.
    pub region: Option<String>,
    /// The sources that were tried, for error messages.
    pub tried: String,
}

/// Searches the environment and the files that it names.
pub(crate) fn look() -> Result<Chain, String> {
    look_in(&environment::variable, &read)
}

fn read(path: &str) -> io::Result<String> {
    small_file::read_text(path, FILE_BYTES_MAX)
}

type Variables<'a> = &'a dyn Fn(&str) -> Option<String>;
type Files<'a> = &'a dyn Fn(&str) -> io::Result<String>;

fn look_in(variable: Variables<'_>, read: Files<'_>) -> Result<Chain, String> {
    let has = |name: &str| variable(name).is_some_and(|value| !value.is_empty());
    let profile = Profile::find(variable, read)?;
    let region = profile.values.get("region").cloned();
    let taken = |tried: String| Ok(Chain { keys: None, region: region.clone(), tried });
    if has("AWS_ACCESS_KEY_ID") || has("AWS_SECRET_ACCESS_KEY") {
        return taken("taken from AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY".to_owned());
    }
    if has("AWS_WEB_IDENTITY_TOKEN_FILE") && has("AWS_ROLE_ARN") {
        return taken("taken from the web identity of AWS_WEB_IDENTITY_TOKEN_FILE".to_owned());
    }
    let before = "AWS_ACCESS_KEY_ID is not set, nor AWS_WEB_IDENTITY_TOKEN_FILE with AWS_ROLE_ARN";
    if let Some(keys) = profile.keys()? {
        let tried = format!("taken from {}", profile.shown());
        return Ok(Chain { keys: Some(keys), region, tried });
    }
    let before = format!("{before}; {}", profile.why_not());
    let full = has("AWS_CONTAINER_CREDENTIALS_FULL_URI") && has("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE");
    if has("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI") || full {
        return taken(format!(
            "{before}; so the container credentials are used (AWS_CONTAINER_CREDENTIALS_..)"
        ));
    }
    let before = format!("{before}; no container credentials are configured (AWS_CONTAINER_CREDENTIALS_..)");
    if variable("AWS_EC2_METADATA_DISABLED").is_some_and(|off| off.eq_ignore_ascii_case("true")) {
        return Err(format!("{before}; and AWS_EC2_METADATA_DISABLED disables the instance metadata"));
    }
    taken(format!("{before}; so the instance metadata is used"))
}

/// A profile, merged from both files.
struct Profile {
    name: String,
    /// Whether `AWS_PROFILE` names it.
    asked: bool,
    files: [String; 2],
    /// Why a file could not be read; a missing file is not an error.
    unread: Vec<String>,
    values: HashMap<String, String>,
}

impl Profile {
    fn find(variable: Variables<'_>, read: Files<'_>) -> Result<Self, String> {
        let asked = variable("AWS_PROFILE").filter(|name| !name.is_empty());
        let home = variable("HOME").unwrap_or_default();
        let file = |name: &str, usual: &str| variable(name).unwrap_or_else(|| format!("{home}/.aws/{usual}"));
        let credentials = file("AWS_SHARED_CREDENTIALS_FILE", "credentials");
        let config = file("AWS_CONFIG_FILE", "config");
        let name = asked.clone().unwrap_or_else(|| "default".to_owned());
        let files = [credentials, config];
        let mut profile =
            Self { name, asked: asked.is_some(), files, unread: Vec::new(), values: HashMap::new() };
        let mut found = false;
        // The credentials file takes precedence.
        for (number, path) in profile.files.clone().iter().enumerate() {
            match read(path) {
                Ok(text) => {
                    let section = section(&text, &profile.name, number == 1);
                    found |= section.is_some();
                    for (key, value) in section.unwrap_or_default() {
                        profile.values.entry(key).or_insert(value);
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => profile.unread.push(format!("'{path}' cannot be read: {error}")),
            }
        }
        if profile.asked && !found {
            return Err(profile.why_not());
        }
        Ok(profile)
    }

    fn shown(&self) -> String {
        let asked = if self.asked { " (AWS_PROFILE)" } else { "" };
        format!("profile '{}'{asked} of {} and {}", self.name, self.files[0], self.files[1])
    }

    /// The keys of the profile. Fails if `AWS_PROFILE` names the profile and it has no keys that are
    /// supported here.
    fn keys(&self) -> Result<Option<Keys>, String> {
        let value = |name: &str| self.values.get(name).filter(|value| !value.is_empty()).cloned();
        let (id, secret) = (value("aws_access_key_id"), value("aws_secret_access_key"));
        match (id, secret) {
            (Some(id), Some(secret)) => Ok(Some(Keys { id, secret, token: value("aws_session_token") })),
            _ if self.asked => Err(self.why_not()),
            _ => Ok(None),
        }
    }

    fn why_not(&self) -> String {
        let other = UNSUPPORTED.iter().find(|name| self.values.contains_key(**name));
        let mut text = match other {
            Some(other) => format!(
                "{} gets credentials by '{other}', which is not supported (`aws configure export-credentials \
                 --profile {} --format env` makes variables of them)",
                self.shown(),
                self.name
            ),
            None => format!("{} has no aws_access_key_id and aws_secret_access_key", self.shown()),
        };
        for unread in &self.unread {
            text.push_str("; ");
            text.push_str(unread);
        }
        text
    }
}

/// The settings of a profile in the text of a file. In the config file its section is `[profile NAME]`;
/// `[default]` has the same name in both files.
fn section(text: &str, name: &str, is_config: bool) -> Option<HashMap<String, String>> {
    let mut values = None;
    let mut inside = false;
    for line in text.lines() {
        let bare = line.trim();
        if let Some(title) = bare.strip_prefix('[').and_then(|rest| rest.split(']').next()) {
            let title = title.trim();
            let of_profile = title.strip_prefix("profile ").map(str::trim);
            inside = match of_profile {
                Some(profile) => is_config && profile == name,
                None => title == name && (!is_config || name == "default"),
            };
            if inside {
                values.get_or_insert_with(HashMap::new);
            }
            continue;
        }
        // Indented lines belong to the setting before, for example to `s3 =`.
        let is_part = line.starts_with([' ', '\t']);
        if !inside || is_part || bare.is_empty() || bare.starts_with(['#', ';']) {
            continue;
        }
        if let (Some((key, value)), Some(values)) = (bare.split_once('='), values.as_mut()) {
            let value = value.split(" #").next().unwrap_or_default().trim();
            values.insert(key.trim().to_ascii_lowercase(), value.to_owned());
        }
    }
    values
}

#[cfg(test)]
mod tests {
    use super::*;

    const CREDENTIALS: &str = "[default]\naws_access_key_id = ID\naws_secret_access_key=a=b/c+\n\
        # a comment\n[ci]\naws_access_key_id = CI\naws_secret_access_key = S\naws_session_token = T # why\n\
        [half]\naws_access_key_id = H\n";
    const CONFIG: &str = "[default]\nregion = eu-west-1\ns3 =\n  region = no\n[profile ci]\n\
        region=us-west-2\n[ci]\nregion = not-this\n[profile sso]\nsso_session = corp\n[profile static]\n\
        aws_access_key_id = P\naws_secret_access_key = Q\n";

    fn look(variables: &[(&str, &str)]) -> Result<Chain, String> {
        let variable = |name: &str| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        look_in(&variable, &|path| match path {
            "/home/x/.aws/credentials" => Ok(CREDENTIALS.to_owned()),
            "/home/x/.aws/config" => Ok(CONFIG.to_owned()),
            "/locked" => Err(io::ErrorKind::PermissionDenied.into()),
            _ => Err(io::ErrorKind::NotFound.into()),
        })
    }

    #[test]
    fn profiles_are_read_from_both_files() {
        let home = ("HOME", "/home/x");
        for (profile, id, secret, token, region) in [
            (None, "ID", "a=b/c+", None, Some("eu-west-1")),
            (Some("default"), "ID", "a=b/c+", None, Some("eu-west-1")),
            (Some("ci"), "CI", "S", Some("T"), Some("us-west-2")),
            (Some("static"), "P", "Q", None, None),
        ] {
            let variables: Vec<_> =
                [Some(home), profile.map(|name| ("AWS_PROFILE", name))].into_iter().flatten().collect();
            let chain = look(&variables).unwrap();
            let keys = chain.keys.unwrap();
            assert_eq!((keys.id.as_str(), keys.secret.as_str(), keys.token.as_deref()), (id, secret, token));
            assert_eq!(chain.region.as_deref(), region, "{profile:?}");
            assert!(!chain.tried.contains(secret) || secret.len() < 2, "{}", chain.tried);
        }
        for profile in ["half", "sso", "absent"] {
            let error = look(&[home, ("AWS_PROFILE", profile)]).err().unwrap();
            assert!(error.starts_with(&format!("profile '{profile}' (AWS_PROFILE) of /home/x")), "{error}");
        }
        let sso = look(&[home, ("AWS_PROFILE", "sso")]).err().unwrap();
        assert!(sso.contains("'sso_session'") && sso.contains("export-credentials"), "{sso}");
    }

    #[test]
    fn sources_are_tried_in_order_and_named() {
        let home = ("HOME", "/home/x");
        let id = ("AWS_ACCESS_KEY_ID", "x");
        let web = [("AWS_WEB_IDENTITY_TOKEN_FILE", "t"), ("AWS_ROLE_ARN", "r")];
        let container = ("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "/u");
        for (variables, tried) in [
            (vec![home, id, web[0], web[1], container], "taken from AWS_ACCESS_KEY_ID"),
            (vec![home, web[0], web[1], container], "taken from the web identity"),
            (vec![home, web[0], container], "taken from profile 'default' of /home/x"),
        ] {
            let chain = look(&variables).unwrap();
            assert!(chain.tried.starts_with(tried), "{}", chain.tried);
            assert_eq!(chain.keys.is_some(), tried.contains("profile"));
        }
        let chain = look(&[container]).unwrap();
        assert!(chain.tried.contains("so the container credentials are used"), "{}", chain.tried);
        let chain = look(&[("AWS_CONFIG_FILE", "/locked")]).unwrap();
        for part in [
            "AWS_ACCESS_KEY_ID is not set",
            "profile 'default'",
            "'/locked' cannot be read",
            "instance metadata is used",
        ] {
            assert!(chain.tried.contains(part), "{part}: {}", chain.tried);
        }
        let off = look(&[("AWS_EC2_METADATA_DISABLED", "true")]).err().unwrap();
        assert!(off.ends_with("AWS_EC2_METADATA_DISABLED disables the instance metadata"), "{off}");
    }
}
