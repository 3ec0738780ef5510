//! Where alerts are sent, as the options say, and the clients that send them.

use std::time::Duration;

use bytes::Bytes;
use reqwest::{Response, header};
use sandur_base::{BoxFuture, small_file};
use sandur_cli::client::Client;
use sandur_config::Settings;
use sandur_model::TenantId;
use sandur_rules::{Address, AlertingFile, Grouping, Message, NotSent, Outcome, Post};
use sandur_runtime::Env;
use sandur_terminal::Failed;

use super::smtp::Smtp;

/// Maximum size of a token file.
const TOKEN_BYTES_MAX: u64 = 64 << 10;
/// Header by which a receiver with several tenants chooses one.
const TENANT: &str = "X-Scope-OrgID";
/// Header that is the same in all attempts to send a notification.
const IDEMPOTENCY_KEY: &str = "Idempotency-Key";
/// Maximum size of an answer that is read, and for how long. The connection can be used again after that.
const ANSWER_BYTES_MAX: usize = 64 << 10;
const ANSWER_TIME_MAX: Duration = Duration::from_secs(1);
/// The most receivers; each has groups of its own.
const RECEIVERS_MAX: usize = 20;

/// Where alerts are sent.
pub struct Destinations {
    /// URLs of Alertmanagers.
    pub alertmanagers: Vec<String>,
    /// The file with more of them.
    pub alerting: Option<AlertingFile>,
    /// Receivers of groups of alerts.
    pub receivers: Vec<Address>,
    /// How their alerts are grouped.
    pub grouping: Grouping,
    /// The clients that send.
    pub clients: Clients,
}

/// The clients, with their secrets.
pub struct Clients {
    alertmanagers: HttpClient,
    webhooks: HttpClient,
    mail: Option<Smtp>,
}

/// A client, and the file of its bearer token.
struct HttpClient {
    client: reqwest::Client,
    token_file: String,
}

impl Destinations {
    /// Checks the options.
    pub fn of(settings: &Settings) -> Result<Self, Failed> {
        let (ruler, notify) = (&settings.ruler, &settings.notify);
        for (key, urls) in
            [("alertmanager_url", &settings.alertmanager_url), ("notify.webhook", &notify.webhook)]
        {
            if let Some(url) = urls.iter().find(|url| !is_http(url)) {
                return Err(Failed::new(format!("{key}: '{url}' is not a URL such as http://HOST:9093")));
            }
        }
        let (most, found) = (RECEIVERS_MAX, notify.webhook.len() + notify.email_to.len());
        if found > most {
            let text = format!("notify.webhook and notify.email_to: {found} receivers, at most {most}");
            return Err(Failed::new(text));
        }
        let authority = |path: &String| (!path.is_empty()).then(|| path.into());
        let alerting = match ruler.alerting_config_file.as_str() {
            "" => None,
            path => Some(AlertingFile::open(path.into()).map_err(Failed::new)?),
        };
        let alertmanagers = HttpClient {
            client: Client::of_targets(authority(&ruler.alertmanager_ca_file), false)?,
            token_file: ruler.alertmanager_token_file.clone(),
        };
        let webhooks = HttpClient {
            client: Client::of_receivers(authority(&notify.webhook_ca_file))?,
            token_file: notify.webhook_token_file.clone(),
        };
        let mail = Smtp::of(settings)?;
        let webhook_receivers = notify.webhook.iter().cloned().map(Address::Webhook);
        let mail_receivers = notify.email_to.iter().cloned().map(Address::Mail);
        Ok(Self {
            alertmanagers: settings.alertmanager_url.clone(),
            alerting,
            receivers: webhook_receivers.chain(mail_receivers).collect(),
            grouping: grouping(settings)?,
            clients: Clients { alertmanagers, webhooks, mail },
        })
    }

    /// Alerts are sent nowhere.
    pub fn none() -> Result<Self, Failed> {
        Self::of(&Settings::default())
    }
}

fn is_http(url: &str) -> bool {
    reqwest::Url::parse(url).is_ok_and(|url| matches!(url.scheme(), "http" | "https"))
}

