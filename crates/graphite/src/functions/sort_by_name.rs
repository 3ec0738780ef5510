//! `sortByName`: sorts series by name; with `natural`, numbers in names compare by value.

use crate::call::Call;
use crate::error::Result;
use crate::function::{Body, Function, Group, Origin};
use crate::parameter::{Kind, Preset, optional, required};
use crate::series::Series;

pub(super) const FUNCTION: Function = Function {
    name: "sortByName",
    aliases: &[],
    group: Group::Sorting,
    origin: Origin::Graphite,
    aggregates: false,
    parameters: &[
        required("seriesList", Kind::SeriesList),
        optional("natural", Kind::Boolean).or(Preset::Flag(false)),
        optional("reverse", Kind::Boolean).or(Preset::Flag(false)),
    ],
    doc: "Sorts series by name; with `natural`, numbers in names compare by value.",
    body: Body::Series(run),
};

fn run(mut call: Call) -> Result<Vec<Series>> {
    let (mut list, natural, reverse) = (call.series()?, call.flag(1), call.flag(2));
    let key = |name: &str| if natural { padded(name) } else { name.to_owned() };
    match reverse {
        true => list.sort_by_cached_key(|series| std::cmp::Reverse(key(&series.name))),
        false => list.sort_by_cached_key(|series| key(&series.name)),
    }
    Ok(list)
}

/// The name with its numbers padded with zeros, so that they compare by value.
fn padded(name: &str) -> String {
    let (mut out, mut digits) = (String::new(), String::new());
    let flush = |digits: &mut String, out: &mut String| {
        if !digits.is_empty() {
            let number = digits.trim_start_matches('0');
            out.push_str(&format!("{:0>10}", if number.is_empty() { "0" } else { number }));
            digits.clear();
        }
    };
    for sign in name.chars() {
        if sign.is_ascii_digit() {
            digits.push(sign);
            continue;
        }
        flush(&mut digits, &mut out);
        out.push(sign);
    }
    flush(&mut digits, &mut out);
    out
}
