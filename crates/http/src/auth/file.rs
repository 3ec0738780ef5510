//! Reads the file of credentials: strict TOML with hashes only. Every error has its line.

use std::collections::BTreeMap;

use serde::Deserialize;
use toml::Spanned;

use super::credential::Credential;
use super::scope::Scopes;
use super::secret::{self, Digest};
use super::tenants::Tenants;

/// Maximum size of the file: about twenty thousand credentials.
pub const FILE_BYTES_MAX: u64 = 4 << 20;
/// Maximum length of a credential's name.
const NAME_BYTES_MAX: usize = 128;

/// Why the file cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The file cannot be read.
    #[error("cannot read the file of credentials '{path}' (auth.file): {reason}")]
    Unreadable {
        /// Path of the file.
        path: String,
        /// The error of the system.
        reason: String,
    },
    /// The file has an invalid entry.
    #[error("{place}: {reason}")]
    Wrong {
        /// File and line.
        place: String,
        /// What is wrong.
        reason: String,
    },
}

/// The contents of the file.
#[derive(Debug, Default)]
pub struct Listed {
    /// Tokens by their SHA-256.
    pub tokens: Vec<(Digest, Credential)>,
    /// Users: name, password hash, credential.
    pub users: Vec<(String, String, Credential)>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    #[serde(default)]
    tokens: BTreeMap<Spanned<String>, Token>,
    #[serde(default)]
    users: BTreeMap<Spanned<String>, User>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Token {
    hash: Spanned<String>,
    tenants: Spanned<Vec<String>>,
    scopes: Spanned<Vec<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct User {
    password: Spanned<String>,
    tenants: Spanned<Vec<String>>,
    scopes: Spanned<Vec<String>>,
}

/// Parses the text of the file named `path`.
pub fn read(path: &str, text: &str) -> Result<Listed, Error> {
    let file = File { path, text };
    let document: Document = toml::from_str(text)
        .map_err(|error| file.wrong(error.span().map_or(0, |span| span.start), error.message()))?;
    let mut listed = Listed::default();
    for (name, token) in &document.tokens {
        let digest = file.at(&token.hash, secret::read_token_hash(token.hash.get_ref()))?;
        let credential = file.credential(("token", name), &token.tenants, &token.scopes, digest)?;
        if listed.tokens.iter().any(|(known, _)| *known == digest) {
            return Err(file.wrong(token.hash.span().start, "two credentials have this token"));
        }
        listed.tokens.push((digest, credential));
    }
    for (name, user) in &document.users {
        let fingerprint = secret::sha256(user.password.get_ref().as_bytes());
        let credential = file.credential(("user", name), &user.tenants, &user.scopes, fingerprint)?;
        file.at(&user.password, secret::check_password_hash(user.password.get_ref()))?;
        listed.users.push((name.get_ref().clone(), user.password.get_ref().clone(), credential));
    }
    if listed.tokens.is_empty() && listed.users.is_empty() {
        let reason = "it contains no credential; `sandur token create` creates one";
        return Err(Error::Wrong { place: path.to_owned(), reason: reason.to_owned() });
    }
    Ok(listed)
}

struct File<'a> {
    path: &'a str,
    text: &'a str,
}

impl File<'_> {
    fn wrong(&self, offset: usize, reason: impl Into<String>) -> Error {
        let before = &self.text.as_bytes()[..offset.min(self.text.len())];
        let line = 1 + before.iter().filter(|&&b| b == b'\n').count();
        Error::Wrong { place: format!("{}:{line}", self.path), reason: reason.into() }
    }

    fn at<S, T>(&self, place: &Spanned<S>, outcome: Result<T, String>) -> Result<T, Error> {
        outcome.map_err(|reason| self.wrong(place.span().start, reason))
    }

