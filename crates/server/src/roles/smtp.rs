//! Gives e-mails to an SMTP server.
//!
//! **Invariants.** Each e-mail has a connection of its own, which ends with the attempt. With `starttls` and
//! `none` it reads a bounded number of bytes. With `tls` the connection is encrypted from the first byte.
//! With `starttls` only the commands EHLO and STARTTLS are sent before it is encrypted. A password is sent
//! over an encrypted connection, or to this machine.

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, SystemTime};

use lettre::message::header::{ContentType, MIME_VERSION_1_0};
use lettre::message::{Mailbox, Message};
use lettre::transport::smtp::authentication::{Credentials, Mechanism};
use lettre::transport::smtp::client::{
    AsyncSmtpConnection, AsyncTokioStream, Certificate, CertificateStore, TlsParameters,
};
use lettre::transport::smtp::extension::ClientId;
use sandur_base::small_file;
use sandur_config::Settings;
use sandur_rules::{Mail, NotSent, Outcome};
use sandur_runtime::Env;
use sandur_terminal::Failed;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

/// Maximum size of a file with a password or with authorities.
const SECRET_BYTES_MAX: u64 = 64 << 10;
const AUTHORITY_BYTES_MAX: u64 = 1 << 20;
/// The most bytes that a server may send in a connection: far more than replies have.
const RECEIVED_BYTES_MAX: usize = 1 << 20;
/// The longest wait for the end of a connection after the e-mail was accepted.
const QUIT_MAX: Duration = Duration::from_secs(1);
/// The ports for submissions with STARTTLS and with TLS.
const PORT_STARTTLS: u16 = 587;
const PORT_TLS: u16 = 465;
/// How a user proves who it is.
const MECHANISMS: &[Mechanism] = &[Mechanism::Plain, Mechanism::Login];

/// How a connection is encrypted.
#[derive(Clone)]
enum Encryption {
    None,
    Starttls(TlsParameters),
    Tls(TlsParameters),
}

/// A user, and the file of the password.
#[derive(Clone)]
struct Login {
    user: String,
    password_file: PathBuf,
}

/// An SMTP server and the sender of e-mails.
#[derive(Clone)]
pub struct Smtp {
    host: String,
    port: u16,
    encryption: Encryption,
    login: Option<Login>,
    from: Mailbox,
    hello: ClientId,
}

/// Why an e-mail was not accepted.
#[derive(Debug, thiserror::Error)]
enum Error {
    #[error("{0}")]
    Smtp(#[from] lettre::transport::smtp::Error),
    #[error("cannot connect to {0}: {1}")]
    Connect(String, io::Error),
    #[error("cannot read {0}: {1}")]
    Password(String, io::Error),
    #[error("the e-mail is not valid: {0}")]
    Invalid(String),
}

impl Smtp {
    /// Checks the options; `None` if no e-mails are sent.
    pub fn of(settings: &Settings) -> Result<Option<Self>, Failed> {
        let of = &settings.notify;
        if of.email_to.is_empty() {
            return Ok(None);
        }
        let wrong = |key: &str, text: String| Err(Failed::new(format!("notify.{key}: {text}")));
        if of.email_smarthost.is_empty() {
            return wrong("email_smarthost", "e-mails need an SMTP server, as HOST:PORT".to_owned());
        }
        if let Some(address) = of.email_to.iter().find(|address| address.parse::<Mailbox>().is_err()) {
            return wrong("email_to", format!("'{address}' is not an address such as ops@example.org"));
        }
        let Ok(from) = of.email_from.parse::<Mailbox>() else {
            let text = format!("'{}' is not a sender such as Sandur <alerts@example.org>", of.email_from);
            return wrong("email_from", text);
        };
        let port = if of.email_tls == "tls" { PORT_TLS } else { PORT_STARTTLS };
        let Some((host, port)) = host_and_port(&of.email_smarthost, port) else {
            return wrong("email_smarthost", format!("'{}' is not HOST:PORT", of.email_smarthost));
        };
        let encryption = match of.email_tls.as_str() {
            "none" => Encryption::None,
            "tls" => Encryption::Tls(tls(&host, &of.email_ca_file)?),
            _ => Encryption::Starttls(tls(&host, &of.email_ca_file)?),
        };
        let login = match (of.email_user.as_str(), of.email_password_file.as_str()) {
            ("", "") => None,
            ("", _) => return wrong("email_user", "a password needs a user".to_owned()),
            (_, "") => return wrong("email_password_file", "a user needs a password".to_owned()),
            (user, path) => Some(Login { user: user.to_owned(), password_file: path.into() }),
        };
        if login.is_some() && matches!(encryption, Encryption::None) && !is_here(&host) {
            let text = "a password is sent without encryption to this machine only; use starttls or tls";
            return wrong("email_tls", text.to_owned());
        }
        let hello = ClientId::Domain(from.email.domain().to_owned());
        Ok(Some(Self { host, port, encryption, login, from, hello }))
    }

