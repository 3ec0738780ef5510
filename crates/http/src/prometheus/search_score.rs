//! Scores how well a name matches a search term, from 0 to 1.

/// How names are compared with a term.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    /// The name contains the characters of the term in order.
    Subsequence,
    /// The name contains the term, or is similar by the Jaro-Winkler measure.
    JaroWinkler,
}

impl Algorithm {
    /// The algorithm with this name.
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "subsequence" => Some(Self::Subsequence),
            "jarowinkler" => Some(Self::JaroWinkler),
            _ => None,
        }
    }
}

/// A search term.
pub struct Term {
    text: String,
    letters: Vec<char>,
    algorithm: Algorithm,
    threshold: f64,
}

/// Maximum number of characters of a name that are compared.
const LETTERS_MAX: usize = 4_096;
/// Factor that makes a match score less than equality.
const NOT_EQUAL: f64 = 0.999;

impl Term {
    /// A term. Names that score below the threshold do not match.
    pub fn new(text: &str, algorithm: Algorithm, threshold: f64) -> Self {
        Self { text: text.to_owned(), letters: text.chars().collect(), algorithm, threshold }
    }

    /// The score of a name; `None` if it does not match.
    pub fn score(&self, name: &str) -> Option<f64> {
        if name.starts_with(&self.text) {
            return Some(1.0);
        }
        let letters: Vec<char> = name.chars().take(LETTERS_MAX).collect();
        match self.algorithm {
            Algorithm::Subsequence => {
                let score = subsequence(&self.letters, &letters);
                (score > 0.0 && score >= self.threshold).then_some(score)
            }
            Algorithm::JaroWinkler => {
                if let Some(at) = name.find(&self.text) {
                    let before = name[..at].chars().count();
                    return Some(position(before, letters.len().saturating_sub(self.letters.len())));
                }
                let score = if self.threshold > 0.0 { jaro_winkler(&self.letters, &letters) } else { 0.0 };
                (score > 0.0 && score >= self.threshold).then_some(score)
            }
        }
    }
}

/// Scores a term that is contained in a name: lower the later it begins.
fn position(before: usize, most: usize) -> f64 {
    if most == 0 { 1.0 } else { 1.0 - 0.9 * before as f64 / most as f64 }
}

/// The best score over all positions of the first character: the squares of the lengths of adjacent runs
/// count for a name, gaps against it.
fn subsequence(term: &[char], name: &[char]) -> f64 {
    if term == name {
        return 1.0;
    }
    let (Some(first), Some(last_start)) = (term.first(), name.len().checked_sub(term.len())) else {
        return 0.0;
    };
    let mut best = -1.0f64;
    for start in (0..=last_start).filter(|start| name[*start] == *first) {
        match runs(term, name, start) {
            Some(score) => best = best.max(score),
            // If the term cannot be completed from here, it cannot be completed from a later position.
            None => break,
        }
    }
    if best < 0.0 { 0.0 } else { best / (term.len() * term.len()) as f64 * NOT_EQUAL }
}

/// The score when the first character of the term is at `start`.
fn runs(term: &[char], name: &[char], start: usize) -> Option<f64> {
    let length = name.len() as f64;
    let (mut at, mut found, mut score, mut gap) = (start, 0, 0.0, start);
    loop {
        let run = name[at..].iter().zip(&term[found..]).take_while(|(a, b)| a == b).count();
        score += (run * run) as f64 - gap as f64 / length;
        (at, found) = (at + run, found + run);
        let Some(next) = term.get(found) else { break };
        gap = name[at..].iter().position(|letter| letter == next)?;
        at += gap;
    }
    Some(score - (name.len() - at) as f64 / length * 0.5)
}

/// The Jaro similarity with Winkler's bonus for a common prefix.
fn jaro_winkler(a: &[char], b: &[char]) -> f64 {
    let (a, b) = if a.len() > b.len() { (b, a) } else { (a, b) };
    if a.is_empty() {
        return 0.0;
    }
    let reach = (b.len() / 2).saturating_sub(1);
    let mut taken = vec![false; b.len()];
    let mut of_a = Vec::new();
    for (n, letter) in a.iter().enumerate() {
        let near = n.saturating_sub(reach)..(n + reach + 1).min(b.len());
        if let Some(at) = near.into_iter().find(|at| !taken[*at] && b[*at] == *letter) {
            taken[at] = true;
            of_a.push(*letter);
        }
    }
    if of_a.is_empty() {
        return 0.0;
    }
    let of_b = b.iter().zip(&taken).filter(|(_, taken)| **taken).map(|(letter, _)| *letter);
    let moved = of_a.iter().zip(of_b).filter(|(a, b)| *a != b).count() as f64;
    let same = of_a.len() as f64;
    let jaro = (same / a.len() as f64 + same / b.len() as f64 + (same - moved * 0.5) / same) / 3.0;
    let prefix = a.iter().zip(b).take(4).take_while(|(a, b)| a == b).count() as f64;
    jaro + prefix * 0.1 * (1.0 - jaro)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn score(term: &str, algorithm: Algorithm, threshold: f64, name: &str) -> Option<f64> {
        Term::new(term, algorithm, threshold).score(name)
    }

    #[test]
    fn a_prefix_scores_one_and_gaps_cost() {
        let of = |term, name| score(term, Algorithm::Subsequence, 0.0, name);
        assert_eq!(of("node", "node_cpu"), Some(1.0));
        assert_eq!(of("xyz", "node_cpu"), None);
        assert_eq!(of("node_cpu_seconds", "node"), None);
        let (near, far) = (of("cpu", "node_cpu").unwrap(), of("cpu", "container_process_uptime").unwrap());
        assert!(near > far && near < 1.0 && far > 0.0, "{near} {far}");
        assert_eq!(score("cpu", Algorithm::Subsequence, 0.99, "node_cpu"), None);
    }

    #[test]
    fn similar_names_match_by_jaro_winkler() {
        let of = |threshold, name| score("martha", Algorithm::JaroWinkler, threshold, name);
        assert!((of(0.5, "marhta").unwrap() - 0.9611).abs() < 1e-3);
        assert_eq!(of(0.0, "marhta"), None, "without a threshold a name has to contain the term");
        assert_eq!(of(0.0, "martha_total"), Some(1.0));
        assert!(of(0.0, "a_martha").unwrap() < 1.0);
        assert_eq!(of(0.5, ""), None);
    }
}
