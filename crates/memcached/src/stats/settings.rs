//! `stats settings`.

use std::path::Path;
use std::sync::atomic::Ordering;

use super::report::Report;
use crate::command_context::CommandContext;
use crate::settings::{Settings, Tuning};

pub(super) fn report(context: &CommandContext<'_>) -> Report {
    let mut report = Report::default();
    let tuning = context.server.tuning().clone();
    network(context, &mut report);
    protocol(context.settings(), context, &mut report);
    eviction(&tuning, context.settings(), &mut report);
    flash(&tuning, &mut report);
    encryption(context.settings(), &tuning, &mut report);
    report.add("num_napi_ids", tuning.napi_ids);
    let file = context.settings().memory_file.as_deref();
    report.add("memory_file", file.map_or("(null)".to_owned(), |file| file.display().to_string()));
    report.add("client_flags_size", size_of::<u32>());
    report
}

fn yes(is: bool) -> &'static str {
    if is { "yes" } else { "no" }
}

fn or_null(path: Option<&Path>) -> String {
    path.map_or_else(|| "NULL".to_owned(), |path| path.display().to_string())
}

fn network(context: &CommandContext<'_>, report: &mut Report) {
    let settings = context.settings();
    report.add("maxbytes", context.server.memory_limit());
    report.add("maxconns", settings.connections_max);
    report.add("tcpport", settings.tcp_port);
    report.add("udpport", settings.udp_port);
    report.add("inter", settings.listen_text.as_deref().unwrap_or("NULL"));
    report.add("verbosity", context.server.verbosity());
    report.add("oldest", context.server.flushed.load(Ordering::Relaxed));
    report.add("evictions", if settings.evict { "on" } else { "off" });
    report.add("domain_socket", or_null(settings.unix_socket.as_deref()));
    report.add("umask", format_args!("{:o}", settings.unix_mask));
    report.add("shutdown_command", yes(settings.shutdown_allowed));
    report.add("growth_factor", format_args!("{:.2}", settings.slab_factor));
    report.add("chunk_size", settings.slab_chunk_least);
    report.add("num_threads", settings.threads);
    report.add("num_threads_per_udp", if settings.listen.len() > 1 { 1 } else { settings.threads });
}

fn protocol(settings: &Settings, context: &CommandContext<'_>, report: &mut Report) {
    report.add("stat_key_prefix", char::from(settings.prefix_delimiter));
    report.add("detail_enabled", yes(context.server.prefixes.is_on()));
    report.add("reqs_per_event", settings.commands_per_turn);
    report.add("cas_enabled", yes(settings.cas));
    report.add("tcp_backlog", settings.backlog);
    report.add("binding_protocol", settings.protocol.name());
    report.add("auth_enabled_sasl", yes(settings.sasl));
    let users = settings.auth_file.as_deref();
    report.add("auth_enabled_ascii", users.map_or("no".to_owned(), |file| file.display().to_string()));
    report.add("item_size_max", settings.item_bytes_max);
    report.add("maxconns_fast", yes(settings.refuse_fast));
}

fn eviction(tuning: &Tuning, settings: &Settings, report: &mut Report) {
    report.add("hashpower_init", tuning.hashpower);
    report.add("slab_reassign", yes(tuning.slab_reassign));
    report.add("slab_automove", tuning.slab_automove);
    report.add("slab_automove_ratio", format_args!("{:.2}", tuning.slab_automove_ratio));
    report.add("slab_automove_window", tuning.slab_automove_window);
    report.add("slab_chunk_max", tuning.slab_chunk_max);
    report.add("lru_crawler", yes(tuning.lru_crawler));
    report.add("lru_crawler_sleep", tuning.lru_crawler_sleep);
    report.add("lru_crawler_tocrawl", tuning.lru_crawler_tocrawl);
    report.add("tail_repair_time", tuning.tail_repair_time);
    report.add("flush_enabled", yes(settings.flush_allowed));
    report.add("dump_enabled", yes(settings.dump_allowed));
    report.add("hash_algorithm", &tuning.hash_algorithm);
    report.add("lru_maintainer_thread", yes(tuning.lru_maintainer));
    report.add("lru_segmented", yes(tuning.lru_segmented));
    report.add("hot_lru_pct", tuning.hot_lru_pct);
    report.add("warm_lru_pct", tuning.warm_lru_pct);
    report.add("hot_max_factor", format_args!("{:.2}", tuning.hot_max_factor));
    report.add("warm_max_factor", format_args!("{:.2}", tuning.warm_max_factor));
    report.add("temp_lru", yes(tuning.temp_lru));
    report.add("temporary_ttl", tuning.temporary_ttl);
    report.add("idle_timeout", settings.idle_timeout_s);
    report.add("watcher_logbuf_size", settings.watcher_bytes);
    report.add("worker_logbuf_size", tuning.worker_logbuf);
    report.add("read_buf_mem_limit", settings.buffer_bytes_max);
    report.add("track_sizes", yes(settings.track_sizes));
    report.add("inline_ascii_response", "no");
    report.add("drop_privileges", yes(tuning.drop_privileges));
}

fn flash(tuning: &Tuning, report: &mut Report) {
    report.add("ext_item_size", tuning.ext_item_size);
    report.add("ext_item_age", tuning.ext_item_age);
    report.add("ext_low_ttl", tuning.ext_low_ttl);
    report.add("ext_recache_rate", tuning.ext_recache_rate);
    report.add("ext_wbuf_size", tuning.ext_wbuf_size);
    report.add("ext_compact_under", tuning.ext_compact_under);
    report.add("ext_drop_under", tuning.ext_drop_under);
    report.add("ext_max_sleep", tuning.ext_max_sleep);
    report.add("ext_max_frag", format_args!("{:.2}", tuning.ext_max_frag));
    report.add("slab_automove_freeratio", format_args!("{:.3}", tuning.slab_automove_freeratio));
    report.add("ext_drop_unread", yes(tuning.ext_drop_unread));
}

fn encryption(settings: &Settings, tuning: &Tuning, report: &mut Report) {
    report.add("ssl_enabled", yes(settings.tls.is_some()));
    let tls = settings.tls.clone().unwrap_or_default();
    let path =
        |path: &Path| if path.as_os_str().is_empty() { "(null)".into() } else { path.display().to_string() };
    report.add("ssl_chain_cert", path(&tls.chain));
    report.add("ssl_key", path(&tls.key));
    report.add("ssl_verify_mode", tls.verify_mode);
    report.add("ssl_keyformat", tuning.ssl_keyformat);
    report.add("ssl_ciphers", tls.ciphers.as_deref().unwrap_or("NULL"));
    report.add("ssl_ca_cert", or_null(tls.authorities.as_deref()));
    report.add("ssl_wbuf_size", tuning.ssl_wbuf_size);
    report.add("ssl_session_cache", yes(tls.session_cache));
    report.add("ssl_kernel_tls", yes(tuning.ssl_kernel_tls));
    let versions = ["tlsv1.0", "tlsv1.1", "tlsv1.2", "tlsv1.3"];
    report.add("ssl_min_version", versions[usize::from(tls.least_version.min(3))]);
}
