//! Regular expressions with bounded compilation and a search that can be cancelled.
//!
//! Search time is linear in the text, but the factor is the size of the compiled expression: some
//! expressions of 40 kB need a millisecond for a hundred bytes. The engine cannot be interrupted within
//! one search. A text whose worst case is short enough is therefore searched by the engine. A longer
//! text is searched by a simulation of the same automaton that reports its steps to
//! [`sandur_memory::job`]. Both find the same matches.

use std::borrow::Cow;
use std::sync::Arc;

use regex_automata::nfa::thompson::{self, NFA, State, WhichCaptures};
use regex_automata::util::primitives::{NonMaxUsize, StateID};
use regex_automata::{Input, PatternID, meta};
use regex_syntax::ast;
use regex_syntax::hir::{self, Hir};
use sandur_memory::Stopped;
use sandur_memory::job::{JobMemory, look, spend};

/// The largest compiled size of an expression, in bytes. It bounds the memory of a query and the time of
/// the compilation, which cannot be interrupted.
pub const REGEX_BYTES_MAX: usize = 2 << 20;

/// Steps of the engine that may run without a check for cancellation. A step is one state of the
/// automaton at one byte and takes up to 5 ns, so this is 10 ms; the engine usually needs a small
/// fraction of it.
const STEPS_MAX: usize = 1 << 21;

/// The longest text of an expression, in bytes.
pub const PATTERN_BYTES_MAX: usize = 128 << 10;

/// Bounds the expansion of an expression's character classes, in code points: 0.1 s. It happens before
/// the compiled size is known.
const CLASS_WORK_MAX: u64 = 1 << 25;
/// Cost of a Unicode class against [`CLASS_WORK_MAX`]: copying its ranges, or visiting each of its
/// characters when case is ignored.
const CLASS_WORK: u64 = 1 << 14;
const FOLDED_CLASS_WORK: u64 = 1 << 20;

/// Size of the cache of states that the engine keeps between searches, in bytes.
const ENGINE_CACHE_BYTES: usize = 2 << 20;

/// Why an expression was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RegexError {
    /// The compiled expression is too large.
    #[error(
        "the regular expression is too large: compiled it takes more than {REGEX_BYTES_MAX} bytes; use \
         fewer or shorter alternatives and smaller repetition counts, or several filters"
    )]
    TooLarge,
    /// The text of the expression is too long.
    #[error(
        "the regular expression is too long: {0} bytes, at most {PATTERN_BYTES_MAX}; use several filters"
    )]
    TooLong(usize),
    /// The job was cancelled, or its budget is exhausted.
    #[error("the work was stopped")]
    Stopped,
    /// The expression is not valid.
    #[error("{0}")]
    Invalid(String),
}

/// How an expression is compiled.
#[derive(Debug, Clone, Copy)]
pub struct RegexOptions {
    /// The texts are UTF-8, and empty matches do not split characters.
    pub utf8: bool,
    /// First search for bytes that every match begins with.
    pub prefilter: bool,
    /// Report the positions of groups.
    pub groups: bool,
}

/// Escapes braces that begin no repetition: in Go's syntax they are literals.
fn with_literal_braces(pattern: &str) -> Cow<'_, str> {
    let mut escaped = String::new();
    let (mut taken, mut at) = (0, 0);
    let bytes = pattern.as_bytes();
    while at < bytes.len() {
        match bytes[at] {
            // `\p{Greek}`, `\x{10FFFF}`
            b'\\' if matches!(bytes.get(at + 1), Some(b'p' | b'P' | b'x')) => {
                at += if bytes.get(at + 2) == Some(&b'{') { 3 } else { 2 };
            }
            b'\\' => at += 2,
            b'{' if !begins_repetition(&bytes[at + 1..]) => {
                escaped.push_str(&pattern[taken..at]);
                escaped.push('\\');
                taken = at;
                at += 1;
            }
            _ => at += 1,
        }
    }
    if escaped.is_empty() {
        return Cow::Borrowed(pattern);
    }
    escaped.push_str(&pattern[taken..]);
    Cow::Owned(escaped)
}

/// Whether `rest` begins with `n}`, `n,}` or `n,m}`.
fn begins_repetition(rest: &[u8]) -> bool {
    let digits = |bytes: &[u8]| bytes.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let first = digits(rest);
    let rest = &rest[first..];
    let rest = match rest.first() {
        Some(b',') => &rest[1 + digits(&rest[1..])..],
        _ => rest,
    };
    first > 0 && rest.first() == Some(&b'}')
}

