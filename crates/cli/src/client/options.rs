//! The options that name a server and how to reach it, from the command line or the environment.
//!
//! An option has precedence over a variable, and our variables over those of Loki's client `logcli`,
//! which are read so that existing settings keep working.

use std::path::{Path, PathBuf};

use clap::{Arg, ArgAction, ArgMatches, Command};
use reqwest::header::{HeaderName, HeaderValue};
use sandur_base::small_file;
use sandur_runtime::environment;
use sandur_terminal::Failed;
use url::Url;

/// Address of a server that was started without options.
const ADDRESS_DEFAULT: &str = "http://127.0.0.1:3100";
/// Maximum bytes of a token: it has to fit into a header.
const TOKEN_BYTES_MAX: u64 = 16 << 10;
/// Heading of these options in the help.
const HEADING: &str = "Server";

/// An option with its environment variables, in order of precedence.
struct Setting {
    option: &'static str,
    variables: &'static [&'static str],
}

const ADDRESS: Setting = Setting { option: "addr", variables: &["SANDUR_ADDR", "LOKI_ADDR"] };
const TENANT: Setting = Setting { option: "tenant", variables: &["SANDUR_TENANT", "LOKI_ORG_ID"] };
const TOKEN_FILE: Setting =
    Setting { option: "token-file", variables: &["SANDUR_TOKEN_FILE", "LOKI_BEARER_TOKEN_FILE"] };
const CA_FILE: Setting = Setting { option: "ca-file", variables: &["SANDUR_CA_FILE", "LOKI_CA_CERT_PATH"] };
const CERT_FILE: Setting =
    Setting { option: "cert-file", variables: &["SANDUR_CERT_FILE", "LOKI_CLIENT_CERT_PATH"] };
const KEY_FILE: Setting =
    Setting { option: "key-file", variables: &["SANDUR_KEY_FILE", "LOKI_CLIENT_KEY_PATH"] };
const INSECURE: Setting =
    Setting { option: "insecure", variables: &["SANDUR_INSECURE", "LOKI_TLS_SKIP_VERIFY"] };
/// Tokens and users have no option: the list of processes shows options to every user.
const TOKEN: Setting = Setting { option: "", variables: &["SANDUR_TOKEN", "LOKI_BEARER_TOKEN"] };
const USER: Setting = Setting { option: "", variables: &["SANDUR_USERNAME", "LOKI_USERNAME"] };
const PASSWORD: Setting = Setting { option: "", variables: &["SANDUR_PASSWORD", "LOKI_PASSWORD"] };

impl Setting {
    fn argument(&self, value_name: &'static str, help: &str) -> Arg {
        let help = format!("{help} [env: {}]", self.variables.join(", "));
        Arg::new(self.option).long(self.option).value_name(value_name).help_heading(HEADING).help(help)
    }

    fn of_environment(&self) -> Option<String> {
        self.variables.iter().find_map(|name| environment::variable(name)).filter(|v| !v.is_empty())
    }

    fn given(&self, matches: &ArgMatches) -> Option<String> {
        matches.get_one::<String>(self.option).cloned().or_else(|| self.of_environment())
    }

    fn file(&self, matches: &ArgMatches) -> Option<PathBuf> {
        self.given(matches).map(PathBuf::from)
    }
}

/// Adds the options.
pub fn arguments(command: Command) -> Command {
    let address = format!("Address of the server: http or https [default: {ADDRESS_DEFAULT}]");
    let header = Arg::new("header").long("header").short('H').value_name("NAME: VALUE");
    let header = header.action(ArgAction::Append).help_heading(HEADING);
    let insecure = INSECURE.argument("", "Accept any certificate of the server: for tests only");
    command
        .arg(ADDRESS.argument("URL", &address))
        .arg(TENANT.argument("NAME", "Tenant, if the server has several").visible_alias("org-id"))
        .arg(TOKEN_FILE.argument("FILE", "Send the token in this file; it is read again for every request"))
        .arg(header.help("Send this header with every request; may be repeated"))
        .arg(CA_FILE.argument("FILE", "Trust only the certificate authorities in this PEM file"))
        .arg(CERT_FILE.argument("FILE", "Client certificate (PEM)").requires("key-file"))
        .arg(KEY_FILE.argument("FILE", "Key of that certificate (PEM)").requires("cert-file"))
        .arg(insecure.action(ArgAction::SetTrue).value_name(None::<&str>))
}

