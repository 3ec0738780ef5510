//! Credentials for targets, and trust in their certificates. Files are read at each scrape.

use std::path::PathBuf;

use sandur_base::small_file;

use sandur_yaml::{ConfigError, Keys};

/// The largest password or token file in bytes.
const SECRET_BYTES_MAX: u64 = 64 << 10;

/// The credentials of a job.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Auth {
    /// No credentials.
    #[default]
    None,
    /// HTTP basic authentication.
    Basic {
        /// The user name.
        username: Secret,
        /// The password.
        password: Secret,
    },
    /// An `Authorization` header with a type and a token.
    Token {
        /// The type; the default is `Bearer`.
        kind: String,
        /// The token.
        credentials: Secret,
    },
}

/// A secret text, in the configuration or in a file.
#[derive(Clone, PartialEq, Eq)]
pub enum Secret {
    /// The secret itself.
    Text(String),
    /// The path of the file that contains it.
    File(PathBuf),
}

/// Shows the location of a secret instead of its text.
impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Text(_) => f.write_str("<secret>"),
            Self::File(path) => write!(f, "<secret in {}>", path.display()),
        }
    }
}

impl Secret {
    /// Returns the secret. Blocks on file I/O.
    pub fn read(&self) -> Result<String, String> {
        match self {
            Self::Text(text) => Ok(text.clone()),
            Self::File(path) => match small_file::read_text(path, SECRET_BYTES_MAX) {
                Ok(text) => Ok(text.trim_end().to_owned()),
                Err(error) => Err(format!("cannot read {}: {error}", path.display())),
            },
        }
    }
}

/// How the certificate of a target is verified.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Tls {
    /// Path of the certificate authorities; the default is those of the system.
    pub ca_file: Option<PathBuf>,
    /// Whether to accept every certificate.
    pub insecure: bool,
}

const FOREIGN_TLS: &[&str] =
    &["cert_file", "key_file", "cert", "key", "ca", "server_name", "min_version", "max_version"];

/// Reads the credentials of a job. If there are several kinds, the last one is used.
pub(super) fn auth(keys: &mut Keys<'_>, warnings: &mut Vec<String>) -> Result<Auth, ConfigError> {
    let mut auth = Auth::None;
    if let Some(node) = keys.take("basic_auth") {
        let mut basic = Keys::of(node)?;
        let username = secret(&mut basic, "username", "username_file")?;
        let password = secret(&mut basic, "password", "password_file")?;
        basic.finish(&[], warnings)?;
        let nothing = || Secret::Text(String::new());
        let (username, password) = (username.unwrap_or_else(nothing), password.unwrap_or_else(nothing));
        auth = Auth::Basic { username, password };
    }
    if let Some(node) = keys.take("authorization") {
        let mut token = Keys::of(node)?;
        let kind = token.text("type")?.unwrap_or_else(|| "Bearer".to_owned());
        let credentials = secret(&mut token, "credentials", "credentials_file")?;
        token.finish(&[], warnings)?;
        if let Some(credentials) = credentials {
            auth = Auth::Token { kind, credentials };
        }
    }
    if let Some(credentials) = secret(keys, "bearer_token", "bearer_token_file")? {
        auth = Auth::Token { kind: "Bearer".to_owned(), credentials };
    }
    Ok(auth)
}

fn secret(
    keys: &mut Keys<'_>,
    text: &'static str,
    file: &'static str,
) -> Result<Option<Secret>, ConfigError> {
    let (text, file) = (keys.text(text)?, keys.text(file)?);
    Ok(text.map(Secret::Text).or(file.map(|path| Secret::File(path.into()))))
}

/// Reads the trust settings of a job.
pub(super) fn tls(keys: &mut Keys<'_>, warnings: &mut Vec<String>) -> Result<Tls, ConfigError> {
    let Some(node) = keys.take("tls_config") else { return Ok(Tls::default()) };
    let mut keys = Keys::of(node)?;
    let ca_file = keys.text("ca_file")?.map(PathBuf::from);
    let insecure = keys.switch("insecure_skip_verify", false)?;
    keys.finish(FOREIGN_TLS, warnings)?;
    Ok(Tls { ca_file, insecure })
}
