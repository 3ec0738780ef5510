//! Tests of the bounds of template functions: every function runs repeatedly with arguments that make its
//! result grow: half of the lists of arguments, with `SANDUR_LONG_FORMS` all of them.

use std::sync::Arc;
use std::time::Duration;

use sandur_memory::MemoryBudget;
use sandur_model::TenantId;
use sandur_query::{Error, QueryContext};
use sandur_runtime::Env;

use super::functions::FUNCTIONS;
use crate::stage::testing::{Out, run};

const MEMORY: u64 = 256 << 20;

/// Runs a template over a line in a query. Returns the outcome and the peak of reserved memory.
fn within(memory: u64, template: &str, line: &str) -> (Result<Out, Error>, u64) {
    let (query, line) = (format!("{{app=\"s\"}} | line_format `{template}`"), line.to_owned());
    let budget = MemoryBudget::root("query", memory);
    let context = QueryContext::new(
        Env::simulated(1, 0),
        TenantId::default_tenant(),
        budget.clone(),
        Duration::from_secs(3_600),
    );
    let outcome = context.compute_here(|| Ok(run(&query, &line).expect("line_format drops no line")));
    (outcome, budget.peak())
}

fn failed(out: &Out) -> bool {
    out.parsed.iter().any(|(name, value)| name == "__error__" && value == "TemplateFormatErr")
}

/// The argument lists for a function: the growing text in each place, with other arguments that make the
/// result large.
fn argument_lists((least, most): (usize, usize)) -> Vec<Vec<&'static str>> {
    let others = ["60000", "\"\"", "\"a\"", "\"%60000v%x%q\"", "\"(a)|.\"", "\"$1$1$1$1\""];
    let mut lists = Vec::new();
    for count in least..=most.min(4).max(least) {
        // Three arguments are enough for a variadic function.
        if count > 3 && most > 4 {
            break;
        }
        for place in 0..count {
            for other in others {
                lists.push((0..count).map(|n| if n == place { "$x" } else { other }).collect());
            }
        }
        // The first argument is searched for in the text, and replaced by the text.
        lists.push(vec!["$x"; count]);
        for other in ["\"\"", "\"a\"", "\".\"", "2", "1000", "\"%s%s\""] {
            lists.push((0..count).map(|n| if n == 0 { other } else { "$x" }).collect());
        }
        lists.push((0..count).map(|n| ["$x", "\"a\"", "$x", "9"][n]).collect());
    }
    lists
}

#[test]
fn chains_of_every_function_stay_within_their_memory() {
    let mut refused = std::collections::BTreeSet::new();
    let step = if sandur_runtime::environment::variable("SANDUR_LONG_FORMS").is_some() { 1 } else { 2 };
    for function in FUNCTIONS.iter().copied().flatten() {
        // The last list is the one that makes `Replace` grow.
        for arguments in argument_lists(function.arguments).into_iter().rev().step_by(step) {
            let call = format!("{} {}", function.name, arguments.join(" "));
            let template =
                format!("{{{{$x := __line__}}}}{{{{range 44}}}}{{{{$x = {call}}}}}{{{{end}}}}{{{{$x}}}}");
            let (outcome, peak) = within(MEMORY, &template, &"aa<b\n\"\u{e9}".repeat(30));
            let out = outcome.unwrap_or_else(|error| panic!("{call}: {error}"));
            assert!(peak < MEMORY && out.line.len() <= 1 << 20, "{call}: {peak} {}", out.line.len());
            let over = out.details.contains("would be longer") || out.details.contains("take more");
            if failed(&out) && over {
                refused.insert(function.name);
            }
        }
    }
    // Functions with unbounded results must have failed at least once; otherwise the arguments do not test
    // them.
    for name in [
        "Replace",
        "replace",
        "indent",
        "nindent",
        "repeat",
        "regexReplaceAll",
        "regexReplaceAllLiteral",
        "printf",
        "print",
        "println",
        "b64enc",
        "html",
        "js",
    ] {
        assert!(refused.contains(name), "{name} never failed: {refused:?}");
    }
}

#[test]
fn a_template_beyond_the_memory_of_the_query_ends_it() {
    let twice = "{{$x := __line__}}{{range 44}}{{$x = printf \"%s%s\" $x $x}}{{end}}{{$x}}";
    let (outcome, peak) = within(200_000, twice, "0123456789");
    assert!(
        matches!(&outcome, Err(Error::OverBudget(refusal)) if *refusal.budget == *"query"),
        "{outcome:?}"
    );
    assert!(peak <= 200_000);
    let line = format!("[{}]", vec!["{\"\":[]}"; 20_000].join(","));
    let (outcome, _) = within(4 << 20, "{{$m := fromJson __line__}}{{len $m}}", &line);
    assert!(matches!(outcome, Err(Error::OverBudget(_))), "{outcome:?}");
    let (outcome, _) = within(64 << 20, "{{$m := fromJson __line__}}{{len $m}}", &line);
    assert_eq!(outcome.unwrap().line, "20000");
}

#[test]
fn variables_loops_and_blocks_are_bounded() {
    for template in [
        "{{range 90000}}{{$x := __line__}}{{range 90000}}{{$y := __line__}}{{end}}{{end}}",
        "{{range $n, $x := 9000000000}}{{end}}",
        "{{define \"a\"}}{{.}}{{template \"a\" printf \"%s%s\" . .}}{{end}}{{template \"a\" __line__}}",
        "{{$x := __line__}}{{range 5000}}{{$x}}{{$x}}{{end}}",
        "{{printf \"%.70000f\" 1.0}}{{printf \"%99999999999999999999d\" 1}}",
    ] {
        let (outcome, peak) = within(MEMORY, template, &"line ".repeat(100));
        let out = outcome.unwrap();
        assert!(peak < MEMORY && out.line.len() <= 1 << 20, "{template}: {peak}");
        assert!(failed(&out) || template.contains("70000f"), "{template}");
    }
}

/// A cancelled query ends before the next check of the templates, whatever they compute.
#[test]
fn a_cancelled_query_ends_within_a_template() {
    struct Ends(std::sync::atomic::AtomicU64, MemoryBudget);
    impl sandur_memory::job::Owner for Ends {
        fn goes_on(&self) -> bool {
            self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed) < 2
        }
        fn budget(&self) -> &MemoryBudget {
            &self.1
        }
        fn refused(&self, _: sandur_memory::OverBudget) {}
    }
    for body in
        ["{{regexReplaceAll \"(a*)*b\" $x \"$1\"}}", "{{$x | b64enc | b64dec}}", "{{count \"a?\" $x}}"]
    {
        let owner = Arc::new(Ends(0.into(), MemoryBudget::root("query", MEMORY)));
        let template = format!("{{{{$x := __line__}}}}{{{{range 90000}}}}{body}{{{{end}}}}");
        let query = format!("{{app=\"s\"}} | line_format `{template}`");
        let line = "a".repeat(50_000);
        let outcome = sandur_memory::job::run(owner, || run(&query, &line));
        assert_eq!(outcome, Err(sandur_memory::Stopped), "{body}");
    }
}