/// The authorization of requests.
#[derive(Clone, Default)]
pub enum Authorization {
    /// None, or by the address or a header.
    #[default]
    None,
    /// Name and password.
    Basic {
        /// The name.
        user: String,
        /// The password.
        password: Option<String>,
    },
    /// A bearer token.
    Token(String),
    /// A bearer token in a file.
    TokenFile(PathBuf),
}

/// The server and how to reach it.
#[derive(Clone, Default)]
pub struct Options {
    /// Address as it was given.
    pub address: String,
    /// The tenant.
    pub tenant: Option<String>,
    /// Headers of every request.
    pub headers: Vec<(HeaderName, HeaderValue)>,
    /// The authorization.
    pub authorization: Authorization,
    /// Certificate authorities to trust instead of the system's.
    pub ca_file: Option<PathBuf>,
    /// Client certificate and key.
    pub identity: Option<(PathBuf, PathBuf)>,
    /// Whether any certificate is accepted.
    pub insecure: bool,
}

impl Options {
    /// The options that the arguments and the environment give.
    pub fn from_arguments(matches: &ArgMatches) -> Result<Self, Failed> {
        let headers = matches.get_many::<String>("header").into_iter().flatten();
        let headers = headers.map(|text| header(text)).collect::<Result<Vec<_>, _>>()?;
        let address = ADDRESS.given(matches).unwrap_or_else(|| ADDRESS_DEFAULT.to_owned());
        let identity = match (CERT_FILE.file(matches), KEY_FILE.file(matches)) {
            (Some(certificate), Some(key)) => Some((certificate, key)),
            (None, None) => None,
            _ => return Err(Failed::new("a client certificate needs --cert-file and --key-file")),
        };
        let by_header = headers.iter().any(|(name, _)| *name == reqwest::header::AUTHORIZATION);
        let by_address = address.contains('@');
        let named = matches.get_one::<String>(TOKEN_FILE.option).map(PathBuf::from);
        if u8::from(by_header) + u8::from(by_address) + u8::from(named.is_some()) > 1 {
            let text = "more than one authorization: give one of --token-file, --header 'Authorization: \
                        ...' and user:password in --addr";
            return Err(Failed::new(text));
        }
        let authorization = match named {
            Some(file) => Authorization::TokenFile(file),
            None if by_header || by_address => Authorization::None,
            None => authorization_from_environment(),
        };
        let insecure = matches.get_flag(INSECURE.option)
            || INSECURE.of_environment().is_some_and(|v| matches!(v.as_str(), "1" | "true"));
        let (tenant, ca_file) = (TENANT.given(matches), CA_FILE.file(matches));
        Ok(Self { address, tenant, headers, authorization, ca_file, identity, insecure })
    }
}

fn authorization_from_environment() -> Authorization {
    if let Some(file) = TOKEN_FILE.of_environment() {
        return Authorization::TokenFile(file.into());
    }
    if let Some(token) = TOKEN.of_environment() {
        return Authorization::Token(token);
    }
    match USER.of_environment() {
        Some(user) => Authorization::Basic { user, password: PASSWORD.of_environment() },
        None => Authorization::None,
    }
}

fn header(text: &str) -> Result<(HeaderName, HeaderValue), Failed> {
    let parsed = text.split_once(':').and_then(|(name, value)| {
        let mut value = HeaderValue::from_str(value.trim()).ok()?;
        value.set_sensitive(true);
        Some((name.trim().parse::<HeaderName>().ok()?, value))
    });
    let explain = || Failed::new(format!("'{text}' is not a header: write --header 'Name: value'"));
    parsed.ok_or_else(explain)
}

/// Reads the token from a file. The error is a complete message.
pub fn read_token(path: &Path) -> Result<String, String> {
    let shown = path.display();
    let text = small_file::read_text(path, TOKEN_BYTES_MAX).map_err(|error| {
        format!("the token file '{shown}' (--token-file) must contain one word, the token: {error}")
    })?;
    let token = text.trim();
    let is_token = !token.is_empty() && token.bytes().all(|b| b.is_ascii_graphic());
    if !is_token {
        return Err(format!("the token file '{shown}' (--token-file) must contain one word: the token"));
    }
    Ok(token.to_owned())
}

/// A server's address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// The address of requests, to which paths are appended.
    pub target: String,
    /// The same without a password, for messages.
    pub shown: String,
}

