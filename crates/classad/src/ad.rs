//! Ads: attributes with an expression each, by name.

use crate::expr::Expr;
use crate::name::Name;
use crate::value::Value;

/// In the order of the names, so that a lookup is a binary search and an ad prints as HTCondor's.
#[derive(Debug, Clone, Default)]
pub struct Ad {
    attributes: Vec<(Name, Expr)>,
}

impl Ad {
    pub fn new() -> Ad {
        Ad::default()
    }

    pub fn get(&self, name: &Name) -> Option<&Expr> {
        let at = self.find(name).ok()?;
        Some(&self.attributes[at].1)
    }

    /// The later one stays, with the name as the first was written; so does HTCondor.
    pub fn insert(&mut self, name: Name, expr: Expr) {
        match self.find(&name) {
            Ok(at) => self.attributes[at].1 = expr,
            Err(at) => self.attributes.insert(at, (name, expr)),
        }
    }

    pub fn set(&mut self, name: impl AsRef<[u8]>, value: impl Into<Value>) {
        self.insert(Name::new(name), Expr::Literal(value.into()));
    }

    pub fn remove(&mut self, name: &Name) -> Option<Expr> {
        let at = self.find(name).ok()?;
        Some(self.attributes.remove(at).1)
    }

    pub fn len(&self) -> usize {
        self.attributes.len()
    }

    pub fn is_empty(&self) -> bool {
        self.attributes.is_empty()
    }

    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&Name, &Expr)> {
        self.attributes.iter().map(|(name, expr)| (name, expr))
    }

    fn find(&self, name: &Name) -> Result<usize, usize> {
        self.attributes.binary_search_by(|(known, _)| known.cmp(name))
    }
}

impl FromIterator<(Name, Expr)> for Ad {
    /// Sorted once: inserting one by one would move the tail of a long ad each time.
    fn from_iter<I: IntoIterator<Item = (Name, Expr)>>(attributes: I) -> Ad {
        let mut ad = Ad { attributes: attributes.into_iter().collect() };
        ad.attributes.sort_by(|a, b| a.0.cmp(&b.0));
        ad.attributes.dedup_by(|later, first| {
            let same = later.0 == first.0;
            if same {
                std::mem::swap(&mut later.1, &mut first.1);
            }
            same
        });
        ad
    }
}
