//! The root that an OCI runtime is given: the image itself where nothing may be written, and
//! otherwise a directory of our own with a layer in memory above every directory of the image.
//!
//! Such runtimes take a directory for a root and no overlay, so each directory at the top of the
//! image gets one of its own. It only writes into the bundle; the runtime makes the mounts.

use crate::foreign::looking_at_tree;
use crate::plan::{Container, WritableSpace};
use crate::runtime::LaunchError;
use serde_json::{Value, json};
use std::fs::{self, DirBuilder, File, Metadata};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, symlink};
use std::path::{Path, PathBuf};

/// What the container has of itself: nothing of the image is seen there.
const OWN: [&str; 4] = ["dev", "proc", "sys", "tmp"];

/// Where the layers are inside, until they are covered.
const LAYERS: &str = ".shipway-layers";

/// Most entries at the top of an image: each directory is a mount. No image has so many.
const ENTRY_LIMIT: usize = 256;

#[derive(Debug)]
pub(super) struct Root {
    pub(super) path: PathBuf,
    pub(super) read_only: bool,
    /// Made before all others.
    pub(super) mounts: Vec<Value>,
    pub(super) masked: Option<PathBuf>,
}

/// `lower` is where the user of the container finds the tree.
pub(super) fn make(
    tree: &Path,
    lower: &Path,
    container: &Container,
    bundle: &Path,
) -> Result<Root, LaunchError> {
    let Some(WritableSpace::Memory(bytes)) = container.scratch else {
        let (path, mounts) = (lower.to_owned(), Vec::new());
        return Ok(Root { path, read_only: true, mounts, masked: None });
    };
    let failed = |source| LaunchError::Bundle { dir: bundle.to_owned(), source };
    let path = bundle.join("rootfs");
    let entries = looking_at_tree(container, || entries(tree))?.map_err(failed)?;
    let mut skeleton = Skeleton { lower, root: &path, mounts: vec![layers(bytes)] };
    skeleton.build(&entries).map_err(failed)?;
    let masked = Some(Path::new("/").join(LAYERS));
    Ok(Root { mounts: skeleton.mounts, read_only: false, masked, path })
}

/// Whether a path means only itself in the options of an overlay.
pub(super) fn is_plain(path: &Path) -> bool {
    !path.as_os_str().as_encoded_bytes().iter().any(|byte| b":,\\".contains(byte))
}

/// What is written to the image's directories, in memory. The directories that lie below it are
/// copied into it by the runtime.
fn layers(bytes: u64) -> Value {
    json!({"destination": format!("/{LAYERS}"), "type": "tmpfs", "source": "tmpfs",
        "options": ["nosuid", "nodev", "mode=0755", format!("size={bytes}"), "tmpcopyup"]})
}

/// What is at the top of an image.
struct Entry {
    name: PathBuf,
    found: Metadata,
    /// Of a link.
    leads_to: Option<PathBuf>,
}

fn entries(tree: &Path) -> io::Result<Vec<Entry>> {
    let mut entries = Vec::new();
    for (count, entry) in fs::read_dir(tree)?.enumerate() {
        let entry = entry?;
        if count == ENTRY_LIMIT {
            return Err(io::Error::other("the image has too many entries at its top"));
        }
        let name = entry.file_name();
        // The image's own directory of that name would be no part of the layers.
        if name == LAYERS || OWN.iter().any(|own| name == *own) {
            continue;
        }
        let found = entry.metadata()?;
        let leads_to = found.is_symlink().then(|| entry.path().read_link()).transpose()?;
        entries.push(Entry { name: name.into(), found, leads_to });
    }
    Ok(entries)
}

struct Skeleton<'a> {
    lower: &'a Path,
    root: &'a Path,
    mounts: Vec<Value>,
}

impl Skeleton<'_> {
    fn build(&mut self, entries: &[Entry]) -> io::Result<()> {
        make_dir(self.root, 0o755)?;
        for part in ["", "upper", "work"] {
            make_dir(&self.root.join(LAYERS).join(part), 0o755)?;
        }
        for name in OWN {
            make_dir(&self.root.join(name), 0o755)?;
        }
        entries.iter().try_for_each(|entry| self.add(entry))
    }

    fn add(&mut self, entry: &Entry) -> io::Result<()> {
        let (name, found) = (&entry.name, &entry.found);
        let (lower, place) = (self.lower.join(name), self.root.join(name));
        let destination = Path::new("/").join(name);
        if let Some(leads_to) = &entry.leads_to {
            return symlink(leads_to, place);
        }
        if !found.is_dir() {
            File::create_new(place)?;
            self.mounts.push(json!({"destination": destination, "type": "bind", "source": lower,
                "options": ["bind", "nosuid", "nodev", "ro"]}));
            return Ok(());
        }
        make_dir(&place, 0o755)?;
        let layer = |kind: &str| self.root.join(LAYERS).join(kind).join(name);
        let (upper, work) = (layer("upper"), layer("work"));
        // A directory of two layers looks as it does in the upper of them.
        make_dir(&upper, found.mode() & 0o7777)?;
        make_dir(&work, 0o755)?;
        let option = |name: &str, path: &Path| format!("{name}={}", path.display());
        let layers = [("lowerdir", lower), ("upperdir", upper), ("workdir", work)];
        let layers = layers.iter().map(|(name, path)| option(name, path));
        let options: Vec<String> =
            ["nosuid", "nodev", "userxattr"].map(String::from).into_iter().chain(layers).collect();
        self.mounts.push(json!({"destination": destination, "type": "overlay",
            "source": "overlay", "options": options}));
        Ok(())
    }
}

fn make_dir(path: &Path, mode: u32) -> io::Result<()> {
    DirBuilder::new().mode(mode).create(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Root as Tree;

    #[test]
    fn every_directory_of_the_image_gets_a_layer_and_the_image_none() {
        let dir = tempfile::tempdir().unwrap();
        let (tree, bundle) = (dir.path().join("tree"), dir.path().join("bundle"));
        for name in ["tree", "tree/etc", "tree/proc", "bundle"] {
            fs::create_dir(dir.path().join(name)).unwrap();
        }
        fs::write(tree.join("file"), "x").unwrap();
        symlink("usr/bin", tree.join("bin")).unwrap();
        let mut container = Container::new(Tree::Tree(tree.clone()), vec!["true".into()]);
        let root = make(&tree, &tree, &container, &bundle).unwrap();
        assert_eq!((root.path, root.read_only, root.mounts.len()), (tree.clone(), true, 0));
        container.scratch = Some(WritableSpace::Memory(1 << 20));
        let root = make(&tree, &tree, &container, &bundle).unwrap();
        let mut places: Vec<&str> =
            root.mounts.iter().map(|mount| mount["destination"].as_str().unwrap()).collect();
        places.sort_unstable();
        assert_eq!(places, ["/.shipway-layers", "/etc", "/file"]);
        assert_eq!(fs::read_link(root.path.join("bin")).unwrap(), Path::new("usr/bin"));
        assert_eq!(fs::read_dir(&tree).unwrap().count(), 4, "the image was changed");
    }
}
