//! Reduces a case while a difference stays.

use std::collections::BTreeSet;

use crate::case::Case;

/// The smallest case that was found for which `differs` holds, which it does for `case`.
pub fn reduce(case: Case, mut differs: impl FnMut(&Case) -> bool) -> Case {
    let mut smallest = case;
    loop {
        let before = smallest.clone();
        for candidates in [without_end, without_rules, without_events, without_series, with_simpler_rules] {
            let mut number = 0;
            while let Some(candidate) = candidates(&smallest, number) {
                if candidate != smallest && differs(&candidate) {
                    smallest = candidate;
                } else {
                    number += 1;
                }
            }
        }
        if smallest == before {
            return smallest;
        }
    }
}

/// The case without some of its last events.
fn without_end(case: &Case, number: usize) -> Option<Case> {
    let count = case.events.len();
    let kept = *[count / 4, count / 2, count * 3 / 4, count.saturating_sub(1)].get(number)?;
    (kept > 1)
        .then(|| Case { events: case.events[..kept].to_vec(), ..case.clone() })
        .or_else(|| Some(case.clone()))
}

/// The case without the rules of one name.
fn without_rules(case: &Case, number: usize) -> Option<Case> {
    let names: BTreeSet<&String> = case.versions.iter().flat_map(|v| &v.rules).map(|r| &r.name).collect();
    let name = (*names.iter().nth(number)?).clone();
    let mut without = case.clone();
    without.versions.iter_mut().for_each(|version| version.rules.retain(|rule| rule.name != name));
    Some(without)
}

/// The case without an event that is not the first one.
fn without_events(case: &Case, number: usize) -> Option<Case> {
    let mut without = case.clone();
    (number + 1 < case.events.len()).then(|| without.events.remove(number + 1))?;
    Some(without)
}

fn without_series(case: &Case, number: usize) -> Option<Case> {
    let mut without = case.clone();
    (number < case.series.len()).then(|| without.series.remove(number))?;
    Some(without)
}

/// The case with one part of one rule or group left out.
fn with_simpler_rules(case: &Case, number: usize) -> Option<Case> {
    const PARTS: usize = 5;
    let names: BTreeSet<&String> = case.versions.iter().flat_map(|v| &v.rules).map(|r| &r.name).collect();
    let mut simpler = case.clone();
    let Some(name) = names.iter().nth(number / PARTS).map(|name| (*name).clone()) else {
        match number - names.len() * PARTS {
            0 => simpler.versions.iter_mut().for_each(|version| version.labels.clear()),
            1 => simpler.versions.iter_mut().for_each(|version| version.offset_ms = 0),
            2 => simpler.versions.iter_mut().for_each(|version| version.limit = 0),
            _ => return None,
        }
        return Some(simpler);
    };
    for rule in simpler.versions.iter_mut().flat_map(|version| &mut version.rules) {
        if rule.name == name {
            match number % PARTS {
                0 => rule.hold_s = 0,
                1 => rule.keep_firing_s = 0,
                2 => rule.labels.clear(),
                3 => rule.annotations.clear(),
                _ => rule.expr = inner(&rule.expr).unwrap_or(&rule.expr).to_owned(),
            }
        }
    }
    Some(simpler)
}

/// The text in the first parentheses, which is often an expression of its own.
fn inner(expr: &str) -> Option<&str> {
    let from = expr.find('(')?;
    let mut depth = 0;
    for (at, character) in expr.char_indices().skip_while(|(at, _)| *at < from) {
        match character {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return Some(&expr[from + 1..at]);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::draw;

    #[test]
    fn what_does_not_matter_is_left_out() {
        let case = draw::case(1, 1, 40);
        let wanted = case.versions[0].rules[1].name.clone();
        let has_it =
            |case: &Case| case.steps() >= 3 && case.versions[0].rules.iter().any(|rule| rule.name == wanted);
        let smallest = reduce(case, has_it);
        assert_eq!((smallest.steps(), smallest.series.len()), (3, 0));
        assert!(smallest.versions[0].rules.iter().all(|rule| rule.name == wanted));
    }

    #[test]
    fn the_text_in_the_first_parentheses_is_found() {
        assert_eq!(inner("sum by (job) (a)"), Some("job"));
        assert_eq!(inner("abs((a) + (b)) > 1"), Some("(a) + (b)"));
        assert_eq!(inner("a"), None);
    }
}
