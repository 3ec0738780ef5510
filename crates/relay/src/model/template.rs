//! Templates of names: literal texts and groups of a regular expression.
//!
//! **Invariants.** An expanded name has at most [`NAME_BYTES_MAX`] bytes.

use regex::bytes::{Captures, Regex};
use sandur_model::go_replacement::{self, pieces};

/// The largest length of a name in bytes, both of received and of computed names.
pub const NAME_BYTES_MAX: usize = 4_096;

/// The change of case that is applied to a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Case {
    /// No change.
    #[default]
    Kept,
    /// ASCII letters become lower case.
    Lower,
    /// ASCII letters become upper case.
    Upper,
}

/// A piece of a template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece {
    /// Literal bytes.
    Text(Vec<u8>),
    /// The text that a group matched; empty if the group did not take part in the match.
    Group {
        /// The group's number; 0 is the whole match.
        index: usize,
        /// The change of case that is applied.
        case: Case,
        /// Whether dots become underscores.
        dots: bool,
    },
}

/// The pieces of a name, in order.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Template(Vec<Piece>);

impl Template {
    /// A template of literal text.
    pub fn text(text: &str) -> Self {
        Self(vec![Piece::Text(text.into())])
    }

    fn push_text(&mut self, text: &str) {
        if text.is_empty() {
            return;
        }
        match self.0.last_mut() {
            Some(Piece::Text(last)) => last.extend_from_slice(text.as_bytes()),
            _ => self.0.push(Piece::Text(text.into())),
        }
    }

    fn push_group(&mut self, index: usize, case: Case, dots: bool) {
        self.0.push(Piece::Group { index, case, dots });
    }

    /// Parses Python's form: `\1`, `\g<1>`, `\g<name>`, `\\`.
    pub fn python(text: &str, expression: &Regex) -> Result<Self, String> {
        let mut made = Self::default();
        let mut rest = text;
        while let Some(at) = rest.find('\\') {
            made.push_text(&rest[..at]);
            let after = &rest[at + 1..];
            let digits = after.bytes().take(2).take_while(u8::is_ascii_digit).count();
            if digits > 0 && !after.starts_with('0') {
                made.push_known(&after[..digits], expression)?;
                rest = &after[digits..];
            } else if let Some(named) = after.strip_prefix("g<") {
                let end = named.find('>').ok_or("a group reference '\\g<' has no end")?;
                made.push_known(&named[..end], expression)?;
                rest = &named[end + 1..];
            } else if let Some(next) = after.strip_prefix('\\') {
                made.push_text("\\");
                rest = next;
            } else {
                let escape: String = after.chars().take(1).collect();
                return Err(format!("the escape '\\{escape}' is not understood"));
            }
        }
        made.push_text(rest);
        Ok(made)
    }

    fn push_known(&mut self, name: &str, expression: &Regex) -> Result<(), String> {
        let index = name.parse().ok().filter(|index| *index < expression.captures_len());
        let named = || expression.capture_names().position(|own| own == Some(name));
        let index: usize = index.or_else(named).ok_or(format!("there is no group '{name}'"))?;
        self.push_group(index, Case::Kept, false);
        Ok(())
    }

    /// Parses the form of carbon's aggregation rules: `<name>` within a text.
    pub fn fields(text: &str, expression: &Regex) -> Result<Self, String> {
        let mut made = Self::default();
        let mut rest = text;
        while let Some(at) = rest.find('<') {
            made.push_text(&rest[..at]);
            let after = &rest[at + 1..];
            let end = after.find('>').ok_or("a field has no '>'")?;
            let name = &after[..end];
            let index = expression.capture_names().position(|own| own == Some(name));
            made.push_group(index.ok_or(format!("the input has no field <{name}>"))?, Case::Kept, false);
            rest = &after[end + 1..];
        }
        made.push_text(rest);
        Ok(made)
    }

