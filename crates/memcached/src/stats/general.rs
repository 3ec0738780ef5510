//! `stats` without a form: counters of the server.

use std::sync::atomic::Ordering;

use super::report::Report;
use crate::arguments::VERSION;
use crate::command_context::CommandContext;
use crate::counters::Sums;
use crate::evictions::EvictionCounts;
use crate::server::Base;

/// The data that the parts of the report use.
struct View<'a> {
    context: &'a CommandContext<'a>,
    sums: Sums,
    cache: sandur_cache::CacheStats,
    base: Base,
}

pub(super) fn report(context: &CommandContext<'_>) -> Report {
    let base = context.server.base();
    let view = View {
        context,
        sums: context.server.sums().since(&base.sums),
        cache: context.server.cache.stats(),
        base,
    };
    let mut report = Report::default();
    process(&view, &mut report);
    connections(&view, &mut report);
    commands(&view, &mut report);
    memory(&view, &mut report);
    background(&view, &mut report);
    if let Some(flash) = &view.cache.flash {
        super::extstore::add_totals(flash, &mut report);
    }
    encryption(&view, &mut report);
    report.add("unexpected_napi_ids", 0);
    report.add("round_robin_fallback", 0);
    items(&view, &mut report);
    report
}

fn process(view: &View<'_>, report: &mut Report) {
    let server = view.context.server;
    report.add("pid", std::process::id());
    report.add("uptime", view.context.now.saturating_sub(server.started));
    report.add("time", view.context.now);
    report.add("version", VERSION);
    report.add("libevent", "none");
    report.add("pointer_size", usize::BITS);
    let (user, system) = crate::process::cpu_times();
    report.add("rusage_user", format_args!("{}.{:06}", user.as_secs(), user.subsec_micros()));
    report.add("rusage_system", format_args!("{}.{:06}", system.as_secs(), system.subsec_micros()));
}

fn connections(view: &View<'_>, report: &mut Report) {
    let (server, sums) = (view.context.server, &view.sums);
    report.add("max_connections", server.settings.connections_max);
    report.add("curr_connections", server.connections.current());
    report.add("total_connections", server.connections.total() - view.base.connections);
    if server.settings.refuse_fast {
        report.add("rejected_connections", server.connections.rejected() - view.base.rejected);
    }
    report.add("connection_structures", server.connections.most());
    report.add("response_obj_oom", sums.totals.response_oom);
    report.add("response_obj_count", sums.gauges.queued_answers);
    report.add("response_obj_bytes", sums.gauges.queued_bytes);
    report.add("read_buf_count", sums.gauges.input_buffers);
    report.add("read_buf_bytes", sums.gauges.input_bytes);
    report.add("read_buf_bytes_free", sums.gauges.input_bytes_free);
    report.add("read_buf_oom", sums.totals.input_oom);
    report.add("reserved_fds", 5 * server.settings.threads);
}

fn commands(view: &View<'_>, report: &mut Report) {
    let (sums, totals) = (&view.sums, &view.sums.totals);
    report.add("cmd_get", totals.get_cmds);
    report.add("cmd_set", sums.over_classes(|class| class.set_cmds));
    report.add("cmd_flush", totals.flush_cmds);
    report.add("cmd_touch", totals.touch_cmds);
    report.add("cmd_meta", totals.meta_cmds);
    report.add("get_hits", sums.over_classes(|class| class.get_hits));
    report.add("get_misses", totals.get_misses);
    let (ram, base) = (&view.cache.ram, &view.base.cache.ram);
    report.add("get_expired", ram.found_expired - base.found_expired);
    report.add("get_flushed", ram.found_flushed - base.found_flushed);
    if let Some(flash) = &view.cache.flash {
        report.add("get_extstore", totals.get_extstore);
        report.add("get_aborted_extstore", totals.get_aborted_extstore);
        report.add("get_oom_extstore", 0);
        report.add("recache_from_extstore", flash.promoted);
        let missed_before = view.base.cache.flash.as_ref().map_or(0, |flash| flash.missed_evicted);
        let missed = totals.miss_from_extstore + flash.missed_evicted - missed_before;
        report.add("miss_from_extstore", missed);
        report.add("badcrc_from_extstore", flash.device.counts.reads_corrupt);
    }
    report.add("delete_misses", totals.delete_misses);
    report.add("delete_hits", sums.over_classes(|class| class.delete_hits));
    report.add("incr_misses", totals.incr_misses);
    report.add("incr_hits", sums.over_classes(|class| class.incr_hits));
    report.add("decr_misses", totals.decr_misses);
    report.add("decr_hits", sums.over_classes(|class| class.decr_hits));
    report.add("cas_misses", totals.cas_misses);
    report.add("cas_hits", sums.over_classes(|class| class.cas_hits));
    report.add("cas_badval", sums.over_classes(|class| class.cas_badval));
    report.add("touch_hits", sums.over_classes(|class| class.touch_hits));
    report.add("touch_misses", totals.touch_misses);
    report.add("store_too_large", totals.store_too_large);
    report.add("store_no_memory", totals.store_no_memory);
    report.add("auth_cmds", totals.auth_cmds);
    report.add("auth_errors", totals.auth_errors);
    if totals.http_requests > 0 {
        report.add("http_requests", totals.http_requests);
    }
    if view.context.settings().idle_timeout_s > 0 || totals.idle_kicks > 0 {
        report.add("idle_kicks", totals.idle_kicks);
    }
    report.add("bytes_read", totals.bytes_read);
    report.add("bytes_written", totals.bytes_written);
}

