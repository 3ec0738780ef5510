//! The HTTP client of the commands: one server, one tenant, and errors that say what to do.
//!
//! All commands that talk to a server use this client, so that they have the same options ([`options`])
//! and the same messages for the same failures ([`unreachable`]). Redirects are not followed: a push that
//! a proxy turned into a GET of a login page would look like a success.

mod certificate;
mod options;
mod timeouts;
mod tls;
mod unreachable;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use clap::{ArgMatches, Command};
pub use reqwest::Method;
use reqwest::header::{self, HeaderValue};
use reqwest::{StatusCode, Upgraded};
use sandur_terminal::Failed;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake;
use tokio_tungstenite::tungstenite::protocol::Role;

pub use options::Options;
use options::{Address, Authorization};
use timeouts::{ANSWER_TIMEOUT, CONNECT_TIMEOUT};
use tls::Presented;

/// Maximum bytes of an answer: far more than a server's limits allow, and far less than the memory of a
/// machine.
const ANSWER_BYTES_MAX: usize = 1 << 30;
/// The header in which a server says that an answer may be incomplete.
const WARNING_HEADER: &str = "x-sandur-warning";
/// Maximum bytes that are read of an error response.
const REFUSAL_BYTES_MAX: usize = 1 << 20;
/// Maximum characters that are shown of an error response.
const REFUSAL_SHOWN_MAX: usize = 4_000;
/// Maximum of `Retry-After` that is obeyed.
const RETRY_AFTER_MAX_S: u64 = 300;

/// A server, accessed as one tenant.
#[derive(Clone)]
pub struct Client {
    http: reqwest::Client,
    address: Address,
    options: Arc<Options>,
    presented: Arc<Presented>,
}

/// A request.
#[derive(Default)]
pub struct Ask<'a> {
    /// The method.
    pub method: Method,
    /// The path, relative to the address.
    pub path: &'a str,
    /// The parameters of the query string.
    pub pairs: &'a [(&'a str, String)],
    /// Additional headers.
    pub headers: &'a [(&'static str, &'static str)],
    /// The body.
    pub body: Bytes,
}

/// A request that did not succeed.
#[derive(Debug)]
pub struct Refusal {
    /// Status of the answer; `None` if there was none.
    pub status: Option<StatusCode>,
    /// The error of the server or of the system.
    pub text: String,
    /// The body and its content type.
    pub body: (Option<String>, Vec<u8>),
    /// The pause that the server requests.
    pub retry_after: Option<Duration>,
    /// Whether the same request may succeed later.
    is_retryable: bool,
}

impl Refusal {
    fn without_answer(text: String, is_retryable: bool) -> Self {
        Self { status: None, text, body: (None, Vec::new()), retry_after: None, is_retryable }
    }

    /// A request without an answer in time.
    pub fn silent(text: String) -> Self {
        Self::without_answer(text, true)
    }

    /// Whether the same request may succeed later.
    pub fn is_retryable(&self) -> bool {
        self.is_retryable
    }
}

/// Adds the options that name a server and how to reach it.
pub fn arguments(command: Command) -> Command {
    options::arguments(command)
}

impl Client {
    /// The client that the arguments and the environment describe.
    pub fn from_arguments(matches: &ArgMatches) -> Result<Self, Failed> {
        Self::with(Options::from_arguments(matches)?)
    }

    /// A client of the server at `address`; the scheme may be left out.
    pub fn new(address: &str, tenant: Option<String>) -> Result<Self, Failed> {
        Self::with(Options { address: address.to_owned(), tenant, ..Options::default() })
    }

    /// A client with these options.
    pub fn with(options: Options) -> Result<Self, Failed> {
        let address = Address::parse(&options.address)?;
        let presented = Arc::new(Presented::default());
        let tls = tls::configuration(&options, address.is_encrypted(), Arc::clone(&presented))?;
        let http = reqwest::Client::builder()
            .connect_timeout(CONNECT_TIMEOUT)
            .timeout(ANSWER_TIMEOUT)
            .redirect(reqwest::redirect::Policy::none())
            .http1_only()
            .user_agent(concat!("sandur/", env!("CARGO_PKG_VERSION")))
            .tls_backend_preconfigured(tls)
            .build()
            .map_err(|e| Failed::new(format!("cannot make an HTTP client: {e}")))?;
        Ok(Self { http, address, options: Arc::new(options), presented })
    }

