//! Reads scripts.

use regex::Regex;
use sandur_model::Labels;
use sandur_promql::{Times, parse_duration, unquote};

use sandur_promql::series_text::{self as series, Sample};

/// A series: labels, samples, and for each sample the offset of its start timestamp in milliseconds.
pub type Described = (Labels, Vec<Sample>, Option<Vec<Option<i64>>>);

/// `load`: series with samples at a fixed interval.
pub struct Load {
    /// Milliseconds between samples.
    pub gap_ms: i64,
    /// Whether classic histograms are also converted to native histograms with custom buckets.
    pub with_nhcb: bool,
    /// The series to load.
    pub series: Vec<Described>,
}

/// An expected message.
pub enum Match {
    /// Exactly this text.
    Text(String),
    /// Any text that matches this regular expression.
    Regex(Regex),
}

impl Match {
    /// Whether a text matches.
    pub fn fits(&self, text: &str) -> bool {
        match self {
            Self::Text(wanted) => wanted == text,
            Self::Regex(regex) => regex.is_match(text),
        }
    }
}

/// `eval`: a query and its expected answer.
pub struct Eval {
    /// Line in the script, one-based.
    pub line: usize,
    /// The query.
    pub expr: String,
    /// Start, end and step of the evaluation.
    pub times: Times,
    /// Whether it is a range query.
    pub is_range: bool,
    /// Expected labels and samples, in order; a scalar has no labels.
    pub expected: Vec<(Option<Labels>, Vec<Sample>)>,
    /// Expected text of a string answer.
    pub string: Option<String>,
    /// Expected sample times of a range selector's answer.
    pub window: Option<Times>,
    /// Whether the order of the series is checked.
    pub ordered: bool,
    /// Expected error message, if the query must fail.
    pub fail: Option<Match>,
    /// Expected warnings; all must occur.
    pub warn: Vec<Match>,
    /// Expected infos; all must occur.
    pub info: Vec<Match>,
    /// Whether there must be no warning.
    pub no_warn: bool,
    /// Whether there must be no info.
    pub no_info: bool,
}

/// A command of a script.
pub enum Command {
    /// Removes all series.
    Clear,
    /// Loads series.
    Load(Load),
    /// Evaluates a query.
    Eval(Box<Eval>),
}

fn ms(text: &str) -> Result<i64, String> {
    Ok(parse_duration(text.trim())? / 1_000_000)
}

/// Reads a script.
pub fn parse(text: &str) -> Result<Vec<Command>, String> {
    let clean = |line: &str| match line.trim() {
        comment if comment.starts_with('#') => String::new(),
        line => line.to_owned(),
    };
    let lines: Vec<String> = text.split('\n').map(clean).collect();
    let mut commands = Vec::new();
    let mut at = 0;
    while at < lines.len() {
        let (first, line) = (at, lines[at].as_str());
        at += 1;
        if line.is_empty() {
            continue;
        }
        let begin = at;
        let word = line.split([' ', '\t']).next().unwrap_or_default();
        if word != "clear" {
            while at < lines.len() && !lines[at].is_empty() {
                at += 1;
            }
        }
        let block = &lines[begin..at];
        let command = match word {
            "clear" => Ok(Command::Clear),
            word if word.starts_with("load") => load(line, block),
            word if word.starts_with("eval") => eval(line, first + 1, block, &mut at, begin),
            _ => Err("unknown command".to_owned()),
        };
        commands.push(command.map_err(|what| format!("line {}: {what}", first + 1))?);
    }
    Ok(commands)
}

fn load(line: &str, block: &[String]) -> Result<Command, String> {
    let (word, gap) = line.split_once([' ', '\t']).ok_or("load without a step")?;
    let mut series = Vec::new();
    let mut starts: Option<Vec<Option<i64>>> = None;
    for line in block {
        if let Some((metric, offsets)) = line.split_once([' ', '\t']).filter(|(m, _)| m.ends_with("@st")) {
            let _ = metric;
            starts = Some(start_offsets(offsets)?);
            continue;
        }
        let (labels, samples) = series::parse(line)?;
        if starts.as_ref().is_some_and(|starts| starts.len() != samples.len()) {
            return Err(format!("'{line}' has another number of samples than of start times"));
        }
        series.push((labels, samples, starts.take()));
    }
    Ok(Command::Load(Load { gap_ms: ms(gap)?, with_nhcb: word.ends_with("with_nhcb"), series }))
}

