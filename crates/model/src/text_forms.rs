//! Many forms of texts at once, like the alternatives of `{*a1*,*b2*,c?.[0-9]}`: whether a text has one.
//!
//! One pass over the text finds the literals that it holds, with an automaton of one literal of each form,
//! the one that the fewest others have. Only forms whose literal is there are compared, so a text takes as
//! long as it has bytes, however many forms there are. Forms of which a text holds the literals, or that have
//! none, are compared one after the other.
//!
//! **Invariants.** A text passes exactly if one of the forms takes all of it. Every comparison is told to
//! [`sandur_base::job`] before it is made. The job that makes the forms is charged for them as long as they
//! live.

use std::sync::Arc;

use aho_corasick::{AhoCorasick, AhoCorasickKind};
use sandur_base::Stopped;
use sandur_base::job::{Held, spend};

use crate::text_form::TextForm;

/// So few forms are compared sooner than literals are looked for.
const FEW: usize = 4;
/// Bytes of the automaton for a byte of a literal while it is made, about.
const LITERAL_BYTES: usize = 64;
/// Units of [`spend`] for a form beside its pieces.
const FORM_WORK: usize = 16;

/// Forms of texts. Cheap to clone.
#[derive(Clone, Debug)]
pub struct TextForms(Arc<Forms>);

#[derive(Debug)]
struct Forms {
    /// Forms that are one literal, sorted.
    exact: Vec<Box<str>>,
    literals: Option<Literals>,
    /// Those without a literal.
    others: Vec<TextForm>,
    count: usize,
    held: Held,
}

/// Forms by a literal of each.
#[derive(Debug)]
struct Literals {
    automaton: AhoCorasick,
    /// Per literal its forms.
    forms: Vec<Vec<TextForm>>,
}

impl TextForms {
    /// Of these forms; fails when the job has no memory for them.
    pub fn new(forms: Vec<TextForm>) -> Result<Self, Stopped> {
        let mut held = Held::default();
        let bytes = forms.iter().map(|form| form.bytes() + form.literal_bytes() * LITERAL_BYTES);
        held.at_least(bytes.sum::<usize>() as u64)?;
        let count = forms.len();
        let (exact, mut others): (Vec<_>, Vec<_>) =
            forms.into_iter().partition(|form| form.exact().is_some());
        let mut exact: Vec<Box<str>> = exact.iter().filter_map(|form| form.exact().map(Box::from)).collect();
        exact.sort_unstable();
        let literals = if others.len() > FEW { Literals::of(&mut others) } else { None };
        let mut made = Forms { exact, literals, others, count, held };
        let bytes = made.bytes();
        made.held.shrink_to(bytes);
        Ok(Self(Arc::new(made)))
    }

    /// Whether a text has one of the forms.
    pub fn matches(&self, text: &str) -> Result<bool, Stopped> {
        let Forms { exact, literals, others, .. } = &*self.0;
        spend(text.len() + FORM_WORK)?;
        if exact.binary_search_by(|known| (**known).cmp(text)).is_ok() {
            return Ok(true);
        }
        if literals.is_none() && others.is_empty() {
            return Ok(false);
        }
        if let Some(literals) = literals
            && literals.matches(text)?
        {
            return Ok(true);
        }
        takes(others, text)
    }

    /// Bytes that they take and that no job was charged with.
    pub fn memory_bytes(&self) -> u64 {
        self.0.bytes().saturating_sub(self.0.held.reserved_bytes())
    }

    /// How many there are: a text is compared with so many at most.
    pub fn count(&self) -> usize {
        self.0.count
    }
}

impl Forms {
    fn bytes(&self) -> u64 {
        let exact = self.exact.iter().map(|text| text.len() + size_of::<Box<str>>()).sum::<usize>();
        let others = self.others.iter().map(TextForm::bytes).sum::<usize>();
        let literals = self.literals.as_ref().map_or(0, |literals| {
            let forms = literals.forms.iter().flatten().map(TextForm::bytes).sum::<usize>();
            forms + literals.automaton.memory_usage() + literals.forms.len() * size_of::<Vec<TextForm>>()
        });
        (exact + others + literals) as u64
    }
}

