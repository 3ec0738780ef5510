//! Splits a query's time range into pieces that take turns separately.
//!
//! The pages of one piece are already processed in parallel, so smaller pieces make a query no faster. But
//! they let other queries run in between, keep finished results if the rest times out, and let a log query
//! stop early. Pieces end at multiples of `split_queries_by_interval` at which no block is cut in two,
//! because both pieces would read the block, and only after enough bytes to be worth a turn.

use sandur_base::units::MIB;
use sandur_memory::Reservation;
use sandur_model::{Limits, TimeRange};
use sandur_query::{Direction, Error, LogRow, LogSource, QueryContext, QueryStats, RankedRow, cuts};

use crate::admission;
use crate::ast::LogExpr;
use crate::log_scan::{self, LogScan};
use crate::pipeline::Pipeline;
use crate::request::Request;

/// The raw bytes of a log query's first piece. Each later piece is twice as large, so that the latest lines
/// are found at once, and a search of everything does not consist of many small pieces.
const FIRST_BYTES: u64 = 64 * MIB;
/// The most doublings: pieces grow up to 1 GiB.
const DOUBLINGS_MAX: usize = 4;

/// Answers a log query.
pub async fn log_query(
    source: &dyn LogSource,
    context: &QueryContext,
    limits: &Limits,
    log: &LogExpr,
    times: (&Request, TimeRange),
) -> Result<Vec<LogRow>, Error> {
    let (rows, _held) = ranked_rows(source, context, limits, log, times).await?;
    Ok(rows.into_iter().map(|ranked| ranked.row).collect())
}

/// The rows of a log query and their memory. Reads piece by piece, starting with the rows that rank first,
/// until there are enough.
pub async fn ranked_rows(
    source: &dyn LogSource,
    context: &QueryContext,
    limits: &Limits,
    log: &LogExpr,
    (request, range): (&Request, TimeRange),
) -> Result<(Vec<RankedRow>, Vec<Reservation>), Error> {
    let limit = request.limit as usize;
    // The rows of all pieces stay reserved until the answer is built.
    let (mut rows, mut held): (Vec<RankedRow>, Vec<_>) = Default::default();
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
    Ok((rows, held))
}

fn pieces(
    source: &dyn LogSource,
    context: &QueryContext,
    limits: &Limits,
    request: &Request,
    range: TimeRange,
) -> Vec<TimeRange> {
    let interval = limits.split_queries_by_interval;
    // With an interval between rows, each row depends on the previous one.
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