/// A compiled expression. Cheap to clone.
#[derive(Clone, Debug)]
pub struct BoundedRegex {
    regex: meta::Regex,
    nfa: Arc<NFA>,
    /// The most steps for one byte.
    weight: usize,
    utf8: bool,
    /// Memory charged to the job that compiled the expression.
    held: Arc<JobMemory>,
}

/// Positions of groups: group `n` begins at slot `2n` and ends at slot `2n + 1`.
pub type Slots = Vec<Option<NonMaxUsize>>;

/// The range of a group in bytes of the text; `None` when the group did not take part or does not exist.
pub fn group_span(slots: &Slots, group: usize) -> Option<(usize, usize)> {
    let first = group.checked_mul(2)?;
    let place = |n: usize| slots.get(n).copied().flatten().map(|place| place.get());
    Some((place(first)?, place(first + 1)?))
}

impl BoundedRegex {
    /// Parses an expression into a syntax tree. `utf8`: for texts that are UTF-8.
    pub fn parse(pattern: &str, utf8: bool) -> Result<Hir, RegexError> {
        look().map_err(|Stopped| RegexError::Stopped)?;
        if pattern.len() > PATTERN_BYTES_MAX {
            return Err(RegexError::TooLong(pattern.len()));
        }
        let pattern = &*with_literal_braces(pattern);
        let invalid = |error: regex_syntax::Error| RegexError::Invalid(error.to_string());
        let ast = ast::parse::Parser::new().parse(pattern).map_err(|error| invalid(error.into()))?;
        let work = ast::visit(&ast, ClassWork::default()).unwrap_or(u64::MAX);
        if work > CLASS_WORK_MAX {
            return Err(RegexError::TooLarge);
        }
        let mut translator = hir::translate::TranslatorBuilder::new().utf8(utf8).build();
        translator.translate(pattern, &ast).map_err(|error| invalid(error.into()))
    }

    /// Compiles a syntax tree. Within a job, the memory is charged to the job's owner until the last
    /// clone is dropped, and a cancelled job compiles nothing more, since one text can contain many
    /// expressions.
    pub fn new(hir: &Hir, options: RegexOptions) -> Result<Self, RegexError> {
        look().map_err(|Stopped| RegexError::Stopped)?;
        let captures = if options.groups { WhichCaptures::All } else { WhichCaptures::Implicit };
        let too_large = |limit: Option<usize>, text: String| match limit {
            Some(_) => RegexError::TooLarge,
            None => RegexError::Invalid(text),
        };
        let config = thompson::Config::new()
            .utf8(options.utf8)
            .which_captures(captures)
            .nfa_size_limit(Some(REGEX_BYTES_MAX));
        let nfa = thompson::Compiler::new().configure(config).build_from_hir(hir);
        let nfa = nfa.map_err(|error| too_large(error.size_limit(), error.to_string()))?;
        let config = meta::Config::new()
            .utf8_empty(options.utf8)
            .which_captures(captures)
            .nfa_size_limit(Some(REGEX_BYTES_MAX))
            .hybrid_cache_capacity(ENGINE_CACHE_BYTES)
            .auto_prefilter(options.prefilter);
        let regex = meta::Builder::new().configure(config).build_from_hir(hir);
        let regex = regex.map_err(|error| too_large(error.size_limit(), error.to_string()))?;
        let weight = nfa.states().iter().map(edges).sum::<usize>().max(1);
        let mut compiled =
            Self { regex, nfa: Arc::new(nfa), weight, utf8: options.utf8, held: Arc::default() };
        let mut held = JobMemory::default();
        held.at_least(compiled.whole_bytes()).map_err(|Stopped| RegexError::Stopped)?;
        compiled.held = Arc::new(held);
        Ok(compiled)
    }

    /// Bytes of memory that no job was charged with.
    pub fn memory_bytes(&self) -> u64 {
        self.whole_bytes().saturating_sub(self.held.reserved_bytes())
    }

    /// Bytes of the compiled expression, and of a search with it in one thread.
    fn whole_bytes(&self) -> u64 {
        let threads = 2 * self.nfa.states().len() * (16 + 8 * self.slot_count());
        // The engine's cache of states grows with the expression, up to its limit.
        let remembered = (self.nfa.memory_usage() * 16).min(ENGINE_CACHE_BYTES);
        (self.regex.memory_usage() + self.nfa.memory_usage() + threads + remembered) as u64
    }

