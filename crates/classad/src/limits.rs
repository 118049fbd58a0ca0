//! How large and how deep things may be. Each limit keeps a hostile text from costing more than a
//! moment, and lies far above what anybody writes by hand.

/// How deep an expression may be nested. Counted as HTCondor's parser counts: a pair of brackets is
/// three, a unary operator, `?:` or `? :` one each. So what it reads is read here.
pub const MAX_NESTING: u32 = 500;
/// So many pairs of brackets that is, and so many unary operators: what stands inside takes three.
pub const MAX_BRACKETS: u32 = (MAX_NESTING - 3) / 3;
pub const MAX_SIGNS: u32 = MAX_NESTING - 3;
/// Selections and subscripts after each other: `a.b[1].c…`; each holds the one before it.
pub const MAX_POSTFIX: u32 = 500;
/// Expressions being evaluated at once, each inside the one before; HTCondor stops at 400 too.
pub const MAX_EVALUATION_DEPTH: u32 = 400;
/// Steps of one evaluation: attributes that refer twice to one another double the work each time.
/// Work on texts, lists and patterns is counted in steps too (`eval/budget.rs`), about a tenth of a
/// microsecond each at worst.
pub const MAX_STEPS: u64 = 1_000_000;
/// Bytes of all texts that one evaluation makes: `strcat` of its own result doubles it each time.
pub const MAX_MADE_BYTES: usize = 16 << 20;
/// Bytes of one ad or expression that is read.
pub const MAX_SOURCE_BYTES: usize = 16 << 20;
/// Attributes of one ad: real ads have a few hundred.
pub const MAX_ATTRIBUTES: usize = 100_000;
/// Attributes that are told of one term that does not hold: more say nothing to anybody.
pub const MAX_LOOKED: usize = 64;
/// What the automaton of one regular expression may take. Those that people write for names and
/// versions take a few thousand bytes.
pub const MAX_PATTERN_BYTES: usize = 128 << 10;
/// What all regular expressions written in one expression may take together.
pub const MAX_PATTERNS_BYTES: usize = 256 << 10;
/// One that takes more is not kept with the expression it stands in, but built in each evaluation.
pub const MAX_KEPT_PATTERN_BYTES: usize = 16 << 10;
