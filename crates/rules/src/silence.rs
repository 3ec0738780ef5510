//! Silences: conditions under which receivers are not told about alerts, as in Alertmanager.
//!
//! **Invariants.** A silence has at most [`SILENCE_BYTES_MAX`] bytes, and its regular expressions at most
//! [`PATTERN_BYTES_MAX`] when they are compiled. The work of matching is bounded: what is not decided within
//! the bound is told.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use sandur_model::go_text::quote;
use sandur_model::{Labels, MatchOp, Matcher, TenantId};
use serde::{Deserialize, Serialize};

use crate::data::Instant;

/// The largest silence: its texts.
pub const SILENCE_BYTES_MAX: usize = 16 << 10;
/// The most matchers of a silence.
pub const MATCHERS_MAX: usize = 100;
/// The most memory of the regular expressions of one silence, and of those of a tenant.
pub const PATTERN_BYTES_MAX: u64 = 1 << 20;
/// See [`PATTERN_BYTES_MAX`].
pub const PATTERNS_BYTES_MAX: u64 = 16 << 20;
/// How long a silence is kept after its end.
pub const EXPIRED_KEPT: Duration = Duration::from_secs(120 * 3_600);
/// The most steps of regular expressions for the alerts of one notification: about a second.
pub const STEPS_MAX: u64 = 200_000_000;

/// A condition on a label.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SilenceMatcher {
    /// The name of the label.
    pub name: String,
    /// The value, or a regular expression for all of it.
    pub value: String,
    /// Whether `value` is a regular expression.
    pub is_regex: bool,
    /// Whether the value shall match, or shall not.
    #[serde(default = "yes")]
    pub is_equal: bool,
}

fn yes() -> bool {
    true
}

impl SilenceMatcher {
    /// The operator.
    pub fn op(&self) -> MatchOp {
        match (self.is_regex, self.is_equal) {
            (false, true) => MatchOp::Equal,
            (false, false) => MatchOp::NotEqual,
            (true, true) => MatchOp::Regex,
            (true, false) => MatchOp::NotRegex,
        }
    }

    /// The matcher for being applied.
    pub fn compiled(&self) -> Result<Matcher, String> {
        Matcher::new(&*self.name, self.op(), &*self.value).map_err(|error| error.to_string())
    }
}

impl fmt::Display for SilenceMatcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}{}", self.name, self.op().as_str(), quote(&self.value))
    }
}

impl SilenceMatcher {
    /// Reads a matcher as `amtool` writes it: a name, `=`, `!=`, `=~` or `!~`, and a value, in double quotes
    /// or without.
    pub fn parse(text: &str) -> Result<Self, String> {
        let wrong =
            |what: &str| format!("bad matcher format: {text}: {what}; write it like alertname=\"Down\"");
        let at = text.find(['=', '!']).ok_or_else(|| wrong("there is no operator"))?;
        let (name, rest) = (unquoted(text[..at].trim()), &text[at..]);
        let operators = ["=~", "!~", "!=", "="];
        let op = operators.into_iter().find(|op| rest.starts_with(op));
        let op = op.ok_or_else(|| wrong("there is no operator"))?;
        let name = name.filter(|name| !name.is_empty()).ok_or_else(|| wrong("there is no name"))?;
        let value = unquoted(rest[op.len()..].trim()).ok_or_else(|| wrong("a quote is not closed"))?;
        Ok(Self { name, value, is_regex: op.ends_with('~'), is_equal: op.starts_with('=') })
    }
}

/// A text in double quotes, or without any; `None` if it has only one of them.
fn unquoted(text: &str) -> Option<String> {
    let Some(inner) = text.strip_prefix('"') else { return (!text.ends_with('"')).then(|| text.to_owned()) };
    let inner = inner.strip_suffix('"')?;
    let (mut out, mut chars) = (String::with_capacity(inner.len()), inner.chars());
    while let Some(char) = chars.next() {
        match char {
            '"' => return None,
            '\\' => match chars.next()? {
                'n' => out.push('\n'),
                escaped @ ('"' | '\\') => out.push(escaped),
                other => out.extend(['\\', other]),
            },
            other => out.push(other),
        }
    }
    Some(out)
}

