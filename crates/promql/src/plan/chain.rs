//! Plans chains of binary operators.

use sandur_query::Error;

use crate::ast::{Chain, Link, Linked, Matching};
use crate::check::is_set;
use crate::column::Grid;
use crate::labels::Text;
use crate::notes::Notes;
use crate::ops::binary::{Signature, VectorVector};
use crate::ops::chain::{self, LeftSide, RightSide, ScalarStage, Stage};
use crate::ops::elements::{VectorScalar, scalars};
use crate::ops::sets::{Masked, Union};
use crate::ops::simple::Broadcast;
use crate::plan::is_vector;
use crate::plan::planner::{Planner, Wanted};
use crate::plan::times::is_invariant;
use crate::run::{AnyOperator, ScalarArg, Scratch};
use crate::timing::Times;
use crate::token::Kind;
use crate::value_type::Type;

/// The properties of a chain that are determined before its stages are made.
struct Outline {
    /// The number of leading operands that are read by an operator on buckets.
    with_buckets: usize,
    /// The only operand that is a vector, if there is exactly one. Storage then needs to read only the
    /// labels that are read of the chain.
    only_vector: Option<usize>,
    /// The number of leading links whose operands are the same at all steps.
    invariant: usize,
}

impl Outline {
    fn of(chain: &Chain, grid: Grid, times: Times) -> Self {
        let operands = &chain.operands.0;
        let with_buckets = chain.links.iter().rposition(looks_at_buckets).map_or(0, |last| last + 2);
        let mut vectors = operands.iter().enumerate().filter(|(_, operand)| is_vector(operand));
        let only_vector = match (vectors.next(), vectors.next()) {
            (Some((place, _)), None) => Some(place),
            _ => None,
        };
        let same =
            operands.iter().take_while(|operand| grid.steps > 1 && is_invariant(operand, times)).count();
        Self { with_buckets, only_vector, invariant: same.saturating_sub(1) }
    }
}

/// Whether an operator between histograms needs their buckets even if only counts and sums of its result
/// are read.
fn looks_at_buckets(link: &Link) -> bool {
    matches!(link.op, Kind::TrimUpper | Kind::TrimLower | Kind::Eqlc | Kind::Neq)
}

/// The stages of a chain while it is planned.
#[derive(Default)]
struct Stages<'a> {
    done: Vec<Box<dyn Stage>>,
    /// The last stage, if it is a union: it takes more operands of `or` with the same matching.
    union: Option<(Union, &'a Matching)>,
}

impl<'a> Stages<'a> {
    fn push(&mut self, stage: impl Stage + 'static) {
        self.finish();
        self.done.push(Box::new(stage));
    }

    fn unite(&mut self, right: RightSide, matching: &'a Matching, signature: Signature, grid: Grid) {
        if let Some((union, before)) = &mut self.union
            && (before.on, &before.labels) == (matching.on, &matching.labels)
        {
            union.rights.push_back(right);
            return;
        }
        self.finish();
        self.union = Some((Union::new(right, signature, grid), matching));
    }

    fn finish(&mut self) {
        if let Some((union, _)) = self.union.take() {
            self.done.push(Box::new(union));
        }
    }

    /// An operator that applies all stages to the output of `first`.
    fn after(&mut self, first: AnyOperator) -> AnyOperator {
        self.finish();
        chain::Chain::of(first, std::mem::take(&mut self.done))
    }
}

impl Planner<'_> {
    #[inline(never)]
    pub(super) fn chain(
        &mut self,
        chain: &Chain,
        grid: Grid,
        wanted: Wanted<'_>,
    ) -> Result<AnyOperator, Error> {
        let (outline, mut stages) = (Outline::of(chain, grid, self.times), Stages::default());
        let grid_of = |link: usize| if link < outline.invariant { grid.first_only() } else { grid };
        let mut first = self.operand(chain, 0, grid_of(0), wanted, &outline)?;
        for (n, linked) in chain.linked().enumerate() {
            let grid = grid_of(n);
            let right = self.operand(chain, n + 1, grid, wanted, &outline)?;
            match (linked.left, is_vector(linked.right)) {
                (Type::Vector, true) => self.vectors(&linked, right, grid, &mut stages),
                (Type::Vector, false) => stages.push(elementwise(&linked, ScalarArg::new(right), grid)),
                (_, true) => {
                    let left = stages.after(std::mem::replace(&mut first, right));
                    stages.push(elementwise(&linked, ScalarArg::new(left), grid));
                }
                (_, false) => stages.push(between_scalars(&linked, ScalarArg::new(right), grid)?),
            }
            if n + 1 == outline.invariant {
                first = Box::new(Broadcast::new(stages.after(first), grid_of(n + 1)));
            }
        }
        Ok(stages.after(first))
    }

    fn operand(
        &mut self,
        chain: &Chain,
        place: usize,
        grid: Grid,
        wanted: Wanted<'_>,
        outline: &Outline,
    ) -> Result<AnyOperator, Error> {
        let around = self.around.needs_buckets;
        self.around.needs_buckets |= place < outline.with_buckets;
        let (operand, wanted) =
            (&chain.operands.0[place], wanted.filter(|_| outline.only_vector == Some(place)));
        let planned = match place.checked_sub(1).map(|link| chain.links[link].op) {
            Some(Kind::And | Kind::Unless) => self.presence(operand, grid, wanted),
            _ => self.operator(operand, grid, wanted),
        };
        self.around.needs_buckets = around;
        planned
    }

    fn vectors<'a>(&mut self, linked: &Linked<'a>, right: AnyOperator, grid: Grid, stages: &mut Stages<'a>) {
        let (matching, op) = (&linked.link.matching, linked.link.op);
        let pool = &mut self.run.pool;
        let mut texts =
            |names: &[String]| -> Vec<Text> { names.iter().map(|name| pool.text_id(name)).collect() };
        let signature = Signature { names: texts(&matching.labels).into_iter().collect(), on: matching.on };
        let right = RightSide::new(right);
        match op {
            Kind::Or => stages.unite(right, matching, signature, grid),
            op if is_set(op) => {
                stages.push(Masked {
                    right,
                    like: op == Kind::And,
                    signature,
                    seen: None,
                    notes: Notes::default(),
                });
            }
            op => stages.push(VectorVector {
                left: LeftSide::default(),
                right,
                op,
                returns_bool: linked.link.returns_bool,
                cardinality: matching.cardinality,
                signature,
                include: texts(&matching.include),
                fill: matching.fill,
                grid,
                span: linked.span(),
                made: None,
            }),
        }
    }
}

/// A stage for a vector and a scalar; the vector comes from the chain so far or from the operand.
fn elementwise(linked: &Linked<'_>, scalar: ScalarArg, grid: Grid) -> VectorScalar {
    VectorScalar {
        scalar,
        op: linked.link.op,
        swapped: linked.left != Type::Vector,
        returns_bool: linked.link.returns_bool,
        grid,
        span: linked.span(),
        scratch: Scratch::default(),
    }
}

fn between_scalars(linked: &Linked<'_>, right: ScalarArg, grid: Grid) -> Result<impl Stage + use<>, Error> {
    let op = linked.link.op;
    if matches!(op, Kind::TrimUpper | Kind::TrimLower) {
        let text = op.text();
        return Err(Error::Invalid(format!("operator \"{text}\" not allowed for Scalar operations")));
    }
    Ok(ScalarStage { right, f: move |left, right| scalars(op, left, right), grid })
}