    fn credential(
        &self,
        (kind, name): (&str, &Spanned<String>),
        tenants: &Spanned<Vec<String>>,
        scopes: &Spanned<Vec<String>>,
        fingerprint: Digest,
    ) -> Result<Credential, Error> {
        let text = name.get_ref();
        let printable = !text.is_empty() && text.len() <= NAME_BYTES_MAX && !text.contains([':', '"']);
        if !printable || text.chars().any(char::is_control) {
            let reason = format!(
                "a name must have 1 to {NAME_BYTES_MAX} bytes and no control character, colon or quote"
            );
            return Err(self.wrong(name.span().start, reason));
        }
        let ids = tenants.get_ref().iter().map(String::as_str);
        let tenants = self.at(tenants, Tenants::parse(ids))?;
        let names = scopes.get_ref().iter().map(String::as_str);
        let scopes = self.at(scopes, Scopes::parse(names))?;
        Ok(Credential { name: format!("{kind} {text}"), tenants, scopes, fingerprint })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::scope::Scope;

    const HASH: &str = "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    const BCRYPT: &str = "$2y$05$6PrUh9cQXEmd0IPGCIVPNuuwNC2q3nlUXsG3dCNr6BLkZp4uGUlcu";

    #[test]
    fn tokens_and_users_are_read() {
        let text = format!(
            "[tokens.agents]\nhash = '{HASH}'\ntenants = ['a']\nscopes = ['write']\n\
             [users.\"grafana@x\"]\npassword = '{BCRYPT}'\ntenants = ['*']\nscopes = ['read', 'delete']\n"
        );
        let listed = read("auth.toml", &text).unwrap();
        let (digest, agents) = &listed.tokens[0];
        assert_eq!((*digest, agents.name.as_str()), (secret::sha256(b"abc"), "token agents"));
        assert!(agents.scopes.has(Scope::Write) && !agents.scopes.has(Scope::Read));
        let (name, hash, grafana) = &listed.users[0];
        assert_eq!((name.as_str(), hash.as_str(), &grafana.tenants), ("grafana@x", BCRYPT, &Tenants::Every));
    }

    #[test]
    fn mistakes_are_refused_with_their_line() {
        let token = |name: &str, hash: &str, tenants: &str, scopes: &str| {
            format!("[tokens.{name}]\nhash = '{hash}'\ntenants = [{tenants}]\nscopes = [{scopes}]\n")
        };
        let good = token("a", HASH, "'x'", "'read'");
        for (text, message) in [
            (String::new(), "f: it contains no credential"),
            ("# nothing\n".to_owned(), "f: it contains no credential"),
            (good.replace("hash", "hassh"), "f:2: unknown field `hassh`"),
            (good.replace("tokens", "token"), "f:1: unknown field `token`"),
            (good.replace("scopes = ['read']", ""), "f:1: missing field `scopes`"),
            (
                token("a", HASH, "'x'", "'raed'"),
                "f:4: 'raed' is not a scope: the scopes are read, write, delete, admin",
            ),
            (token("a", HASH, "", "'read'"), "f:3: contains no tenant"),
            (token("a", HASH, "'a/b'", "'read'"), "f:3: tenant ID 'a/b'"),
            (token("a", "secret", "'x'", "'read'"), "f:2: a token's hash is 'sha256:'"),
            (token("'a:b'", HASH, "'x'", "'read'"), "f:1: a name must have"),
            (
                token("'a\\tb'", HASH, "'x'", "'read'").replace("'a\\tb'", "\"a\\tb\""),
                "f:1: a name must have",
            ),
            (format!("{good}{}", token("b", HASH, "'x'", "")), "f:6: two credentials have this token"),
            (format!("{good}{good}"), "f:5: duplicate key"),
            (format!("{good}["), "f:5: "),
            (
                "[users.u]\npassword = 'plain'\ntenants = ['*']\nscopes = []".to_owned(),
                "f:2: a password's hash",
            ),
        ] {
            let error = read("f", &text).unwrap_err().to_string();
            assert!(error.starts_with(message), "{text}\n{error}");
        }
    }
}