/// Which silences or alerts a client asks for.
#[derive(Debug, Default)]
pub struct LabelFilter(Vec<Matcher>);

impl LabelFilter {
    /// Reads matchers, all of which have to fit.
    pub fn parse<'a>(texts: impl Iterator<Item = &'a str>) -> Result<Self, String> {
        let matchers = texts.take(MATCHERS_MAX + 1).map(|text| SilenceMatcher::parse(text)?.compiled());
        let matchers: Vec<Matcher> = matchers.collect::<Result<_, _>>()?;
        match matchers.len() > MATCHERS_MAX {
            true => Err(format!("more than {MATCHERS_MAX} filters: use fewer")),
            false => Ok(Self(matchers)),
        }
    }

    /// Removes what a client does not ask for. `value` is the value of a label; `None`: the item has no such
    /// label, which fits a negated matcher only. Takes long if there are many items.
    pub fn retain<T>(&self, items: &mut Vec<T>, value: fn(&T, &str) -> Option<String>) -> Result<(), String> {
        let mut steps = Steps::default();
        items.retain(|item| {
            self.0.iter().all(|wanted| match value(item, wanted.name()) {
                Some(value) => steps.allow(wanted, &value) && wanted.matches(&value),
                None => wanted.is_negated(),
            })
        });
        match steps.are_over() {
            true => {
                Err(format!("the filters need more than {STEPS_MAX} steps: use simpler regular expressions"))
            }
            false => Ok(()),
        }
    }
}

/// A silence that a client wants.
#[derive(Clone, Debug)]
pub struct Posted {
    /// The silence that it changes.
    pub id: Option<String>,
    /// Conditions, all of which an alert meets.
    pub matchers: Vec<SilenceMatcher>,
    /// When it begins.
    pub starts_at: Instant,
    /// When it ends.
    pub ends_at: Instant,
    /// Who wants it.
    pub created_by: String,
    /// Why.
    pub comment: String,
}

impl Posted {
    /// The silence with a new id.
    pub fn silence(self, id: String, now: Instant) -> Silence {
        let Self { matchers, starts_at, ends_at, created_by, comment, .. } = self;
        Silence { id, matchers, starts_at, ends_at, updated_at: now, created_by, comment }
    }
}

/// Knows the silences of tenants.
pub trait Mute: Send + Sync {
    /// The silences of a tenant that hold now.
    fn silences(&self, tenant: &TenantId) -> Arc<Silences>;
}

/// Whether a silence is in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SilenceState {
    /// It is in force.
    Active,
    /// It begins later.
    Pending,
    /// It is over.
    Expired,
}

impl SilenceState {
    /// The name in the API.
    pub fn name(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Pending => "pending",
            Self::Expired => "expired",
        }
    }
}

/// A silence.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Silence {
    /// Its id.
    pub id: String,
    /// Conditions, all of which an alert meets.
    pub matchers: Vec<SilenceMatcher>,
    /// When it begins.
    pub starts_at: Instant,
    /// When it ends.
    pub ends_at: Instant,
    /// When it was changed last.
    pub updated_at: Instant,
    /// Who created it.
    pub created_by: String,
    /// Why.
    pub comment: String,
}

/// Why a silence was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SilenceError {
    /// It silences nothing, or everything.
    #[error("invalid silence: {0}")]
    Invalid(String),
    /// A limit would be exceeded.
    #[error("invalid silence: {found} {what}, at most {most}: use fewer or shorter matchers")]
    Limit {
        /// What is counted.
        what: &'static str,
        /// How many there are.
        found: u64,
        /// The limit.
        most: u64,
    },
}

