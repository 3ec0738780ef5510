//! `carbonapi_v2_pb` and `carbonapi_v3_pb`: nodes in carbonserver's messages for carbonapi, and its
//! requests.

use sandur_protobuf::{Wire, Writer as _};

use super::request::{FindFormat, FindRequest, Node};
use crate::encoding::protobuf::{items, message, text};
use crate::error::{Error, Result};
use crate::source::Found;

pub(super) const OLDER: FindFormat = FindFormat {
    name: "carbonapi_v2_pb",
    content_type: "application/x-protobuf",
    is_json: false,
    write: write_older,
};

/// The same format under the name that carbonapi requests.
pub(super) const PROTOBUF: FindFormat = FindFormat { name: "protobuf", ..OLDER };

pub(super) const NEWER: FindFormat = FindFormat {
    name: "carbonapi_v3_pb",
    content_type: "application/x-carbonapi-v3-pb",
    is_json: false,
    write: write_newer,
};

/// The most patterns of one request.
const PATTERNS_MAX: usize = 1000;

fn glob<'a>(out: &mut Vec<u8>, query: &str, nodes: impl Iterator<Item = (&'a str, bool)>) -> Result<()> {
    out.text(1, query);
    for (path, is_leaf) in nodes {
        out.message(2, |out| {
            out.text(1, path);
            out.number(2, is_leaf.into());
        });
    }
    Ok(())
}

fn parts(nodes: &[Node]) -> impl Iterator<Item = (&str, bool)> {
    nodes.iter().map(|node| (node.path.as_str(), node.is_leaf))
}

fn write_older(request: &FindRequest, nodes: &[Node], out: &mut Vec<u8>) -> Result<()> {
    glob(out, &request.query, parts(nodes))
}

fn write_newer(request: &FindRequest, nodes: &[Node], out: &mut Vec<u8>) -> Result<()> {
    message(out, 1, |out| glob(out, &request.query, parts(nodes)))
}

/// The nodes of one pattern of a request.
#[derive(Debug)]
pub struct Glob<'a> {
    /// The pattern.
    pub pattern: &'a str,
    /// The nodes that match.
    pub nodes: &'a [Found],
}

/// Writes the answer to a request of several patterns, in the third protocol.
pub fn write_globs(globs: &[Glob<'_>]) -> std::result::Result<Vec<u8>, Error> {
    let mut out = Vec::new();
    for one in globs {
        let nodes = one.nodes.iter().map(|node| (node.path.as_str(), node.is_leaf));
        message(&mut out, 1, |out| glob(out, one.pattern, nodes))?;
    }
    Ok(out)
}

/// Parses a request in the third protocol: its patterns and its time range, with 0 for no bound.
pub fn read_globs(body: &[u8]) -> std::result::Result<(Vec<String>, i64, i64), Error> {
    let (mut patterns, mut from, mut until) = (Vec::new(), 0, 0);
    let read = items(body, PATTERNS_MAX, |message, key| {
        match key {
            (1, _) => patterns.push(text(message)?),
            (2, Wire::Varint) => from = message.varint()? as i64,
            (3, Wire::Varint) => until = message.varint()? as i64,
            (_, wire) => message.skip(wire)?,
        }
        Ok(())
    });
    match read {
        Ok(()) => Ok((patterns, from, until)),
        Err(_) => Err(Error::invalid(format!(
            "the body is not a MultiGlobRequest of at most {PATTERNS_MAX} patterns"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_of_several_patterns_are_parsed_and_bounded() {
        let mut body = Vec::new();
        body.text(1, "a.*");
        body.text(1, "b.*");
        body.number(2, 100);
        body.number(3, 200);
        assert_eq!(read_globs(&body).unwrap(), (vec!["a.*".to_owned(), "b.*".to_owned()], 100, 200));
        assert!((1..body.len()).all(|end| read_globs(&body[..end]).is_ok_and(|(read, ..)| read.len() < 3)
            || read_globs(&body[..end]).is_err()));
        let mut many = Vec::new();
        (0..=PATTERNS_MAX).for_each(|_| many.text(1, "a"));
        assert!(read_globs(&many).unwrap_err().to_string().contains("1000"));
    }

    #[test]
    fn each_pattern_has_its_nodes() {
        let nodes = [Found { path: "a.b".to_owned(), is_leaf: true }];
        let empty = Glob { pattern: "x", nodes: &[] };
        let bytes = write_globs(&[Glob { pattern: "a.*", nodes: &nodes }, empty]).unwrap();
        let expected = b"\x0a\x0e\x0a\x03a.*\x12\x07\x0a\x03a.b\x10\x01\x0a\x03\x0a\x01x";
        assert_eq!(bytes, expected);
    }
}