    /// Parses carbon-c-relay's form: `\1` and `\g{1}`; `\_1` in lower case; `\^1` in upper case; `\.1`
    /// with underscores for dots; and the combinations `\_.1` and `\^.1`. As in that program, a
    /// reference to a group that does not exist expands to nothing.
    pub fn relay(text: &str) -> Self {
        let mut made = Self::default();
        let mut rest = text;
        while let Some(at) = rest.find('\\') {
            made.push_text(&rest[..at]);
            rest = &rest[at + 1..];
            let (mut case, mut dots) = (Case::Kept, false);
            let marks: [(char, Case); 2] = [('_', Case::Lower), ('^', Case::Upper)];
            for (mark, meant) in marks {
                if case == Case::Kept && rest.starts_with(mark) {
                    (case, rest) = (meant, &rest[1..]);
                }
            }
            if rest.starts_with('.') {
                (dots, rest) = (true, &rest[1..]);
            }
            let braced = rest.strip_prefix("g{").and_then(|inner| inner.split_once('}'));
            let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
            let number = match braced {
                Some((number, after)) => {
                    rest = after;
                    number
                }
                None => {
                    let (number, after) = rest.split_at(digits);
                    rest = after;
                    number
                }
            };
            if let Some(index) = number.parse::<usize>().ok().filter(|index| *index > 0) {
                made.push_group(index, case, dots);
            }
        }
        made.push_text(rest);
        made
    }

    /// Parses Go's form: `$1`, `${1}`, `$name`, `${name}`, `$$`. As in Go, a reference to a group that
    /// does not exist expands to nothing.
    pub fn go(text: &str, expression: &Regex) -> Self {
        let mut made = Self::default();
        for piece in pieces(text) {
            let index = match piece {
                go_replacement::Piece::Text(text) => {
                    made.push_text(text);
                    continue;
                }
                go_replacement::Piece::Group(number) => Some(number),
                go_replacement::Piece::Named(name) => {
                    expression.capture_names().position(|own| own == Some(name))
                }
            };
            if let Some(index) = index {
                made.push_group(index, Case::Kept, false);
            }
        }
        made
    }

    /// Appends the name of a match to `out`. Returns false when the name would be too long; the contents
    /// of `out` are then undefined.
    pub fn expand(&self, groups: &Captures<'_>, out: &mut Vec<u8>) -> bool {
        for piece in &self.0 {
            match piece {
                Piece::Text(text) => out.extend_from_slice(text),
                Piece::Group { index, case, dots } => {
                    let start = out.len();
                    let found = groups.get(*index).map_or(&b""[..], |group| group.as_bytes());
                    out.extend_from_slice(found);
                    let own = &mut out[start..];
                    match case {
                        Case::Kept => {}
                        Case::Lower => own.make_ascii_lowercase(),
                        Case::Upper => own.make_ascii_uppercase(),
                    }
                    if *dots {
                        own.iter_mut().filter(|byte| **byte == b'.').for_each(|byte| *byte = b'_');
                    }
                }
            }
            if out.len() > NAME_BYTES_MAX {
                return false;
            }
        }
        true
    }

    /// Returns the text if the template has no groups.
    pub fn as_text(&self) -> Option<&[u8]> {
        match self.0.as_slice() {
            [] => Some(b""),
            [Piece::Text(text)] => Some(text),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::matcher::compile;
    use super::*;

    fn expanded(template: &Template, expression: &Regex, name: &str) -> String {
        let mut out = Vec::new();
        assert!(template.expand(&expression.captures(name.as_bytes()).unwrap(), &mut out));
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn every_form_expands_as_in_its_program() {
        let expression = compile(r"^(?P<env>[^.]+)\.(\w+)\.(.*)$", false).unwrap();
        let name = "Prod.web.Cpu.idle";
        let python =
            |text| Template::python(text, &expression).map(|made| expanded(&made, &expression, name));
        assert_eq!(python(r"x.\2.\g<env>\\\g<3>0").unwrap(), r"x.web.Prod\Cpu.idle0");
        assert!(python(r"\9").is_err() && python(r"\g<no>").is_err() && python(r"\q").is_err());
        let relay = |text| expanded(&Template::relay(text), &expression, name);
        assert_eq!(relay(r"a.\1.\_1.\^2.\.3.\_.3.\g{2}7.\9."), "a.Prod.prod.WEB.Cpu_idle.cpu_idle.web7..");
        let go = |text| expanded(&Template::go(text, &expression), &expression, name);
        assert_eq!(go("$2.${env}_x.$$.$2x.$"), "web.Prod_x.$..$");
        let fields = Template::fields("<env>.all", &expression).unwrap();
        assert_eq!(expanded(&fields, &expression, name), "Prod.all");
        assert!(Template::fields("<app>", &expression).is_err());
    }

    #[test]
    fn a_name_that_would_become_too_long_is_not_expanded() {
        let expression = compile("(.*)", false).unwrap();
        let (template, name) = (Template::relay(&"\\1".repeat(3_000)), vec![b'a'; 3_000]);
        let mut out = Vec::new();
        assert!(!template.expand(&expression.captures(&name).unwrap(), &mut out));
        assert!(out.len() <= NAME_BYTES_MAX + 3_000);
    }
}