impl Literals {
    /// Takes the forms that have a literal; nothing when there are none.
    fn of(forms: &mut Vec<TextForm>) -> Option<Self> {
        let mut shared: foldhash::HashMap<Box<str>, usize> = foldhash::HashMap::default();
        for literal in forms.iter().flat_map(TextForm::literals) {
            *shared.entry(literal.into()).or_default() += 1;
        }
        let rarest = |form: &TextForm| -> Option<Box<str>> {
            let others = |literal: &&str| shared.get(*literal).copied().unwrap_or(0);
            form.literals().min_by_key(|literal| (others(literal), usize::MAX - literal.len())).map(Box::from)
        };
        let mut numbers: foldhash::HashMap<Box<str>, usize> = foldhash::HashMap::default();
        let (mut texts, mut by_literal, mut rest): (Vec<Box<str>>, Vec<Vec<TextForm>>, _) =
            Default::default();
        for form in std::mem::take(forms) {
            let Some(literal) = rarest(&form) else {
                Vec::push(&mut rest, form);
                continue;
            };
            let number = *numbers.entry(literal.clone()).or_insert_with(|| {
                texts.push(literal);
                by_literal.push(Vec::new());
                texts.len() - 1
            });
            by_literal[number].push(form);
        }
        let kind = Some(AhoCorasickKind::ContiguousNFA);
        let made = AhoCorasick::builder()
            .kind(kind)
            .prefilter(false)
            .build(texts.iter().map(|text| text.as_bytes()));
        match made {
            Ok(automaton) if !texts.is_empty() => {
                *forms = rest;
                Some(Self { automaton, forms: by_literal })
            }
            // Too many for an automaton, or none: all are compared.
            _ => {
                *forms = rest.into_iter().chain(by_literal.into_iter().flatten()).collect();
                None
            }
        }
    }

    fn matches(&self, text: &str) -> Result<bool, Stopped> {
        let mut seen: Vec<usize> = Vec::new();
        for found in self.automaton.find_overlapping_iter(text) {
            let literal = found.pattern().as_usize();
            spend(1 + seen.len() / 8)?;
            if seen.contains(&literal) {
                continue;
            }
            seen.push(literal);
            if takes(&self.forms[literal], text)? {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

fn takes(forms: &[TextForm], text: &str) -> Result<bool, Stopped> {
    for form in forms {
        spend(FORM_WORK + form.work(text))?;
        if form.takes(text) {
            return Ok(true);
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use sandur_base::MemoryBudget;
    use sandur_base::job::{self, Owner, UNITS};

    use super::*;
    use crate::text_form::{FormPiece, SignSet};

    fn form(glob: &str) -> TextForm {
        let mut form = TextForm::default();
        for sign in glob.chars() {
            form.push(match sign {
                '*' => FormPiece::Many(SignSet::Any),
                '?' => FormPiece::One(SignSet::Any),
                other => FormPiece::Text(other.to_string()),
            });
        }
        form
    }

    struct Asked {
        questions: AtomicU64,
        most: u64,
        budget: MemoryBudget,
    }

    impl Owner for Asked {
        fn goes_on(&self) -> bool {
            self.questions.fetch_add(1, Ordering::Relaxed) < self.most
        }
        fn budget(&self) -> &MemoryBudget {
            &self.budget
        }
        fn refused(&self, _: sandur_base::OverBudget) {}
    }

    const NAMES: u64 = 300;

    /// The units that comparing the names takes, to some questions, and how many fit.
    fn spent(forms: &TextForms, most: u64) -> (u64, Result<usize, Stopped>) {
        let budget = MemoryBudget::root("q", 1 << 30);
        let owner = Arc::new(Asked { questions: AtomicU64::new(0), most, budget });
        let names = (0..NAMES).map(|n| format!("host{n}x{}", n * 7919 % 20_011));
        let fitting = || names.filter(|name| forms.matches(name).unwrap_or(false)).count();
        let found = job::run(Arc::clone(&owner) as Arc<dyn Owner>, fitting);
        (owner.questions.load(Ordering::Relaxed) * UNITS, found)
    }

    #[test]
    fn thousands_of_forms_take_a_text_no_longer_than_one() {
        let forms =
            |count: usize| TextForms::new((0..count).map(|n| form(&format!("*z{n}*"))).collect()).unwrap();
        let (few, many) = (spent(&forms(10), u64::MAX), spent(&forms(3_000), u64::MAX));
        assert_eq!(few.1, Ok(0));
        assert_eq!(few, many);
        let found = forms(3_000).matches("xz2999");
        assert_eq!((found, forms(3_000).matches("xz")), (Ok(true), Ok(false)));
    }

    /// All of which a text has the literals, or that have none, are compared, and that can be stopped.
    #[test]
    fn comparing_form_by_form_is_told_and_ends_when_the_job_does() {
        for glob in ["h*o*s*9?9?9", "?*?*?*?x??????????????"] {
            let forms = TextForms::new(vec![form(glob); 3_000]).unwrap();
            let (units, found) = spent(&forms, u64::MAX);
            assert!(units > NAMES * 3_000 * 16 && found.is_ok(), "{glob}: {units}");
            assert_eq!(spent(&forms, 3).1, Err(Stopped), "{glob}");
        }
    }
}