    /// Gives an e-mail for this address to the server.
    pub async fn send(&self, env: &Env, to: &str, mail: &Mail) -> Outcome {
        match self.attempt(env, to, mail).await {
            Ok(()) => Ok(()),
            Err(Error::Smtp(error)) if error.is_permanent() => Err(NotSent::Refused(text_of(&error))),
            Err(Error::Smtp(error)) => Err(NotSent::Failed(text_of(&error))),
            Err(Error::Invalid(text)) => Err(NotSent::Refused(text)),
            Err(error) => Err(NotSent::Failed(error.to_string())),
        }
    }

    async fn attempt(&self, env: &Env, to: &str, mail: &Mail) -> Result<(), Error> {
        let message = self.message(env, to, mail)?;
        let password = self.password(env).await?;
        let mut connection = self.connect().await?;
        if let Some(credentials) = &password {
            connection.auth(MECHANISMS, credentials).await?;
        }
        connection.send(message.envelope(), &message.formatted()).await?;
        // The e-mail was accepted, whatever follows.
        env.timeout(QUIT_MAX, connection.quit()).await;
        Ok(())
    }

    /// The e-mail with its headers. Its id lets mail systems drop a second copy.
    fn message(&self, env: &Env, to: &str, mail: &Mail) -> Result<Message, Error> {
        let to: Mailbox = to.parse().map_err(|_| Error::Invalid(format!("'{to}' is not an address")))?;
        let since_epoch = Duration::from_nanos(u64::try_from(env.now_ns()).unwrap_or(0));
        let message = Message::builder()
            .from(self.from.clone())
            .to(to)
            .date(SystemTime::UNIX_EPOCH + since_epoch)
            .message_id(Some(format!("<{}@{}>", mail.id, self.from.email.domain())))
            .subject(mail.subject.clone())
            .header(MIME_VERSION_1_0)
            .header(ContentType::TEXT_PLAIN);
        message.body(mail.text.clone()).map_err(|error| Error::Invalid(error.to_string()))
    }

    async fn password(&self, env: &Env) -> Result<Option<Credentials>, Error> {
        let Some(Login { user, password_file }) = self.login.clone() else { return Ok(None) };
        let path = password_file.clone();
        let read = env.run_blocking(move || small_file::read_text(path, SECRET_BYTES_MAX)).await;
        let name = password_file.display().to_string();
        let password = read.map_err(|error| Error::Password(name, error))?;
        Ok(Some(Credentials::new(user, password.trim_end_matches(['\r', '\n']).to_owned())))
    }

    async fn connect(&self) -> Result<AsyncSmtpConnection, Error> {
        let (address, hello) = ((self.host.as_str(), self.port), &self.hello);
        if let Encryption::Tls(parameters) = &self.encryption {
            let parameters = Some(parameters.clone());
            return Ok(AsyncSmtpConnection::connect_tokio1(address, None, hello, parameters, None).await?);
        }
        let stream = TcpStream::connect(address).await;
        let stream = stream.map_err(|error| Error::Connect(format!("{}:{}", self.host, self.port), error))?;
        let stream = Box::new(Bounded { stream, left: RECEIVED_BYTES_MAX });
        let mut connection = AsyncSmtpConnection::connect_with_transport(stream, hello).await?;
        if let Encryption::Starttls(parameters) = &self.encryption {
            connection.starttls(parameters.clone(), hello).await?;
        }
        Ok(connection)
    }

