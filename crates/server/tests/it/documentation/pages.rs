//! The pages of the documentation, and the blocks and code spans in them.
//!
//! A block is the text between two fences, or lines after an empty line that are indented by four
//! columns. A code span is text between backticks in running text.

use std::fs;
use std::path::{Path, PathBuf};

/// The root of the repository.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A page.
pub struct Page {
    /// Its path in the repository.
    pub name: String,
    pub text: String,
}

/// A block of code in a page.
#[derive(Debug, PartialEq, Eq)]
pub struct Block {
    /// Its page and first line, for messages.
    pub place: String,
    /// The word after the fence, or empty.
    pub language: String,
    /// Its lines, without their common indentation.
    pub text: String,
}

/// The text of a file of the repository.
pub fn file(name: &str) -> String {
    fs::read_to_string(root().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// The pages for users and contributors. Decisions and measurements describe the state of their time.
pub fn pages() -> Vec<Page> {
    let mut names = vec!["README.md".to_owned(), "CONTRIBUTING.md".to_owned()];
    for folder in ["docs", "docs/reference"] {
        let entries = fs::read_dir(root().join(folder)).unwrap();
        let found = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.extend(found.filter(|name| name.ends_with(".md")).map(|name| format!("{folder}/{name}")));
    }
    names.retain(|name| name != "docs/benchmarks.md");
    names.sort();
    names.into_iter().map(page).collect()
}

/// [`pages`], and files that contain names of options and metrics but nothing that can be run.
pub fn pages_with_names() -> Vec<Page> {
    let formats = fs::read_dir(root().join("docs/formats")).unwrap();
    let formats = formats.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let formats = formats.map(|name| format!("docs/formats/{name}"));
    let others = ["CHANGELOG.md", "packaging/alerts.yml"].map(str::to_owned);
    pages().into_iter().chain(formats.chain(others).map(page)).collect()
}

fn page(name: String) -> Page {
    Page { text: file(&name), name }
}

impl Page {
    /// Its blocks in order.
    pub fn blocks(&self) -> Vec<Block> {
        let mut blocks = Vec::new();
        let mut lines = self.text.lines().enumerate().peekable();
        let mut is_after_empty = true;
        while let Some((number, line)) = lines.next() {
            let place = format!("{}:{}", self.name, number + 1);
            let mut body = Vec::new();
            let mut language = String::new();
            if let Some(word) = line.trim_start().strip_prefix("```") {
                language = word.to_owned();
                body.extend(
                    lines
                        .by_ref()
                        .map(|(_, line)| line)
                        .take_while(|line| !line.trim_start().starts_with("```")),
                );
            } else if is_after_empty && line.starts_with("    ") {
                body.push(line);
                while let Some((_, line)) =
                    lines.next_if(|(_, line)| line.starts_with("    ") || line.is_empty())
                {
                    body.push(line);
                }
                // Empty lines at the end are not part of it.
            } else {
                is_after_empty = line.is_empty();
                continue;
            }
            is_after_empty = true;
            let filled = body.iter().filter(|line| !line.is_empty());
            let margin = filled.map(|line| line.len() - line.trim_start().len()).min().unwrap_or(0);
            let body: Vec<&str> = body.into_iter().map(|line| line.get(margin..).unwrap_or("")).collect();
            blocks.push(Block { place, language, text: body.join("\n").trim_end().to_owned() });
        }
        blocks
    }

    /// The code spans of its running text, with their places.
    pub fn spans(&self) -> Vec<(String, &str)> {
        let mut spans = Vec::new();
        let mut is_fenced = false;
        for (number, line) in self.text.lines().enumerate() {
            is_fenced ^= line.trim_start().starts_with("```");
            if is_fenced || line.starts_with("    ") {
                continue;
            }
            let found = line.split('`').skip(1).step_by(2).filter(|span| !span.is_empty());
            spans.extend(found.map(|span| (format!("{}:{}", self.name, number + 1), span)));
        }
        spans
    }
}

#[test]
fn blocks_and_spans_of_a_page_are_found() {
    let text =
        "A `span` and\n    no block.\n\n    one\n      two\n\n    three\n\n* list\n\n```toml\na = 1\n```\n";
    let page = Page { name: "p".to_owned(), text: text.to_owned() };
    let block = |place: &str, language: &str, text: &str| Block {
        place: place.to_owned(),
        language: language.to_owned(),
        text: text.to_owned(),
    };
    assert_eq!(page.blocks(), [block("p:4", "", "one\n  two\n\nthree"), block("p:11", "toml", "a = 1")]);
    assert_eq!(page.spans(), [("p:1".to_owned(), "span")]);
}
