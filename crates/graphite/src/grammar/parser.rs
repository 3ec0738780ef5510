//! The parser of targets.

use sandur_base::nesting::{Depth, Nested};
use sandur_memory::job::spend;

use super::{Call, Expr, Template, TemplateValue};
use crate::error::{Error, Result};
use crate::number::Number;

/// The longest target, in bytes.
pub(crate) const TARGET_BYTES_MAX: usize = 1 << 20;
/// The most expressions that are attempted. A tree may have a tenth of that, and parsing it takes few
/// attempts. Unclosed calls of `template` are parsed in two ways at each level.
const ATTEMPTS_MAX: u32 = 20_000;
/// The most bytes that are scanned, including those that are scanned several times: sixteen times the
/// longest target.
const LOOKED_AT_MAX: usize = 16 * TARGET_BYTES_MAX;
/// Characters that need a backslash in a path.
const SYMBOLS: &[u8] = b"(){},.'\"\\|";

/// Parses a target. Text after it is ignored.
pub fn parse(text: &str) -> Result<Nested<Expr>> {
    parse_start(text).map(|(expr, _)| expr)
}

/// Parses a target that is the whole text.
pub fn parse_whole(text: &str) -> Result<Nested<Expr>> {
    let (expr, rest) = parse_start(text)?;
    match rest.trim() {
        "" => Ok(expr),
        rest => {
            let shown: String = rest.chars().take(80).collect();
            Err(Error::invalid(format!(
                "'{shown}' after the target is not part of it: close its brackets and quotes"
            )))
        }
    }
}

/// Parses a target; returns also the text after it.
fn parse_start(text: &str) -> Result<(Nested<Expr>, &str)> {
    if text.len() > TARGET_BYTES_MAX {
        return Err(Error::Limit(format!("the target is longer than {TARGET_BYTES_MAX} bytes")));
    }
    let mut reader =
        Reader { text, at: 0, depth: Depth::default(), attempts: 0, looked_at: 0, unreported: 0 };
    let expr = reader.expression()?.ok_or_else(|| {
        let shown: String = text.chars().take(80).collect();
        Error::invalid(format!("'{shown}' is not a target: a path or a function call is expected"))
    })?;
    let rest = reader.rest();
    Ok((Nested::new(expr)?, rest))
}

/// Each method reads at `at` and advances it; if nothing matches, it leaves `at` unchanged and returns
/// `None`.
struct Reader<'a> {
    text: &'a str,
    at: usize,
    depth: Depth,
    attempts: u32,
    /// The bytes scanned so far, and those of them that are not yet reported to the job.
    looked_at: usize,
    unreported: usize,
}

