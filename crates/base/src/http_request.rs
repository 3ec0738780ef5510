//! Recognises an HTTP request on a connection of another protocol.
//!
//! A web page can make a browser send an HTTP request to any address that the browser can reach, and the
//! page chooses the body. A server of a line protocol that skips lines it does not understand would
//! execute the lines of that body. Listeners of such protocols therefore check the first bytes of a
//! connection and close it if they begin an HTTP request.

/// Whether bytes begin with an HTTP request line or with the preface of HTTP/2. The line may be
/// incomplete.
pub fn begins_http_request(bytes: &[u8]) -> bool {
    let line = bytes.split(|byte| *byte == b'\n').next().unwrap_or(bytes);
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let Some(space) = line.iter().position(|byte| *byte == b' ') else { return false };
    has_version(line) || (is_method(&line[..space]) && is_target(&line[space + 1..]))
}

/// Whether a line ends with the HTTP version, as every complete request line does: `PRI * HTTP/2.0`.
fn has_version(line: &[u8]) -> bool {
    line.rsplit(|byte| *byte == b' ').next().is_some_and(|word| word.starts_with(b"HTTP/"))
}

/// Whether a word looks like a method; browsers send methods in upper case.
fn is_method(word: &[u8]) -> bool {
    !word.is_empty() && word.iter().all(|byte| byte.is_ascii_uppercase() || *byte == b'-')
}

/// Whether a text begins like a request target: a path, `*` or a URL.
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
        assert!(begins_http_request(long.as_bytes()), "a line that exceeds the limit of every listener");
    }

    #[test]
    fn lines_of_other_protocols_are_not_recognised() {
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