    /// The most steps for one byte of text.
    pub fn steps_per_byte(&self) -> usize {
        self.weight
    }

    /// Bytes of text that may be searched without a check for cancellation.
    pub fn piece_bytes(&self) -> usize {
        STEPS_MAX / self.weight
    }

    /// The most slots that [`Self::find`] fills.
    pub fn slot_count(&self) -> usize {
        self.nfa.group_info().slot_len()
    }

    /// The names of the groups, beginning with group 0, the complete match.
    pub fn group_names(&self) -> impl Iterator<Item = Option<&str>> {
        self.nfa.group_info().pattern_names(PatternID::ZERO)
    }

    /// The number of the group with this name.
    pub fn group_of(&self, name: &str) -> Option<usize> {
        self.nfa.group_info().to_index(PatternID::ZERO, name)
    }

    /// Whether the text has a match.
    pub fn is_match(&self, text: &[u8]) -> Result<bool, Stopped> {
        Ok(self.half(text)?.is_some())
    }

    /// An offset at which a match is certain, if there is a match.
    pub fn half(&self, text: &[u8]) -> Result<Option<usize>, Stopped> {
        if text.len() <= self.piece_bytes() {
            spend(text.len() * self.weight)?;
            let found = self.regex.search_half(&Input::new(text).earliest(true));
            return Ok(found.map(|half| half.offset()));
        }
        self.simulate(text, 0, &mut Vec::new(), true)
    }

    /// Finds the first match from `at` on. Fills `slots`, as many as the caller needs, with the
    /// positions of the groups.
    pub fn find(&self, text: &[u8], at: usize, slots: &mut Slots) -> Result<bool, Stopped> {
        slots.fill(None);
        let rest = text.len().saturating_sub(at);
        if rest <= self.piece_bytes() {
            spend(rest * self.weight)?;
            return Ok(self.regex.search_slots(&Input::new(text).range(at..), slots).is_some());
        }
        Ok(self.simulate(text, at, slots, false)?.is_some())
    }

    /// Runs all threads of the automaton over the text in their order of preference (a Pike VM).
    fn simulate(
        &self,
        text: &[u8],
        at: usize,
        slots: &mut Slots,
        earliest: bool,
    ) -> Result<Option<usize>, Stopped> {
        let states = self.nfa.states().len();
        let mut now = Threads::new(states, slots.len());
        let mut next = Threads::new(states, slots.len());
        let mut found = None;
        let none = vec![None; slots.len()];
        for place in at..=text.len() {
            let is_boundary = !self.utf8 || text.get(place).is_none_or(|byte| byte & 0xC0 != 0x80);
            if found.is_none() && is_boundary {
                self.follow(&mut now, self.nfa.start_anchored(), (text, place), &none);
            } else if now.order.is_empty() && found.is_some() {
                break;
            }
            for n in 0..now.order.len() {
                let state = now.order[n];
                let to = match self.nfa.state(state) {
                    State::Match { .. } => {
                        found = Some(place);
                        slots.copy_from_slice(now.slots_of(state));
                        // The threads after it have lower preference.
                        break;
                    }
                    State::ByteRange { trans } => {
                        text.get(place).filter(|byte| trans.matches_byte(**byte)).map(|_| trans.next)
                    }
                    State::Sparse(sparse) => text.get(place).and_then(|byte| sparse.matches_byte(*byte)),
                    State::Dense(dense) => text.get(place).and_then(|byte| dense.matches_byte(*byte)),
                    _ => None,
                };
                if let Some(to) = to {
                    next.start.copy_from_slice(now.slots_of(state));
                    let from = std::mem::take(&mut next.start);
                    self.follow(&mut next, to, (text, place + 1), &from);
                    next.start = from;
                }
            }
            if found.is_some() && earliest {
                break;
            }
            spend(16 + 8 * (now.order.len() + next.steps))?;
            std::mem::swap(&mut now, &mut next);
            next.clear();
        }
        Ok(found)
    }

