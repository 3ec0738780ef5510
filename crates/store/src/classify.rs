//! Classifies `object_store` errors by their cause.
//!
//! The upstream type keeps HTTP statuses private and wraps system errors several levels deep. So this
//! module examines the chain of sources (system error, transport error) and then the text. A failure
//! that is not recognised counts as ambiguous: the request may have been applied.

use std::error::Error as StdError;
use std::io;
use std::time::Duration;

use object_store::client::HttpError;
use rustix::io::Errno;

use crate::advice::{Fault, denied_remedy, without_paths};
use crate::cause::Cause;
use crate::error::{Error, Place};

/// The longest reason that is kept, in characters: bodies of error responses can be pages long.
const REASON_CHARS_MAX: usize = 400;

/// The remedy for a store that does not answer.
const UNREACHABLE_REMEDY: &str = "check that the store is up and reachable";

/// The failure of one attempt: its cause and its text.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    pub cause: Cause,
    pub reason: String,
    /// The store's `Retry-After`.
    pub retry_after: Option<Duration>,
}

impl Failure {
    pub fn new(cause: Cause, reason: impl Into<String>) -> Self {
        Self { cause, reason: reason.into(), retry_after: None }
    }

    pub fn timeout(waited: Duration) -> Self {
        Self::new(Cause::Timeout(waited), format!("no answer within {waited:?}"))
    }

    /// Whether a retry of the same request may succeed.
    pub fn is_transient(&self) -> bool {
        matches!(self.cause, Cause::Throttled | Cause::Unavailable | Cause::Short | Cause::Timeout(_))
    }

    /// Whether it indicates that the store is overloaded.
    pub fn is_pressure(&self) -> bool {
        matches!(self.cause, Cause::Throttled | Cause::Timeout(_))
    }

    /// Whether the store worked as it should: "not found" and "already exists" are valid answers.
    pub fn is_answer(&self) -> bool {
        matches!(self.cause, Cause::NotFound | Cause::Conflict)
    }

    /// The name of the cause in metrics.
    pub fn label(&self) -> &'static str {
        match self.cause {
            Cause::NotFound => "not_found",
            Cause::Conflict => "conflict",
            Cause::Throttled => "throttled",
            Cause::Busy => "busy",
            Cause::Unavailable => "unavailable",
            Cause::NoBucket => "no_bucket",
            Cause::Timeout(_) => "timeout",
            Cause::Denied => "denied",
            Cause::Full => "full",
            Cause::Short => "short",
            Cause::ReadOnly => "read_only",
            Cause::Invalid => "invalid",
            Cause::Length { .. } => "length",
            Cause::Device => "device",
            Cause::Vanished => "vanished",
            Cause::Replaced => "replaced",
            Cause::Internal => "internal",
        }
    }

    /// Converts the failure to the public error.
    pub fn into_error(self, at: Place, attempts: u32) -> Error {
        let reason = self.reason;
        // Searched only where a remedy is needed: "not found" is the answer at the end of the catalog, which
        // every process reads again and again.
        let named = || Fault::named_in(&reason);
        match self.cause {
            Cause::NotFound => Error::NotFound { at },
            Cause::Throttled => Error::Throttled { at, attempts, reason },
            Cause::Busy => Error::Busy { at, reason },
            // A create resolves conflicts; a conflict that gets here is an unclear outcome.
            Cause::Unavailable | Cause::Conflict => {
                let remedy = named().map_or(UNREACHABLE_REMEDY, |fault| fault.remedy(&at.store));
                Error::Unavailable { at, attempts, reason, remedy }
            }
            Cause::NoBucket => {
                let remedy = named().unwrap_or(Fault::NoBucket).remedy(&at.store);
                Error::Unavailable { at, attempts, reason, remedy }
            }
            Cause::Timeout(waited) => Error::Timeout { at, attempts, waited },
            Cause::Denied => {
                let remedy =
                    named().map_or_else(|| denied_remedy(&at.store), |fault| fault.remedy(&at.store));
                Error::Denied { at, reason, remedy }
            }
            Cause::Full => Error::Full { at, reason },
            Cause::Short => Error::Short { at, reason },
            Cause::ReadOnly => Error::ReadOnly { at },
            Cause::Invalid => Error::Invalid { reason: format!("{at} is not possible: {reason}") },
            Cause::Length { expected, found } => Error::Length { at, expected, found },
            Cause::Device => Error::Device { at, reason },
            Cause::Vanished => Error::Vanished { at, reason },
            Cause::Replaced => Error::Replaced { at, reason },
            Cause::Internal => Error::Internal { at, reason },
        }
    }
}