impl Address {
    /// Parses an address; the scheme may be left out.
    pub fn parse(address: &str) -> Result<Self, Failed> {
        let trimmed = address.trim();
        let trimmed = if trimmed.ends_with("://") { trimmed } else { trimmed.trim_end_matches('/') };
        let target = if trimmed.contains("://") { trimmed.to_owned() } else { format!("http://{trimmed}") };
        let explain = |shown: &str| {
            Failed::new(format!(
                "'{shown}' is not an address: write it like {ADDRESS_DEFAULT} or \
                https://host"
            ))
        };
        // An invalid address may contain a password, too.
        let careful = trimmed.rsplit_once('@').map_or(trimmed, |(_, host)| host);
        let mut parsed = Url::parse(&target).map_err(|_| explain(careful))?;
        let is_plain = parsed.query().is_none() && parsed.fragment().is_none();
        if !matches!(parsed.scheme(), "http" | "https") || !parsed.has_host() || !is_plain {
            return Err(explain(careful));
        }
        if parsed.username().is_empty() && parsed.password().is_none() {
            return Ok(Self { shown: target.clone(), target });
        }
        // This cannot fail for an address with a host.
        let _ = parsed.set_username("").and_then(|()| parsed.set_password(None));
        Ok(Self { shown: parsed.as_str().trim_end_matches('/').to_owned(), target })
    }

    /// Whether the address uses TLS.
    pub fn is_encrypted(&self) -> bool {
        self.target.starts_with("https://")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_completed_or_refused() {
        let shown = |address| Address::parse(address).map(|a| a.shown).map_err(|e| e.message().to_owned());
        assert_eq!(shown("localhost:3100/").unwrap(), "http://localhost:3100");
        assert_eq!(shown("https://logs.example").unwrap(), "https://logs.example");
        assert_eq!(shown("https://logs.example/loki/").unwrap(), "https://logs.example/loki");
        for wrong in ["ftp://x", "https://", "http://x?a=b", "http://x#a", "://"] {
            assert!(shown(wrong).unwrap_err().contains("write it like http://127.0.0.1:3100"), "{wrong}");
        }
    }

    #[test]
    fn a_password_in_the_address_is_sent_and_never_shown() {
        let address = Address::parse("https://me:s3cret@logs.example/x").unwrap();
        assert_eq!(address.shown, "https://logs.example/x");
        assert_eq!(address.target, "https://me:s3cret@logs.example/x");
        let wrong = Address::parse("https://me:s3cret@logs.example:port").unwrap_err();
        assert!(!wrong.message().contains("s3cret"), "{}", wrong.message());
    }

    #[test]
    fn one_authorization_and_well_formed_headers_are_accepted() {
        let options = |arguments: &[&str]| {
            let matches = arguments_of(arguments);
            Options::from_arguments(&matches).map_err(|e| e.message().to_owned())
        };
        let good = options(&["--header", "X-A: b: c", "--token-file", "t"]).unwrap();
        assert_eq!(good.headers[0].1.to_str().unwrap(), "b: c");
        assert!(matches!(good.authorization, Authorization::TokenFile(_)));
        for twice in [
            &["--addr", "http://a:b@c", "--token-file", "t"][..],
            &["--header", "authorization: x", "--token-file", "t"],
            &["--header", "authorization: x", "--addr", "http://a:b@c"],
        ] {
            assert!(options(twice).is_err_and(|text| text.contains("give one of")), "{twice:?}");
        }
        for wrong in ["no colon", "sp ace: x", ": x", "a: b\nc"] {
            assert!(options(&["--header", wrong]).is_err_and(|t| t.contains("'Name: value'")), "{wrong}");
        }
    }

    fn arguments_of(given: &[&str]) -> ArgMatches {
        let all = ["x"].iter().chain(given);
        arguments(Command::new("x")).try_get_matches_from(all).unwrap()
    }

    #[test]
    fn a_token_file_holds_one_word() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        std::fs::write(&path, "abc.def\n").unwrap();
        assert_eq!(read_token(&path).unwrap(), "abc.def");
        for wrong in [String::new(), "two words".to_owned(), "a".repeat(20_000), "ä".to_owned()] {
            std::fs::write(&path, wrong).unwrap();
            assert!(read_token(&path).unwrap_err().contains("must contain one word"));
        }
        assert!(read_token(&folder.path().join("none")).unwrap_err().contains("--token-file"));
    }
}