    /// Adds a state and all states that are reachable from it without consuming a byte.
    fn follow(
        &self,
        threads: &mut Threads,
        state: StateID,
        (text, place): (&[u8], usize),
        from: &[Option<NonMaxUsize>],
    ) {
        let mut slots = std::mem::take(&mut threads.current);
        slots.copy_from_slice(from);
        threads.stack.push(Step::Go(state));
        while let Some(step) = threads.stack.pop() {
            threads.steps += 1;
            let state = match step {
                Step::Restore(slot, before) => {
                    slots[slot] = before;
                    continue;
                }
                Step::Go(state) => state,
            };
            if !threads.insert(state, &slots) {
                continue;
            }
            match self.nfa.state(state) {
                State::Look { look, next } => {
                    if self.nfa.look_matcher().matches(*look, text, place) {
                        threads.stack.push(Step::Go(*next));
                    }
                }
                State::Union { alternates } => {
                    threads.stack.extend(alternates.iter().rev().map(|to| Step::Go(*to)));
                }
                State::BinaryUnion { alt1, alt2 } => {
                    threads.stack.extend([Step::Go(*alt2), Step::Go(*alt1)]);
                }
                State::Capture { next, slot, .. } => {
                    let slot = slot.as_usize();
                    if let Some(known) = slots.get_mut(slot) {
                        threads.stack.push(Step::Restore(slot, *known));
                        *known = NonMaxUsize::new(place);
                    }
                    threads.stack.push(Step::Go(*next));
                }
                State::ByteRange { .. } | State::Sparse(_) | State::Dense(_) => {}
                State::Fail | State::Match { .. } => {}
            }
        }
        threads.current = slots;
    }
}

/// Estimates the cost of expanding the character classes.
#[derive(Default)]
struct ClassWork {
    classes: u64,
    spans: u64,
    ignores_case: bool,
}

impl ClassWork {
    fn flags(&mut self, flags: Option<&ast::Flags>) {
        self.ignores_case |= flags.is_some_and(|f| f.flag_state(ast::Flag::CaseInsensitive) == Some(true));
    }
}

impl ast::Visitor for ClassWork {
    type Output = u64;
    type Err = std::convert::Infallible;

    fn finish(self) -> Result<u64, Self::Err> {
        let of_class = if self.ignores_case { FOLDED_CLASS_WORK } else { CLASS_WORK };
        let of_spans = if self.ignores_case { self.spans } else { 0 };
        Ok(self.classes.saturating_mul(of_class).saturating_add(of_spans))
    }

    fn visit_pre(&mut self, ast: &ast::Ast) -> Result<(), Self::Err> {
        match ast {
            ast::Ast::Flags(set) => self.flags(Some(&set.flags)),
            ast::Ast::Group(group) => self.flags(group.flags()),
            ast::Ast::ClassUnicode(_) | ast::Ast::ClassPerl(_) => self.classes += 1,
            _ => {}
        }
        Ok(())
    }

    fn visit_class_set_item_pre(&mut self, item: &ast::ClassSetItem) -> Result<(), Self::Err> {
        match item {
            ast::ClassSetItem::Unicode(_) | ast::ClassSetItem::Perl(_) => self.classes += 1,
            ast::ClassSetItem::Range(range) => {
                self.spans += u64::from(u32::from(range.end.c).saturating_sub(u32::from(range.start.c)));
            }
            _ => {}
        }
        Ok(())
    }
}

/// The most steps of a state at one byte.
fn edges(state: &State) -> usize {
    match state {
        State::Union { alternates } => 1 + alternates.len(),
        State::Sparse(sparse) => 1 + sparse.transitions.len().ilog2() as usize,
        _ => 1,
    }
}

/// A pending action of [`BoundedRegex::follow`].
enum Step {
    Go(StateID),
    Restore(usize, Option<NonMaxUsize>),
}

/// The current states of the automaton, in order of preference.
struct Threads {
    order: Vec<StateID>,
    /// For each state, whether it is in `order`.
    present: Vec<bool>,
    /// For each state, the positions of its groups.
    slots: Slots,
    width: usize,
    stack: Vec<Step>,
    steps: usize,
    current: Slots,
    start: Slots,
}

impl Threads {
    fn new(states: usize, width: usize) -> Self {
        Self {
            order: Vec::new(),
            present: vec![false; states],
            slots: vec![None; states * width],
            width,
            stack: Vec::new(),
            steps: 0,
            current: vec![None; width],
            start: vec![None; width],
        }
    }

    fn insert(&mut self, state: StateID, slots: &[Option<NonMaxUsize>]) -> bool {
        let at = state.as_usize();
        if std::mem::replace(&mut self.present[at], true) {
            return false;
        }
        self.order.push(state);
        self.slots[at * self.width..(at + 1) * self.width].copy_from_slice(slots);
        true
    }

