//! The reference of the language, written from its tables.

use crate::range::{self, UnwrapUse};
use crate::stage::STAGES;
use crate::template;
use crate::vector;

/// Stages and functions as a page of Markdown.
pub fn reference() -> String {
    let mut page =
        String::from("# LogQL\n\nGenerated from the tables of stages and functions.\n\n## Stages\n\n");
    page.push_str("| stage | syntax | what it does |\n|---|---|---|\n");
    let cell = |text: &str| text.replace('|', "\\|");
    for stage in STAGES {
        page.push_str(&format!("| {} | `{}` | {} |\n", stage.name, cell(stage.syntax), cell(stage.doc)));
    }
    page.push_str("\n## Functions over windows\n\n");
    page.push_str("| function | unwrap | by, without | what it gives |\n|---|---|---|---|\n");
    for function in range::FUNCTIONS.iter().copied().flatten() {
        let unwrap = match function.unwrap {
            UnwrapUse::Forbidden => "no",
            UnwrapUse::Optional => "may",
            UnwrapUse::Required => "must",
        };
        let grouping = if function.grouping { "yes" } else { "no" };
        page.push_str(&format!("| {} | {unwrap} | {grouping} | {} |\n", function.name, cell(function.doc)));
    }
    page.push_str("\n## Functions over vectors\n\n| function | what it gives |\n|---|---|\n");
    for function in vector::FUNCTIONS {
        page.push_str(&format!("| {} | {} |\n", function.name, cell(function.doc)));
    }
    page.push_str("\n## Functions of templates\n\n| function | what it gives |\n|---|---|\n");
    for function in template::FUNCTIONS.iter().copied().flatten() {
        page.push_str(&format!("| {} | {} |\n", function.name, cell(function.doc)));
    }
    page
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_table_is_in_the_reference() {
        let page = super::reference();
        for name in ["| json |", "| quantile_over_time |", "| topk |", "| printf |"] {
            assert!(page.contains(name), "{name}");
        }
    }
}