/// Reads the offsets of start timestamps: `_`, `_x3`, `-1m`, `-1mx3`, `-1m+30sx3`.
fn start_offsets(text: &str) -> Result<Vec<Option<i64>>, String> {
    let form = Regex::new(r"^([+-]?)(\d+[a-wyz]*)(?:([+-])(\d+[a-wyz]*))?(?:x(\d+))?$")
        .map_err(|e| e.to_string())?;
    let mut offsets = Vec::new();
    for item in text.split_whitespace() {
        if item == "_" {
            offsets.push(None);
            continue;
        }
        if let Some(times) = item.strip_prefix("_x") {
            let times: usize = times.parse().map_err(|_| format!("'{item}' is not a start time"))?;
            offsets.extend(std::iter::repeat_n(None, times));
            continue;
        }
        let parts = form.captures(item).ok_or_else(|| format!("'{item}' is not a start time"))?;
        let part = |n: usize| parts.get(n).map_or("", |part| part.as_str());
        let signed = |sign: &str, length: &str| -> Result<i64, String> {
            let length = if length.is_empty() { 0 } else { ms(length)? };
            Ok(if sign == "-" { -length } else { length })
        };
        let (base, step) = (signed(part(1), part(2))?, signed(part(3), part(4))?);
        let times: i64 = if part(5).is_empty() {
            0
        } else {
            part(5).parse().map_err(|_| "not a number of repetitions")?
        };
        offsets.extend((0..=times).map(|n| Some(base + n * step)));
    }
    Ok(offsets)
}

fn times(from: &str, to: &str, step: &str) -> Result<Times, String> {
    Ok(Times { start: ms(from)?, end: ms(to)?, step: ms(step)? })
}

fn eval(
    line: &str,
    number: usize,
    block: &[String],
    at: &mut usize,
    begin: usize,
) -> Result<Command, String> {
    let instant = Regex::new(r"^eval(?:_(fail|warn|ordered|info))?\s+instant\s+at\s+(\S+)\s+(.+)$");
    let range =
        Regex::new(r"^eval(?:_(fail|warn|info))?\s+range\s+from\s+(\S+)\s+to\s+(\S+)\s+step\s+(\S+)\s+(.+)$");
    let (instant, range) = (instant.map_err(|e| e.to_string())?, range.map_err(|e| e.to_string())?);
    let (mode, when, expr, is_range) = if let Some(parts) = instant.captures(line) {
        let start = ms(&parts[2])?;
        let mode = parts.get(1).map_or("", |m| m.as_str()).to_owned();
        (mode, Times { start, end: start, step: 0 }, parts[3].to_owned(), false)
    } else if let Some(parts) = range.captures(line) {
        let mode = parts.get(1).map_or("", |m| m.as_str()).to_owned();
        (mode, times(&parts[2], &parts[3], &parts[4])?, parts[5].to_owned(), true)
    } else {
        return Err("neither an instant nor a range query".to_owned());
    };
    let any = || Regex::new("").map(Match::Regex).map_err(|e| e.to_string());
    let mut eval = Eval {
        line: number,
        expr,
        times: when,
        is_range,
        expected: Vec::new(),
        string: None,
        window: None,
        ordered: mode == "ordered",
        fail: if mode == "fail" { Some(any()?) } else { None },
        warn: if mode == "warn" { vec![any()?] } else { Vec::new() },
        info: if mode == "info" { vec![any()?] } else { Vec::new() },
        no_warn: false,
        no_info: false,
    };
    for (n, line) in block.iter().enumerate() {
        if let Some(rest) = line.strip_prefix("expect ") {
            expect(rest.trim(), &mut eval)?;
        } else if let Ok(value) = series::number(line) {
            eval.expected.push((None, vec![Sample::Float(value)]));
            // A single number ends the block.
            *at = begin + n + 1;
            break;
        } else {
            let (labels, samples) = series::parse(line)?;
            eval.expected.push((Some(labels), samples));
        }
    }
    Ok(Command::Eval(Box::new(eval)))
}

fn expect(rest: &str, eval: &mut Eval) -> Result<(), String> {
    if let Some(text) = rest.strip_prefix("string ") {
        eval.string = Some(unquote(text).ok_or("the expected string is not quoted")?);
        return Ok(());
    }
    if let Some(window) = rest.strip_prefix("range vector") {
        let words: Vec<&str> = window.split_whitespace().collect();
        let ["from", from, "to", to, "step", step] = words[..] else {
            return Err(format!("'{rest}' is not a range vector"));
        };
        eval.window = Some(times(from, to, step)?);
        return Ok(());
    }
    let (kind, what) = rest.split_once([' ', '\t']).unwrap_or((rest, ""));
    let what = what.trim();
    let wanted = if let Some(text) = what.strip_prefix("msg:") {
        Match::Text(text.trim().to_owned())
    } else if let Some(pattern) = what.strip_prefix("regex:") {
        Match::Regex(Regex::new(pattern.trim()).map_err(|e| e.to_string())?)
    } else if what.is_empty() {
        Match::Regex(Regex::new("").map_err(|e| e.to_string())?)
    } else {
        return Err(format!("'{what}' is neither a message nor a regular expression"));
    };
    match kind {
        "ordered" => eval.ordered = true,
        "fail" => eval.fail = Some(wanted),
        "warn" => eval.warn.push(wanted),
        "info" => eval.info.push(wanted),
        "no_warn" => eval.no_warn = true,
        "no_info" => eval.no_info = true,
        _ => return Err(format!("'{kind}' cannot be expected")),
    }
    Ok(())
}
