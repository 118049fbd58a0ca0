//! What stands behind `queue`: how many tasks of each item, the names of the variables, and where
//! the items come from. Reading files and patterns is for the caller.

use super::error::Wrong;
use super::evaluate;
use super::limits::{MAX_TASKS, MAX_VARIABLES};
use super::lines::is_space;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Queue {
    /// Tasks of each item.
    pub(super) count: u64,
    pub(super) variables: Vec<String>,
    pub(super) items: Items,
    pub(super) slice: Slice,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Items {
    None,
    /// All that is there.
    Listed(Vec<String>),
    /// More on the lines that follow; split into words or kept whole.
    Following {
        begun: Vec<String>,
        words: bool,
    },
    File(String),
    Matching {
        patterns: Vec<String>,
        following: bool,
        kind: Matching,
    },
}

/// What a pattern may match.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Matching {
    Files,
    Folders,
    Any,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Slice {
    first: Option<i64>,
    end: Option<i64>,
    step: Option<i64>,
}

impl Slice {
    /// Whether the item at this position of so many is taken.
    pub(super) fn takes(&self, at: usize, count: usize) -> bool {
        let whole = |number: usize| i64::try_from(number).unwrap_or(i64::MAX);
        let (at, count) = (whole(at), whole(count));
        let from_end = |number: i64| if number < 0 { number + count } else { number };
        let first = self.first.map_or(0, from_end);
        let end = self.end.map_or(count, from_end);
        at >= first && at < end && (at - first) % self.step.unwrap_or(1) == 0
    }

    /// `[first:end:step]` at the beginning of a text, and what follows.
    fn parse(text: &str) -> Result<(Slice, &str), Wrong> {
        let bad = || Wrong::Slice(text.into());
        let (inside, rest) =
            text.strip_prefix('[').and_then(|text| text.split_once(']')).ok_or_else(bad)?;
        let number = |part: &str| match part.trim() {
            "" => Ok(None),
            part => part.parse::<i32>().map(|n| Some(i64::from(n))).map_err(|_| bad()),
        };
        let parts: Vec<Option<i64>> = inside.split(':').map(number).collect::<Result<_, _>>()?;
        let part = |at: usize| parts.get(at).copied().flatten();
        let slice = Slice { first: part(0), end: part(1), step: part(2) };
        let good = parts.len() <= 3 && slice.step.is_none_or(|step| step > 0);
        if good { Ok((slice, rest)) } else { Err(bad()) }
    }
}

/// The arguments of a line that is a `queue` statement.
pub(super) fn arguments(line: &str) -> Option<&str> {
    let (word, rest) = line.split_once(is_space).unwrap_or((line, ""));
    word.eq_ignore_ascii_case("queue").then(|| rest.trim_matches(is_space))
}

#[derive(Clone, Copy, PartialEq)]
enum Word {
    In,
    From,
    Matching,
}

const WORDS: [(&str, Word); 3] =
    [("in", Word::In), ("from", Word::From), ("matching", Word::Matching)];

/// From the arguments, their macros replaced.
pub(super) fn parse(text: &str) -> Result<Queue, Wrong> {
    let Some((before, word, after)) = keyword(text) else {
        let (items, slice) = (Items::None, Slice::default());
        return Ok(Queue { count: count(text)?, variables: Vec::new(), items, slice });
    };
    let (number, variables) = variables(before)?;
    let mut kind = Matching::Any;
    let mut slice = Slice::default();
    let mut rest = after.trim_start_matches(is_space);
    while !rest.starts_with('(') {
        if rest.starts_with('[') {
            (slice, rest) = Slice::parse(rest)?;
        } else if let Some((named, following)) = qualifier(rest) {
            if word != Word::Matching {
                let name = if word == Word::In { "in" } else { "from" };
                return Err(Wrong::QueueWord(named.0.into(), name));
            }
            (kind, rest) = (named.1, following);
        } else {
            break;
        }
        rest = rest.trim_start_matches(is_space);
    }
    Ok(Queue { count: count(number)?, variables, items: items(word, kind, rest)?, slice })
}

/// The first word that says where items come from, what is before it and what after.
#[expect(clippy::string_slice, reason = "the places are those of whole characters")]
fn keyword(text: &str) -> Option<(&str, Word, &str)> {
    let mut start = None;
    for (at, c) in text.char_indices() {
        if is_space(c) || c == '(' {
            if let Some(from) = start.take() {
                let found =
                    WORDS.iter().find(|(word, _)| text[from..at].eq_ignore_ascii_case(word));
                if let Some((_, word)) = found {
                    return Some((&text[..from], *word, &text[at..]));
                }
            }
        } else if start.is_none() {
            start = Some(at);
        }
    }
    None
}

type Qualifier = (&'static str, Matching);

#[expect(clippy::string_slice, reason = "the place is one that was found")]
fn qualifier(text: &str) -> Option<(Qualifier, &str)> {
    let end = text.find(|c| is_space(c) || c == '(')?;
    let known = [("files", Matching::Files), ("dirs", Matching::Folders), ("any", Matching::Any)];
    let named = known.into_iter().find(|(word, _)| text[..end].eq_ignore_ascii_case(word))?;
    Some((named, &text[end..]))
}

/// The number in front, and the names behind it.
#[expect(clippy::string_slice, reason = "the places are those of whole words")]
fn variables(text: &str) -> Result<(&str, Vec<String>), Wrong> {
    let text = text.trim_matches(is_space);
    let of_names = |c: char| c.is_ascii_alphanumeric() || is_space(c) || ",_.".contains(c);
    let mut from = text.char_indices().rev().take_while(|(_, c)| of_names(*c)).last();
    // The first word that begins with a letter begins the names; numbers before it are a count.
    let mut names_at = text.len();
    if let Some((at, _)) = from.take() {
        let mut word = at;
        for piece in text[at..].split_inclusive(|c| is_space(c) || c == ',') {
            if piece.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') {
                names_at = word;
                break;
            }
            word += piece.len();
        }
    }
    let split = |c| is_space(c) || c == ',';
    let names = text[names_at..].split(split).filter(|name| !name.is_empty());
    let names: Vec<String> = names.map(str::to_string).collect();
    if names.len() > MAX_VARIABLES {
        return Err(Wrong::ManyVariables);
    }
    // Items without a name of their own are called so.
    let names = if names.is_empty() { vec!["Item".to_string()] } else { names };
    Ok((text[..names_at].trim_matches(is_space), names))
}

fn count(text: &str) -> Result<u64, Wrong> {
    if text.is_empty() {
        return Ok(1);
    }
    let bad = || Wrong::QueueCount(text.into());
    // A number too long for one is not what an expression would make of it.
    let too_long = text.bytes().all(|byte| byte.is_ascii_digit()) && text.parse::<i64>().is_err();
    let number = evaluate::whole(text).filter(|_| !too_long).ok_or_else(bad)?;
    let number = u64::try_from(number).map_err(|_| bad())?;
    if number > MAX_TASKS { Err(Wrong::ManyTasks(number)) } else { Ok(number) }
}

fn items(word: Word, kind: Matching, text: &str) -> Result<Items, Wrong> {
    let inside = text.strip_prefix('(').map(|rest| rest.trim_start_matches(is_space));
    let (listed, following) = match (inside, text.strip_suffix(')')) {
        (Some(inside), Some(_)) => (inside.strip_suffix(')').unwrap_or(inside), false),
        (Some(inside), None) => (inside, true),
        (None, _) => (text, false),
    };
    Ok(match (word, inside.is_some(), following) {
        (Word::From, false, _) => from_file(listed)?,
        (Word::From, true, false) => Items::Listed(vec![listed.to_string()]),
        (Word::From, true, true) => {
            let begun = if listed.is_empty() { vec![] } else { vec![listed.to_string()] };
            Items::Following { begun, words: false }
        }
        (Word::In, _, false) => Items::Listed(words(listed)),
        (Word::In, _, true) => Items::Following { begun: words(listed), words: true },
        (Word::Matching, ..) => Items::Matching { patterns: words(listed), following, kind },
    })
}

fn from_file(name: &str) -> Result<Items, Wrong> {
    let name = name.trim_matches(is_space);
    if name.contains('|') {
        return Err(Wrong::QueueCommand(name.into()));
    }
    if name == "-" {
        return Err(Wrong::QueueStandardInput);
    }
    Ok(Items::File(name.into()))
}

/// Separated by commas and spaces.
pub(super) fn words(text: &str) -> Vec<String> {
    let words = text.split(|c| is_space(c) || c == ',').filter(|word| !word.is_empty());
    words.map(str::to_string).collect()
}

/// One item as the values of so many variables: the last one has all that is left.
pub(super) fn fields(item: &str, count: usize) -> Vec<&str> {
    let blank = [' ', '\t'];
    let unit = item.contains('\x1f');
    let mut rest = item.trim_matches(blank);
    let mut fields = Vec::with_capacity(count);
    while fields.len() + 1 < count {
        let parted = if unit { rest.split_once('\x1f') } else { rest.split_once([',', ' ', '\t']) };
        let Some((field, others)) = parted else { break };
        fields.push(field.trim_matches(blank));
        rest = others.trim_start_matches(blank);
    }
    fields.push(rest);
    fields.resize(count, "");
    fields
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_of_queue() {
        let queue = |text: &str| parse(text).expect(text);
        assert_eq!((queue("").count, queue("3").count), (1, 3));
        let listed = queue("2 x in a b, c");
        assert_eq!((listed.count, listed.variables.join("+")), (2, "x".into()));
        assert_eq!(listed.items, Items::Listed(words("a b c")));
        assert_eq!(queue("in (a b)").variables, ["Item"]);
        assert_eq!(queue("x,y from list.txt").items, Items::File("list.txt".into()));
        assert_eq!(queue("x y from ( a b, c )").items, Items::Listed(vec!["a b, c ".into()]));
        let begun = queue("x in (a").items;
        assert_eq!(begun, Items::Following { begun: words("a"), words: true });
        let Items::Matching { patterns, kind, .. } = queue("f matching dirs a* b*").items else {
            panic!("it matches");
        };
        assert_eq!((patterns, kind), (words("a* b*"), Matching::Folders));
        let numbered = queue("10 v1, v2 from [1:] f");
        assert_eq!((numbered.count, numbered.variables), (10, words("v1 v2")));
    }

    #[test]
    fn what_is_refused() {
        for bad in ["foo", "-1", "x from ls |", "x from -", "x in files (a)", "x in [a] (b)"] {
            assert!(parse(bad).is_err(), "{bad}");
        }
        assert_eq!(parse("1000000000000"), Err(Wrong::ManyTasks(1_000_000_000_000)));
    }

    #[test]
    fn slices_pick() {
        let taken = |text: &str| -> String {
            let (slice, _) = Slice::parse(text).expect(text);
            (0..5usize).filter(|at| slice.takes(*at, 5)).map(|at| at.to_string()).collect()
        };
        assert_eq!(taken("[1:3]"), "12");
        assert_eq!(taken("[::2]"), "024");
        assert_eq!(taken("[-2:]"), "34");
        assert_eq!(taken("[:-1:3]"), "03");
        assert!(Slice::parse("[::0]").is_err() && Slice::parse("[1:2:3:4]").is_err());
    }

    #[test]
    fn fields_of_an_item() {
        assert_eq!(fields("two, 2 extra", 2), ["two", "2 extra"]);
        assert_eq!(fields("a b c d", 3), ["a", "b", "c d"]);
        assert_eq!(fields("three", 2), ["three", ""]);
        assert_eq!(fields("a b\x1fc d", 2), ["a b", "c d"]);
        assert_eq!(fields("all of it", 1), ["all of it"]);
    }
}