fn grouping(settings: &Settings) -> Result<Grouping, Failed> {
    let notify = &settings.notify;
    let least = Duration::from_secs(1);
    for (key, interval) in
        [("group_interval", notify.group_interval), ("repeat_interval", notify.repeat_interval)]
    {
        if interval < least {
            return Err(Failed::new(format!("notify.{key}: {interval:?}, and it is at least {least:?}")));
        }
    }
    Ok(Grouping {
        by: Grouping::labels(&notify.group_by),
        wait: notify.group_wait,
        interval: notify.group_interval,
        repeat: notify.repeat_interval,
    })
}

/// The errors of the files with tokens and passwords.
pub fn secret_errors(settings: &Settings) -> Vec<String> {
    let files = [
        ("ruler.alertmanager_token_file", &settings.ruler.alertmanager_token_file),
        ("notify.webhook_token_file", &settings.notify.webhook_token_file),
    ];
    let error = |(key, path): (&str, &String)| {
        let error = small_file::read_text(path, TOKEN_BYTES_MAX).err()?;
        Some(format!("{key}: cannot read {path}: {error}"))
    };
    let of_tokens = files.into_iter().filter(|(_, path)| !path.is_empty()).filter_map(error);
    // Other errors of its options were reported.
    let smtp = Smtp::of(settings).ok().flatten();
    of_tokens.chain(smtp.and_then(|smtp| smtp.password_error())).collect()
}

impl Clients {
    /// What sends messages.
    pub fn post(self, env: Env) -> impl Post {
        Sender { env, clients: self }
    }
}

/// Sends messages.
struct Sender {
    env: Env,
    clients: Clients,
}

impl Sender {
    async fn request(
        &self,
        client: &HttpClient,
        (url, body, key): (&str, Bytes, Option<&str>),
        tenant: &TenantId,
        timeout: Duration,
    ) -> Result<u16, String> {
        let HttpClient { client, token_file } = client;
        let mut request = client.post(url).timeout(timeout).body(body);
        request = request.header(header::CONTENT_TYPE, "application/json").header(TENANT, tenant.as_str());
        if let Some(key) = key {
            request = request.header(IDEMPOTENCY_KEY, key);
        }
        if !token_file.is_empty() {
            let path = token_file.clone();
            let read = self.env.run_blocking(move || small_file::read_text(path, TOKEN_BYTES_MAX)).await;
            let token = read.map_err(|error| format!("cannot read {token_file}: {error}"))?;
            request = request.bearer_auth(token.trim());
        }
        let response = request.send().await.map_err(|error| super::scrape::reason(&error))?;
        let status = response.status().as_u16();
        // What follows the status changes nothing.
        self.env.timeout(ANSWER_TIME_MAX, read_answer(response)).await;
        Ok(status)
    }
}

async fn read_answer(mut response: Response) {
    let mut bytes = 0;
    while let Ok(Some(piece)) = response.chunk().await {
        bytes += piece.len();
        if bytes > ANSWER_BYTES_MAX {
            break;
        }
    }
}

impl Post for Sender {
    fn post<'a>(
        &'a self,
        message: Message<'a>,
        tenant: &'a TenantId,
        timeout: Duration,
    ) -> BoxFuture<'a, Outcome> {
        Box::pin(async move {
            let Clients { alertmanagers, webhooks, mail: smtp } = &self.clients;
            let (client, request) = match &message {
                Message::Alerts { url, body } => (alertmanagers, (*url, body.clone(), None)),
                Message::Webhook { url, body, key } => (webhooks, (*url, body.clone(), Some(*key))),
                Message::Mail { to, mail } => {
                    let Some(smtp) = smtp else {
                        return Err(NotSent::Refused("there is no SMTP server".to_owned()));
                    };
                    return smtp.send(&self.env, to, mail).await;
                }
            };
            match self.request(client, request, tenant, timeout).await {
                Ok(status) => message.outcome(status),
                Err(error) => Err(NotSent::Failed(error)),
            }
        })
    }
}
