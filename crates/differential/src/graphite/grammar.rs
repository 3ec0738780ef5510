//! Random targets: nested functions of graphite-web over paths, tags and generated series.

use sandur_graphite::{FUNCTIONS, Function, Kind, Origin, Parameter};

use super::arguments::plain;
use super::expression::{Expression, Part};
use crate::random::Random;

/// The largest depth of nested calls.
const DEPTH_MAX: usize = 4;

/// Its answers are random.
const LEFT_OUT: &[&str] = &["randomWalk"];
/// Names that carbonapi, but not graphite-web, has for functions.
const OF_CARBONAPI: &[&str] = &["toLowerCase", "toUpperCase"];

/// Returns a random target.
pub fn random_target(random: &mut Random) -> Expression {
    let depth = 1 + random.below(DEPTH_MAX);
    let target = series(random, depth);
    if random.chance(2) { spoilt(random, &target) } else { target }
}

/// Returns a target with an error in it.
fn spoilt(random: &mut Random, target: &Expression) -> Expression {
    let mut text = target.to_string();
    let places: Vec<usize> = text.char_indices().map(|(place, _)| place).collect();
    let place = places[random.below(places.len())];
    match random.below(4) {
        0 => text.truncate(place),
        1 => text.insert(place, ['(', ')', ',', '"', ' ', '{', '*', '|', '='][random.below(9)]),
        2 => text.retain(|sign| sign != ')'),
        _ => {
            text.remove(place);
        }
    }
    Expression::text(text)
}

/// Returns series: a call, or stored series.
fn series(random: &mut Random, depth: usize) -> Expression {
    if depth == 0 || random.chance(8) {
        return stored(random);
    }
    let offered: Vec<&Function> = FUNCTIONS
        .iter()
        .copied()
        .filter(|one| one.origin == Origin::Graphite && !LEFT_OUT.contains(&one.name))
        .collect();
    let function = offered[random.below(offered.len())];
    call(random, function, depth)
}

/// Returns a path, a pattern or tags.
fn stored(random: &mut Random) -> Expression {
    let paths = [
        "app.web1.cpu.user",
        "app.web1.cpu.*",
        "app.*.cpu.user",
        "app.*.requests",
        "*.web1.cpu.{user,idle}",
        "app.web[12].cpu.*",
        "app.db-1.disk.*",
        "app.web1.requests",
        "app.web2.requests",
        "dev.web1.*.*",
        "*.*.requests",
        "dev.empty.requests",
        "total",
        "jobs.1.done",
        "no.such.path",
        "app.{web1,db-1}.cpu.sys*",
    ];
    if random.chance(85) {
        return Expression::text(random.pick(&paths));
    }
    let tags = [
        "seriesByTag('name=disk.used')",
        "seriesByTag('dc=eu')",
        "seriesByTag(\"name=~disk\", 'host!=web2')",
        "seriesByTag('host=web1','dc!=~e')",
        "constantLine(3)",
        "constantLine(-1.5)",
        "timeFunction('t',60)",
        "sinFunction('s',2,60)",
    ];
    Expression::text(random.pick(&tags))
}

/// Returns a call with arguments that mostly fit.
fn call(random: &mut Random, function: &Function, depth: usize) -> Expression {
    let names = [function.name].into_iter().chain(function.aliases.iter().copied());
    let names: Vec<&str> = names.filter(|name| !OF_CARBONAPI.contains(name)).collect();
    let pipes = depth > 1 && random.chance(4);
    let mut parts = vec![Part::Text(format!("{}(", random.pick(&names)))];
    let mut before = None;
    let optional_until = random.below(4);
    let (mut optional_count, mut by_name, mut count) = (0, random.chance(10), 0);
    for parameter in function.parameters {
        if !parameter.required {
            optional_count += 1;
            if optional_count > optional_until {
                break;
            }
        }
        let times = if parameter.multiple { 1 + random.below(3) } else { 1 };
        for _ in 0..times {
            let value = argument(random, function.name, parameter, depth - 1);
            if pipes && count == 0 && matches!(parameter.kind, Kind::SeriesList) {
                before = Some(value);
                count += 1;
                continue;
            }
            let is_first = count == usize::from(before.is_some());
            let separator = if is_first { "" } else { [",", ", "][random.below(2)] };
            let name = if by_name && !parameter.multiple && !parameter.required {
                format!("{}=", parameter.name)
            } else {
                by_name &= parameter.required;
                String::new()
            };
            let is_fixed = parameter.required || is_first;
            match (is_fixed, value.parts.len()) {
                (false, 1) => parts.push(Part::Optional(format!("{separator}{name}{value}"))),
                _ => {
                    parts.push(Part::Text(format!("{separator}{name}")));
                    parts.push(Part::Inner(value));
                }
            }
            count += 1;
        }
    }
    parts.push(Part::Text(")".to_owned()));
    if let Some(before) = before {
        parts.splice(0..0, [Part::Inner(before), Part::Text("|".to_owned())]);
    }
    Expression { parts }
}

/// Returns an argument for a parameter of a function.
fn argument(random: &mut Random, function: &str, parameter: &Parameter, depth: usize) -> Expression {
    if random.chance(1) {
        return Expression::text(random.pick(&["None", "true", "'x'", "1", "inf", "''", "-3"]));
    }
    if matches!(parameter.kind, Kind::SeriesList) {
        return series(random, depth);
    }
    if matches!(parameter.kind, Kind::SeriesLists) {
        let nodes = random.below(4);
        return Expression {
            parts: vec![
                Part::Text("mapSeries(".to_owned()),
                Part::Inner(series(random, depth)),
                Part::Text(format!(",{nodes})")),
            ],
        };
    }
    if matches!(parameter.kind, Kind::Any) && random.chance(50) {
        return series(random, depth);
    }
    Expression::text(plain(random, function, parameter))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn most_targets_are_calls_that_end() {
        let mut random = Random::new(5);
        let texts: Vec<String> = (0..500).map(|_| random_target(&mut random).to_string()).collect();
        assert!(texts.iter().filter(|text| text.ends_with(')')).count() > 400);
        assert!(texts.iter().all(|text| !text.contains("randomWalk")));
    }
}
