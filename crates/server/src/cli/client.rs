//! The HTTP client of the commands: one server, one tenant, errors that say what to do.

use std::time::Duration;

use clap::{Arg, ArgMatches, Command};
use reqwest::StatusCode;
use sandur_base::environment;

use super::failed::Failed;

/// Address of a server that was started without options.
const ADDRESS_DEFAULT: &str = "http://127.0.0.1:3100";
/// Time to connect.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Time for an answer: longer than a query may run.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(300);

/// A server as one tenant sees it.
#[derive(Clone)]
pub struct Client {
    http: reqwest::Client,
    base: String,
    tenant: Option<String>,
}

/// An answer that was no success.
#[derive(Debug)]
pub struct Refusal {
    /// Status of the answer; absent when there was none.
    pub status: Option<StatusCode>,
    /// What the server or the system says.
    pub text: String,
}

impl Refusal {
    /// Whether the same request may succeed later.
    pub fn is_retryable(&self) -> bool {
        self.status.is_none_or(|s| s == StatusCode::TOO_MANY_REQUESTS || s.is_server_error())
    }
}

/// Adds `--addr` and `--tenant`.
pub fn arguments(command: Command) -> Command {
    let address = Arg::new("addr")
        .long("addr")
        .value_name("URL")
        .help(format!("Address of the server [default: {ADDRESS_DEFAULT}] [env: SANDUR_ADDR]"));
    let tenant = Arg::new("tenant")
        .long("tenant")
        .value_name("NAME")
        .help("Tenant, if the server keeps several apart [env: SANDUR_TENANT]");
    command.arg(address).arg(tenant)
}

impl Client {
    /// The client that the arguments name.
    pub fn from_arguments(matches: &ArgMatches) -> Result<Self, Failed> {
        let given = |name: &str, variable| {
            matches.get_one::<String>(name).cloned().or_else(|| environment::variable(variable))
        };
        let address = given("addr", "SANDUR_ADDR").unwrap_or_else(|| ADDRESS_DEFAULT.to_owned());
        Self::new(&address, given("tenant", "SANDUR_TENANT"))
    }

    /// A client of the server at `address`; the scheme may be left out.
    pub fn new(address: &str, tenant: Option<String>) -> Result<Self, Failed> {
        let trimmed = address.trim_end_matches('/');
        let base = if trimmed.contains("://") { trimmed.to_owned() } else { format!("http://{trimmed}") };
        let parsed = url::Url::parse(&base);
        if !parsed.is_ok_and(|u| matches!(u.scheme(), "http" | "https") && u.has_host()) {
            return Err(Failed::new(format!("'{address}' is no address: write it like {ADDRESS_DEFAULT}")));
        }
        let http = reqwest::Client::builder().connect_timeout(CONNECT_TIMEOUT).timeout(ANSWER_TIMEOUT);
        let http = http.build().map_err(|e| Failed::new(format!("cannot make an HTTP client: {e}")))?;
        Ok(Self { http, base, tenant })
    }

    /// Where the server is.
    pub fn base(&self) -> &str {
        &self.base
    }

    /// The tenant, if one is named.
    pub fn tenant(&self) -> Option<&str> {
        self.tenant.as_deref()
    }

    /// The body of a successful GET.
    pub async fn get(&self, path: &str, pairs: &[(&str, String)]) -> Result<Vec<u8>, Refusal> {
        let mut target = format!("{}{path}", self.base);
        let query: String =
            url::form_urlencoded::Serializer::new(String::new()).extend_pairs(pairs.iter()).finish();
        if !query.is_empty() {
            target = format!("{target}?{query}");
        }
        self.send(self.http.get(target)).await
    }

    /// The body of a successful POST.
    pub async fn post(&self, path: &str, kind: &'static str, body: bytes::Bytes) -> Result<Vec<u8>, Refusal> {
        let request = self.http.post(format!("{}{path}", self.base));
        self.send(request.header("content-type", kind).body(body)).await
    }

    async fn send(&self, request: reqwest::RequestBuilder) -> Result<Vec<u8>, Refusal> {
        let request = match &self.tenant {
            Some(tenant) => request.header("x-scope-orgid", tenant),
            None => request,
        };
        let response = request.send().await.map_err(|e| self.unreachable(&e))?;
        let status = response.status();
        let body = response.bytes().await.map_err(|e| self.unreachable(&e))?;
        if status.is_success() {
            return Ok(body.into());
        }
        let text = String::from_utf8_lossy(&body).trim().to_owned();
        Err(Refusal { status: Some(status), text })
    }

    fn unreachable(&self, error: &reqwest::Error) -> Refusal {
        let base = &self.base;
        let text = if error.is_connect() {
            format!("no server answers at {base}: start one with `sandur serve`, or name another with --addr")
        } else if error.is_timeout() {
            format!("the server at {base} did not answer in {ANSWER_TIMEOUT:?}")
        } else {
            format!("the connection to {base} broke: {error}")
        };
        Refusal { status: None, text }
    }
}

impl From<Refusal> for Failed {
    fn from(refusal: Refusal) -> Self {
        match refusal.status {
            None => Self::new(refusal.text),
            Some(status) => Self::new(format!("the server refused ({}): {}", status.as_u16(), refusal.text)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_completed_or_refused() {
        let base = |address| {
            Client::new(address, None).map(|c| c.base().to_owned()).map_err(|e| e.message().to_owned())
        };
        assert_eq!(base("localhost:3100/").unwrap(), "http://localhost:3100");
        assert_eq!(base("https://logs.example").unwrap(), "https://logs.example");
        assert!(base("ftp://x").unwrap_err().contains("write it like http://127.0.0.1:3100"));
    }
}