    /// A client for scrape targets: it follows redirects, and each request has its own authorization.
    pub fn of_targets(ca_file: Option<PathBuf>, insecure: bool) -> Result<reqwest::Client, Failed> {
        let options = Options { ca_file, insecure, ..Options::default() };
        Self::of_others(&options, reqwest::redirect::Policy::default())
    }

    /// A client for receivers of notifications: it follows no redirects, which may turn a POST into a GET of
    /// a page that looks like a success.
    pub fn of_receivers(ca_file: Option<PathBuf>) -> Result<reqwest::Client, Failed> {
        Self::of_others(&Options { ca_file, ..Options::default() }, reqwest::redirect::Policy::none())
    }

    fn of_others(options: &Options, redirects: reqwest::redirect::Policy) -> Result<reqwest::Client, Failed> {
        let http = reqwest::Client::builder()
            .connect_timeout(CONNECT_TIMEOUT)
            .redirect(redirects)
            .http1_only()
            .user_agent(concat!("sandur/", env!("CARGO_PKG_VERSION")))
            .tls_backend_preconfigured(tls::of_targets(options)?);
        http.build().map_err(|e| Failed::new(format!("cannot make an HTTP client: {e}")))
    }

    /// The address of the server, without a password.
    pub fn base(&self) -> &str {
        &self.address.shown
    }

    /// The body of a successful GET.
    pub async fn get(&self, path: &str, pairs: &[(&str, String)]) -> Result<Vec<u8>, Refusal> {
        self.ask(Ask { path, pairs, ..Ask::default() }).await
    }

    /// The body of a successful answer. An HTML page counts as a failure: proxies answer so when they
    /// block a request.
    pub async fn ask(&self, ask: Ask<'_>) -> Result<Vec<u8>, Refusal> {
        self.ask_warned(ask).await.map(|(body, _)| body)
    }

    /// Sends a request and returns the body of its answer, with the warning in its header if there is one.
    pub async fn ask_warned(&self, ask: Ask<'_>) -> Result<(Vec<u8>, Option<String>), Refusal> {
        let mut request = self.request(ask.method, ask.path, ask.pairs)?.body(ask.body);
        for (name, value) in ask.headers {
            request = request.header(*name, *value);
        }
        let response = request.send().await.map_err(|e| self.unreachable(&e))?;
        if !response.status().is_success() || is_page(&response) {
            return Err(self.refused(response).await);
        }
        let warning = response.headers().get(WARNING_HEADER);
        let warning = warning.map(|text| String::from_utf8_lossy(text.as_bytes()).into_owned());
        Ok((self.body(response, ANSWER_BYTES_MAX).await?, warning))
    }

    /// Opens a websocket.
    pub async fn websocket(
        &self,
        path: &str,
        pairs: &[(&str, String)],
    ) -> Result<WebSocketStream<Upgraded>, Refusal> {
        let key = handshake::client::generate_key();
        let request = self
            .request(Method::GET, path, pairs)?
            .header(header::CONNECTION, "Upgrade")
            .header(header::UPGRADE, "websocket")
            .header(header::SEC_WEBSOCKET_VERSION, "13")
            .header(header::SEC_WEBSOCKET_KEY, &key);
        let response = request.send().await.map_err(|e| self.unreachable(&e))?;
        if response.status() != StatusCode::SWITCHING_PROTOCOLS {
            return Err(self.refused(response).await);
        }
        let accepted = response.headers().get(header::SEC_WEBSOCKET_ACCEPT).map(HeaderValue::as_bytes);
        if accepted != Some(handshake::derive_accept_key(key.as_bytes()).as_bytes()) {
            let text =
                format!("the answer of {} is not a websocket: is there a proxy in between?", self.base());
            return Err(Refusal::without_answer(text, false));
        }
        let socket = response.upgrade().await.map_err(|e| self.unreachable(&e))?;
        Ok(WebSocketStream::from_raw_socket(socket, Role::Client, None).await)
    }

