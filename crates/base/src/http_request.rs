//! Recognises HTTP where another protocol is expected.
//!
//! A web page can have a browser send an HTTP request to every address that the browser reaches, and it
//! chooses the body. A server of a protocol of lines that leaves out what it does not understand would carry
//! out the lines of that body. So listeners of such protocols look at how a connection begins, and end one
//! that begins with an HTTP request.

/// Whether bytes begin with the request line of HTTP, or with the preface of HTTP/2. The line may go on
/// behind the bytes.
pub fn begins_http_request(bytes: &[u8]) -> bool {
    let line = bytes.split(|byte| *byte == b'\n').next().unwrap_or(bytes);
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let Some(space) = line.iter().position(|byte| *byte == b' ') else { return false };
    has_version(line) || (is_method(&line[..space]) && is_target(&line[space + 1..]))
}

/// Whether a line ends with the version of HTTP, as every request line does: `PRI * HTTP/2.0`.
fn has_version(line: &[u8]) -> bool {
    line.rsplit(|byte| *byte == b' ').next().is_some_and(|word| word.starts_with(b"HTTP/"))
}

/// Methods of browsers are upper-case.
fn is_method(word: &[u8]) -> bool {
    !word.is_empty() && word.iter().all(|byte| byte.is_ascii_uppercase() || *byte == b'-')
}

/// A path, every resource, or a whole URL.
fn is_target(text: &[u8]) -> bool {
    let is_url = |scheme: &[u8]| text.get(..scheme.len()).is_some_and(|t| t.eq_ignore_ascii_case(scheme));
    text.starts_with(b"/") || text.starts_with(b"* ") || is_url(b"http://") || is_url(b"https://")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_of_browsers_and_probes_are_recognised() {
        for begin in [
            "POST / HTTP/1.1\r\nHost: localhost:2003\r\n\r\na.b 1 100\n",
            "GET /metrics HTTP/1.1\r\n",
            "GET /",
            "OPTIONS * HTTP/1.1\r\n",
            "CONNECT localhost:2003 HTTP/1.1\r\n",
            "GET http://localhost:2003/ HTTP/1.1\r\n",
            "PUT HTTPS://localhost/",
            "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
            "M-SEARCH * HTTP/1.1\r\n",
            "get /x HTTP/1.1\n",
        ] {
            assert!(begins_http_request(begin.as_bytes()), "{begin:?}");
        }
        let long = format!("POST /{}", "x".repeat(100_000));
        assert!(begins_http_request(long.as_bytes()), "a line that is too long for every listener");
    }

    #[test]
    fn lines_of_other_protocols_are_not() {
        for begin in [
            "",
            "POST",
            "POST ",
            "GET 1 100\n",
            "LOAD 0.5 -1\n",
            "a.b;path=/x 1 100\nPOST / HTTP/1.1\n",
            "servers./x 1 100\n",
            "get /path\r\n",
            "set /path 0 0 5\r\nhello\r\n",
            "ABC *\r\n",
            "\u{80}GET / HTTP",
        ] {
            assert!(!begins_http_request(begin.as_bytes()), "{begin:?}");
        }
    }
}
