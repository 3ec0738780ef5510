//! Type checks: which expressions may stand where. Error texts are Prometheus's.

use foldhash::HashSet;

use crate::ast::{Aggregate, Call, Cardinality, Chain, Expr, Linked, Selector};
use crate::error::ParseError;
use crate::labels::METRIC_NAME;
use crate::span::Span;
use crate::text::quote;
use crate::token::Kind;
use crate::value_type::Type;

type Checked = Result<(), Box<ParseError>>;

/// Checks a whole expression.
pub fn check(text: &str, expr: &Expr) -> Result<(), ParseError> {
    Checker { text }.visit(expr).map_err(|error| *error)
}

/// Whether the operator is a comparison.
pub fn is_comparison(op: Kind) -> bool {
    matches!(op, Kind::Eqlc | Kind::Neq | Kind::Lte | Kind::Lss | Kind::Gte | Kind::Gtr)
}

/// Whether the operator is a set operator.
pub fn is_set(op: Kind) -> bool {
    matches!(op, Kind::And | Kind::Or | Kind::Unless)
}

struct Checker<'a> {
    text: &'a str,
}

impl Checker<'_> {
    fn error(&self, span: Span, what: impl Into<String>) -> Checked {
        Err(Box::new(ParseError::new(self.text, span, what)))
    }

    fn visit(&self, expr: &Expr) -> Checked {
        match expr {
            Expr::Number(_) | Expr::String(_) => Ok(()),
            Expr::Selector(selector) => self.selector(selector),
            Expr::Matrix(matrix) => self.selector(&matrix.selector),
            Expr::Paren(paren) => self.visit(&paren.inner.0),
            Expr::Unary(unary) => {
                self.visit(&unary.inner.0)?;
                let kind = unary.inner.0.value_type();
                if matches!(kind, Type::Scalar | Type::Vector) {
                    return Ok(());
                }
                let what = "unary expression only allowed on expressions of type scalar or instant vector";
                self.error(expr.span(), format!("{what}, got {}", quote(kind.documented())))
            }
            Expr::Subquery(subquery) => {
                self.visit(&subquery.inner.0)?;
                let kind = subquery.inner.0.value_type();
                if kind == Type::Vector {
                    return Ok(());
                }
                let what = format!("subquery is only allowed on instant vector, got {} instead", kind.name());
                self.error(expr.span(), what)
            }
            Expr::Chain(chain) => self.chain(chain),
            Expr::Call(call) => self.call(call),
            Expr::Aggregate(aggregate) => self.aggregate(aggregate),
        }
    }

    /// The place of the operator and its modifiers, between two sides.
    fn between(&self, left: Span, right: Span) -> Span {
        let (start, end) = (left.end as usize, right.start as usize);
        let gap = self.text.get(start..end).unwrap_or_default();
        let blank = gap.len() - gap.trim_start().len();
        Span::new(start + blank, start + gap.trim_end().len().max(blank))
    }

    fn chain(&self, chain: &Chain) -> Checked {
        self.visit(chain.first())?;
        chain.linked().try_for_each(|linked| {
            self.visit(linked.right)?;
            self.linked(&linked)
        })
    }

    fn linked(&self, linked: &Linked<'_>) -> Checked {
        let link = linked.link;
        let (left, right) = (linked.left, linked.right.value_type());
        let spans = [linked.left_span, linked.right.span()];
        let (whole, operator) = (linked.span(), self.between(spans[0], spans[1]));
        let op = link.op;
        if link.returns_bool && !is_comparison(op) {
            return self.error(operator, "bool modifier can only be used on comparison operators");
        }
        if is_comparison(op) && !link.returns_bool && left == Type::Scalar && right == Type::Scalar {
            return self.error(operator, "comparisons between scalars must use BOOL modifier");
        }
        let matching = &link.matching;
        let included: HashSet<&String> = matching.include.iter().collect();
        let twice = matching.labels.iter().find(|label| included.contains(label));
        if let Some(label) = twice.filter(|_| matching.on) {
            let what = format!("label {} must not occur in ON and GROUP clause at once", quote(label));
            return self.error(operator, what);
        }
        for (kind, span) in [(left, spans[0]), (right, spans[1])] {
            if !matches!(kind, Type::Scalar | Type::Vector) {
                let what = "binary expression must contain only scalar and instant vector types";
                return self.error(span, what);
            }
        }
        let has_fill = matching.fill.iter().any(Option::is_some);
        if left != Type::Vector || right != Type::Vector {
            if !matching.labels.is_empty() {
                return self.error(whole, "vector matching only allowed between instant vectors");
            }
            if has_fill {
                let what = "filling in missing series only allowed between instant vectors";
                return self.error(whole, what);
            }
        } else if is_set(op) {
            if matches!(matching.cardinality, Cardinality::OneToMany | Cardinality::ManyToOne) {
                return self.error(whole, format!("no grouping allowed for {} operation", quote(op.text())));
            }
            if has_fill {
                return self.error(whole, "filling in missing series not allowed for set operators");
            }
        }
        if is_set(op) && (left == Type::Scalar || right == Type::Scalar) {
            let what = format!("set operator {} not allowed in binary scalar expression", quote(op.text()));
            return self.error(whole, what);
        }
        Ok(())
    }

    fn aggregate(&self, aggregate: &Aggregate) -> Checked {
        self.visit(aggregate.inner())?;
        self.expect(aggregate.inner(), Type::Vector, "aggregation expression")?;
        let Some(param) = aggregate.param() else { return Ok(()) };
        let wanted = if aggregate.op == Kind::CountValues { Type::String } else { Type::Scalar };
        self.visit(param)?;
        self.expect(param, wanted, "aggregation parameter")
    }

    fn expect(&self, expr: &Expr, wanted: Type, context: &str) -> Checked {
        let kind = expr.value_type();
        if kind == wanted {
            return Ok(());
        }
        let (wanted, got) = (wanted.documented(), kind.documented());
        self.error(expr.span(), format!("expected type {wanted} in {context}, got {got}"))
    }

    fn call(&self, call: &Call) -> Checked {
        let function = call.function;
        let (got, types) = (call.args.0.len(), function.args.len());
        let name = quote(function.name);
        if function.variadic == 0 {
            if got != types {
                let what = format!("expected {types} argument(s) in call to {name}, got {got}");
                return self.error(call.span, what);
            }
        } else {
            let least = types - 1;
            if got < least {
                let what = format!("expected at least {least} argument(s) in call to {name}, got {got}");
                return self.error(call.span, what);
            }
            let most = usize::try_from(function.variadic).map_or(usize::MAX, |more| least + more);
            if got > most {
                let what = format!("expected at most {most} argument(s) in call to {name}, got {got}");
                return self.error(call.span, what);
            }
        }
        let args = &call.args.0;
        if function.name == "info" && args.len() > 1 {
            self.info_labels(&args[1], call.span)?;
        }
        for (n, arg) in args.iter().enumerate() {
            self.visit(arg)?;
            let wanted = function.args[n.min(types - 1)];
            self.expect(arg, wanted, &format!("call to function {name}"))?;
        }
        Ok(())
    }

    fn info_labels(&self, labels: &Expr, call: Span) -> Checked {
        if labels.value_type() != Type::Vector {
            let got = labels.value_type().documented();
            let what = format!("expected type instant vector in call to function \"info\", got {got}");
            return self.error(call, what);
        }
        let span = labels.span();
        match labels {
            Expr::Selector(selector) if selector.name.is_empty() => Ok(()),
            Expr::Selector(_) => {
                self.error(span, "expected label selectors only, got vector selector instead")
            }
            _ => self.error(span, "expected label selectors only"),
        }
    }

    fn selector(&self, selector: &Selector) -> Checked {
        if !selector.name.is_empty() {
            let others = &selector.matchers[..selector.matchers.len() - 1];
            if let Some(twice) = others.iter().find(|matcher| matcher.name() == METRIC_NAME) {
                let (name, value) = (quote(&selector.name), quote(twice.value()));
                let what = format!("metric name must not be set twice: {name} or {value}");
                return self.error(selector.span, what);
            }
            return Ok(());
        }
        if !selector.is_label_list && selector.matchers.iter().all(sandur_model::Matcher::matches_empty) {
            let what = "vector selector must contain at least one non-empty matcher";
            return self.error(selector.span, what);
        }
        Ok(())
    }
}