fn memory(view: &View<'_>, report: &mut Report) {
    let server = view.context.server;
    report.add("limit_maxbytes", server.memory_limit());
    report.add("accepting_conns", 1);
    report.add("listen_disabled_num", 0);
    report.add("time_in_listen_disabled_us", 0);
    report.add("threads", server.settings.threads);
    report.add("conn_yields", view.sums.totals.conn_yields);
    let hashpower = server.index_power(view.cache.items);
    report.add("hash_power_level", hashpower);
    report.add("hash_bytes", 8u64 << hashpower);
    report.add("hash_is_expanding", 0);
}

fn background(view: &View<'_>, report: &mut Report) {
    let tuning = view.context.server.tuning().clone();
    if tuning.slab_reassign {
        for name in ["rescues", "chunk_rescues", "inline_reclaim", "busy_items", "busy_deletes", "busy_nomem"]
        {
            report.add(format!("slab_reassign_{name}"), 0);
        }
        report.add("slab_reassign_last_busy_status", "none");
        report.add("slab_reassign_running", 0);
        report.add("slabs_moved", 0);
    }
    if tuning.lru_crawler {
        report.add("lru_crawler_running", 0);
        report.add("lru_crawler_starts", 0);
    }
    if tuning.lru_maintainer {
        report.add("lru_maintainer_juggles", 0);
    }
    report.add("malloc_fails", 0);
    let watched = view.context.server.watchers.counts();
    report.add("log_worker_dropped", 0);
    report.add("log_worker_written", watched.lines);
    report.add("log_watcher_skipped", watched.skipped);
    report.add("log_watcher_sent", watched.sent);
    report.add("log_watchers", watched.watchers);
}

fn encryption(view: &View<'_>, report: &mut Report) {
    if let Some(tls) = &view.context.settings().tls {
        let counts = view.context.server.tls_counts();
        if tls.session_cache {
            report.add("ssl_new_sessions", counts.sessions.load(Ordering::Relaxed));
        }
        report.add("ssl_handshake_errors", counts.handshake_errors.load(Ordering::Relaxed));
        report.add("ssl_proto_errors", counts.protocol_errors.load(Ordering::Relaxed));
        let refreshed = counts.refreshed.load(Ordering::Relaxed);
        report.add("time_since_server_cert_refresh", view.context.now.saturating_sub(refreshed));
    }
}

fn items(view: &View<'_>, report: &mut Report) {
    let server = view.context.server;
    report.add("bytes", view.cache.bytes);
    report.add("curr_items", server.cache.count_items());
    report.add("total_items", view.sums.totals.total_items);
    report.add("slab_global_page_pool", 0);
    let gone = server.evictions.all();
    let sum = |counter: fn(EvictionCounts) -> u64| -> u64 {
        gone.iter().zip(&view.base.gone).map(|(gone, base)| counter(gone.since(base))).sum()
    };
    let maintainer = server.tuning().lru_maintainer;
    report.add("expired_unfetched", sum(|gone| gone.expired_unfetched));
    report.add("evicted_unfetched", sum(|gone| gone.evicted_unfetched));
    if maintainer {
        report.add("evicted_active", sum(|gone| gone.evicted_active));
    }
    report.add("evictions", sum(|gone| gone.evicted));
    report.add("reclaimed", sum(|gone| gone.reclaimed));
    report.add("crawler_reclaimed", 0);
    report.add("crawler_items_checked", 0);
    report.add("lrutail_reflocked", 0);
    if maintainer {
        for name in
            ["moves_to_cold", "moves_to_warm", "moves_within_lru", "direct_reclaims", "lru_bumps_dropped"]
        {
            report.add(name, 0);
        }
    }
}
