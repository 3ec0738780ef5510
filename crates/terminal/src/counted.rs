//! Counts with their noun in the singular or the plural.

/// The number with its noun: `1 line`, `2 lines`.
pub fn counted(number: impl Into<u64>, one: &str, many: &str) -> String {
    let number = number.into();
    format!("{number} {}", if number == 1 { one } else { many })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_thing_is_singular() {
        let all = [0u64, 1, 2].map(|number| counted(number, "entry", "entries"));
        assert_eq!(all, ["0 entries", "1 entry", "2 entries"]);
    }
}
