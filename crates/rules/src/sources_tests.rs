//! Files that come, change, break and go.

use std::fs;
use std::time::Duration;

use super::*;

const MOST: Most = Most { groups: 5, rules: 6 };

struct Folder {
    files: Files,
    directory: tempfile::TempDir,
    sources: Vec<Source>,
}

impl Folder {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let sources = vec![Source::parse(&directory.path().display().to_string())];
        Self { files: Files::default(), directory, sources }
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.directory.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn read(&mut self, first: bool) -> Round {
        self.files.read(&self.sources, Duration::from_secs(60), MOST, first)
    }

    /// Reads until nothing is unsettled. Returns the names of the groups.
    fn settle(&mut self) -> String {
        while self.read(false).unsettled {}
        self.names()
    }

    fn names(&self) -> String {
        let mut names: Vec<String> = self.files.groups().into_iter().map(|group| group.name).collect();
        names.sort();
        names.join(",")
    }

    fn errors(&self) -> Vec<String> {
        self.files.shown().into_iter().filter_map(|file| file.error).collect()
    }
}

fn group(name: &str, rules: usize) -> String {
    let rule = "  - {record: a, expr: up}\n";
    format!("groups:\n- name: {name}\n  rules:\n{}", rule.repeat(rules))
}

#[test]
fn files_of_folders_are_found_and_followed() {
    let mut folder = Folder::new();
    folder.write("a.yml", &group("a", 1));
    folder.write("sub/b.yaml", &group("b", 1));
    folder.write(".hidden.yml", &group("c", 1));
    folder.write("notes.txt", "no rules");
    assert_eq!(folder.read(true), Round { changed: true, unsettled: false });
    assert_eq!(folder.names(), "a,b");
    assert_eq!(folder.read(false), Round { changed: false, unsettled: false });
    folder.write("c.rules", &group("c", 1));
    fs::remove_file(folder.directory.path().join("sub/b.yaml")).unwrap();
    assert_eq!(folder.read(false), Round { changed: true, unsettled: true });
    assert_eq!(folder.names(), "a", "the new file is read a second time first");
    assert_eq!(folder.settle(), "a,c");
}

#[test]
fn a_broken_empty_or_cut_file_keeps_what_held_before() {
    let mut folder = Folder::new();
    folder.write("a.yml", &group("a", 2));
    folder.write("b.yml", &group("b", 1));
    folder.read(true);
    for (text, error) in [
        ("groups:\n- name: x\n  rules: [{record", "line 4"),
        ("", "the file is empty"),
        (&group("a", 1)[..40], "line "),
        ("groups:\n- name: x\n  rules: [{record: a, expr: 'sum('}]", "line 3: could not parse expression"),
    ] {
        folder.write("a.yml", text);
        assert_eq!(folder.settle(), "a,b", "{text}");
        assert!(folder.errors()[0].contains(error), "{:?}", folder.errors());
    }
    assert!(!folder.read(false).changed, "an error is reported once");
    folder.write("a.yml", &group("new", 1));
    assert_eq!((folder.settle(), folder.errors().len()), ("b,new".to_owned(), 0));
}

#[test]
fn a_file_that_is_being_written_is_not_used_yet() {
    let mut folder = Folder::new();
    folder.write("a.yml", &group("a", 2));
    folder.read(true);
    let (long, short) = (group("b", 2), group("b", 1));
    folder.write("a.yml", &short);
    assert!(folder.read(false).unsettled);
    folder.write("a.yml", &long);
    assert!(folder.read(false).unsettled);
    assert_eq!(folder.names(), "a");
    assert_eq!(folder.settle(), "b");
    assert_eq!(folder.files.groups()[0].rules.len(), 2);
}

#[test]
fn a_folder_or_file_that_is_missing_is_an_error_and_keeps_its_rules() {
    let mut folder = Folder::new();
    folder.write("a.yml", &group("a", 1));
    let named = folder.directory.path().join("a.yml");
    folder.sources = vec![Source { path: named.clone(), language: Language::Promql }];
    folder.read(true);
    fs::remove_file(&named).unwrap();
    assert_eq!(folder.settle(), "a", "it was named, so that it should be there");
    assert!(folder.errors()[0].starts_with("cannot be read"), "{:?}", folder.errors());
}

#[test]
fn too_many_rules_are_refused_with_the_limit() {
    let mut folder = Folder::new();
    folder.write("a.yml", &group("a", 4));
    folder.read(true);
    folder.write("b.yml", &group("b", 3));
    assert_eq!(folder.settle(), "a");
    assert!(folder.errors()[0].contains("7 rules with those of other files, at most 6 (ruler.max_rules)"));
    folder.write("b.yml", &group("b", 2));
    assert_eq!(folder.settle(), "a,b");
    let groups: String = (0..5).map(|n| format!("- {{name: g{n}}}\n")).collect();
    folder.write("b.yml", &format!("groups:\n{groups}"));
    assert_eq!(folder.settle(), "a,b");
    assert!(folder.errors()[0].contains("at most 5 (ruler.max_groups)"), "{:?}", folder.errors());
}

#[test]
fn the_language_of_a_source_may_be_named() {
    assert_eq!(Source::parse("logql:/a/b").language, Language::Logql);
    assert_eq!(Source::parse("promql:x").path, PathBuf::from("x"));
    let plain = Source::parse("/a:b/c");
    assert_eq!((plain.path, plain.language), (PathBuf::from("/a:b/c"), Language::Promql));
}
