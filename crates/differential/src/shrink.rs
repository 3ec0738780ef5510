//! Reduces the query of a difference while the difference persists.

use crate::ask::Ask;
use crate::compare::Kind;

/// The largest number of requests that are tried.
const TRIES_MAX: usize = 120;

/// Returns the smallest request found for which `differs` returns the same kind.
pub fn shrink(ask: &Ask, kind: Kind, differs: &mut dyn FnMut(&Ask) -> Option<Kind>) -> Ask {
    let mut best = ask.clone();
    let mut tries = 0;
    'again: loop {
        let Some(query) = best.query.clone() else { return best };
        for smaller in query.smaller() {
            tries += 1;
            if tries > TRIES_MAX {
                return best;
            }
            let candidate = best.with_query(smaller);
            if differs(&candidate) == Some(kind) {
                best = candidate;
                continue 'again;
            }
        }
        return best;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ask::Shape;
    use crate::grammar::{Log, Query};

    #[test]
    fn the_stage_that_causes_the_difference_remains() {
        let stages =
            ["| json", "|= \"x\"", "| drop a", "| decolorize", "| keep b"].map(str::to_owned).to_vec();
        let log = Log { matchers: vec!["a=\"b\"".to_owned(), "c=\"d\"".to_owned()], stages };
        let ask = Ask::new("query_range", Shape::Query).with_query(Query::Log(log));
        let mut differs = |ask: &Ask| ask.query_text().contains("decolorize").then_some(Kind::Content);
        let small = shrink(&ask, Kind::Content, &mut differs);
        assert_eq!(small.query_text(), "{c=\"d\"} | decolorize");
    }
}
