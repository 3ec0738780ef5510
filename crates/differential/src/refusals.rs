//! Recognises what an answer says by its text: mostly why a query was rejected.
//!
//! The texts are those of Loki, which ours have too.

use sandur_bench::http::Answer;

/// Returns whether an answer begins with a text.
pub fn begins(answer: &Answer, text: &str) -> bool {
    answer.body.starts_with(text.as_bytes())
}

/// Returns whether an answer contains a text.
pub fn contains(answer: &Answer, text: &str) -> bool {
    String::from_utf8_lossy(&answer.body).contains(text)
}

/// Returns whether a parser rejected the query.
pub fn refuses_text(answer: &Answer) -> bool {
    answer.status == 400 && (begins(answer, "parse error") || contains(answer, "\"error\":\"parse error"))
}

/// Returns whether the query was rejected because of a token, not because of its meaning.
pub fn names_token(answer: &Answer) -> bool {
    refuses_text(answer) && contains(answer, "parse error at line")
}

/// Returns whether Loki could not match series one to one.
pub fn unmatched(answer: &Answer) -> bool {
    let words = ["many-to-many matching not allowed", "multiple matches for labels"];
    answer.status >= 400 && words.iter().any(|word| contains(answer, word))
}
