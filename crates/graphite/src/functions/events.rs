//! `events`: counts, for each second, the events that have all the given tags.

use futures_util::FutureExt;

use crate::column::Column;
use crate::error::{Error, Result};
use crate::function::{Again, Body, Function, Group, Origin};
use crate::parameter::{Kind, optional};
use crate::series::{Consolidation, Series};

pub(super) const FUNCTION: Function = Function {
    name: "events",
    aliases: &[],
    group: Group::Special,
    origin: Origin::Graphite,
    aggregates: false,
    parameters: &[optional("tags", Kind::Text).many()],
    doc: "Counts, for each second, the events that have all the given tags.",
    body: Body::Again(|again| run(again).boxed()),
};

async fn run(mut again: Again<'_>) -> Result<Vec<Series>> {
    let tags = again.call.only_texts()?;
    let name = format!("events(\"{}\")", tags.join("\", \""));
    // Without a tag, an empty one is searched for, which no event has.
    let tags = if tags.is_empty() { vec![String::new()] } else { tags };
    let wanted: &[String] = if tags == ["*"] { &[] } else { &tags };
    let (start, end) = (again.call.scope.from.epoch, again.call.scope.until.epoch);
    let times = again.evaluator.events(wanted, start, end).await?;
    let share = again.call.scope.x_files_factor();
    again
        .compute(move || {
            let count = usize::try_from(end - start).unwrap_or(0);
            let mut values = Column::filled(None, count)?;
            for time in times {
                let place = usize::try_from(time - start).ok().filter(|place| *place < count);
                let place = place.ok_or_else(|| Error::invalid("an event lies at the end of the time"))?;
                values.set(place, Some(values.get(place).unwrap_or(0.0) + 1.0));
            }
            let mut series = Series::new(name, start, end, 1, values.of_integers()).with_share(share);
            series.consolidation = Consolidation::Sum;
            Ok(vec![series])
        })
        .await
}
