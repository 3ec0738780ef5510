//! A member of a cluster as rings see it: host, port and instance, and its zone.
//!
//! **Invariants.** Rings hash the host as it is written in the configuration; no name is resolved here.

use std::fmt;

/// One member of a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Node {
    /// Host name or address, without brackets.
    pub host: String,
    /// The TCP or UDP port.
    pub port: u16,
    /// Distinguishes members on the same host.
    pub instance: Option<String>,
    /// The zone, for the rule that places replicas in different zones.
    pub zone: Option<String>,
}

impl fmt::Display for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host.contains(':') {
            true => write!(f, "[{}]:{}", self.host, self.port)?,
            false => write!(f, "{}:{}", self.host, self.port)?,
        }
        match &self.instance {
            Some(instance) => write!(f, "={instance}"),
            None => Ok(()),
        }
    }
}

impl Node {
    /// Returns the pair of host and instance as Python prints it, which carbon hashes.
    pub(crate) fn python_pair(&self) -> String {
        let mut pair = String::from("(");
        quote(&self.host, &mut pair);
        pair.push_str(", ");
        match &self.instance {
            Some(instance) => quote(instance, &mut pair),
            None => pair.push_str("None"),
        }
        pair.push(')');
        pair
    }
}

/// Appends a text as Python's `repr` writes it: in apostrophes, or in double quotes if it contains
/// apostrophes but no double quotes.
fn quote(text: &str, out: &mut String) {
    let mark = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
    out.push(mark);
    for letter in text.chars() {
        match letter {
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            _ => {
                if letter == mark || letter == '\\' {
                    out.push('\\');
                }
                out.push(letter);
            }
        }
    }
    out.push(mark);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_are_printed_as_in_python() {
        let node = |host: &str, instance: Option<&str>| Node {
            host: host.to_owned(),
            port: 2003,
            instance: instance.map(str::to_owned),
            zone: None,
        };
        assert_eq!(node("10.0.0.1", None).python_pair(), "('10.0.0.1', None)");
        assert_eq!(node("h", Some("a")).python_pair(), "('h', 'a')");
        assert_eq!(node("h", Some("a'b")).python_pair(), "('h', \"a'b\")");
        assert_eq!(node("h", Some("a'\"\\")).python_pair(), "('h', 'a\\'\"\\\\')");
        assert_eq!(node("::1", Some("b")).to_string(), "[::1]:2003=b");
    }
}
