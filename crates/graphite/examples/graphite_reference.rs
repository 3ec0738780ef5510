//! Prints the reference page of the functions.

fn main() {
    print!("{}", sandur_graphite::reference());
}
