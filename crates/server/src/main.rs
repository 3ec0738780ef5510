//! The binary: the allocator and its settings, then the command line.

use std::process::ExitCode;

use sandur_memory::account::Counting;
use tikv_jemallocator::Jemalloc;

/// Returns freed memory to the system, which the limit of resident memory requires, and counts memory by
/// owner.
#[global_allocator]
static ALLOCATOR: Counting<Jemalloc> = Counting(Jemalloc);

/// Settings of the allocator: a background thread returns free pages after a second, and pages that were
/// already purged lazily immediately; few arenas, because every arena keeps its own free pages; huge
/// pages, which [`sandur_server::cli::main`] disables again for every role that frees much of its memory.
static MALLOC_CONF: &[u8] =
    b"background_thread:true,dirty_decay_ms:1000,muzzy_decay_ms:0,narenas:8,thp:always\0";

/// The symbol in which the allocator expects its settings before `main`.
#[allow(unsafe_code)] // an exported name counts as unsafe, and there is no other way to set these
#[unsafe(export_name = "_rjem_malloc_conf")]
pub static MALLOC_CONF_START: &u8 = &MALLOC_CONF[0];

fn main() -> ExitCode {
    sandur_server::cli::main()
}