impl Silence {
    /// The state at a time.
    pub fn state(&self, now: Instant) -> SilenceState {
        match now {
            _ if now >= self.ends_at => SilenceState::Expired,
            _ if now < self.starts_at => SilenceState::Pending,
            _ => SilenceState::Active,
        }
    }

    /// The value of its matcher on a label.
    pub fn value_of(&self, name: &str) -> Option<String> {
        let own = self.matchers.iter().find(|matcher| matcher.name == name);
        own.map(|own| own.value.clone())
    }

    /// The bytes of its texts.
    pub fn bytes(&self) -> usize {
        let matchers: usize =
            self.matchers.iter().map(|matcher| matcher.name.len() + matcher.value.len()).sum();
        matchers + self.created_by.len() + self.comment.len() + self.id.len()
    }

    /// Checks a new silence.
    ///
    /// # Errors
    ///
    /// It silences nothing or everything, or exceeds a limit.
    pub fn check(&self, now: Instant) -> Result<(), SilenceError> {
        let invalid = |text: &str| Err(SilenceError::Invalid(text.to_owned()));
        let limit = |what, found, most| match found > most {
            true => Err(SilenceError::Limit { what, found, most }),
            false => Ok(()),
        };
        limit("matchers", self.matchers.len() as u64, MATCHERS_MAX as u64)?;
        limit("bytes", self.bytes() as u64, SILENCE_BYTES_MAX as u64)?;
        if self.starts_at >= self.ends_at {
            return invalid("start time must be before end time");
        }
        if self.ends_at <= now {
            return invalid("end time can't be in the past");
        }
        if self.matchers.is_empty() {
            return invalid("at least one matcher required");
        }
        if self.matchers.iter().any(|matcher| matcher.name.is_empty()) {
            return invalid("the name of a label is empty");
        }
        let compiled = Compiled::of(self).map_err(SilenceError::Invalid)?;
        limit("bytes of compiled regular expressions", compiled.memory_bytes(), PATTERN_BYTES_MAX)?;
        if compiled.matchers.iter().all(Matcher::matches_empty) {
            return invalid("at least one matcher must not match the empty string");
        }
        Ok(())
    }
}

/// A silence that can be applied.
#[derive(Clone, Debug)]
struct Compiled {
    id: String,
    starts_at: Instant,
    ends_at: Instant,
    matchers: Vec<Matcher>,
}

impl Compiled {
    fn of(silence: &Silence) -> Result<Self, String> {
        let Silence { starts_at, ends_at, .. } = *silence;
        let matchers = silence.matchers.iter().map(SilenceMatcher::compiled).collect::<Result<_, _>>()?;
        Ok(Self { id: silence.id.clone(), starts_at, ends_at, matchers })
    }

    fn memory_bytes(&self) -> u64 {
        self.matchers.iter().map(Matcher::memory_bytes).sum()
    }
}

/// The silences of a tenant that are not over, for being applied.
#[derive(Clone, Debug, Default)]
pub struct Silences(Vec<Compiled>);

/// How much work is left for one notification.
pub struct Steps(u64);

impl Default for Steps {
    fn default() -> Self {
        Self(STEPS_MAX)
    }
}

impl Steps {
    /// Whether the work for a matcher on a value is within the bound.
    fn allow(&mut self, matcher: &Matcher, value: &str) -> bool {
        let steps = matcher.steps_per_byte() as u64 * value.len() as u64;
        let is_allowed = steps <= self.0;
        self.0 = self.0.saturating_sub(steps);
        is_allowed
    }

    /// Whether the bound was reached.
    pub fn are_over(&self) -> bool {
        self.0 == 0
    }
}

