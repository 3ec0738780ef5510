//! Prints the reference page of the language.

fn main() {
    print!("{}", sandur_promql::reference());
}
