//! Cuts a query's time into pieces that wait for their turns apart.
//!
//! Pages of one piece are worked on side by side already, so that cutting finer makes nothing faster. It
//! lets other queries pass in between, keeps what is done when the rest runs out of time, and lets a log
//! query stop early. Cuts lie on multiples of `split_queries_by_interval` where no block is cut in two,
//! since both pieces would read it, and where enough has gathered to be worth a turn.

use sandur_base::units::MIB;
use sandur_model::{Limits, TimeRange};
use sandur_query::{Direction, Error, LogRow, LogSource, QueryContext, QueryStats, cuts};

use crate::admission;
use crate::ast::LogExpr;
use crate::log_scan::{self, LogScan};
use crate::pipeline::Pipeline;
use crate::request::Request;

/// Raw bytes of a log query's first piece. Those that follow double, so that the latest lines are found at
/// once and a search through everything does not consist of many small ones.
const FIRST_BYTES: u64 = 64 * MIB;
/// Pieces do not grow beyond this many doublings: 1 GiB.
const DOUBLINGS_MAX: usize = 4;

/// Answers a log query, piece by piece from the end that counts first, until there are enough rows.
pub async fn log_query(
    source: &dyn LogSource,
    context: &QueryContext,
    limits: &Limits,
    log: &LogExpr,
    (request, range): (&Request, TimeRange),
) -> Result<Vec<LogRow>, Error> {
    let limit = request.limit as usize;
    // The rows of all pieces stay reserved until the answer is made.
    let (mut rows, mut held): (Vec<LogRow>, Vec<_>) = Default::default();
    for piece in pieces(source, context, limits, request, range) {
        let _turn = context.turn().await?;
        admission::check_piece_size(source, context, limits, vec![(log, piece)]).await?;
        QueryStats::add(&context.stats().splits, 1);
        let scan = LogScan {
            pipeline: Pipeline::new(log, None).begun_at(context.begun_ns()),
            range: piece,
            direction: request.direction,
            limit: limit - rows.len(),
            interval_ns: request.interval_ns,
        };
        let (found, memory) = log_scan::run(source, context, scan).await?;
        rows.extend(found);
        held.push(memory);
        if rows.len() >= limit {
            break;
        }
    }
    Ok(rows)
}

fn pieces(
    source: &dyn LogSource,
    context: &QueryContext,
    limits: &Limits,
    request: &Request,
    range: TimeRange,
) -> Vec<TimeRange> {
    let interval = limits.split_queries_by_interval;
    // With an interval between rows the next row depends on the one before.
    if request.interval_ns > 0 || interval <= 0 {
        return vec![range];
    }
    let Some(holdings) = source.holdings(context, range) else { return vec![range] };
    let newest_first = request.direction == Direction::Backward;
    let bytes = |piece: usize| FIRST_BYTES << piece.min(DOUBLINGS_MAX);
    let mut rest = range;
    let mut pieces = Vec::new();
    for at in cuts(&holdings, range, (interval, 0), newest_first, bytes) {
        if newest_first {
            pieces.push(TimeRange::new(at, rest.end));
            rest.end = at;
        } else {
            pieces.push(TimeRange::new(rest.start, at));
            rest.start = at;
        }
    }
    pieces.push(rest);
    pieces
}