impl Silences {
    /// Compiles those of the silences that are not over.
    pub fn of<'a>(silences: impl Iterator<Item = &'a Silence>, now: Instant) -> Result<Self, String> {
        let live = silences.filter(|silence| silence.state(now) != SilenceState::Expired);
        let compiled = |silence: &Silence| {
            Compiled::of(silence).map_err(|error| format!("silence '{}': {error}", silence.id))
        };
        Ok(Self(live.map(compiled).collect::<Result<_, _>>()?))
    }

    /// The memory of their regular expressions.
    pub fn pattern_bytes(&self) -> u64 {
        self.0.iter().map(Compiled::memory_bytes).sum()
    }

    /// Whether one is in force.
    pub fn is_any_active(&self, now: Instant) -> bool {
        self.active(now).next().is_some()
    }

    /// The ids of the silences that silence an alert with these labels.
    pub fn of_alert<'a>(
        &'a self,
        labels: &'a Labels,
        now: Instant,
        steps: &'a mut Steps,
    ) -> impl Iterator<Item = &'a str> {
        let silencing = self.active(now).filter(move |silence| {
            silence.matchers.iter().all(|matcher| {
                let value = labels.get(matcher.name()).unwrap_or("");
                steps.allow(matcher, value) && matcher.matches(value)
            })
        });
        silencing.map(|silence| silence.id.as_str())
    }

    /// Whether a silence silences an alert with these labels.
    pub fn is_silenced(&self, labels: &Labels, now: Instant, steps: &mut Steps) -> bool {
        self.of_alert(labels, now, steps).next().is_some()
    }

    fn active(&self, now: Instant) -> impl Iterator<Item = &Compiled> {
        self.0.iter().filter(move |silence| silence.starts_at <= now && now < silence.ends_at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matcher(name: &str, op: &str, value: &str) -> SilenceMatcher {
        let (is_regex, is_equal) = (op.ends_with('~'), op.starts_with('='));
        SilenceMatcher { name: name.to_owned(), value: value.to_owned(), is_regex, is_equal }
    }

    fn silence(matchers: &[(&str, &str, &str)]) -> Silence {
        Silence {
            id: "s".to_owned(),
            matchers: matchers.iter().map(|(name, op, value)| matcher(name, op, value)).collect(),
            starts_at: Instant::of_seconds(100),
            ends_at: Instant::of_seconds(200),
            updated_at: Instant::of_seconds(100),
            created_by: "me".to_owned(),
            comment: "because".to_owned(),
        }
    }

    fn at(second: i64) -> Instant {
        Instant::of_seconds(second)
    }

    #[test]
    fn matchers_are_those_of_alertmanager() {
        let labels = Labels::from_pairs([("alertname", "Down"), ("zone", "eu-1")]);
        for (matchers, expected) in [
            (vec![("alertname", "=", "Down")], true),
            (vec![("alertname", "=", "Do")], false),
            (vec![("alertname", "=~", "Do")], false),
            (vec![("alertname", "=~", "Do.*"), ("zone", "!=", "us")], true),
            (vec![("alertname", "=~", "Do.*"), ("zone", "!~", "eu-.")], false),
            (vec![("alertname", "=", "Down"), ("none", "=", "")], true),
            (vec![("alertname", "=", "Down"), ("none", "!=", "")], false),
        ] {
            let silences = Silences::of([silence(&matchers)].iter(), at(100)).unwrap();
            let is_silenced =
                |second| silences.of_alert(&labels, at(second), &mut Steps::default()).count() == 1;
            assert_eq!(is_silenced(100), expected, "{matchers:?}");
            assert!(!is_silenced(99) && !is_silenced(200), "{matchers:?}");
        }
    }

    #[test]
    fn matchers_are_read_as_amtool_writes_them() {
        for (text, expected) in [
            ("alertname=Down", "alertname=\"Down\""),
            ("a = \"b c\"", "a=\"b c\""),
            ("a!=\"\"", "a!=\"\""),
            ("a=~b=c|d!=e", "a=~\"b=c|d!=e\""),
            (r#"a!~"x\"y\\z\d\n""#, r#"a!~"x\"y\\z\\d\n""#),
            ("\"name with spaces\"=x", "name with spaces=\"x\""),
            ("a=", "a=\"\""),
        ] {
            assert_eq!(SilenceMatcher::parse(text).unwrap().to_string(), expected, "{text}");
        }
        for text in ["", "a", "=b", "a=\"b", "a=b\"", "a!b", "a=\"b\"c\""] {
            assert!(SilenceMatcher::parse(text).unwrap_err().starts_with("bad matcher format"), "{text}");
        }
    }

    #[test]
    fn filters_compare_the_values_of_silences() {
        let all = vec![silence(&[("alertname", "=~", "Down.*"), ("zone", "=", "eu")])];
        for (filter, expected) in [
            (vec![], 1),
            (vec!["zone=eu"], 1),
            (vec!["zone=eu", "alertname=~Down.*"], 1),
            (vec!["zone=us"], 0),
            (vec!["zone!=us", "none!=x"], 1),
            (vec!["none=x"], 0),
        ] {
            let (parsed, mut found) = (LabelFilter::parse(filter.iter().copied()).unwrap(), all.clone());
            parsed.retain(&mut found, |silence, name| silence.value_of(name)).unwrap();
            assert_eq!(found.len(), expected, "{filter:?}");
        }
        assert!(LabelFilter::parse(["a=b"; MATCHERS_MAX + 1].into_iter()).is_err());
    }

    /// A client could keep a processor busy for minutes.
    #[test]
    fn filters_are_bounded() {
        let filter = LabelFilter::parse(["a=~(x?y?z?){40}.*x[^w]{20}"].into_iter()).unwrap();
        let mut long = vec!["x".repeat(1 << 20); 50];
        let error = filter.retain(&mut long, |text, _| Some(text.clone())).unwrap_err();
        assert!(error.contains("more than 200000000 steps"), "{error}");
    }

    #[test]
    fn silences_that_cannot_be_meant_are_refused() {
        let many = vec![("a", "=", "b"); MATCHERS_MAX + 1];
        let long = "x".repeat(SILENCE_BYTES_MAX);
        for (matchers, expected) in [
            (vec![], "at least one matcher required"),
            (vec![("a", "=", "")], "at least one matcher must not match the empty string"),
            (vec![("a", "=~", ".*"), ("b", "!=", "x")], "must not match the empty string"),
            (vec![("", "=", "x")], "the name of a label is empty"),
            (vec![("a", "=~", "(")], "invalid regular expression '('"),
            (vec![("a", "=~", "(x{1000}){1000}")], "the regular expression is too large"),
            (many, "101 matchers, at most 100"),
            (vec![("a", "=", &*long)], "bytes, at most 16384"),
        ] {
            let error = silence(&matchers).check(at(50)).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}\n{expected}");
        }
        let letters = (1..).map(|n| format!("\\pL{{{n}}}x"));
        let mut errors = letters.filter_map(|text| silence(&[("a", "=~", &text)]).check(at(50)).err());
        let error = errors.next().unwrap().to_string();
        assert!(error.contains("bytes of compiled regular expressions, at most 1048576"), "{error}");
        let good = silence(&[("a", "=", "b")]);
        assert_eq!(good.check(at(150)), Ok(()));
        assert!(good.check(at(200)).unwrap_err().to_string().contains("can't be in the past"));
        let turned = Silence { ends_at: at(100), ..good };
        assert!(turned.check(at(50)).unwrap_err().to_string().contains("start time must be before"));
    }

    /// A regular expression with many steps over a label of a megabyte would take seconds for each alert.
    #[test]
    fn matching_is_bounded_and_what_is_not_decided_is_not_silenced() {
        let labels = Labels::from_pairs([("a", "x".repeat(1 << 20))]);
        let hostile = silence(&[("a", "=~", "(x?y?z?){40}.*x[^w]{20}")]);
        assert_eq!(hostile.check(at(150)), Ok(()));
        let silences = Silences::of([hostile].iter(), at(150)).unwrap();
        let (mut steps, mut silenced) = (Steps::default(), 0);
        for _ in 0..50_000 {
            silenced += silences.of_alert(&labels, at(150), &mut steps).count();
        }
        assert!(steps.are_over() && silenced < 10_000, "{silenced}");
    }
}
