//! Layers over each other: a pure function from indexes to a tree.
//!
//! Links on the way to a path are followed as the container would follow them, from the image's
//! root and never above it; the last name never is.

use crate::layer::index::{Entry, LayerIndex, Meta, ObjectId, What};
use crate::limits::DEPTH_LIMIT;
use crate::path;
use std::collections::{BTreeMap, BTreeSet};

/// As many links as the kernel follows for one path.
const LINK_LIMIT: u32 = 40;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MergeError {
    #[error("`{path}` is a hard link to `{to}`, which is not there")]
    NoTarget { path: String, to: String },
    #[error("`{path}` is a hard link to `{to}`, a directory")]
    LinkToDir { path: String, to: String },
    #[error("`{path}` lies behind a circle of links")]
    Circle { path: String },
    #[error("`{path}` lies below `{at}`, which is not a directory")]
    NotADir { path: String, at: String },
    #[error("`{path}` lies deeper than {DEPTH_LIMIT} directories")]
    TooDeep { path: String },
}

/// Names in a directory, in order: the tree is the same every time.
pub type Children = BTreeMap<Vec<u8>, Slot>;

/// A name: what it stands for, and the layer that said so.
#[derive(Debug, Clone, Copy)]
pub struct Slot {
    pub node: usize,
    layer: usize,
}

#[derive(Debug)]
pub struct Node {
    pub meta: Meta,
    pub body: Body,
}

#[derive(Debug)]
pub enum Body {
    Dir(Children),
    File { object: ObjectId, size: u64 },
    Symlink { to: Vec<u8> },
    Fifo,
}

/// The tree; node 0 is the root. Two names of one node are hard links.
#[derive(Debug)]
pub struct Tree {
    pub nodes: Vec<Node>,
    /// Directories whose lower content the current layer has hidden already: doing it again for
    /// each of a million marks would take a day.
    hidden: BTreeSet<usize>,
}

pub const ROOT: usize = 0;

/// Lays the layers over each other, lowest first.
pub fn merge<'a>(layers: impl IntoIterator<Item = &'a LayerIndex>) -> Result<Tree, MergeError> {
    let root = Node { meta: default_dir(), body: Body::empty_dir() };
    let mut tree = Tree { nodes: vec![root], hidden: BTreeSet::new() };
    for (number, layer) in layers.into_iter().enumerate() {
        tree.hidden.clear();
        for entry in &layer.entries {
            tree.apply(entry, number)?;
        }
    }
    Ok(tree)
}

/// Of directories no layer describes.
fn default_dir() -> Meta {
    Meta { mode: 0o755, ..Meta::default() }
}

impl Body {
    fn empty_dir() -> Body {
        Body::Dir(Children::new())
    }
}

impl Tree {
    pub fn body(&self, node: usize) -> Option<&Body> {
        self.nodes.get(node).map(|node| &node.body)
    }

    /// What is not a directory has none.
    pub fn children(&self, dir: usize) -> &Children {
        static NONE: Children = Children::new();
        match self.body(dir) {
            Some(Body::Dir(children)) => children,
            _ => &NONE,
        }
    }

    fn remove(&mut self, dir: usize, name: &[u8]) {
        if let Some(Body::Dir(children)) = self.nodes.get_mut(dir).map(|node| &mut node.body) {
            children.remove(name);
        }
    }

    fn describe(&mut self, node: usize, meta: &Meta) {
        if let Some(node) = self.nodes.get_mut(node) {
            node.meta = meta.clone();
        }
    }

    fn is_dir(&self, node: usize) -> bool {
        matches!(self.body(node), Some(Body::Dir(_)))
    }

    fn apply(&mut self, entry: &Entry, layer: usize) -> Result<(), MergeError> {
        match &entry.what {
            What::Opaque => {
                if let Some(dir) = self.find_dir(&entry.path, &entry.path)? {
                    self.hide(dir, layer);
                }
                return Ok(());
            }
            What::Whiteout => return self.whiteout(entry, layer),
            _ => {}
        }
        let Some((parent, name)) = path::split(&entry.path) else {
            self.describe(ROOT, &entry.meta);
            return Ok(());
        };
        let parent = self.make_dirs(parent, &entry.path, layer)?;
        let body = match &entry.what {
            What::Dir => {
                let there = self.children(parent).get(name).map(|slot| slot.node);
                if let Some(node) = there.filter(|node| self.is_dir(*node)) {
                    self.describe(node, &entry.meta);
                    return self.put(parent, name, node, layer);
                }
                Body::empty_dir()
            }
            What::HardLink { to } => {
                let node = self.target(entry, to)?;
                return self.put(parent, name, node, layer);
            }
            What::File { object, size } => Body::File { object: *object, size: *size },
            What::Symlink { to } => Body::Symlink { to: to.clone() },
            What::Fifo => Body::Fifo,
            What::Whiteout | What::Opaque => return Ok(()),
        };
        self.nodes.push(Node { meta: entry.meta.clone(), body });
        self.put(parent, name, self.nodes.len() - 1, layer)
    }

    fn put(
        &mut self,
        parent: usize,
        name: &[u8],
        node: usize,
        layer: usize,
    ) -> Result<(), MergeError> {
        match self.nodes.get_mut(parent).map(|node| &mut node.body) {
            Some(Body::Dir(children)) => {
                children.insert(name.to_vec(), Slot { node, layer });
                Ok(())
            }
            _ => Err(MergeError::NotADir { path: path::shown(name), at: "..".into() }),
        }
    }