    /// The error of the file with the password.
    pub fn password_error(&self) -> Option<String> {
        let Login { password_file, .. } = self.login.as_ref()?;
        let error = small_file::read_text(password_file, SECRET_BYTES_MAX).err()?;
        Some(format!("notify.email_password_file: cannot read {}: {error}", password_file.display()))
    }
}

/// The message of an error with the reply of the server.
fn text_of(error: &lettre::transport::smtp::Error) -> String {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(inner) = cause {
        let inner_text = inner.to_string();
        if !text.contains(&inner_text) {
            text.push_str(&format!(": {inner_text}"));
        }
        cause = inner.source();
    }
    text
}

/// Reads `HOST`, `HOST:PORT`, `[ADDRESS]` or `[ADDRESS]:PORT`.
fn host_and_port(text: &str, port: u16) -> Option<(String, u16)> {
    let (host, rest) = match text.strip_prefix('[') {
        Some(inner) => inner.split_once(']')?,
        None => text.split_at(text.find(':').unwrap_or(text.len())),
    };
    let port = match rest.strip_prefix(':') {
        Some(port) => port.parse().ok()?,
        None if rest.is_empty() => port,
        None => return None,
    };
    (!host.is_empty()).then(|| (host.to_owned(), port))
}

fn is_here(host: &str) -> bool {
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// What a certificate of the server has to satisfy.
fn tls(host: &str, ca_file: &str) -> Result<TlsParameters, Failed> {
    let mut parameters = TlsParameters::builder(host.to_owned());
    if !ca_file.is_empty() {
        let wrong = |error: &dyn fmt::Display| {
            Failed::new(format!("notify.email_ca_file: cannot read {ca_file}: {error}"))
        };
        let text = small_file::read_text(ca_file, AUTHORITY_BYTES_MAX).map_err(|error| wrong(&error))?;
        let authorities = Certificate::from_pem(text.as_bytes()).map_err(|error| wrong(&error))?;
        parameters = parameters.certificate_store(CertificateStore::None).add_root_certificate(authorities);
    }
    let built = parameters.build();
    built.map_err(|error| Failed::new(format!("notify.email_tls: {}", text_of(&error))))
}

/// A connection that fails when it has received too much: replies without an end would fill the memory.
#[derive(Debug)]
struct Bounded {
    stream: TcpStream,
    /// How many bytes may still be received.
    left: usize,
}

impl AsyncRead for Bounded {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = buf.filled().len();
        let polled = Pin::new(&mut this.stream).poll_read(cx, buf);
        if let Poll::Ready(Ok(())) = polled {
            let read = buf.filled().len() - before;
            if read > this.left {
                let text = format!("the server sent more than {RECEIVED_BYTES_MAX} bytes");
                return Poll::Ready(Err(io::Error::other(text)));
            }
            this.left -= read;
        }
        polled
    }
}

impl AsyncWrite for Bounded {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().stream).poll_write(cx, buf)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(cx)
    }
}

impl AsyncTokioStream for Bounded {
    fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.stream.peer_addr()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_have_ports() {
        let port = |text| host_and_port(text, 587);
        assert_eq!(port("mail.example.org"), Some(("mail.example.org".to_owned(), 587)));
        assert_eq!(port("mail:25"), Some(("mail".to_owned(), 25)));
        assert_eq!(port("[::1]:25"), Some(("::1".to_owned(), 25)));
        assert_eq!(port("[::1]"), Some(("::1".to_owned(), 587)));
        for text in ["", ":25", "mail:x", "mail:", "[::1", "[::1]x", "mail:70000"] {
            assert_eq!(port(text), None, "{text}");
        }
    }

    #[test]
    fn options_of_emails_are_checked() {
        let check = |change: fn(&mut Settings)| {
            let mut settings = Settings::default();
            settings.notify.email_to = vec!["Ops <ops@example.org>".to_owned()];
            settings.notify.email_from = "Sandur <alerts@example.org>".to_owned();
            settings.notify.email_smarthost = "mail.example.org".to_owned();
            change(&mut settings);
            Smtp::of(&settings).map(|smtp| smtp.map(|smtp| smtp.port)).map_err(|e| e.message().to_owned())
        };
        assert_eq!(check(|_| ()), Ok(Some(587)));
        assert_eq!(check(|s| s.notify.email_tls = "tls".to_owned()), Ok(Some(465)));
        assert_eq!(check(|s| s.notify.email_to.clear()), Ok(None));
        let with_login = |settings: &mut Settings| {
            settings.notify.email_user = "u".to_owned();
            settings.notify.email_password_file = "/etc/password".to_owned();
            settings.notify.email_tls = "none".to_owned();
        };
        assert!(check(with_login).unwrap_err().starts_with("notify.email_tls: a password is sent without"));
        for (change, expected) in [
            ((|s| s.notify.email_to.push("ops".to_owned())) as fn(&mut Settings), "email_to: 'ops' is not"),
            (|s| s.notify.email_to.push("a@b.c\r\nBcc: x@y.z".to_owned()), "email_to: 'a@b.c"),
            (|s| s.notify.email_from.clear(), "email_from: '' is not a sender"),
            (|s| s.notify.email_smarthost.clear(), "email_smarthost: e-mails need an SMTP server"),
            (
                |s| s.notify.email_smarthost = "mail:x".to_owned(),
                "email_smarthost: 'mail:x' is not HOST:PORT",
            ),
            (|s| s.notify.email_user = "u".to_owned(), "email_password_file: a user needs a password"),
            (|s| s.notify.email_ca_file = "/none".to_owned(), "email_ca_file: cannot read /none"),
        ] {
            let error = check(change).unwrap_err();
            assert!(error.starts_with(&format!("notify.{expected}")), "{error}");
        }
    }
}
