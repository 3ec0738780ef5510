//! Parses configuration files in the syntax of Python 3's `ConfigParser`, which carbon uses.
//!
//! Comments are complete lines that begin with `#` or `;`. A line that is indented more than the option
//! above it continues the value of that option; lines of equal indentation are separate options, however
//! far they are indented. A duplicate option or section is an error. `[DEFAULT]` holds options for all
//! sections, `%(name)s` in a value stands for the value of another option, and `%%` for `%`.
//!
//! **Invariant.** The expansion of `[DEFAULT]` and `%(name)s` is bounded, in bytes and in steps.

use std::collections::{HashMap, HashSet};

/// The section whose options apply to all sections.
const DEFAULT: &str = "DEFAULT";
/// The most levels of `%(name)s` within each other, as in Python.
const DEPTH_MAX: usize = 10;
/// The most bytes of values copied from `[DEFAULT]` or by `%(name)s`; each option and name counts one
/// byte more.
const COPIED_BYTES_MAX: usize = 4 << 20;

/// A parsed file.
#[derive(Debug)]
pub struct PythonConfig {
    defaults: Option<Section>,
    sections: Vec<Section>,
    /// Sections in the order in which carbon lists them, with the line.
    listed: Vec<(usize, String)>,
}

/// A section with its options.
#[derive(Clone, Debug, Default)]
pub struct Section {
    /// Its line, from 1.
    pub line: usize,
    /// Its name.
    pub name: String,
    /// Its options in the order of the file, those of `[DEFAULT]` at the end.
    pub options: Vec<ConfigOption>,
}

/// An option of a section.
#[derive(Clone, Debug)]
pub struct ConfigOption {
    /// Its line, from 1.
    pub line: usize,
    /// Its name in lower case.
    pub name: String,
    /// Its value without surrounding white space; lines are separated by `\n`.
    pub value: String,
}

/// Why a file cannot be parsed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {reason}")]
pub struct Malformed {
    /// The line, from 1.
    pub line: usize,
    /// What is wrong and how to correct it.
    pub reason: String,
}

impl Malformed {
    fn at(line: usize, reason: impl Into<String>) -> Self {
        Self { line, reason: reason.into() }
    }
}

impl Section {
    /// The option with a name, in any case.
    pub fn option(&self, name: &str) -> Option<&ConfigOption> {
        self.options.iter().find(|option| option.name.eq_ignore_ascii_case(name))
    }
}

impl PythonConfig {
    /// Parses a file; does not expand values.
    pub fn parse(text: &str) -> Result<Self, Malformed> {
        let mut reader = Reader::default();
        for (index, line) in lines(text).enumerate() {
            reader.line(index + 1, line)?;
        }
        Ok(reader.end())
    }

    /// The section with a name, with defaults and expanded values.
    pub fn section(&self, name: &str) -> Result<Option<Section>, Malformed> {
        let found = self.sections.iter().find(|section| section.name == name);
        found.map(|section| self.resolved(section, &mut CopiedBytes(COPIED_BYTES_MAX))).transpose()
    }

    /// The names of all sections except `[DEFAULT]`.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.sections.iter().map(|section| section.name.as_str())
    }

    /// The sections that carbon reads as rules, in their order, including `[DEFAULT]` if it exists.
    /// carbon ignores a section with text after its `]`, and does not start when a line of a value looks
    /// like a section; both are errors here.
    pub fn rules(&self) -> Result<Vec<Section>, Malformed> {
        let by_name: HashMap<&str, &Section> = self
            .sections
            .iter()
            .chain(&self.defaults)
            .map(|section| (section.name.as_str(), section))
            .collect();
        let listed: HashSet<&str> = self.listed.iter().map(|(_, name)| name.as_str()).collect();
        if let Some(missing) = self.sections.iter().find(|section| !listed.contains(section.name.as_str())) {
            let reason = format!(
                "carbon ignores the section [{}] because of the text after its ]; put it on a line of its \
                 own",
                missing.name
            );
            return Err(Malformed::at(missing.line, reason));
        }
        let mut copied = CopiedBytes(COPIED_BYTES_MAX);
        let resolved = self.listed.iter().map(|(line, name)| match by_name.get(name.as_str()) {
            Some(section) => self.resolved(section, &mut copied),
            None => {
                let reason =
                    format!("[{name}] continues the value above; indent a section no more than that");
                Err(Malformed::at(*line, reason))
            }
        });
        resolved.collect()
    }

    /// The section with expanded values and the options of `[DEFAULT]` that it does not set.
    fn resolved(&self, section: &Section, copied: &mut CopiedBytes) -> Result<Section, Malformed> {
        let mut options = section.options.clone();
        let own: HashSet<&str> = section.options.iter().map(|option| option.name.as_str()).collect();
        let defaults = self.defaults.iter().flat_map(|defaults| &defaults.options);
        for default in defaults.filter(|default| !own.contains(default.name.as_str())) {
            copied.take(default.line, default.name.len() + default.value.len())?;
            options.push(default.clone());
        }
        if !options.iter().any(|option| option.value.contains('%')) {
            return Ok(Section { options, ..section.clone() });
        }
        let values: HashMap<&str, &str> =
            options.iter().map(|option| (option.name.as_str(), option.value.as_str())).collect();
        let full = options.iter().map(|option| {
            let mut value = String::new();
            Interpolation { line: option.line, values: &values, copied }.write(
                &option.value,
                1,
                &mut value,
            )?;
            Ok(ConfigOption { value, ..option.clone() })
        });
        Ok(Section { options: full.collect::<Result<_, Malformed>>()?, ..section.clone() })
    }
}

