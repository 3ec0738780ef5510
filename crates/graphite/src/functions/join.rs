//! `join`: combines two lists by series name: names in both lists (`AND`), in either (`OR`), in exactly
//! one (`XOR`), or only in the first (`SUB`).

use foldhash::HashSet;

use crate::call::Call;
use crate::error::{Error, Result};
use crate::function::{Body, Function, Group, Origin};
use crate::parameter::{Kind, Preset, optional, required};
use crate::series::Series;

pub(super) const FUNCTION: Function = Function {
    name: "join",
    aliases: &[],
    group: Group::Combine,
    origin: Origin::Carbonapi,
    aggregates: false,
    parameters: &[
        required("seriesA", Kind::SeriesList),
        required("seriesB", Kind::SeriesList),
        optional("type", Kind::Text).or(Preset::Text("AND")).of(&["AND", "OR", "XOR", "SUB"]),
    ],
    doc: "Combines two lists by series name: names in both lists (`AND`), in either (`OR`), in \
          exactly one (`XOR`), or only in the first (`SUB`).",
    body: Body::Series(run),
};

fn run(mut call: Call) -> Result<Vec<Series>> {
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