    fn request(
        &self,
        method: Method,
        path: &str,
        pairs: &[(&str, String)],
    ) -> Result<reqwest::RequestBuilder, Refusal> {
        let mut target = format!("{}{path}", self.address.target);
        if !pairs.is_empty() {
            let query = url::form_urlencoded::Serializer::new(String::new()).extend_pairs(pairs).finish();
            target = format!("{target}?{query}");
        }
        let mut request = self.http.request(method, target);
        if let Some(tenant) = &self.options.tenant {
            request = request.header("x-scope-orgid", tenant);
        }
        for (name, value) in &self.options.headers {
            request = request.header(name, value);
        }
        Ok(match &self.options.authorization {
            Authorization::None => request,
            Authorization::Basic { user, password } => request.basic_auth(user, password.as_ref()),
            Authorization::Token(token) => request.bearer_auth(token),
            // The file is read for each request, so that the token can be replaced while a command runs.
            Authorization::TokenFile(path) => {
                let token = options::read_token(path);
                request.bearer_auth(token.map_err(|text| Refusal::without_answer(text, false))?)
            }
        })
    }

    async fn refused(&self, response: reqwest::Response) -> Refusal {
        let status = response.status();
        let text_of = |name| response.headers().get(name).and_then(|v| v.to_str().ok()).map(str::to_owned);
        let (kind, moved) = (text_of(header::CONTENT_TYPE), text_of(header::LOCATION));
        let retry_after = text_of(header::RETRY_AFTER).and_then(|t| t.parse::<u64>().ok());
        let retry_after = retry_after.map(|s| Duration::from_secs(s.min(RETRY_AFTER_MAX_S)));
        let is_retryable = status == StatusCode::TOO_MANY_REQUESTS
            || status == StatusCode::REQUEST_TIMEOUT
            || status.is_server_error();
        let is_page = is_page(&response);
        let body = match self.body(response, REFUSAL_BYTES_MAX).await {
            Ok(body) => body,
            Err(broken) => return broken,
        };
        let shown = String::from_utf8_lossy(&body);
        let mut text: String = shown.trim().chars().take(REFUSAL_SHOWN_MAX).collect();
        if status.is_redirection() {
            let to = moved.unwrap_or_else(|| "another address".to_owned());
            text = format!("it redirects to {to}: give the right address with --addr");
        } else if is_page {
            text = format!("{} answers with a web page: is this the address of a log server?", self.base());
        } else if status == StatusCode::UNAUTHORIZED && text.is_empty() {
            text = "give --token-file, --header 'Authorization: ...' or user:password in --addr".to_owned();
        }
        Refusal { status: Some(status), text, body: (kind, body), retry_after, is_retryable }
    }

    async fn body(&self, mut response: reqwest::Response, bytes_max: usize) -> Result<Vec<u8>, Refusal> {
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(|e| self.unreachable(&e))? {
            if body.len() + chunk.len() > bytes_max {
                let text = format!("the answer of {} is longer than {bytes_max} bytes", self.base());
                return Err(Refusal::without_answer(text, false));
            }
            body.extend_from_slice(&chunk);
        }
        Ok(body)
    }

    fn unreachable(&self, error: &reqwest::Error) -> Refusal {
        let place = unreachable::Place { base: self.base(), options: &self.options };
        let (text, is_retryable) = unreachable::explain(error, &place, &self.presented);
        Refusal::without_answer(text, is_retryable)
    }
}

fn is_page(response: &reqwest::Response) -> bool {
    response.headers().get(header::CONTENT_TYPE).is_some_and(|kind| kind.as_bytes().starts_with(b"text/html"))
}

impl From<Refusal> for Failed {
    fn from(refusal: Refusal) -> Self {
        match refusal.status {
            None => Self::new(refusal.text),
            Some(status) => Self::new(format!("the server refused ({}): {}", status.as_u16(), refusal.text)),
        }
    }
}