fn is_word_start(byte: u8) -> bool {
    byte.is_ascii_alphabetic() || byte == b'_'
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

impl<'a> Reader<'a> {
    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn space(&mut self) {
        let bytes = self.rest().bytes();
        let count = bytes.take_while(|byte| matches!(byte, b' ' | b'\t' | b'\n' | b'\r')).count();
        self.at += count;
        self.note(count + 1);
    }

    fn sign(&mut self, sign: char) -> bool {
        let start = self.at;
        self.space();
        if self.rest().starts_with(sign) {
            self.at += sign.len_utf8();
            return true;
        }
        self.at = start;
        false
    }

    fn word(&mut self) -> Option<&'a str> {
        let start = self.at;
        self.space();
        let rest = self.rest();
        if !rest.bytes().next().is_some_and(is_word_start) {
            self.at = start;
            return None;
        }
        let length = rest.bytes().take_while(|byte| is_word(*byte)).count();
        self.at += length;
        self.note(length);
        Some(&rest[..length])
    }

    /// Counts an attempt; fails beyond the limits.
    fn attempt(&mut self) -> Result<()> {
        self.attempts += 1;
        spend(std::mem::take(&mut self.unreported))?;
        if self.attempts > ATTEMPTS_MAX || self.looked_at > LOOKED_AT_MAX {
            return Err(Error::Limit(
                "the target takes too many attempts to read; close its brackets".to_owned(),
            ));
        }
        Ok(())
    }

    /// Counts scanned bytes.
    fn note(&mut self, bytes: usize) {
        self.looked_at += bytes;
        self.unreported += bytes;
    }

    /// Parses `(template | call | path) ('|' call)*`.
    fn expression(&mut self) -> Result<Option<Expr>> {
        self.depth.enter()?;
        self.attempt()?;
        let first = match self.template()? {
            Some(template) => Some(template),
            None => match self.call()? {
                Some(call) => Some(Expr::Call(call)),
                None => self.path().map(Expr::Path),
            },
        };
        let Some(mut expr) = first else {
            self.depth.leave();
            return Ok(None);
        };
        loop {
            let start = self.at;
            if !self.sign('|') {
                break;
            }
            let Some(mut call) = self.call()? else {
                self.at = start;
                break;
            };
            call.arguments.insert(0, Nested::new(expr)?);
            expr = Expr::Call(call);
        }
        self.depth.leave();
        Ok(Some(expr))
    }

    fn template(&mut self) -> Result<Option<Expr>> {
        let start = self.at;
        self.space();
        if self.rest().starts_with("template") {
            self.at += "template".len();
            if let Some(template) = self.template_rest()? {
                return Ok(Some(Expr::Template(template)));
            }
        }
        self.at = start;
        Ok(None)
    }

    fn template_rest(&mut self) -> Result<Option<Template>> {
        if !self.sign('(') {
            return Ok(None);
        }
        let body = match self.call()? {
            Some(call) => Expr::Call(call),
            None => match self.path() {
                Some(path) => Expr::Path(path),
                None => return Ok(None),
            },
        };
        let mut values = Vec::new();
        loop {
            let start = self.at;
            if !self.sign(',') {
                break;
            }
            let name = self.argument_name();
            // Either all values have names, or none has.
            let fits = values.is_empty() || self.is_named(&values) == name.is_some();
            let value = if fits { self.template_value() } else { None };
            let Some(value) = value else {
                self.at = start;
                break;
            };
            let name = name.map_or_else(|| (values.len() + 1).to_string(), str::to_owned);
            values.push((name, value));
        }
        Ok(if self.sign(')') { Some(Template { body: Nested::new(body)?, values }) } else { None })
    }

    fn is_named(&self, values: &[(String, TemplateValue)]) -> bool {
        values.first().is_some_and(|(name, _)| !name.starts_with(|sign: char| sign.is_ascii_digit()))
    }

    fn template_value(&mut self) -> Option<TemplateValue> {
        if let Some(number) = self.number() {
            return Some(TemplateValue::Number(number));
        }
        self.quoted().map(TemplateValue::Text)
    }

    /// Parses a word and an equals sign.
    fn argument_name(&mut self) -> Option<&'a str> {
        let start = self.at;
        if let Some(word) = self.word()
            && self.sign('=')
        {
            return Some(word);
        }
        self.at = start;
        None
    }

    fn call(&mut self) -> Result<Option<Call>> {
        let before = self.at;
        self.space();
        let start = self.at;
        let call = match self.word() {
            Some(name) if self.sign('(') => self.call_rest(name, start)?,
            _ => None,
        };
        if call.is_none() {
            self.at = before;
        }
        Ok(call)
    }

    fn call_rest(&mut self, name: &str, start: usize) -> Result<Option<Call>> {
        let (mut arguments, mut named) = (Vec::new(), Vec::new());
        loop {
            let before = self.at;
            if !arguments.is_empty() && !self.sign(',') {
                break;
            }
            if let Some((name, value)) = self.named_argument()? {
                if arguments.is_empty() {
                    return Ok(None);
                }
                named.push((name, value));
                break;
            }
            let Some(argument) = self.argument()?.filter(|_| named.is_empty()) else {
                self.at = before;
                break;
            };
            arguments.push(Nested::new(argument)?);
        }
        while !named.is_empty() {
            let before = self.at;
            let next = if self.sign(',') { self.named_argument()? } else { None };
            let Some(next) = next else {
                self.at = before;
                break;
            };
            named.push(next);
        }
        if !self.sign(')') {
            return Ok(None);
        }
        let raw = self.text[start..self.at].to_owned();
        Ok(Some(Call { name: name.to_owned(), arguments, named, raw }))
    }

    fn named_argument(&mut self) -> Result<Option<(String, Nested<Expr>)>> {
        let start = self.at;
        if let Some(name) = self.argument_name()
            && let Some(value) = self.argument()?
        {
            return Ok(Some((name.to_owned(), Nested::new(value)?)));
        }
        self.at = start;
        Ok(None)
    }

    fn argument(&mut self) -> Result<Option<Expr>> {
        for (word, expr) in [("true", Expr::Flag(true)), ("false", Expr::Flag(false))] {
            if self.keyword(word) {
                return Ok(Some(expr));
            }
        }
        if let Some(number) = self.number() {
            return Ok(Some(Expr::Number(number)));
        }
        if self.keyword("none") {
            return Ok(Some(Expr::None));
        }
        if let Some(text) = self.quoted() {
            return Ok(Some(Expr::Text(text)));
        }
        if self.keyword("inf") {
            return Ok(Some(Expr::Number(Number::Float(f64::INFINITY))));
        }
        self.expression()
    }

    fn keyword(&mut self, word: &str) -> bool {
        let start = self.at;
        self.space();
        let rest = self.rest();
        let ends = |byte: &u8| !(is_word(*byte) || *byte == b'$');
        let fits = rest.get(..word.len()).is_some_and(|head| head.eq_ignore_ascii_case(word))
            && rest.as_bytes().get(word.len()).is_none_or(ends);
        self.at = if fits { self.at + word.len() } else { start };
        fits
    }

    /// Parses a number before a comma, a bracket or the end of a line.
    fn number(&mut self) -> Option<Number> {
        let start = self.at;
        self.space();
        let rest = self.rest();
        let integer = |text: &str| {
            let sign = usize::from(text.starts_with('-'));
            let digits = text[sign..].bytes().take_while(u8::is_ascii_digit).count();
            (digits > 0).then_some(sign + digits)
        };
        let ends = |length: usize| {
            let after = rest[length..].trim_start_matches([' ', '\t', '\r']);
            after.is_empty() || after.starts_with(['\n', ',', ')']) || {
                let after = after.trim_start();
                after.starts_with([',', ')'])
            }
        };
        let whole = integer(rest);
        let point = whole.and_then(|whole| {
            let digits = rest[whole..].strip_prefix('.')?.bytes().take_while(u8::is_ascii_digit).count();
            (digits > 0).then_some(whole + 1 + digits)
        });
        let power = point.or(whole).and_then(|base| {
            let exponent = rest[base..].strip_prefix(['e', 'E'])?;
            integer(exponent).map(|exponent| base + 1 + exponent)
        });
        for (length, is_whole) in [(power, false), (point, false), (whole, true)] {
            let Some(length) = length.filter(|length| ends(*length)) else { continue };
            let text = &rest[..length];
            let number = match text.parse() {
                Ok(number) if is_whole => Number::Int(number),
                _ => Number::Float(text.parse().ok()?),
            };
            self.at += length;
            return Some(number);
        }
        self.at = start;
        None
    }

    /// Parses a text in quotes. An escaped character stays as it is, with its backslash.
    fn quoted(&mut self) -> Option<String> {
        let start = self.at;
        self.space();
        let rest = self.rest();
        let found = match rest.as_bytes().first() {
            Some(quote @ (b'"' | b'\'')) => {
                let end = closing(rest, *quote);
                self.note(end.unwrap_or(rest.len()));
                end
            }
            _ => None,
        };
        match found {
            Some(end) => {
                self.at += end + 1;
                Some(rest[1..end].to_owned())
            }
            None => {
                self.at = start;
                None
            }
        }
    }

    fn path(&mut self) -> Option<String> {
        let start = self.at;
        self.space();
        let mut path = String::new();
        let mut is_read = false;
        loop {
            let before = self.at;
            if is_read && !self.rest().starts_with('.') {
                break;
            }
            self.at += usize::from(is_read);
            let length = path.len();
            if is_read {
                path.push('.');
            }
            if !self.path_node(&mut path) {
                path.truncate(length);
                self.at = before;
                break;
            }
            is_read = true;
        }
        if !is_read {
            self.at = start;
            return None;
        }
        Some(path)
    }

    /// Parses plain characters and braces, at least one.
    fn path_node(&mut self, path: &mut String) -> bool {
        let mut is_read = false;
        while self.plain(path) || self.braces(path) {
            is_read = true;
        }
        is_read
    }

    fn plain(&mut self, path: &mut String) -> bool {
        let start = self.at;
        while let Some(sign) = self.rest().chars().next() {
            let next = self.rest().as_bytes().get(1).copied();
            if sign == '\\' && next.is_some_and(|next| SYMBOLS.contains(&next) || next == b'=') {
                path.push(next.map_or('\\', char::from));
                self.at += 2;
                continue;
            }
            let is_symbol = u8::try_from(sign).is_ok_and(|byte| SYMBOLS.contains(&byte));
            if is_symbol || sign.is_whitespace() || sign.is_control() {
                break;
            }
            path.push(sign);
            self.at += sign.len_utf8();
        }
        self.note(self.at - start);
        self.at > start
    }

    fn braces(&mut self, path: &mut String) -> bool {
        let (start, length) = (self.at, path.len());
        let mut sign = '{';
        while self.rest().starts_with(sign) {
            path.push(sign);
            self.at += 1;
            if !self.plain(path) {
                break;
            }
            sign = ',';
            if self.rest().starts_with('}') {
                path.push('}');
                self.at += 1;
                return true;
            }
        }
        self.at = start;
        path.truncate(length);
        false
    }
}

