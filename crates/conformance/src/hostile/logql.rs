//! The parser of LogQL: a query that it accepts is the same after it is written and parsed again.

/// The input is the text of a query.
pub fn run(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    let _ = sandur_logql::parse_selector(text);
    if let Ok(expr) = sandur_logql::parse(text) {
        let written = expr.to_string();
        match sandur_logql::parse(&written) {
            Ok(again) => assert_eq!(again.to_string(), written, "from {text:?}"),
            Err(error) => panic!("{text:?} was written as {written:?}: {error}"),
        }
    }
}
