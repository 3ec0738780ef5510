//! A request to `/metrics/find`, the format in which it is answered, and the nodes of the answer.

use crate::encoding::json::Layout;
use crate::error::Result;
use crate::glob::Pattern;
use crate::source::Found;

/// The parameters of a request.
#[derive(Clone, Debug)]
pub struct FindRequest {
    /// The pattern as the client sent it.
    pub query: String,
    /// The output format.
    pub format: &'static FindFormat,
    /// Only nodes with values after the first time, exclusive, up to the second one, inclusive; in seconds
    /// since 1970.
    pub times: Option<(i64, i64)>,
    /// The current time, in seconds since 1970.
    pub now: i64,
    /// Whether branches are omitted.
    pub leaves_only: bool,
    /// Whether a node `*` is added if there are several nodes.
    pub wildcards: bool,
    /// Whether commas separate alternatives even without braces.
    pub automatic_variants: bool,
    /// The position of the node that is listed; a negative one counts from the end.
    pub position: i64,
    /// The function that JSON is wrapped in (JSONP).
    pub jsonp: Option<String>,
    /// Whether JSON is indented.
    pub pretty: bool,
}

impl FindRequest {
    /// The pattern to search for; for `completer`, that of the completions of the typed path.
    pub(super) fn pattern(&self) -> String {
        if self.format.name != "completer" {
            return self.query.clone();
        }
        let mut query = self.query.replace("..", "*.");
        if !query.ends_with('*') {
            query.push('*');
        }
        if !self.automatic_variants {
            return query;
        }
        let variants = |part: &str| match part.contains(',') && !part.contains('{') {
            true => format!("{{{part}}}"),
            false => part.to_owned(),
        };
        query.split('.').map(variants).collect::<Vec<_>>().join(".")
    }

    /// The white space of JSON.
    pub(super) fn style(&self) -> Layout {
        Layout::new(self.pretty)
    }

    /// The path of the branch that is listed, with its trailing dot.
    pub(super) fn base(&self) -> &str {
        self.query.rfind('.').map_or("", |at| &self.query[..=at])
    }

    /// The time range of the nodes, as far as the request has one.
    pub(super) fn interval(&self) -> (i64, i64) {
        self.times.unwrap_or((0, self.now))
    }
}

/// An output format.
#[derive(Debug)]
pub struct FindFormat {
    /// The value of `format`.
    pub name: &'static str,
    /// The content type.
    pub content_type: &'static str,
    /// Whether `jsonp` may wrap it.
    pub(crate) is_json: bool,
    pub(crate) write: fn(&FindRequest, &[Node], &mut Vec<u8>) -> Result<()>,
}

/// A node that matches.
#[derive(Debug)]
pub(crate) struct Node {
    pub(super) path: String,
    name_at: usize,
    pub(super) is_leaf: bool,
}

impl Node {
    pub(super) fn of(found: Found, pattern: &Pattern) -> Self {
        let path = pattern.shown(found.path);
        let name_at = path.rfind('.').map_or(0, |at| at + 1);
        Self { path, name_at, is_leaf: found.is_leaf }
    }

    pub(super) fn name(&self) -> &str {
        &self.path[self.name_at..]
    }
}
