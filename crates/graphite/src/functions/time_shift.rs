//! `timeShift`: shows series of an earlier time. With `alignDst`, a shift between summer time and
//! standard time is corrected by an hour in the time zone of the request (`tz`).

use futures_util::FutureExt;

use crate::attime::parse_offset;
use crate::error::Result;
use crate::function::{Again, Body, Function, Group, Origin};
use crate::parameter::{Kind, Preset, optional, required};
use crate::scope::Scope;
use crate::series::Series;

/// The shift of clocks in summer time, in seconds.
const SUMMER_SECONDS: i64 = 3600;

pub(super) const FUNCTION: Function = Function {
    name: "timeShift",
    aliases: &[],
    group: Group::Transform,
    origin: Origin::Graphite,
    aggregates: false,
    parameters: &[
        required("seriesList", Kind::SeriesList),
        required("timeShift", Kind::Interval),
        optional("resetEnd", Kind::Boolean).or(Preset::Flag(true)),
        optional("alignDst", Kind::Boolean).or(Preset::Flag(false)).or_named("alignDST"),
    ],
    doc: "Shows series of an earlier time. With `alignDst`, a shift between summer time and standard \
          time is corrected by an hour in the time zone of the request (`tz`).",
    body: Body::Again(|again| run(again).boxed()),
};

async fn run(mut again: Again<'_>) -> Result<Vec<Series>> {
    let (list, text, keeps_end) = (again.call.series()?, again.call.text(1)?, again.call.flag(2));
    let text = if text.starts_with(|sign: char| sign.is_ascii_digit()) { format!("-{text}") } else { text };
    let delta = parse_offset(&text)?;
    let Some((start, end)) = list.first().map(|series| (series.start, series.end)) else {
        return Ok(Vec::new());
    };
    drop(list);
    let mut scope = shifted(&again.call.scope, delta);
    if again.call.flag(3) {
        scope = shifted(&scope, summer_correction(&again.call.scope, &scope));
    }
    let mut shifted = again.first_in(&scope).await?;
    for series in &mut shifted {
        series.tags.set("timeShift", &text);
        series.name = format!("timeShift({}, \"{text}\")", series.name);
        series.end = if keeps_end { end } else { series.end - series.start + start };
        series.start = start;
    }
    Ok(shifted)
}

fn shifted(scope: &Scope, seconds: i64) -> Scope {
    scope.shifted(scope.from.later(seconds), scope.until.later(seconds))
}

/// The seconds by which a shifted window must be corrected so that it covers the same local times as the
/// request: an hour if exactly one of them is completely in summer time and the other completely outside.
fn summer_correction(request: &Scope, shifted: &Scope) -> i64 {
    let is_summer = |scope: &Scope| {
        let [from, until] = [scope.from, scope.until].map(|time| scope.zone.moment(time.epoch).is_summer);
        (from == until).then_some(from)
    };
    match (is_summer(request), is_summer(shifted)) {
        (Some(true), Some(false)) => SUMMER_SECONDS,
        (Some(false), Some(true)) => -SUMMER_SECONDS,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use sandur_base::{Env, MemoryBudget};
    use sandur_model::TenantId;
    use sandur_query::QueryContext;

    use crate::error::Result;
    use crate::evaluate::Evaluator;
    use crate::scope::Scope;
    use crate::source::testing::Made;
    use crate::zone::Zone;

    /// 2021-07-01, 08:00 in Berlin.
    const SUMMER: i64 = 1_625_119_200;
    /// 2020-12-31, 08:00 in Berlin.
    const WINTER: i64 = 1_609_398_000;
    /// 2021-03-28, an hour before summer time begins in Berlin.
    const LEAP: i64 = 1_616_889_600;

    /// The seconds by which the values of a shifted series of timestamps differ from those of an unshifted
    /// one.
    fn moved(from: i64, zone: &str, arguments: &str) -> Result<f64> {
        let (tenant, budget) = (TenantId::default_tenant(), MemoryBudget::root("query", 1 << 20));
        let context = QueryContext::new(Env::simulated(1, 0), tenant, budget, Duration::from_secs(3_600));
        let zone = Zone::named(zone).unwrap();
        let (from, until) = (zone.moment(from), zone.moment(from + 7_200));
        let scope = Scope::new(from, until, until.epoch, zone, 0.0);
        let source = Made::default();
        let evaluator = Evaluator::new(&source, &context, &[]);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let first = |target: &str| -> Result<f64> {
            let list = runtime.block_on(evaluator.series(target, &scope))?;
            Ok(list[0].points().flatten().next().unwrap())
        };
        Ok(first(&format!("timeShift(time('t', 3600), {arguments})"))? - first("time('t', 3600)")?)
    }

    /// The expected numbers are from graphite-web 1.1.10 with `TIME_ZONE` set to the zone of the request.
    #[test]
    fn align_dst_keeps_the_local_hour_across_the_change_of_clocks() {
        let weeks = 26.0 * 7.0 * 86_400.0;
        let berlin = "Europe/Berlin";
        for (from, zone, arguments, expected) in [
            (SUMMER, berlin, "'26w', true, true", 3_600.0 - weeks),
            (SUMMER, berlin, "'26w', alignDst=true", 3_600.0 - weeks),
            (SUMMER, berlin, "'26w', alignDST=true", 3_600.0 - weeks),
            (SUMMER, berlin, "'26w'", -weeks),
            (SUMMER, berlin, "'26w', true, false", -weeks),
            (SUMMER, "UTC", "'26w', true, true", -weeks),
            (WINTER, berlin, "'26w', true, true", -3_600.0 - weeks),
            (WINTER, berlin, "'+26w', true, true", weeks - 3_600.0),
            (SUMMER, berlin, "'1w', true, true", -7.0 * 86_400.0),
            (LEAP, berlin, "'30d', true, true", -30.0 * 86_400.0),
        ] {
            assert_eq!(moved(from, zone, arguments).unwrap(), expected, "{from} {zone} {arguments}");
        }
        assert!(moved(SUMMER, berlin, "'26w', alignDST=true, alignDst=true").is_err());
    }
}
