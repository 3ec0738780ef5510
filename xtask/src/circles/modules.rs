//! The modules of a crate: what each defines, imports and names, and where a path leads.
//!
//! Modules and code of tests are left out. A path is followed through re-exports to the module that
//! defines its last name; privacy is the compiler's matter. A name that no module defines, such as one
//! that a macro makes, counts as defined by the last module that the path reaches.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use super::tokens::{Token, tokens};

/// Re-exports on a path are followed up to this depth; a path that needs more names itself.
const DEPTH_MAX: usize = 16;
/// Words before the name of an item.
const ITEMS: &[&str] = &["fn", "struct", "enum", "union", "trait", "type", "const", "static"];

/// A module. Its number is its place in [`Modules::all`].
#[derive(Default)]
pub struct Module {
    pub file: PathBuf,
    parent: Option<usize>,
    children: HashMap<String, usize>,
    items: HashSet<String>,
    imports: Vec<Import>,
    /// Paths in the code, outside of imports.
    paths: HashSet<Vec<String>>,
    /// Words in the code after the first public import, outside of imports.
    words: HashSet<String>,
    has_public_imports: bool,
}

/// One name of a `use` declaration.
struct Import {
    name: String,
    path: Vec<String>,
    is_public: bool,
}

/// Where a path leads.
#[derive(Clone, Copy)]
enum Place {
    Module(usize),
    /// An item of the module.
    Item(usize),
    /// Another crate.
    Outside,
}

/// What the last name of a path means if both a module and an item have it. An import is taken for one of
/// the module, whose items the code then names.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Prefer {
    Item,
    Module,
}

/// What is preferred, and how many re-exports were followed.
type Search = (Prefer, usize);

/// The modules below one root file.
#[derive(Default)]
pub struct Modules {
    pub all: Vec<Module>,
}

impl Modules {
    /// Reads the modules below `root`, a `lib.rs` or `main.rs`. `read` returns the text of a file, if it
    /// exists.
    pub fn below(root: &Path, read: &dyn Fn(&Path) -> Option<String>) -> Self {
        let mut modules = Self::default();
        let Some(text) = read(root) else { return modules };
        modules.all.push(Module { file: root.to_owned(), ..Module::default() });
        let folder = root.parent().unwrap_or(Path::new("")).to_owned();
        Reader { modules: &mut modules, read, tokens: &tokens(&text), at: 0 }.module(0, &folder);
        modules
    }

    /// Returns the items of other modules that a module uses: the module that defines the item, and its
    /// name. A re-export is no use, unless the code of the module has the name too.
    pub fn uses(&self, number: usize) -> Vec<(usize, &str)> {
        let module = &self.all[number];
        let imports = module.imports.iter();
        let imports = imports.filter(|import| !import.is_public || module.words.contains(&import.name));
        let imports = imports.map(|import| (&import.path, Prefer::Module));
        let paths = imports.chain(module.paths.iter().map(|path| (path, Prefer::Item)));
        let item = |path: &[String], prefer| match self.resolve(number, path, (prefer, 0))? {
            Place::Item(owner) => Some(owner),
            Place::Module(_) | Place::Outside => None,
        };
        let named = paths.filter_map(|(path, prefer)| Some((item(path, prefer)?, path.last()?.as_str())));
        named.filter(|(owner, _)| *owner != number).collect()
    }

    /// Returns where a path in a module leads. `None` means that the module has no such name: it is one of
    /// another crate, or a type's.
    fn resolve(&self, from: usize, path: &[String], search: Search) -> Option<Place> {
        let (prefer, depth) = search;
        if depth > DEPTH_MAX {
            return None;
        }
        let (first, rest) = path.split_first()?;
        let start = match first.as_str() {
            "crate" => Some(0),
            "self" => Some(from),
            "super" => self.all[from].parent,
            _ => return self.follow(from, path, search),
        }?;
        match rest.first().map(String::as_str) {
            None => Some(Place::Module(start)),
            Some("super") => self.resolve(start, rest, (prefer, depth + 1)),
            Some(_) => Some(self.follow(start, rest, search).unwrap_or(Place::Item(start))),
        }
    }

