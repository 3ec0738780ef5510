//! Generates docs/reference/memcached.md from the tables that the server itself uses.

use std::fmt::Write;

use super::arguments::{EXTENDED, OPTIONS, Takes};
use super::commands;
use super::stats;

/// Returns the page.
pub fn reference() -> String {
    let mut page = INTRODUCTION.to_owned();
    // writing to a String cannot fail
    let _ = text_commands(&mut page);
    let _ = binary_commands(&mut page);
    let _ = statistics(&mut page);
    let _ = options(&mut page);
    page.push_str(DIFFERENCES);
    page
}

const INTRODUCTION: &str = "# The memcached server

`sandur cache serve ARGUMENTS...` serves Sandur's cache over memcached's protocols. It accepts memcached's
arguments, so an existing command line works unchanged. (This page is generated; do not edit it.)

";

fn text_commands(page: &mut String) -> std::fmt::Result {
    writeln!(page, "## Text and meta commands\n")?;
    writeln!(page, "| command | arguments | |\n|---|---|---|")?;
    for command in commands::TEXT {
        let arguments = if command.arguments.is_empty() {
            String::new()
        } else {
            format!("`{}`", command.arguments.replace('|', "\\|"))
        };
        writeln!(page, "| `{}` | {arguments} | {} |", command.name, command.about)?;
    }
    writeln!(page)
}

fn binary_commands(page: &mut String) -> std::fmt::Result {
    writeln!(page, "## Binary commands\n\n| opcode | quiet | command |\n|---|---|---|")?;
    for command in commands::BINARY {
        let quiet = command.quiet.map_or(String::new(), |quiet| format!("`{quiet:#04x}`"));
        writeln!(page, "| `{:#04x}` | {quiet} | {} |", command.opcode, command.name)?;
    }
    writeln!(page)
}

fn statistics(page: &mut String) -> std::fmt::Result {
    writeln!(page, "## Forms of `stats`\n\n| form | |\n|---|---|")?;
    for form in stats::FORMS {
        let name = format!("stats {}", form.name);
        writeln!(page, "| `{}` | {} |", name.trim_end(), form.about)?;
    }
    writeln!(page, "| `stats detail on\\|off\\|dump` | commands by prefix of the key |")?;
    writeln!(page, "| `stats cachedump CLASS LIMIT` | some keys of a slab class |")?;
    writeln!(page, "| `stats reset` | resets counters to zero |\n")
}

fn options(page: &mut String) -> std::fmt::Result {
    writeln!(page, "## Options\n\n| option | |\n|---|---|")?;
    for option in OPTIONS {
        let argument = match option.takes {
            Takes::Nothing => String::new(),
            Takes::Value(name) => format!(" {}", name.to_uppercase()),
        };
        let about = option.about.replace('\n', " ").replace('|', "\\|");
        writeln!(page, "| `{}{argument}` | {about} |", option.names("`, `"))?;
    }
    writeln!(page, "\n### Extended options (`-o NAME[=VALUE],...`)\n\n| option | |\n|---|---|")?;
    for option in EXTENDED.iter().filter(|option| option.effective) {
        writeln!(page, "| `{}` | {} |", option.name, option.about.replace('|', "\\|"))?;
    }
    writeln!(page, "\nAccepted, checked and shown in `stats settings`, without effect:\n")?;
    writeln!(page, "| option | why |\n|---|---|")?;
    for option in EXTENDED.iter().filter(|option| !option.effective) {
        writeln!(page, "| `{}` | {} |", option.name, option.about)?;
    }
    writeln!(page)
}

const DIFFERENCES: &str = include_str!("differences.md");
