//! A memcached server as a stand-alone program: `memcached ARGUMENTS...`, with memcached's arguments.

use std::process::ExitCode;
use std::sync::Arc;

use sandur_runtime::Env;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_io().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("cannot handle signals: {error}");
            return ExitCode::FAILURE;
        }
    };
    let env = Env::system(1);
    let served =
        runtime.block_on(sandur_memcached::run(&env, &arguments, Arc::new(|line: &str| eprintln!("{line}"))));
    match served {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::from(error.exit_code())
        }
    }
}