    /// Follows names from a module. `None` means that the module has no such name.
    fn follow(&self, from: usize, path: &[String], search: Search) -> Option<Place> {
        let (first, rest) = path.split_first()?;
        let (prefer, depth) = search;
        let module = &self.all[from];
        let child = module.children.get(first).copied();
        if rest.is_empty() {
            let item = module.items.contains(first).then_some(Place::Item(from));
            let rank = |place: &Place| match (place, prefer) {
                (Place::Outside, _) => 0,
                (Place::Module(_), Prefer::Item) | (Place::Item(_), Prefer::Module) => 1,
                (Place::Item(_), Prefer::Item) | (Place::Module(_), Prefer::Module) => 2,
            };
            let imported = self.imported(from, first, (prefer, depth));
            return imported.chain(item).chain(child.map(Place::Module)).max_by_key(rank);
        }
        let child = child.or_else(|| {
            self.imported(from, first, (Prefer::Module, depth)).find_map(|place| match place {
                Place::Module(number) => Some(number),
                Place::Item(_) | Place::Outside => None,
            })
        });
        match child {
            Some(child) => Some(self.follow(child, rest, (prefer, depth + 1)).unwrap_or(Place::Item(child))),
            None => self.follow(from, &path[..1], (Prefer::Item, depth + 1)),
        }
    }

    /// Where the imports of a name lead.
    fn imported<'a>(
        &'a self,
        from: usize,
        name: &'a str,
        (prefer, depth): Search,
    ) -> impl Iterator<Item = Place> + 'a {
        let imports = self.all[from].imports.iter().filter(move |import| import.name == name);
        let search = (prefer, depth + 1);
        imports.map(move |import| self.resolve(from, &import.path, search).unwrap_or(Place::Outside))
    }
}

/// Reads the tokens of one file.
struct Reader<'a> {
    modules: &'a mut Modules,
    read: &'a dyn Fn(&Path) -> Option<String>,
    tokens: &'a [Token<'a>],
    at: usize,
}

impl<'a> Reader<'a> {
    /// Reads a module to its end; `folder` has the files of its children.
    fn module(&mut self, number: usize, folder: &Path) {
        let (mut depth, mut is_public) = (0_usize, false);
        while let Some(token) = self.next() {
            match token {
                Token::Sign(b'#') if self.skip_attribute() => self.skip_item(),
                Token::Sign(b'{') => depth += 1,
                Token::Sign(b'}') if depth == 0 => return,
                Token::Sign(b'}') => depth -= 1,
                Token::Word("pub") => {
                    is_public = true;
                    self.skip_visibility();
                    continue;
                }
                Token::Word("use") => self.imports(number, is_public, Vec::new()),
                Token::Word("mod") => self.child(number, folder),
                Token::Word("macro_rules") if self.peek(0) == Some(Token::Sign(b'!')) => {
                    self.at += 1;
                    self.name(number);
                }
                Token::Word(word) if ITEMS.contains(&word) && depth == 0 => self.name(number),
                Token::Word("fn") => self.skip_word(),
                Token::Word(word) => self.path(number, word),
                Token::Sign(b'.') if self.peek(0) == Some(Token::Sign(b'.')) => self.at += 1,
                Token::Sign(b'.') => self.skip_word(),
                _ => (),
            }
            is_public = false;
        }
    }