/// The failure that an `object_store` error stands for.
pub(crate) fn classify(error: object_store::Error) -> Failure {
    use object_store::Error as E;
    if let Some(cause) = system_cause(&error) {
        // Not searched for the words of a store: directories have no such words, and "not found" at the
        // end of the catalog and of a WAL is met again and again.
        return Failure::new(cause, on_one_line(&innermost(&texts(&error))));
    }
    let reason = readable(&error);
    // "Not found" because the bucket is missing must not look like a missing object: readers would take
    // it for the end of the catalog.
    if let Some(fault) = Fault::named_in(&reason) {
        return Failure::new(fault.cause(), reason);
    }
    let cause = match &error {
        E::NotFound { .. } => Cause::NotFound,
        // The object was moved to an archive and must be restored first; the credentials are fine.
        E::PermissionDenied { .. } if reason.contains("InvalidObjectState") => Cause::Invalid,
        E::AlreadyExists { .. } | E::Precondition { .. } | E::NotModified { .. } => Cause::Conflict,
        E::PermissionDenied { .. } | E::Unauthenticated { .. } => Cause::Denied,
        E::InvalidPath { .. } | E::NotSupported { .. } | E::NotImplemented { .. } => Cause::Invalid,
        E::UnknownConfigurationKey { .. } => Cause::Invalid,
        E::JoinError { .. } => Cause::Internal,
        _ => transport_cause(&error).unwrap_or_else(|| text_cause(&reason)),
    };
    Failure::new(cause, reason)
}

fn chain<'a>(error: &'a (dyn StdError + 'static)) -> impl Iterator<Item = &'a (dyn StdError + 'static)> {
    std::iter::successors(Some(error), |&e| e.source())
}

/// The cause of a system error of a local directory. Errors of sockets are left to [`transport_cause`].
fn system_cause(error: &object_store::Error) -> Option<Cause> {
    if chain(error).any(|e| e.is::<HttpError>()) {
        return None;
    }
    let system = chain(error).find_map(|e| e.downcast_ref::<io::Error>())?;
    Some(cause_of_io(system))
}

/// The cause of a system error.
pub(crate) fn cause_of_io(error: &io::Error) -> Cause {
    use io::ErrorKind as K;
    // Most of these have no ErrorKind. They end when other holders release resources.
    const PASSING: [Errno; 5] = [Errno::MFILE, Errno::NFILE, Errno::AGAIN, Errno::NOMEM, Errno::NOBUFS];
    if Errno::from_io_error(error).is_some_and(|errno| PASSING.contains(&errno)) {
        return Cause::Short;
    }
    match error.kind() {
        K::NotFound => Cause::NotFound,
        K::AlreadyExists => Cause::Conflict,
        K::PermissionDenied => Cause::Denied,
        K::StorageFull | K::QuotaExceeded => Cause::Full,
        K::ReadOnlyFilesystem => Cause::ReadOnly,
        K::StaleNetworkFileHandle => Cause::Replaced,
        K::OutOfMemory => Cause::Short,
        K::Interrupted | K::WouldBlock | K::TimedOut | K::ResourceBusy => Cause::Unavailable,
        K::InvalidInput | K::InvalidFilename | K::IsADirectory | K::NotADirectory => Cause::Invalid,
        _ => Cause::Device,
    }
}

/// A transport error: it is unknown how far the request got.
fn transport_cause(error: &object_store::Error) -> Option<Cause> {
    chain(error).any(|e| e.is::<HttpError>()).then_some(Cause::Unavailable)
}

/// Statuses and error codes in the texts of error responses, in order of precedence.
const TEXTS: [(&str, Cause); 18] = [
    ("SlowDown", Cause::Throttled),
    ("StorageFull", Cause::Full),
    ("QuotaExceeded", Cause::Full),
    ("status code: 507", Cause::Full),
    ("status code: 429", Cause::Throttled),
    ("status code: 503", Cause::Throttled),
    ("RequestTimeout", Cause::Unavailable),
    ("status code: 401", Cause::Denied),
    ("status code: 403", Cause::Denied),
    ("status code: 404", Cause::NotFound),
    ("status code: 408", Cause::Unavailable),
    ("status code: 409", Cause::Conflict),
    ("status code: 412", Cause::Conflict),
    ("status code: 416", Cause::Invalid),
    ("NotImplemented", Cause::Invalid),
    ("status code: 501", Cause::Invalid),
    ("status code: 5", Cause::Unavailable),
    ("status code: 4", Cause::Invalid),
];

fn text_cause(reason: &str) -> Cause {
    let reason = without_paths(reason);
    let known = TEXTS.iter().find(|(text, _)| reason.contains(text));
    known.map_or(Cause::Unavailable, |(_, cause)| cause.clone())
}

/// The text of an error on one line: the message of the store or the system, without the description of
/// our own request, bounded in length, and without query strings, which contain signatures.
fn readable(error: &object_store::Error) -> String {
    let texts = texts(error);
    let said = texts.iter().find_map(|text| said_by_store(text)).unwrap_or_else(|| innermost(&texts));
    on_one_line(&said)
}

/// The texts of an error and its sources.
fn texts(error: &object_store::Error) -> Vec<String> {
    let wrapper = usize::from(matches!(error, object_store::Error::Generic { .. }));
    chain(error).skip(wrapper).map(ToString::to_string).collect()
}

/// The innermost two of the texts, which suffice: outer texts repeat the inner ones.
fn innermost(texts: &[String]) -> String {
    match &texts[texts.len().saturating_sub(2)..] {
        [outer, innermost] if !outer.contains(innermost.as_str()) => format!("{outer}: {innermost}"),
        [outer, _] => outer.clone(),
        other => other.concat(),
    }
}

fn on_one_line(said: &str) -> String {
    let mut line = said.split_whitespace().map(without_query).collect::<Vec<_>>().join(" ");
    if line.chars().count() > REASON_CHARS_MAX {
        line = line.chars().take(REASON_CHARS_MAX).chain(['…']).collect();
    }
    line
}

/// Status, code and message of an error response: `status code: 403 Forbidden, AccessDenied: ..`.
fn said_by_store(text: &str) -> Option<String> {
    let status = text.split_once("status code: ").map(|(_, rest)| rest);
    let status = status.map(|rest| rest.split([':', '<']).next().unwrap_or_default().trim());
    let code = between(text, "<Code>", "</Code>");
    if status.is_none() && code.is_none() {
        return None;
    }
    let mut said = status.map_or(String::new(), |status| format!("status code: {status}"));
    let tags = [("<Message>", "</Message>"), ("<AuthenticationErrorDetail>", "</AuthenticationErrorDetail>")];
    let texts = tags.map(|(open, close)| between(text, open, close));
    for part in [code].into_iter().chain(texts).flatten() {
        let separator = if said.is_empty() { "" } else { ", " };
        said = format!("{said}{separator}{part}");
    }
    if code.is_none() {
        let body = text.split_once("status code: ").and_then(|(_, rest)| rest.split_once(": "));
        let body = body.map_or("", |(_, body)| body.trim());
        said = if body.is_empty() { said } else { format!("{said}: {body}") };
    }
    Some(said)
}

fn between<'a>(text: &'a str, open: &str, close: &str) -> Option<&'a str> {
    let (_, rest) = text.split_once(open)?;
    rest.split_once(close).map(|(inside, _)| inside)
}

