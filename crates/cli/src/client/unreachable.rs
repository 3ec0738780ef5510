//! Explains why there is no answer and what to do, for the common causes.

use std::error::Error;
use std::io::{self, ErrorKind};

use rustls::pki_types::UnixTime;
use rustls::{AlertDescription, CertificateError};

use super::certificate::Names;
use super::options::Options;
use super::timeouts::{ANSWER_TIMEOUT, CONNECT_TIMEOUT};
use super::tls::Presented;

/// The option that bypasses a certificate that cannot be fixed immediately.
const SKIP: &str = "(--insecure skips all checks)";

/// The server and the options of the connection.
pub struct Place<'a> {
    /// Its address.
    pub base: &'a str,
    /// The options.
    pub options: &'a Options,
}

/// The causes in the chain of an error, at most one of each kind.
#[derive(Default)]
struct Causes<'a> {
    tls: Option<&'a rustls::Error>,
    system: Option<&'a io::Error>,
    is_name: bool,
    /// The text of the innermost error.
    last: String,
}

impl<'a> Causes<'a> {
    fn of(error: &'a (dyn Error + 'static)) -> Self {
        let mut causes = Self::default();
        let mut next = Some(error);
        while let Some(error) = next {
            causes.last = error.to_string();
            causes.is_name |= causes.last.starts_with("dns error");
            causes.tls = error.downcast_ref().or(causes.tls);
            let system = error.downcast_ref::<io::Error>();
            causes.system = system.or(causes.system);
            // `source` of an I/O error skips the error that it wraps.
            let wrapped = system.and_then(io::Error::get_ref).map(|e| e as &(dyn Error + 'static));
            next = wrapped.or_else(|| error.source());
        }
        causes
    }
}

/// The message for a request without an answer, and whether a retry may succeed.
pub fn explain(error: &reqwest::Error, place: &Place<'_>, presented: &Presented) -> (String, bool) {
    let causes = Causes::of(error);
    let base = place.base;
    if let Some(tls) = causes.tls {
        return (untrusted(tls, place, presented), false);
    }
    if causes.is_name {
        let what = &causes.last;
        return (
            format!(
                "the host name in {base} cannot be resolved ({what}): check --addr, or the name \
            server"
            ),
            true,
        );
    }
    if error.is_timeout() {
        let text = if error.is_connect() {
            let speaks = if base.starts_with("https://") { ", that the port speaks TLS," } else { "" };
            format!(
                "no connection to {base} in {CONNECT_TIMEOUT:?}: check --addr{speaks} and firewalls in \
                between"
            )
        } else {
            format!("the server at {base} did not answer in {ANSWER_TIMEOUT:?}")
        };
        return (text, true);
    }
    let kind = causes.system.map(io::Error::kind);
    if kind == Some(ErrorKind::ConnectionRefused) {
        let text = format!(
            "no server answers at {base} (connection refused): start one with `sandur serve`, or name \
             another with --addr"
        );
        return (text, true);
    }
    if error.is_connect() {
        return (format!("no connection to {base}: {}", causes.last), true);
    }
    if causes.system.is_none() && presented.asked_for_ours() {
        return (closed_after_asking(place, &causes.last), true);
    }
    let advice = if base.starts_with("http://") { "; if the port speaks TLS, write https://" } else { "" };
    (format!("the connection to {base} was interrupted: {}{advice}", causes.last), true)
}

fn untrusted(error: &rustls::Error, place: &Place<'_>, presented: &Presented) -> String {
    let base = place.base;
    match error {
        rustls::Error::InvalidCertificate(cause) => certificate(cause, place, presented),
        rustls::Error::InvalidMessage(_) => {
            format!(
                "what answers at {base} does not speak TLS: write http:// in --addr, or name the TLS port"
            )
        }
        rustls::Error::AlertReceived(alert) if is_about_our_certificate(*alert) => {
            let has_one = place.options.identity.is_some();
            let what = if has_one { "refuses our client certificate" } else { "wants a client certificate" };
            format!("the server at {base} {what} ({alert:?}): give --cert-file and --key-file that it trusts")
        }
        other => format!("TLS with {base} failed: {other}"),
    }
}

/// The alert of a refusal races with the end of the connection; the client may see either.
fn closed_after_asking(place: &Place<'_>, error: &str) -> String {
    let wish = match place.options.identity {
        Some(_) => "may not trust our client certificate",
        None => "wants a client certificate",
    };
    let base = place.base;
    format!(
        "the server at {base} closed the connection ({error}) and {wish}: give --cert-file and --key-file \
         that it trusts"
    )
}

fn is_about_our_certificate(alert: AlertDescription) -> bool {
    matches!(
        alert,
        AlertDescription::CertificateRequired
            | AlertDescription::BadCertificate
            | AlertDescription::UnsupportedCertificate
            | AlertDescription::CertificateRevoked
            | AlertDescription::CertificateExpired
            | AlertDescription::CertificateUnknown
            | AlertDescription::UnknownCA
            | AlertDescription::AccessDenied
    )
}

fn certificate(cause: &CertificateError, place: &Place<'_>, presented: &Presented) -> String {
    let (base, names) = (place.base, presented.names());
    match cause {
        CertificateError::UnknownIssuer | CertificateError::BadSignature => untrusted_issuer(place, names),
        CertificateError::Expired => format!("the certificate of {base} has expired: renew it {SKIP}"),
        CertificateError::ExpiredContext { time, not_after } => format!(
            "the certificate of {base} expired on {}, and it is {} by this machine's clock: renew it on the \
             server {SKIP}",
            written(*not_after),
            written(*time)
        ),
        CertificateError::NotValidYet => format!("the certificate of {base} is not valid yet {SKIP}"),
        CertificateError::NotValidYetContext { time, not_before } => format!(
            "the certificate of {base} is valid from {} on, and it is {} by this machine's clock: check the \
             clocks {SKIP}",
            written(*not_before),
            written(*time)
        ),
        CertificateError::NotValidForNameContext { expected, presented } => {
            let expected = expected.to_str();
            let listed: Vec<String> = presented.iter().take(10).map(|name| readable(name)).collect();
            let of = if listed.is_empty() { "no name".to_owned() } else { listed.join(", ") };
            format!(
                "the certificate of {base} is for {of}, not for '{expected}': write one of its names in \
                 --addr, or have '{expected}' put into the certificate {SKIP}"
            )
        }
        CertificateError::NotValidForName => {
            format!("the certificate of {base} is for another name than the one in --addr {SKIP}")
        }
        // It is marked as an authority but serves, so no chain may begin with it.
        CertificateError::Other(_) if names.as_ref().is_some_and(|n| n.is_self_signed) => {
            untrusted_issuer(place, names)
        }
        other => format!("the certificate of {base} cannot be trusted: {other} {SKIP}"),
    }
}

fn untrusted_issuer(place: &Place<'_>, names: Option<Names>) -> String {
    let base = place.base;
    let subject = names.as_ref().and_then(|n| n.subject.as_deref()).unwrap_or("without a name");
    let by = match &names {
        Some(names) if names.is_self_signed => "signed by itself".to_owned(),
        Some(names) => format!("issued by '{}'", names.issuer.as_deref().unwrap_or("an unnamed issuer")),
        None => "issued by an unknown authority".to_owned(),
    };
    let trusted = match &place.options.ca_file {
        Some(path) => format!("'{}' (--ca-file) does not contain", path.display()),
        None => "the system does not trust; if you do, give its certificate with --ca-file".to_owned(),
    };
    format!("the certificate of {base} is not trusted: '{subject}', {by}, which {trusted} {SKIP}")
}

/// Formats `DnsName("a")` as `'a'`: names of a certificate are in debug format.
fn readable(name: &str) -> String {
    let inner = name.split_once('(').and_then(|(_, rest)| rest.strip_suffix(')'));
    format!("'{}'", inner.unwrap_or(name).trim_matches('"'))
}

fn written(time: UnixTime) -> String {
    let seconds = i64::try_from(time.as_secs()).unwrap_or(i64::MAX);
    jiff::Timestamp::from_second(seconds).map_or_else(|_| format!("{seconds} s"), |t| t.to_string())
}