    fn target(&self, entry: &Entry, to: &[u8]) -> Result<usize, MergeError> {
        let shown = || (path::shown(&entry.path), path::shown(to));
        let none = || {
            let (path, to) = shown();
            MergeError::NoTarget { path, to }
        };
        let (dir, name) = path::split(to).ok_or_else(none)?;
        let dir = self.find_dir(dir, &entry.path)?.ok_or_else(none)?;
        let node = self.children(dir).get(name).ok_or_else(none)?.node;
        if self.is_dir(node) {
            let (path, to) = shown();
            return Err(MergeError::LinkToDir { path, to });
        }
        Ok(node)
    }

    fn whiteout(&mut self, entry: &Entry, layer: usize) -> Result<(), MergeError> {
        // Of the root itself there is no mark.
        let Some((parent, name)) = path::split(&entry.path) else { return Ok(()) };
        let Some(parent) = self.find_dir(parent, &entry.path)? else { return Ok(()) };
        let Some(slot) = self.children(parent).get(name).copied() else { return Ok(()) };
        // What this same layer says stays: only lower layers are hidden, whatever the order.
        if self.hidden.contains(&slot.node) {
            return Ok(());
        }
        if slot.layer < layer && !self.holds(slot.node, layer) {
            self.remove(parent, name);
        } else if self.is_dir(slot.node) {
            self.hide(slot.node, layer);
        }
        Ok(())
    }

    /// Takes away what layers below this one put into a directory.
    fn hide(&mut self, dir: usize, layer: usize) {
        if !self.hidden.insert(dir) {
            return;
        }
        let slots: Vec<(Vec<u8>, Slot)> =
            self.children(dir).iter().map(|(name, slot)| (name.clone(), *slot)).collect();
        for (name, slot) in slots {
            if slot.layer >= layer || self.holds(slot.node, layer) {
                if self.is_dir(slot.node) {
                    self.hide(slot.node, layer);
                }
            } else {
                self.remove(dir, &name);
            }
        }
    }

    /// Whether anything below was put there by this layer.
    fn holds(&self, node: usize, layer: usize) -> bool {
        self.is_dir(node)
            && self
                .children(node)
                .values()
                .any(|slot| slot.layer >= layer || self.holds(slot.node, layer))
    }

    fn find_dir(&self, dir: &[u8], asked: &[u8]) -> Result<Option<usize>, MergeError> {
        match self.steps(dir, asked)? {
            Steps::Dir(at) => Ok(Some(at)),
            Steps::Missing { .. } | Steps::Blocked { .. } => Ok(None),
        }
    }

    /// The directory of a path; missing ones are made for the layer given.
    fn make_dirs(&mut self, dir: &[u8], asked: &[u8], layer: usize) -> Result<usize, MergeError> {
        loop {
            match self.steps(dir, asked)? {
                Steps::Dir(at) => return Ok(at),
                Steps::Missing { depth, .. } if depth >= DEPTH_LIMIT => {
                    return Err(MergeError::TooDeep { path: path::shown(asked) });
                }
                Steps::Missing { at, name, .. } => {
                    self.nodes.push(Node { meta: default_dir(), body: Body::empty_dir() });
                    self.put(at, &name, self.nodes.len() - 1, layer)?;
                }
                Steps::Blocked { name } => {
                    let (path, at) = (path::shown(asked), path::shown(&name));
                    return Err(MergeError::NotADir { path, at });
                }
            }
        }
    }

    /// Follows a path from the root, through links, as far as it goes.
    fn steps(&self, dir: &[u8], asked: &[u8]) -> Result<Steps, MergeError> {
        let mut links = 0;
        // Directories on the way, so that `..` in a link leads back and never above the root.
        let mut trail = vec![ROOT];
        let mut todo: Vec<Vec<u8>> = names(dir).rev().map(<[u8]>::to_vec).collect();
        while let Some(name) = todo.pop() {
            let at = trail.last().copied().unwrap_or(ROOT);
            if name == b".." {
                if trail.len() > 1 {
                    trail.pop();
                }
                continue;
            }
            let Some(slot) = self.children(at).get(&name) else {
                return Ok(Steps::Missing { at, name, depth: trail.len() });
            };
            match self.body(slot.node) {
                Some(Body::Dir(_)) => trail.push(slot.node),
                Some(Body::Symlink { to }) => {
                    links += 1;
                    if links > LINK_LIMIT {
                        return Err(MergeError::Circle { path: path::shown(asked) });
                    }
                    if to.starts_with(b"/") {
                        trail.truncate(1);
                    }
                    todo.extend(names(to).rev().map(<[u8]>::to_vec));
                }
                _ => return Ok(Steps::Blocked { name }),
            }
        }
        Ok(Steps::Dir(trail.last().copied().unwrap_or(ROOT)))
    }
}

enum Steps {
    Dir(usize),
    Missing { at: usize, name: Vec<u8>, depth: usize },
    Blocked { name: Vec<u8> },
}

fn names(text: &[u8]) -> impl DoubleEndedIterator<Item = &[u8]> {
    text.split(|b| *b == b'/').filter(|name| !name.is_empty() && *name != b".")
}

#[cfg(test)]
#[path = "merge_tests.rs"]
mod tests;
