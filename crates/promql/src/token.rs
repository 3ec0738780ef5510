//! The tokens of the language.

use std::sync::LazyLock;

use crate::span::Span;

macro_rules! kinds {
    ($($(#[$doc:meta])* $name:ident = $text:literal, $class:ident;)*) => {
        /// The kind of a token.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Kind { $($(#[$doc])* $name,)* }

        impl Kind {
            /// Every kind.
            pub const ALL: &[Self] = &[$(Self::$name,)*];

            /// The text of the token; empty if its text varies.
            pub fn text(self) -> &'static str {
                match self { $(Self::$name => $text,)* }
            }

            /// The class of the token.
            pub fn class(self) -> Class {
                match self { $(Self::$name => Class::$class,)* }
            }
        }
    };
}

/// The class of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Brackets, commas and similar marks.
    Mark,
    /// Strings, numbers and names, whose text varies.
    Free,
    /// An operator between operands, or between a label and its value.
    Operator,
    /// An aggregation.
    Aggregator,
    /// A keyword.
    Keyword,
    /// A function of the query's times.
    Context,
}

kinds! {
    /// The end of the text.
    End = "", Free;
    /// A character that cannot be read; the lexer has the message.
    Error = "", Free;
    /// A name without a colon.
    Identifier = "", Free;
    /// A name with a colon.
    MetricIdentifier = "", Free;
    /// A quoted string.
    String = "", Free;
    /// A number.
    Number = "", Free;
    /// A number with a unit of time.
    Duration = "", Free;
    /// `(`
    LeftParen = "(", Mark;
    /// `)`
    RightParen = ")", Mark;
    /// `{`
    LeftBrace = "{", Mark;
    /// `}`
    RightBrace = "}", Mark;
    /// `[`
    LeftBracket = "[", Mark;
    /// `]`
    RightBracket = "]", Mark;
    /// `,`
    Comma = ",", Mark;
    /// `:`
    Colon = ":", Mark;
    /// `=`
    Equal = "=", Mark;
    /// `+`
    Add = "+", Operator;
    /// `-`
    Sub = "-", Operator;
    /// `*`
    Mul = "*", Operator;
    /// `/`
    Div = "/", Operator;
    /// `%`
    Mod = "%", Operator;
    /// `^`
    Pow = "^", Operator;
    /// `==`
    Eqlc = "==", Operator;
    /// `!=`
    Neq = "!=", Operator;
    /// `<=`
    Lte = "<=", Operator;
    /// `<`
    Lss = "<", Operator;
    /// `>=`
    Gte = ">=", Operator;
    /// `>`
    Gtr = ">", Operator;
    /// `</`
    TrimUpper = "</", Operator;
    /// `>/`
    TrimLower = ">/", Operator;
    /// `=~`
    EqlRegex = "=~", Operator;
    /// `!~`
    NeqRegex = "!~", Operator;
    /// `@`
    At = "@", Operator;
    /// `and`
    And = "and", Operator;
    /// `or`
    Or = "or", Operator;
    /// `unless`
    Unless = "unless", Operator;
    /// `atan2`
    Atan2 = "atan2", Operator;
    /// `sum`
    Sum = "sum", Aggregator;
    /// `avg`
    Avg = "avg", Aggregator;
    /// `count`
    Count = "count", Aggregator;
    /// `min`
    Min = "min", Aggregator;
    /// `max`
    Max = "max", Aggregator;
    /// `group`
    Group = "group", Aggregator;
    /// `stddev`
    Stddev = "stddev", Aggregator;
    /// `stdvar`
    Stdvar = "stdvar", Aggregator;
    /// `topk`
    Topk = "topk", Aggregator;
    /// `bottomk`
    Bottomk = "bottomk", Aggregator;
    /// `count_values`
    CountValues = "count_values", Aggregator;
    /// `quantile`
    Quantile = "quantile", Aggregator;
    /// `limitk`
    Limitk = "limitk", Aggregator;
    /// `limit_ratio`
    LimitRatio = "limit_ratio", Aggregator;
    /// `offset`
    Offset = "offset", Keyword;
    /// `smoothed`
    Smoothed = "smoothed", Keyword;
    /// `anchored`
    Anchored = "anchored", Keyword;
    /// `by`
    By = "by", Keyword;
    /// `without`
    Without = "without", Keyword;
    /// `on`
    On = "on", Keyword;
    /// `ignoring`
    Ignoring = "ignoring", Keyword;
    /// `group_left`
    GroupLeft = "group_left", Keyword;
    /// `group_right`
    GroupRight = "group_right", Keyword;
    /// `fill`
    Fill = "fill", Keyword;
    /// `fill_left`
    FillLeft = "fill_left", Keyword;
    /// `fill_right`
    FillRight = "fill_right", Keyword;
    /// `bool`
    Bool = "bool", Keyword;
    /// `start`
    Start = "start", Context;
    /// `end`
    EndOf = "end", Context;
    /// `step`
    Step = "step", Context;
    /// `range`
    Range = "range", Context;
    /// `max_of`
    MaxOf = "max_of", Context;
    /// `min_of`
    MinOf = "min_of", Context;
}

/// The keywords by their first letter.
static WORDS: LazyLock<[Vec<Kind>; 26]> = LazyLock::new(|| {
    let of = |letter| move |kind: &&Kind| letter_of(kind.text()) == Some(letter);
    std::array::from_fn(|letter| Kind::ALL.iter().filter(of(letter)).copied().collect())
});

/// The number of the first letter in the alphabet; `None` if the text does not begin with a letter.
fn letter_of(text: &str) -> Option<usize> {
    let letter = text.bytes().next().filter(u8::is_ascii_alphabetic)?;
    Some(usize::from(letter.to_ascii_lowercase() - b'a'))
}

impl Kind {
    /// The keyword with this text, in lower or upper case.
    pub fn of_word(word: &str) -> Option<Self> {
        if word.len() > 12 {
            return None;
        }
        if word.eq_ignore_ascii_case("inf") || word.eq_ignore_ascii_case("nan") {
            return Some(Self::Number);
        }
        let words = WORDS.get(letter_of(word)?)?;
        words.iter().find(|kind| kind.text().eq_ignore_ascii_case(word)).copied()
    }

    /// Whether it is valid as the name of a metric.
    pub fn names_metric(self) -> bool {
        match self.class() {
            Class::Aggregator | Class::Context => true,
            Class::Operator => matches!(self, Self::And | Self::Or | Self::Unless),
            Class::Free => matches!(self, Self::Identifier | Self::MetricIdentifier),
            Class::Keyword => {
                !matches!(self, Self::On | Self::Ignoring | Self::GroupLeft | Self::GroupRight | Self::Bool)
            }
            Class::Mark => false,
        }
    }

    /// Whether it is valid as the name of a label in a list of labels.
    pub fn names_label(self) -> bool {
        self.names_metric()
            || matches!(
                self,
                Self::On | Self::Ignoring | Self::GroupLeft | Self::GroupRight | Self::Bool | Self::Atan2
            )
    }
}

/// A token and its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Token {
    /// The kind.
    pub kind: Kind,
    /// The place in the text of the query.
    pub span: Span,
}
