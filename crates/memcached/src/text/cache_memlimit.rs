//! cache_memlimit: moves the memory limit.

use crate::next::Next;
use crate::words::unsigned_32;

use super::call::{Call, Command, ERROR};

/// The command `cache_memlimit`.
pub(crate) struct CacheMemlimit;

impl Command for CacheMemlimit {
    const NAME: &'static str = "cache_memlimit";
    const ARGUMENTS: &'static str = "MEGABYTES [noreply]";
    const ABOUT: &'static str = "changes the memory limit";

    fn run(call: &mut Call<'_>) -> Next {
        let answer: &[u8] = match call.words.next().and_then(unsigned_32) {
            None => ERROR,
            Some(..8) => b"MEMLIMIT_TOO_SMALL cannot set maxbytes to less than 8m",
            Some(1_000_000_001..) => b"MEMLIMIT_ADJUST_FAILED input value is megabytes not bytes",
            Some(megabytes) => {
                call.context.server.set_memory_limit(u64::from(megabytes) << 20);
                b"OK"
            }
        };
        call.answer(answer)
    }
}