fn without_query(word: &str) -> &str {
    match word.split_once('?') {
        Some((before, _)) if before.contains("://") => before,
        _ => word,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn generic(text: &str) -> object_store::Error {
        object_store::Error::Generic { store: "S3", source: text.to_owned().into() }
    }

    #[test]
    fn texts_of_responses_are_classified() {
        let cases = [
            ("Server returned non-2xx status code: 503 Service Unavailable: ", Cause::Throttled),
            ("Server returned error response: <Code>SlowDown</Code>", Cause::Throttled),
            ("Server returned non-2xx status code: 500 Internal Server Error: ", Cause::Unavailable),
            ("Server returned non-2xx status code: 507 Insufficient Storage: XMinioStorageFull", Cause::Full),
            (
                "Server returned non-2xx status code: 400 Bad Request: <Code>InvalidArgument</Code>",
                Cause::Invalid,
            ),
            (
                "Server returned non-2xx status code: 400 Bad Request: <Code>ExpiredToken</Code>",
                Cause::Unavailable,
            ),
            ("Server returned non-2xx status code: 404 Not Found: no /b/blocks/SlowDown/1", Cause::NotFound),
            ("something never seen", Cause::Unavailable),
        ];
        for (text, cause) in cases {
            assert_eq!(classify(generic(text)).cause, cause, "{text}");
        }
    }

    #[test]
    fn system_errors_of_a_directory_are_classified() {
        let cases = [
            (28, Cause::Full),
            (122, Cause::Full),
            (30, Cause::ReadOnly),
            (13, Cause::Denied),
            (5, Cause::Device),
            (11, Cause::Short),
            (12, Cause::Short),
            (23, Cause::Short),
            (24, Cause::Short),
        ];
        for (errno, cause) in cases {
            let source = Box::new(io::Error::from_raw_os_error(errno));
            let error = object_store::Error::Generic { store: "LocalFileSystem", source };
            assert_eq!(classify(error).cause, cause, "errno {errno}");
        }
    }

    #[test]
    fn a_missing_bucket_is_not_a_missing_object() {
        let not_found = |text: &str| object_store::Error::NotFound {
            path: "catalog/1".into(),
            source: text.to_owned().into(),
        };
        assert_eq!(classify(not_found("<Code>NoSuchKey</Code>")).cause, Cause::NotFound);
        assert_eq!(classify(not_found("<Code>NoSuchBucket</Code>")).cause, Cause::NoBucket);
    }

    #[test]
    fn reasons_are_short_and_contain_no_signatures() {
        let long = "x ".repeat(5_000);
        let error = generic(&format!("GET https://host/c/b?sig=SECRET&se=1 failed {long}"));
        let reason = classify(error).reason;
        assert!(reason.contains("https://host/c/b failed") && !reason.contains("SECRET"), "{reason}");
        assert!(reason.chars().count() <= REASON_CHARS_MAX + 1);
        let answer = "Error performing PUT http://h/b/k in 3ms - Server returned non-2xx status code: 403 \
                      Forbidden: <?xml?> <Error><Code>AccessDenied</Code><Message>No.</Message><RequestId>1";
        assert_eq!(classify(generic(answer)).reason, "status code: 403 Forbidden, AccessDenied, No.");
    }
}
