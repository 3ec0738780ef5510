//! Operations on the process itself: threads, user, background, and files about it.
//!
//! The process changes its user or moves to the background by starting the program again, before any
//! thread runs. Safe code has no other way to do either for the whole process.

use std::fs;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread::JoinHandle;
use std::time::Duration;

use sandur_runtime::{environment, machine};

use super::error::Error;
use super::settings::Settings;

/// Environment variable that marks a process which is already in the background.
const IN_BACKGROUND: &str = "SANDUR_CACHE_IN_BACKGROUND";
/// Clock ticks per second in /proc, which Linux fixes for user space.
const TICKS: u64 = 100;

/// Starts a thread that serves sockets or waits for a slow client.
#[allow(clippy::disallowed_methods)] // pollers and scans of all items block their thread
pub(super) fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> io::Result<JoinHandle<()>> {
    std::thread::Builder::new().name(name.to_owned()).spawn(run)
}

/// Returns the CPU time of this process in user and in kernel mode.
pub(super) fn cpu_times() -> (Duration, Duration) {
    let text = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // the name may contain spaces, so fields are counted after it
    let fields = text.rsplit_once(')').map_or("", |(_, rest)| rest);
    let mut ticks = fields.split_whitespace().skip(11).map(|field| field.parse().unwrap_or(0));
    let mut next = || Duration::from_millis(ticks.next().unwrap_or(0u64) * (1000 / TICKS));
    (next(), next())
}

/// If started as root, restarts the program as the user of the settings. Does not return on success.
pub(super) fn change_user(settings: &Settings) -> Result<(), Error> {
    let Some(name) = settings.user.as_deref().filter(|_| rustix::process::geteuid().is_root()) else {
        return Ok(());
    };
    let (user, group) = find_user(name).ok_or_else(|| Error::User { name: name.to_owned() })?;
    if user == 0 {
        return Ok(());
    }
    let program = std::env::current_exe().map_err(|error| Error::Process { what: "find itself", error })?;
    let error = Command::new(program).args(std::env::args_os().skip(1)).uid(user).gid(group).exec();
    Err(Error::Process { what: "change its user", error })
}

/// Returns the ids of a user and its group.
fn find_user(name: &str) -> Option<(u32, u32)> {
    let text = fs::read_to_string("/etc/passwd").ok()?;
    let named = text.lines().find_map(|line| {
        let mut fields = line.split(':');
        let found = fields.next()? == name;
        let (user, group) = (fields.nth(1)?.parse().ok()?, fields.next()?.parse().ok()?);
        found.then_some((user, group))
    });
    // containers run as numeric users that /etc/passwd does not list
    named.or_else(|| name.parse().ok().map(|number| (number, number)))
}

/// Moves to the background if the settings say so. Returns `true` in the process that must exit.
pub(super) fn go_to_background(settings: &Settings) -> Result<bool, Error> {
    if !settings.daemon {
        return Ok(false);
    }
    if environment::variable(IN_BACKGROUND).is_some() {
        // a new session, so that the hang-up of the terminal does not reach it
        let _ = rustix::process::setsid();
        return Ok(false);
    }
    let started = std::env::current_exe().and_then(|program| {
        let mut command = Command::new(program);
        command.args(std::env::args_os().skip(1)).env(IN_BACKGROUND, "1");
        command.stdin(Stdio::null()).stdout(Stdio::null());
        if settings.verbosity == 0 {
            command.stderr(Stdio::null());
        }
        command.spawn()
    });
    started.map_err(|error| Error::Process { what: "go to the background", error })?;
    Ok(true)
}

/// Descriptors for pollers, event descriptors, listeners, the flash tier and standard streams.
const OTHER_DESCRIPTORS: u64 = 256;

/// Raises the limit of descriptors for this number of connections. Returns for how many connections it
/// suffices.
pub(super) fn raise_descriptor_limit(connections: usize) -> usize {
    connections_of(machine::raise_open_files_max(Some(connections as u64 + OTHER_DESCRIPTORS)), connections)
}

/// Returns how many descriptors connections may use. If there are few, other uses get half of them.
fn connections_of(descriptors: u64, wanted: usize) -> usize {
    let others = OTHER_DESCRIPTORS.min(descriptors / 2);
    wanted.min(usize::try_from(descriptors - others).unwrap_or(usize::MAX)).max(1)
}

/// Locks all present and future memory of the process, so that it is not swapped out.
pub(super) fn lock_memory() -> io::Result<()> {
    use rustix::mm::{MlockAllFlags, mlockall};
    Ok(mlockall(MlockAllFlags::CURRENT | MlockAllFlags::FUTURE)?)
}

/// A file with the process id, which is removed at the end.
pub(super) struct PidFile<'a>(&'a Path);

impl<'a> PidFile<'a> {
    pub fn write(path: &'a Path) -> Result<Self, Error> {
        let text = format!("{}\n", std::process::id());
        fs::write(path, text).map_err(|error| Error::File { path: path.to_owned(), error })?;
        Ok(Self(path))
    }
}

impl Drop for PidFile<'_> {
    fn drop(&mut self) {
        let _ = fs::remove_file(self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_are_found_by_name_and_number() {
        assert_eq!(find_user("root"), Some((0, 0)));
        assert_eq!(find_user("11211"), Some((11211, 11211)));
        assert_eq!(find_user("no such user"), None);
    }

    #[test]
    fn connections_leave_descriptors_for_other_uses() {
        assert_eq!(connections_of(u64::MAX, 1_024), 1_024);
        assert_eq!(connections_of(1_024, 1_024), 768);
        assert_eq!(connections_of(100, 1_024), 50);
        assert_eq!(connections_of(0, 1_024), 1);
    }

    #[test]
    fn this_process_has_used_the_processor() {
        let mut sum = 0u64;
        while cpu_times() == (Duration::ZERO, Duration::ZERO) {
            sum = (0..1_000_000u64).fold(sum, |sum, n| sum.wrapping_mul(31).wrapping_add(n));
        }
        assert!(cpu_times().0 + cpu_times().1 > Duration::ZERO, "{sum}");
    }
}
