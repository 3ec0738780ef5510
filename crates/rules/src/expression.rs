//! Checks expressions when a file is read, so that an invalid one never replaces a valid one.

use sandur_logql::Expr as LogExpr;

use crate::spec::Language;

/// Checks an expression; the error says what is wrong and what to do.
pub fn check(language: Language, text: &str) -> Result<(), String> {
    match language {
        Language::Promql => promql(text),
        Language::Logql => logql(text),
        Language::Graphite => sandur_graphite::check_target(text).map_err(|error| error.to_string()),
    }
}

fn promql(text: &str) -> Result<(), String> {
    let Err(error) = sandur_promql::parse(text) else { return Ok(()) };
    let advice = match logql(text) {
        Ok(()) => {
            "; it is valid LogQL: add `language: logql` to the rule or its group, or name the file as \
             logql:PATH"
        }
        Err(_) => "",
    };
    Err(format!("{error}{advice}"))
}

fn logql(text: &str) -> Result<(), String> {
    match sandur_logql::parse(text) {
        Ok(LogExpr::Metric(_)) => Ok(()),
        Ok(LogExpr::Log(_)) => {
            Err("the expression selects lines, and a rule needs a number: apply a function \
                                    such as count_over_time() to it"
                .to_owned())
        }
        Err(error) => Err(error.to_string()),
    }
}
