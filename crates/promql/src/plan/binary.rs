//! Plans of operators.

use sandur_query::Error;

use crate::ast::Binary;
use crate::check::is_set;
use crate::column::Grid;
use crate::labels::Text;
use crate::ops::binary::{Signature, VectorVector};
use crate::ops::elements::{VectorScalar, scalars};
use crate::ops::sets::Sets;
use crate::ops::simple::ScalarPair;
use crate::plan::{Planner, Wanted, is_vector};
use crate::run::{AnyOperator, Scratch};
use crate::token::Kind;

impl Planner<'_> {
    pub(crate) fn binary(
        &mut self,
        binary: &Binary,
        grid: Grid,
        wanted: Wanted<'_>,
    ) -> Result<AnyOperator, Error> {
        let around = self.needs_buckets;
        self.needs_buckets |= matches!(binary.op, Kind::TrimUpper | Kind::TrimLower);
        let planned = self.sides(binary, grid, wanted);
        self.needs_buckets = around;
        planned
    }

    fn sides(&mut self, binary: &Binary, grid: Grid, wanted: Wanted<'_>) -> Result<AnyOperator, Error> {
        let (left, right, op) = (binary.left(), binary.right(), binary.op);
        let span = left.span().to(right.span());
        let returns_bool = binary.returns_bool;
        match (is_vector(left), is_vector(right)) {
            (false, false) if matches!(op, Kind::TrimUpper | Kind::TrimLower) => {
                let text = if op == Kind::TrimUpper { "</" } else { ">/" };
                Err(Error::Invalid(format!("operator \"{text}\" not allowed for Scalar operations")))
            }
            (false, false) => {
                let args = vec![self.scalar(left, grid)?, self.scalar(right, grid)?];
                let f = Box::new(move |left, right| scalars(op, left, right));
                Ok(Box::new(ScalarPair { args, f, grid, is_done: false }))
            }
            (true, true) => self.vectors(binary, grid),
            (swapped, _) => {
                let swapped = !swapped;
                let (vector, scalar) = if swapped { (right, left) } else { (left, right) };
                let inner = self.operator(vector, grid, wanted)?;
                let scalar = self.scalar(scalar, grid)?;
                Ok(Box::new(VectorScalar {
                    inner,
                    scalar,
                    op,
                    swapped,
                    returns_bool,
                    grid,
                    span,
                    scratch: Scratch::default(),
                }))
            }
        }
    }

    fn vectors(&mut self, binary: &Binary, grid: Grid) -> Result<AnyOperator, Error> {
        let (matching, op) = (&binary.matching, binary.op);
        let inner = [self.operator(binary.left(), grid, None)?, self.operator(binary.right(), grid, None)?];
        let pool = &mut self.run.pool;
        let mut texts =
            |names: &[String]| -> Vec<Text> { names.iter().map(|name| pool.text_id(name)).collect() };
        let signature = Signature { names: texts(&matching.labels).into_iter().collect(), on: matching.on };
        let (gathered, outbox) = (Default::default(), None);
        if is_set(op) {
            return Ok(Box::new(Sets { inner, gathered, op, signature, grid, seen: None, outbox }));
        }
        Ok(Box::new(VectorVector {
            inner,
            gathered,
            op,
            returns_bool: binary.returns_bool,
            cardinality: matching.cardinality,
            signature,
            include: texts(&matching.include),
            fill: matching.fill,
            grid,
            span: binary.left().span().to(binary.right().span()),
            outbox,
        }))
    }
}
