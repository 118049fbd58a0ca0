//! Attributes of one ad that are said by one another: evaluated, they are undefined.

use crate::ad::Ad;
use crate::eval::{Context, Sides, evaluate_attribute};
use crate::name::Name;
use crate::references::references;
use std::sync::Arc;

/// The names of a circle in their order, the first one again at last; `None` where there is none,
/// or where it gives something all the same, as in `a = b ?: 1; b = a`.
pub fn circle(ad: &Arc<Ad>) -> Option<Vec<Name>> {
    let names: Vec<&Name> = ad.iter().map(|(name, _)| name).collect();
    let sides = Sides::alone(Arc::clone(ad));
    let mut seen = vec![Seen::Not; names.len()];
    (0..names.len()).find_map(|first| {
        let around = from(ad, &names, first, &mut seen)?;
        let value = evaluate_attribute(around.first()?, &sides, &Context::default()).value;
        value.is_undefined().then_some(around)
    })
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Seen {
    Not,
    OnPath,
    /// Nothing that is reached from it was on the path.
    Done,
}

/// A circle that can be reached from an attribute. Without recursion, because a row may be long.
#[expect(clippy::indexing_slicing, reason = "all are places in `names`, and `seen` is as long")]
fn from(ad: &Ad, names: &[&Name], first: usize, seen: &mut [Seen]) -> Option<Vec<Name>> {
    if seen[first] != Seen::Not {
        return None;
    }
    let mut path = vec![(first, named(ad, names, first))];
    while let Some((at, next)) = path.last_mut() {
        let Some(next) = next.pop() else {
            seen[*at] = Seen::Done;
            path.pop();
            continue;
        };
        seen[*at] = Seen::OnPath;
        match seen[next] {
            Seen::Done => {}
            Seen::Not => path.push((next, named(ad, names, next))),
            Seen::OnPath => {
                let around = path.iter().map(|(at, _)| *at).skip_while(|at| *at != next);
                return Some(around.chain([next]).map(|at| names[at].clone()).collect());
            }
        }
    }
    None
}

/// The attributes of the ad that the expression of one of them names.
fn named(ad: &Ad, names: &[&Name], at: usize) -> Vec<usize> {
    let mut found = Vec::new();
    if let Some(expr) = names.get(at).and_then(|name| ad.get(name)) {
        references(expr, &mut |reference| {
            let is_own = reference.scope().is_none() || reference.is_target() == Some(false);
            found.extend(names.binary_search(&reference.name()).ok().filter(|_| is_own));
        });
    }
    found
}

#[cfg(test)]
mod tests {
    use crate::{circle, parse_ad};
    use std::sync::Arc;

    fn found(ad: &str) -> Option<String> {
        let names = circle(&Arc::new(parse_ad(ad).expect("good")))?;
        Some(names.iter().map(crate::Name::to_text).collect::<Vec<_>>().join(" "))
    }

    #[test]
    fn circles_are_found_and_rows_are_none() {
        assert_eq!(found("[a = B + 1; b = c; c = d; d = 1]"), None);
        assert_eq!(found("[a = b; b = MY.c; c = size(B)]").as_deref(), Some("b c b"));
        assert_eq!(found("[a = a]").as_deref(), Some("a a"));
        for fine in ["[a = TARGET.a; b = a + a]", "[a = [a = 1].a]", "[a = b ?: 1; b = a]"] {
            assert_eq!(found(fine), None, "{fine}");
        }
        let row: Vec<String> = (0..20_000).map(|at| format!("a{at} = a{}", at + 1)).collect();
        assert_eq!(found(&format!("[{}]", row.join(";"))), None);
    }
}