    fn next(&mut self) -> Option<Token<'a>> {
        let token = self.peek(0)?;
        self.at += 1;
        Some(token)
    }

    fn peek(&self, ahead: usize) -> Option<Token<'a>> {
        self.tokens.get(self.at + ahead).copied()
    }

    fn skip_word(&mut self) {
        if matches!(self.peek(0), Some(Token::Word(_))) {
            self.at += 1;
        }
    }

    /// Records the name of an item. `const fn f` has two words before the name.
    fn name(&mut self, number: usize) {
        if let Some(Token::Word(word)) = self.peek(0)
            && !ITEMS.contains(&word)
            && !matches!(word, "unsafe" | "async" | "extern" | "mut")
        {
            self.modules.all[number].items.insert(word.to_owned());
            self.at += 1;
        }
    }

    /// Reads a path that begins with `first`.
    fn path(&mut self, number: usize, first: &str) {
        let mut path = Vec::new();
        while let (Some(Token::Colons), Some(Token::Word(word))) = (self.peek(0), self.peek(1)) {
            if path.is_empty() {
                path.push(first.to_owned());
            }
            path.push(word.to_owned());
            self.at += 2;
        }
        let module = &mut self.modules.all[number];
        if module.has_public_imports && !module.words.contains(first) {
            module.words.insert(first.to_owned());
        }
        if !path.is_empty() {
            module.paths.insert(path);
        }
    }

    /// Reads the names of a `use` declaration to the sign that ends them.
    fn imports(&mut self, number: usize, is_public: bool, mut path: Vec<String>) {
        let mut name = None;
        loop {
            match self.next() {
                Some(Token::Word("as")) => name = self.word(),
                Some(Token::Word("self")) if !path.is_empty() => (),
                Some(Token::Word(word)) => path.push(word.to_owned()),
                Some(Token::Sign(b'{')) => {
                    while self.peek(0) != Some(Token::Sign(b'}')) && self.peek(0).is_some() {
                        self.imports(number, is_public, path.clone());
                    }
                    self.at += 1;
                    path.clear();
                }
                Some(Token::Colons | Token::Sign(b'*')) => (),
                end => {
                    if let Some(name) = name.or_else(|| path.last().cloned()) {
                        let module = &mut self.modules.all[number];
                        module.has_public_imports |= is_public;
                        module.imports.push(Import { name, path, is_public });
                    }
                    if end == Some(Token::Sign(b'}')) {
                        self.at -= 1;
                    }
                    return;
                }
            }
        }
    }

    fn word(&mut self) -> Option<String> {
        match self.next()? {
            Token::Word(word) => Some(word.to_owned()),
            _ => None,
        }
    }

    /// Reads a child module, here or from its file.
    fn child(&mut self, parent: usize, folder: &Path) {
        let Some(name) = self.word() else { return };
        let inner = folder.join(&name);
        let is_here = self.next() == Some(Token::Sign(b'{'));
        let mut module = Module { parent: Some(parent), ..Module::default() };
        let number = self.modules.all.len();
        if is_here {
            module.file.clone_from(&self.modules.all[parent].file);
            self.add(parent, name, module);
            return self.module(number, &inner);
        }
        for file in [folder.join(format!("{name}.rs")), inner.join("mod.rs")] {
            let Some(text) = (self.read)(&file) else { continue };
            module.file = file;
            self.add(parent, name, module);
            let tokens = tokens(&text);
            return Reader { modules: self.modules, read: self.read, tokens: &tokens, at: 0 }
                .module(number, &inner);
        }
    }

    fn add(&mut self, parent: usize, name: String, module: Module) {
        let number = self.modules.all.len();
        self.modules.all[parent].children.insert(name, number);
        self.modules.all.push(module);
    }

    /// Skips `(crate)` and its like after `pub`.
    fn skip_visibility(&mut self) {
        let is_scope = matches!(self.peek(1), Some(Token::Word("crate" | "super" | "self" | "in")));
        if self.peek(0) == Some(Token::Sign(b'(')) && is_scope {
            self.skip_brackets();
        }
    }

    /// Skips an attribute, whose `#` was read. Returns whether it keeps its item for tests.
    fn skip_attribute(&mut self) -> bool {
        let start = self.at;
        self.skip_brackets();
        let words = self.tokens[start..self.at].iter().filter_map(|token| match token {
            Token::Word(word) => Some(*word),
            _ => None,
        });
        let words: Vec<&str> = words.take(3).collect();
        words == ["cfg", "test"] || words == ["cfg", "all", "test"]
    }

    /// Skips brackets with what they contain; `!` may stand before them.
    fn skip_brackets(&mut self) {
        let mut depth = 0_usize;
        while let Some(token) = self.next() {
            match token {
                Token::Sign(b'(' | b'[' | b'{') => depth += 1,
                Token::Sign(b')' | b']' | b'}') => depth = depth.saturating_sub(1),
                _ => (),
            }
            if depth == 0 && token != Token::Sign(b'!') {
                return;
            }
        }
    }

    /// Skips what follows an attribute: an item, a statement, a field or an arm.
    fn skip_item(&mut self) {
        while self.peek(0) == Some(Token::Sign(b'#')) {
            self.at += 1;
            self.skip_brackets();
        }
        if self.peek(0) == Some(Token::Word("pub")) {
            self.at += 1;
            self.skip_visibility();
        }
        let is_function = self.peek(1) == Some(Token::Word("fn"));
        let first = self.peek(0);
        let ends_at_semicolon =
            matches!(first, Some(Token::Word("use" | "const" | "static" | "type" | "let"))) && !is_function;
        let blocks =
            ["fn", "mod", "impl", "struct", "enum", "trait", "unsafe", "async", "const", "macro_rules"];
        let ends_at_block = is_function || matches!(first, Some(Token::Word(w)) if blocks.contains(&w));
        while let Some(token) = self.peek(0) {
            match token {
                Token::Sign(b')' | b']' | b'}') => return,
                Token::Sign(b'(' | b'[') => self.skip_brackets(),
                Token::Sign(b'{') => {
                    self.skip_brackets();
                    if ends_at_block && !ends_at_semicolon {
                        return;
                    }
                }
                Token::Sign(b',') if !ends_at_block && !ends_at_semicolon => return,
                _ => self.at += 1,
            }
            if token == Token::Sign(b';') {
                return;
            }
        }
    }
}