/// The lines of a text; they end with `\n`, `\r\n` or `\r`.
fn lines(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = Some(text);
    std::iter::from_fn(move || {
        let text = rest?;
        let Some(end) = text.find(['\n', '\r']) else {
            rest = None;
            return Some(text);
        };
        let after = &text[end..];
        rest = Some(after.strip_prefix("\r\n").unwrap_or(&after[1..]));
        Some(&text[..end])
    })
}

/// The state of the parser.
#[derive(Default)]
struct Reader {
    defaults: Option<Section>,
    sections: Vec<Section>,
    listed: Vec<(usize, String)>,
    names: HashSet<String>,
    /// Whether the current section is `[DEFAULT]`.
    in_defaults: bool,
    /// Names of the options of `[DEFAULT]` and of the current section.
    known: [HashSet<String>; 2],
    /// Whether the next line may continue the last option.
    has_option: bool,
    indentation: usize,
}

impl Reader {
    fn line(&mut self, number: usize, line: &str) -> Result<(), Malformed> {
        let text = line.trim();
        if let Some(name) = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            self.listed.push((number, name.to_owned()));
        }
        if text.starts_with(['#', ';']) {
            return Ok(());
        }
        if text.is_empty() {
            // An empty line belongs to the value if a later line continues it.
            if let Some(option) = self.open_option() {
                option.value.push('\n');
            }
            return Ok(());
        }
        let indentation = line.chars().take_while(|letter| letter.is_whitespace()).count();
        if indentation > self.indentation
            && let Some(option) = self.open_option()
        {
            option.value.push('\n');
            option.value.push_str(text);
            return Ok(());
        }
        self.indentation = indentation;
        let name = text.strip_prefix('[').and_then(|rest| Some(&rest[..rest.rfind(']')?]));
        match name.filter(|name| !name.is_empty()) {
            Some(name) => self.section(number, name),
            None => self.option(number, text),
        }
    }

    fn current(&mut self) -> Option<&mut Section> {
        if self.in_defaults { self.defaults.as_mut() } else { self.sections.last_mut() }
    }

    /// The option that the current line may continue.
    fn open_option(&mut self) -> Option<&mut ConfigOption> {
        if !self.has_option {
            return None;
        }
        self.current()?.options.last_mut()
    }

    fn section(&mut self, line: usize, name: &str) -> Result<(), Malformed> {
        let section = Section { line, name: name.to_owned(), options: Vec::new() };
        self.has_option = false;
        self.in_defaults = name == DEFAULT;
        if self.in_defaults {
            self.defaults.get_or_insert(section);
            return Ok(());
        }
        if !self.names.insert(name.to_owned()) {
            return Err(Malformed::at(line, format!("the section [{name}] appears twice")));
        }
        self.known[1].clear();
        self.sections.push(section);
        Ok(())
    }

    fn option(&mut self, line: usize, text: &str) -> Result<(), Malformed> {
        if self.current().is_none() {
            return Err(Malformed::at(line, "this line comes before the first [section]"));
        }
        let (name, value) =
            text.split_once(['=', ':']).filter(|(name, _)| !name.is_empty()).ok_or_else(|| {
                let shown: String = text.chars().take(120).collect();
                Malformed::at(line, format!("'{shown}' is neither a [section] nor 'name = value'"))
            })?;
        let name = name.trim_end().to_lowercase();
        if !self.known[usize::from(!self.in_defaults)].insert(name.clone()) {
            let section = self.current().map_or(DEFAULT, |section| section.name.as_str());
            let reason =
                format!("the option '{name}' appears twice in [{section}]; carbon refuses that, remove one");
            return Err(Malformed::at(line, reason));
        }
        let value = value.trim().to_owned();
        if let Some(section) = self.current() {
            section.options.push(ConfigOption { line, name, value });
        }
        self.has_option = true;
        Ok(())
    }

    fn end(mut self) -> PythonConfig {
        for option in self.sections.iter_mut().chain(&mut self.defaults).flat_map(|own| &mut own.options) {
            option.value.truncate(option.value.trim_end().len());
        }
        // Python lists a section once for each of its lines; only [DEFAULT] may have more than one.
        let mut seen = HashSet::new();
        self.listed.retain(|(_, name)| seen.insert(name.clone()));
        PythonConfig { defaults: self.defaults, sections: self.sections, listed: self.listed }
    }
}

