//! Ads: attributes with an expression each, by name.

use crate::expr::Expr;
use crate::name::{Key, Name};
use crate::value::Value;
use std::cmp::Ordering;

/// In the order of the names, so that a lookup is a binary search and an ad prints as HTCondor's.
#[derive(Debug, Clone, Default)]
pub struct Ad {
    attributes: Vec<Attribute>,
}

#[derive(Debug, Clone)]
struct Attribute {
    /// That of its name: computed once, and asked for by every search.
    key: Key,
    name: Name,
    expr: Expr,
}

impl Attribute {
    fn new(name: Name, expr: Expr) -> Attribute {
        Attribute { key: name.key(), name, expr }
    }

    fn cmp_name(&self, key: Key, name: &Name) -> Ordering {
        self.key.cmp(&key).then_with(|| self.name.cmp_tails(name))
    }
}

impl Ad {
    pub fn new() -> Ad {
        Ad::default()
    }

    pub fn get(&self, name: &Name) -> Option<&Expr> {
        self.get_keyed(name.key(), name)
    }

    /// The same for somebody who asks several ads, and has the key of the name.
    pub(crate) fn get_keyed(&self, key: Key, name: &Name) -> Option<&Expr> {
        let at = self.attributes.binary_search_by(|known| known.cmp_name(key, name)).ok()?;
        self.attributes.get(at).map(|found| &found.expr)
    }

    /// The later one stays, with the name as the first was written; so does HTCondor.
    pub fn insert(&mut self, name: Name, expr: Expr) {
        match self.find(&name) {
            Ok(at) => {
                if let Some(known) = self.attributes.get_mut(at) {
                    known.expr = expr;
                }
            }
            Err(at) => self.attributes.insert(at, Attribute::new(name, expr)),
        }
    }

    pub fn set(&mut self, name: impl AsRef<[u8]>, value: impl Into<Value>) {
        self.insert(Name::new(name), Expr::Literal(value.into()));
    }

    pub fn remove(&mut self, name: &Name) -> Option<Expr> {
        let at = self.find(name).ok()?;
        Some(self.attributes.remove(at).expr)
    }

    pub fn len(&self) -> usize {
        self.attributes.len()
    }

    pub fn is_empty(&self) -> bool {
        self.attributes.is_empty()
    }

    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&Name, &Expr)> {
        self.attributes.iter().map(|attribute| (&attribute.name, &attribute.expr))
    }

    fn find(&self, name: &Name) -> Result<usize, usize> {
        let key = name.key();
        self.attributes.binary_search_by(|known| known.cmp_name(key, name))
    }
}

impl FromIterator<(Name, Expr)> for Ad {
    /// Sorted once: inserting one by one would move the tail of a long ad each time.
    fn from_iter<I: IntoIterator<Item = (Name, Expr)>>(attributes: I) -> Ad {
        let attributes = attributes.into_iter().map(|(name, expr)| Attribute::new(name, expr));
        let mut attributes: Vec<Attribute> = attributes.collect();
        attributes.sort_by(|a, b| a.cmp_name(b.key, &b.name));
        attributes.dedup_by(|later, first| {
            let same = later.cmp_name(first.key, &first.name).is_eq();
            if same {
                std::mem::swap(&mut later.expr, &mut first.expr);
            }
            same
        });
        Ad { attributes }
    }
}
