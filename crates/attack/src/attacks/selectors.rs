//! Selectors of the index endpoints: many in one request, each expensive to compile, and many labels to
//! group volumes by.

use anyhow::Result;

use super::Attack;
use crate::ground::Ground;

/// This attack.
pub static ATTACK: Attack = Attack {
    name: "selectors",
    about: "index requests with as many expensive selectors as fit into a form",
    run,
};

/// The largest form in bytes.
const FORM_BYTES: usize = 900 << 10;
/// Number of concurrent requests.
const TOGETHER: usize = 8;

fn run(ground: &Ground<'_>) -> Result<()> {
    let expensive = [r#"{a=~"\\pL{30}"}"#, r#"{a=~"(?i)(?:\\w{1,20}){1,20}"}"#, r#"{a!~"(a?){90}a{90}"}"#];
    let targets: Vec<String> = (0..FORM_BYTES / 8).map(|n| format!("l{n}")).collect();
    std::thread::scope(|scope| {
        for n in 0..TOGETHER {
            scope.spawn(move || series(ground, expensive[n % expensive.len()]));
        }
    });
    for path in ["index/volume", "index/volume_range"] {
        let selector = [("query", "{}"), ("targetLabels", &targets.join(","))];
        ground.form(&format!("/loki/api/v1/{path}"), &selector);
    }
    Ok(())
}

fn series(ground: &Ground<'_>, selector: &str) {
    let fitting = FORM_BYTES / (3 * selector.len());
    let many: Vec<(&str, &str)> =
        (0..ground.pick(fitting / 4, fitting)).map(|_| ("match[]", selector)).collect();
    ground.form("/loki/api/v1/series", &many);
}