/// Bytes that may still be copied.
struct CopiedBytes(usize);

impl CopiedBytes {
    fn take(&mut self, line: usize, bytes: usize) -> Result<(), Malformed> {
        let left = self.0.checked_sub(bytes.saturating_add(1));
        self.0 = left.ok_or_else(|| {
            let reason = format!(
                "[DEFAULT] and '%(name)s' expand to more than {COPIED_BYTES_MAX} bytes; use them less"
            );
            Malformed::at(line, reason)
        })?;
        Ok(())
    }
}

/// Expands `%` in the values of a section.
struct Interpolation<'v, 'r> {
    line: usize,
    values: &'r HashMap<&'v str, &'v str>,
    copied: &'r mut CopiedBytes,
}

impl<'v> Interpolation<'v, '_> {
    fn write(&mut self, value: &str, depth: usize, out: &mut String) -> Result<(), Malformed> {
        if depth > DEPTH_MAX {
            let reason = format!("'%(name)s' is nested more than {DEPTH_MAX} deep");
            return Err(Malformed::at(self.line, reason));
        }
        let mut rest = value;
        while let Some(at) = rest.find('%') {
            out.push_str(&rest[..at]);
            rest = &rest[at + 1..];
            if let Some(after) = rest.strip_prefix('%') {
                out.push('%');
                rest = after;
                continue;
            }
            let (named, after) = self.named(rest)?;
            rest = after;
            self.copied.take(self.line, named.len())?;
            match named.contains('%') {
                true => self.write(named, depth + 1, out)?,
                false => out.push_str(named),
            }
        }
        out.push_str(rest);
        Ok(())
    }

    /// The value of the option that is named after a `%`, and the text that follows.
    fn named<'t>(&self, rest: &'t str) -> Result<(&'v str, &'t str), Malformed> {
        let wrong = || {
            let reason = "'%' must begin '%(name)s', the value of another option; write '%%' for a plain '%'";
            Malformed::at(self.line, reason)
        };
        let (name, after) = rest.strip_prefix('(').and_then(|rest| rest.split_once(')')).ok_or_else(wrong)?;
        let after = after.strip_prefix('s').filter(|_| !name.is_empty()).ok_or_else(wrong)?;
        let value = self.values.get(name.to_lowercase().as_str()).copied();
        let missing =
            || Malformed::at(self.line, format!("'%({name})s' names an option that does not exist"));
        Ok((value.ok_or_else(missing)?, after))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The options of a file as `section.name=value`.
    fn read(text: &str) -> Result<Vec<String>, Malformed> {
        let rules = PythonConfig::parse(text)?.rules()?;
        let of = |section: &Section| -> Vec<String> {
            let shown = |option: &ConfigOption| format!("{}.{}={}", section.name, option.name, option.value);
            section.options.iter().map(shown).collect()
        };
        Ok(rules.iter().flat_map(of).collect())
    }

    /// Files that templates generate. The first option of a section is never a continuation, and neither
    /// is a next line with the same indentation.
    #[test]
    fn options_of_equal_indentation_are_separate() {
        for (text, expected) in [
            ("[a]\n  x = 1\n  y = 2\n", vec!["a.x=1", "a.y=2"]),
            ("  [a]\n  x = 1\n  y = 2\n  [b]\n  x = 3", vec!["a.x=1", "a.y=2", "b.x=3"]),
            ("[a]\n    x = 1\n  y = 2\n    z = 3\n", vec!["a.x=1", "a.y=2\nz = 3"]),
            ("[a]\n\tx = 1\n\ty: 2\n", vec!["a.x=1", "a.y=2"]),
            ("[a]\nx = 1\n y = 2\n", vec!["a.x=1\ny = 2"]),
            ("[a]\nx = 1,\n  # no\n\n  2\n\ny=\n", vec!["a.x=1,\n\n2", "a.y="]),
            ("[a]\r\n X\t= 1 ; no comment\r\n y = a=b:c\r\n", vec!["a.x=1 ; no comment", "a.y=a=b:c"]),
            ("[a]\n;x = 1\n#y = 2\n  ;z\nz = 3", vec!["a.z=3"]),
            ("[a]b]\nx=1", vec!["a]b.x=1"]),
        ] {
            assert_eq!(read(text).unwrap(), expected, "{text}");
        }
    }

    #[test]
    fn defaults_and_percent_signs_expand_as_in_python() {
        let text = "[DEFAULT]\ny = 60s\nz = %(Y)s:1d\n[a]\nx = %(z)s,%(y)s:7d\n[b]\ny = 5%%\n";
        let expected = [
            "DEFAULT.y=60s",
            "DEFAULT.z=60s:1d",
            "a.x=60s:1d,60s:7d",
            "a.y=60s",
            "a.z=60s:1d",
            "b.y=5%",
            "b.z=5%:1d",
        ];
        assert_eq!(read(text).unwrap(), expected);
        let config = PythonConfig::parse("[a]\nx = %\n[b]\nx = 1\n").unwrap();
        assert_eq!(config.section("b").unwrap().unwrap().option("X").unwrap().value, "1");
        assert_eq!(
            (config.section("a").unwrap_err().line, config.section("c").unwrap().is_none()),
            (2, true)
        );
        assert_eq!(config.names().collect::<Vec<_>>(), ["a", "b"]);
    }

    #[test]
    fn errors_of_python_are_errors_with_their_line() {
        for (text, line, what) in [
            ("x = 1\n[a]\n", 1, "before the first"),
            ("\u{feff}[a]\n", 1, "before the first"),
            ("[a]\n[b]\n[a]\n", 3, "[a] appears twice"),
            ("[a]\nx = 1\nX : 2\n", 3, "'x' appears twice in [a]"),
            ("[DEFAULT]\nx = 1\n[a]\n[DEFAULT]\nx = 2\n", 5, "'x' appears twice in [DEFAULT]"),
            ("[a]\nwhat\n", 2, "'what' is neither"),
            ("[a]\n= 1\n", 2, "neither"),
            ("[]\n", 1, "before the first"),
            ("[a] # c\nx = 1\n", 1, "after its ]"),
            ("[a]\nx = 1\n [b]\n", 3, "[b] continues"),
            ("[a]\nx = 5%\n", 2, "'%%'"),
            ("[a]\nx = %(y)\n", 2, "'%%'"),
            ("[a]\nx = %()s\n", 2, "'%%'"),
            ("[a]\nx = %(y)s\n", 2, "'%(y)s' names an option"),
            ("[a]\nx = %(x)s\n", 2, "10 deep"),
        ] {
            let error = read(text).unwrap_err();
            assert_eq!(error.line, line, "{text}: {error}");
            assert!(error.reason.contains(what), "{text}: {error}");
        }
    }

    #[test]
    fn nested_expansion_is_bounded() {
        let ten = |name: &str| format!("%({name})s").repeat(10);
        for last in ["", "v"] {
            let names = ["b", "c", "d", "e", "f", "g", "h", "i"];
            let links: String =
                names.windows(2).map(|pair| format!("{} = {}\n", pair[0], ten(pair[1]))).collect();
            let error = read(&format!("[a]\n{links}i = %%{last}\n")).unwrap_err();
            assert!(error.reason.contains("4194304"), "{error}");
        }
        let sections: String = (0..1_000).map(|n| format!("[{n}]\n")).collect();
        let error = read(&format!("[DEFAULT]\nx = {}\n{sections}", "v".repeat(5_000))).unwrap_err();
        assert!(error.reason.contains("4194304"), "{error}");
    }
}
