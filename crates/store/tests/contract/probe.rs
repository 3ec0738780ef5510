//! Stores that are rejected at start, and the error messages.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;

use sandur_runtime::Env;
use sandur_store::{Error, Store, StoreOptions};

use crate::runtime;

/// A server on loopback that responds to every request with `answer` of its first line.
fn serve(answer: impl Fn(&str) -> &'static str + Send + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    #[allow(clippy::disallowed_methods)] // a server for the test, not part of the store
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let mut request = Vec::new();
            let mut buffer = [0; 4096];
            while !is_complete(&request) {
                match stream.read(&mut buffer) {
                    Ok(0) | Err(_) => break,
                    Ok(count) => request.extend_from_slice(&buffer[..count]),
                }
            }
            let text = String::from_utf8_lossy(&request).into_owned();
            let _ = stream.write_all(answer(text.lines().next().unwrap_or_default()).as_bytes());
        }
    });
    format!("s3://bucket/p?region=us-east-1&skip_signature=true&endpoint=http://{address}")
}

fn is_complete(request: &[u8]) -> bool {
    let text = String::from_utf8_lossy(request);
    let Some((head, body)) = text.split_once("\r\n\r\n") else { return false };
    let length =
        head.lines().find_map(|l| l.to_ascii_lowercase().strip_prefix("content-length: ")?.parse().ok());
    body.len() >= length.unwrap_or(0usize)
}

async fn refusal(url: &str) -> Error {
    Store::open(url, Env::system(1), StoreOptions::default()).await.unwrap_err()
}

#[test]
fn a_store_that_ignores_conditional_creates_is_rejected() {
    let ok = "HTTP/1.1 200 OK\r\nETag: \"1\"\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
    let url = serve(move |_| ok);
    let error = runtime().block_on(refusal(&url));
    assert!(matches!(error, Error::Unsuitable { .. }), "{error}");
    assert!(
        error.to_string().contains("If-None-Match: *") && error.to_string().contains("s3://bucket/p"),
        "{error}"
    );
}

#[test]
fn missing_permissions_and_buckets_are_reported() {
    let denied = "HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
    let error = runtime().block_on(refusal(&serve(move |_| denied)));
    assert!(error.to_string().contains("set AWS_ACCESS_KEY_ID"), "{error}");
    let missing = "HTTP/1.1 404 Not Found\r\nContent-Length: 25\r\nConnection: close\r\n\r\n\
                   <Code>NoSuchBucket</Code>";
    let error = runtime().block_on(refusal(&serve(move |_| missing)));
    assert!(error.to_string().contains("the bucket does not exist"), "{error}");
}

/// The first request at start is a create, so faults of the set-up were once reported as a store without
/// conditional creates.
#[test]
fn the_remedy_depends_on_the_cause_that_the_store_names() {
    let answers = [
        (
            "HTTP/1.1 400 Bad Request\r\nContent-Length: 30\r\nConnection: close\r\n\r\n\
             <Code>InvalidBucketName</Code>",
            "correct the bucket's name in --store",
        ),
        (
            "HTTP/1.1 400 Bad Request\r\nContent-Length: 83\r\nConnection: close\r\n\r\n\
             <Code>AuthorizationHeaderMalformed</Code><Message>the region 'x' is wrong</Message>",
            "name the region of the bucket",
        ),
        (
            "HTTP/1.1 301 Moved Permanently\r\nContent-Length: 30\r\nConnection: close\r\n\r\n\
             <Code>PermanentRedirect</Code>",
            "name the region of the bucket",
        ),
        (
            "HTTP/1.1 403 Forbidden\r\nContent-Length: 33\r\nConnection: close\r\n\r\n\
             <Code>RequestTimeTooSkewed</Code>",
            "set this machine's clock",
        ),
        (
            "HTTP/1.1 501 Not Implemented\r\nContent-Length: 27\r\nConnection: close\r\n\r\n\
             <Code>NotImplemented</Code>",
            "use a store with conditional writes",
        ),
        (
            "HTTP/1.1 400 Bad Request\r\nContent-Length: 32\r\nConnection: close\r\n\r\n\
             <Code>InvalidStorageClass</Code>",
            "correct what it names",
        ),
    ];
    for (answer, remedy) in answers {
        let error = runtime().block_on(refusal(&serve(move |_| answer))).to_string();
        assert!(error.contains(remedy), "{error}");
        let is_condition = remedy.contains("conditional writes");
        assert_eq!(error.contains("'create only if absent'"), is_condition, "{error}");
    }
}

#[test]
fn a_directory_without_permission_is_reported() {
    if rustix::process::geteuid().is_root() {
        eprintln!("skipped: root may write everywhere, so a directory without permission was NOT tested");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o500)).unwrap();
    let error = runtime().block_on(refusal(&dir.path().display().to_string()));
    assert!(error.to_string().contains("give this user read and write permission"), "{error}");
}