    fn slots_of(&self, state: StateID) -> &[Option<NonMaxUsize>] {
        let at = state.as_usize() * self.width;
        &self.slots[at..at + self.width]
    }

    fn clear(&mut self) {
        for state in self.order.drain(..) {
            self.present[state.as_usize()] = false;
        }
        self.steps = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn compile(pattern: &str, utf8: bool) -> Result<BoundedRegex, RegexError> {
        let hir = BoundedRegex::parse(pattern, utf8)?;
        BoundedRegex::new(&hir, RegexOptions { utf8, prefilter: true, groups: true })
    }

    const PATTERNS: [&str; 22] = [
        "a",
        "ab|a|abc",
        "a*?",
        "(a+)(b+)?",
        "(?:(a)|(b)|c)*d",
        "^abc$",
        "(?m)^b.*$",
        "x*",
        "",
        r"\bfoo\b",
        r"(?-u:\b)é",
        "[^a]+",
        "(?i)ABC",
        "é|ü+",
        ".{2,5}b",
        "(a|ab)(c|bcd)(d*)",
        "a{3}{2}",
        "(?s).+",
        "z|(?:q(w)e)",
        "[a-c]*?c",
        "(.*)b(.*)",
        "(?P<x>[ab]+)(?P<y>c?)",
    ];
    const TEXTS: [&str; 12] = [
        "",
        "a",
        "abc",
        "xxabcxx",
        "aaabbb",
        "foo éa foo",
        "üüé",
        "a\nbb\nc",
        "ababcdd",
        "qwe z",
        "aaaaaabc",
        "日本bé",
    ];

    /// Braces are literals in Go's syntax unless they begin a repetition.
    #[test]
    fn braces_without_a_repetition_are_literals() {
        for (pattern, escaped) in [
            ("a{2}b{3,}c{4,5}", "a{2}b{3,}c{4,5}"),
            ("{.*", r"\{.*"),
            ("a{,5}{x}{", r"a\{,5}\{x}\{"),
            (r"\{\\{ä{1", r"\{\\\{ä\{1"),
            (r"\p{Greek}\x{20}\pL", r"\p{Greek}\x{20}\pL"),
            ("\\", "\\"),
        ] {
            assert_eq!(with_literal_braces(pattern), escaped, "{pattern}");
        }
    }

    /// Method: the engine and the simulation search every text from every offset.
    #[test]
    fn the_simulation_finds_the_matches_of_the_engine() {
        for (pattern, utf8) in PATTERNS.iter().flat_map(|p| [(*p, true), (*p, false)]) {
            let regex = compile(pattern, utf8).unwrap();
            for text in TEXTS {
                for at in (0..=text.len()).filter(|at| text.is_char_boundary(*at)) {
                    let bytes = text.as_bytes();
                    let mut fast = vec![None; regex.slot_count()];
                    let mut slow = fast.clone();
                    let found = regex.find(bytes, at, &mut fast).unwrap();
                    let simulated = regex.simulate(bytes, at, &mut slow, false).unwrap();
                    assert_eq!((found, &fast), (simulated.is_some(), &slow), "{pattern} on {text:?} at {at}");
                    let half = regex.simulate(&bytes[at..], 0, &mut Vec::new(), true).unwrap();
                    let whole = regex.half(&bytes[at..]).unwrap();
                    assert_eq!(half.is_some(), whole.is_some(), "{pattern} on {text:?} at {at}");
                }
            }
        }
    }

    #[test]
    fn expressions_that_are_too_large_are_refused_with_the_limit_and_a_remedy() {
        let refusal = compile(r"(?:\p{L}{100}){100}", true).unwrap_err();
        assert_eq!(refusal, RegexError::TooLarge);
        assert!(refusal.to_string().contains("2097152 bytes; use fewer"), "{refusal}");
        for costly in [r"\pL".repeat(3_000), format!("(?i){}", r"[\x00-\x{10ffff}]".repeat(40))] {
            assert_eq!(compile(&costly, true).unwrap_err(), RegexError::TooLarge);
        }
        let long = compile(&"a".repeat(PATTERN_BYTES_MAX + 1), true).unwrap_err();
        assert!(long.to_string().contains("131073 bytes, at most 131072"), "{long}");
        let words: Vec<String> = (0..5_000).map(|n| format!("w{n:05}")).collect();
        let regex = compile(&words.join("|"), true).unwrap();
        assert!(regex.memory_bytes() < 16 << 20, "{}", regex.memory_bytes());
    }
}
