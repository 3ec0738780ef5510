//! Settings as YAML: one line per value, quoted where YAML would read something else.

use sandur_config::Slot;

/// Formats `key: value`, or `key:` and an indented list.
pub fn line(indent: &str, key: &str, slot: &Slot<'_>) -> String {
    match slot {
        Slot::List(words) if words.is_empty() => format!("{indent}{key}: []\n"),
        Slot::List(words) => {
            let items: String = words.iter().map(|word| format!("{indent}  - {}\n", scalar(word))).collect();
            format!("{indent}{key}:\n{items}")
        }
        Slot::Policies(policies) if policies.is_empty() => format!("{indent}{key}: []\n"),
        Slot::Retention(rules, _) if rules.is_empty() => format!("{indent}{key}: []\n"),
        // JSON is YAML too.
        Slot::Policies(_) | Slot::Retention(..) => format!("{indent}{key}: {}\n", slot.print()),
        Slot::Switch(_) | Slot::Count(_) | Slot::Rate(_) | Slot::Price(_) => {
            format!("{indent}{key}: {}\n", slot.print())
        }
        _ => format!("{indent}{key}: {}\n", scalar(&slot.print())),
    }
}

/// The text, quoted if YAML would read it as something else.
pub fn scalar(text: &str) -> String {
    let plain = text.bytes().all(|b| b.is_ascii_alphanumeric() || b"./_+-:=?&%@".contains(&b));
    let starts = text.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '/' || c == '.');
    let word = !matches!(text, "true" | "false" | "null" | "yes" | "no" | "on" | "off");
    let number = text.parse::<f64>().is_ok();
    match plain && starts && word && !number && !text.ends_with(':') {
        true => text.to_owned(),
        false => format!("{text:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_quoted_when_they_need_it() {
        let (mut on, mut n, mut ns) = (true, 5, 60_000_000_000);
        assert_eq!(line("", "a", &Slot::Switch(&mut on)), "a: true\n");
        assert_eq!(line("  ", "b", &Slot::Count(&mut n)), "  b: 5\n");
        assert_eq!(line("", "c", &Slot::DurationNs(&mut ns)), "c: 1m\n");
        let mut words = vec!["app".to_owned(), "on".to_owned()];
        assert_eq!(line("", "d", &Slot::List(&mut words)), "d:\n  - app\n  - \"on\"\n");
        words.clear();
        assert_eq!(line("", "d", &Slot::List(&mut words)), "d: []\n");
        for (text, expected) in [
            ("127.0.0.1:3100", "127.0.0.1:3100"),
            ("file://./data", "file://./data"),
            ("", "\"\""),
            ("a: b", "\"a: b\""),
            ("17", "\"17\""),
        ] {
            assert_eq!(scalar(text), expected);
        }
    }
}
