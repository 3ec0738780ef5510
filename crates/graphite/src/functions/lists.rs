//! Combines lists of series without a change of the series.

use foldhash::HashSet;

use super::combining::united;
use crate::call::Call;
use crate::error::{Error, Result};
use crate::function::{Body, Function};
use crate::group::Group;
use crate::parameter::{Kind, Preset, SERIES, optional, required};
use crate::series::Series;

const BASE: Function = Function::of(Group::Combine)
    .named("group", "Combines the series of several targets in one list.", |mut call| united(&mut call))
    .taking(&[optional("seriesLists", Kind::SeriesList).many()]);

pub(super) const TABLE: &[Function] = &[
    BASE,
    Function {
        name: "fallbackSeries",
        group: Group::Special,
        parameters: &[SERIES, required("fallback", Kind::SeriesList)],
        doc: "Returns the fallback if the first target has no series.",
        body: Body::Series(fallback),
        ..BASE
    },
    BASE.named(
        "join",
        "Combines two lists by series name: names in both lists (`AND`), in either (`OR`), in \
              exactly one (`XOR`), or only in the first (`SUB`).",
        join,
    )
    .taking(&[
        required("seriesA", Kind::SeriesList),
        required("seriesB", Kind::SeriesList),
        optional("type", Kind::Text).or(Preset::Text("AND")).of(&["AND", "OR", "XOR", "SUB"]),
    ])
    .of_carbonapi(),
    Function {
        name: "unique",
        group: Group::FilterSeries,
        parameters: &[required("seriesLists", Kind::SeriesList).many()],
        doc: "Combines the series of several targets and keeps the first series of each name.",
        body: Body::Series(unique),
        ..BASE
    },
];

fn fallback(mut call: Call) -> Result<Vec<Series>> {
    let (list, fallback) = (call.list(0)?, call.list(1)?);
    Ok(if list.is_empty() { fallback } else { list })
}

fn join(mut call: Call) -> Result<Vec<Series>> {
    let (mut first, mut second, kind) = (call.list(0)?, call.list(1)?, call.text(2)?);
    let names = |list: &[Series]| list.iter().map(|series| series.name.clone()).collect::<HashSet<String>>();
    let (of_first, of_second) = (names(&first), names(&second));
    match kind.to_ascii_uppercase().as_str() {
        "AND" => {
            first.retain(|series| of_second.contains(&series.name));
            return Ok(first);
        }
        "SUB" => {
            first.retain(|series| !of_second.contains(&series.name));
            return Ok(first);
        }
        "OR" => {}
        "XOR" => first.retain(|series| !of_second.contains(&series.name)),
        _ => return Err(Error::invalid(format!("join knows AND, OR, XOR and SUB, not '{kind}'"))),
    }
    second.retain(|series| !of_first.contains(&series.name));
    first.append(&mut second);
    Ok(first)
}

fn unique(mut call: Call) -> Result<Vec<Series>> {
    let (mut list, mut seen) = (united(&mut call)?, HashSet::default());
    list.retain(|series| seen.insert(series.name.clone()));
    Ok(list)
}