/// The position of the quote that closes a text. A doubled quote does not close it.
fn closing(text: &str, quote: u8) -> Option<usize> {
    let bytes = text.as_bytes();
    let mut at = 1;
    loop {
        match *bytes.get(at)? {
            b'\n' | b'\r' => return None,
            b'\\' => at += 1 + usize::from(bytes.get(at + 1).is_some()),
            byte if byte == quote && bytes.get(at + 1) == Some(&quote) => at += 2,
            byte if byte == quote => return Some(at),
            _ => at += 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> String {
        fn show(expr: &Expr) -> String {
            match expr {
                Expr::Number(number) => number.to_string(),
                Expr::Text(text) => format!("'{text}'"),
                Expr::Flag(flag) => flag.to_string(),
                Expr::None => "None".to_owned(),
                Expr::Path(path) => path.clone(),
                Expr::Call(call) => {
                    let named = call.named.iter().map(|(name, value)| format!("{name}={}", show(value)));
                    let all: Vec<String> = call.arguments.iter().map(|a| show(a)).chain(named).collect();
                    format!("{}({})", call.name, all.join(","))
                }
                Expr::Template(template) => {
                    let values = template.values.iter().map(|(name, value)| format!(",{name}:{value:?}"));
                    format!("template({}{})", show(&template.body), values.collect::<String>())
                }
            }
        }
        parse(text).map_or_else(|error| format!("error {error}"), |expr| show(&expr))
    }

    #[test]
    fn the_first_matching_alternative_is_taken() {
        for (text, expected) in [
            ("foo(", "foo"),
            ("scale(math.int 2)", "scale"),
            ("scale(math.int,.5)", "scale"),
            ("sum( a.b , c )", "sum(a.b,c)"),
            ("a|f(1)|g(x=None)", "f(a,1)"),
            ("a|f(1)|g()", "g(f(a,1))"),
            ("f(a,-2.50,1e2,TRUE,inf,'it''s')", "f(a,-2.5,100.0,true,inf,'it''s')"),
            ("f(a,b=1,c='x')", "f(a,b=1,c='x')"),
            ("f(b=1,a)", "f"),
            ("a.{b,c}*.d{e}f g", "a.{b,c}*.d{e}f"),
            ("a.{b{c,d}}", "a"),
            ("names.eq\\=x.y", "names.eq=x.y"),
            ("f(1_000)", "f(1_000)"),
            ("true", "true"),
            ("f(true.x)", "f"),
        ] {
            assert_eq!(shown(text), expected, "{text}");
        }
        assert!(shown(".a").starts_with("error") && shown("|f()").starts_with("error"));
        let template = "template(f(a.$x),x='b',y=2)";
        assert_eq!(shown(template), r#"template(f(a.$x),x:Text("b"),y:Number(Int(2)))"#);
        assert_eq!(shown("template(a,h=b)"), "template(a,h=b)");
    }

    #[test]
    fn too_deep_targets_are_refused() {
        for text in ["f(".repeat(100_000), format!("a{}", "|f()".repeat(100_000))] {
            let error = parse(&text).unwrap_err();
            assert!(matches!(error, Error::TooNested(_)), "{error}");
        }
        let wide = format!("f({})", vec!["a"; 5_000].join(","));
        assert!(matches!(parse(&wide), Err(Error::TooNested(_))));
        assert!(parse(&"f(x,a=".repeat(60)).is_ok(), "the time does not double with each level");
        for levels in [5, 90, 5000] {
            assert!(parse(&"template(".repeat(levels)).is_ok() == (levels < 50));
        }
        let long = "template(".repeat(14) + &"a".repeat(900_000);
        assert!(matches!(parse(&long), Err(Error::Limit(_))), "each attempt scans the path again");
        assert!(parse(&"a".repeat(TARGET_BYTES_MAX)).is_ok());
        let paths = vec!["a".repeat(10_000); 100].join(",");
        assert!(parse(&format!("f(g(h({paths})),'{}')", "x".repeat(40_000))).is_ok());
    }
}
