//! Splits command lines like a shell, as far as the documentation needs.

/// A command with its words, without quotes.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Call {
    /// Its own variables: `NAME=VALUE` before its name.
    pub variables: Vec<String>,
    /// Its name and arguments.
    pub words: Vec<String>,
}

impl Call {
    /// The name of the program.
    pub fn program(&self) -> &str {
        self.words.first().map_or("", String::as_str)
    }
}

/// The command lines of a block: a line that ends with a backslash continues in the next one, `$ ` before
/// a command is a prompt.
pub fn lines(block: &str) -> Vec<String> {
    let joined = block.replace("\\\n", " ");
    let lines = joined.lines().map(|line| line.strip_prefix("$ ").unwrap_or(line).trim());
    lines.filter(|line| !line.is_empty() && !line.starts_with('#')).map(str::to_owned).collect()
}

/// The commands of a pipeline. Redirections and comments are omitted.
pub fn pipeline(line: &str) -> Vec<Call> {
    let mut calls = vec![Call::default()];
    let mut is_redirected = false;
    for (word, is_quoted) in words(line) {
        match word.as_str() {
            "|" | "&&" | ";" if !is_quoted => calls.push(Call::default()),
            ">" | ">>" | "<" if !is_quoted => is_redirected = true,
            _ if is_redirected => is_redirected = false,
            _ => {
                let call = calls.last_mut().unwrap();
                match call.words.is_empty() && is_assignment(&word) {
                    true => call.variables.push(word),
                    false => call.words.push(word),
                }
            }
        }
    }
    calls
}

fn is_assignment(word: &str) -> bool {
    let name = word.split_once('=').map_or("", |(name, _)| name);
    !name.is_empty() && name.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_')
}

/// Words, and whether any of their characters was quoted.
fn words(line: &str) -> Vec<(String, bool)> {
    let mut words: Vec<(String, bool)> = Vec::new();
    let mut word: Option<(String, bool)> = None;
    let mut characters = line.chars();
    while let Some(character) = characters.next() {
        match character {
            '\'' | '"' => {
                let (text, is_quoted) = word.get_or_insert_default();
                text.extend(characters.by_ref().take_while(|next| *next != character));
                *is_quoted = true;
            }
            ' ' => words.extend(word.take()),
            '#' if word.is_none() => break,
            _ => word.get_or_insert_default().0.push(character),
        }
    }
    words.extend(word);
    words
}

#[test]
fn lines_are_split_as_a_shell_does() {
    let block = "$ A=1 run 'a | b' --x=\"c d\" \\\n    e#f > out  # why\n\nfirst | second -\n";
    let all: Vec<Vec<Call>> = lines(block).iter().map(|line| pipeline(line)).collect();
    let call = |variables: &[&str], words: &[&str]| Call {
        variables: variables.iter().map(|&word| word.to_owned()).collect(),
        words: words.iter().map(|&word| word.to_owned()).collect(),
    };
    assert_eq!(
        all,
        [
            vec![call(&["A=1"], &["run", "a | b", "--x=c d", "e#f"])],
            vec![call(&[], &["first"]), call(&[], &["second", "-"])]
        ]
    );
}
