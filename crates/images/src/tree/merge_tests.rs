//! Layers over each other: what stays, what goes, where links lead.

use super::*;

fn entry(path: &str, what: What) -> Entry {
    Entry { path: path.into(), meta: Meta { mode: 0o700, ..Meta::default() }, what }
}

fn file(path: &str, mark: u8) -> Entry {
    entry(path, What::File { object: ObjectId([mark; 32]), size: 1 })
}

fn link(path: &str, to: &str) -> Entry {
    entry(path, What::Symlink { to: to.into() })
}

fn hard(path: &str, to: &str) -> Entry {
    entry(path, What::HardLink { to: to.into() })
}

fn dir(path: &str) -> Entry {
    entry(path, What::Dir)
}

fn gone(path: &str) -> Entry {
    entry(path, What::Whiteout)
}

fn opaque(path: &str) -> Entry {
    entry(path, What::Opaque)
}

fn merged(layers: &[Vec<Entry>]) -> Result<String, MergeError> {
    let layers: Vec<LayerIndex> = layers
        .iter()
        .map(|entries| LayerIndex { entries: entries.clone(), ..LayerIndex::default() })
        .collect();
    let tree = merge(&layers)?;
    let mut out = Vec::new();
    list(&tree, ROOT, "", &mut out);
    Ok(out.join(" "))
}

fn list(tree: &Tree, at: usize, prefix: &str, out: &mut Vec<String>) {
    for (name, slot) in tree.children(at) {
        let path = format!("{prefix}{}", String::from_utf8_lossy(name));
        match &tree.nodes[slot.node].body {
            Body::Dir(_) => {
                out.push(format!("{path}/"));
                list(tree, slot.node, &format!("{path}/"), out);
            }
            Body::File { object, .. } => out.push(format!("{path}={}", object.0[0])),
            Body::Symlink { .. } => out.push(format!("{path}@")),
            Body::Fifo => out.push(format!("{path}|")),
        }
    }
}

#[test]
fn layers_lie_over_each_other() {
    let cases: Vec<(&str, Vec<Vec<Entry>>, &str)> = vec![
        ("parents are made", vec![vec![file("a/b/c", 1)]], "a/ a/b/ a/b/c=1"),
        ("the last word counts", vec![vec![file("a", 1), file("a", 2)]], "a=2"),
        ("above wins", vec![vec![file("a", 1)], vec![file("a", 2)]], "a=2"),
        ("file over dir", vec![vec![file("a/b", 1)], vec![file("a", 2)]], "a=2"),
        ("dir over file", vec![vec![file("a", 1)], vec![file("a/b", 2)]], ""),
        (
            "dir over file, said",
            vec![vec![file("a", 1)], vec![dir("a"), file("a/b", 2)]],
            "a/ a/b=2",
        ),
        ("dir over link", vec![vec![dir("t"), link("a", "t")], vec![dir("a")]], "a/ t/"),
        ("dir keeps what it has", vec![vec![file("a/b", 1)], vec![dir("a")]], "a/ a/b=1"),
        ("gone", vec![vec![file("a/b", 1), file("a/c", 1)], vec![gone("a/b")]], "a/ a/c=1"),
        ("gone with all in it", vec![vec![file("a/b/c", 1)], vec![gone("a")]], ""),
        ("gone and come again", vec![vec![file("a", 1)], vec![gone("a"), file("a", 2)]], "a=2"),
        ("the order is free", vec![vec![file("a", 1)], vec![file("a", 2), gone("a")]], "a=2"),
        ("nothing to hide", vec![vec![gone("x/y"), file("a", 1)]], "a=1"),
        (
            "opaque hides below only",
            vec![vec![file("a/b", 1), file("a/d/e", 1)], vec![file("a/d/f", 2), opaque("a")]],
            "a/ a/d/ a/d/f=2",
        ),
        ("opaque root", vec![vec![file("a", 1)], vec![opaque(""), file("b", 2)]], "b=2"),
        ("hard link up", vec![vec![file("a", 1)], vec![hard("b", "a")]], "a=1 b=1"),
        ("hard link outlives", vec![vec![file("a", 1)], vec![hard("b", "a"), gone("a")]], "b=1"),
    ];
    for (what, layers, wanted) in cases {
        match merged(&layers) {
            Ok(found) => assert_eq!(found, wanted, "{what}"),
            Err(error) => assert_eq!(wanted, "", "{what}: {error}"),
        }
    }
}

#[test]
fn links_on_the_way_lead_inside() {
    for (to, wanted) in [
        ("usr/lib", "lib@ usr/ usr/lib/ usr/lib/x=2"),
        ("/usr/lib", "lib@ usr/ usr/lib/ usr/lib/x=2"),
        ("../../../usr/lib", "lib@ usr/ usr/lib/ usr/lib/x=2"),
        ("/", "lib@ usr/ usr/lib/ x=2"),
        (
            "/proc/self/root",
            "lib@ proc/ proc/self/ proc/self/root/ proc/self/root/x=2 usr/ usr/lib/",
        ),
    ] {
        let layers = [vec![dir("usr/lib"), link("lib", to)], vec![file("lib/x", 2)]];
        assert_eq!(merged(&layers).as_deref(), Ok(wanted), "{to}");
    }
    let circle = [vec![link("a", "b"), link("b", "a"), file("a/x", 1)]];
    assert!(matches!(merged(&circle), Err(MergeError::Circle { .. })));
}

#[test]
fn what_cannot_be_is_an_error() {
    assert!(matches!(merged(&[vec![hard("a", "b")]]), Err(MergeError::NoTarget { .. })));
    assert!(matches!(merged(&[vec![hard("a", "")]]), Err(MergeError::NoTarget { .. })));
    let to_dir = [vec![dir("d"), hard("a", "d")]];
    assert!(matches!(merged(&to_dir), Err(MergeError::LinkToDir { .. })));
    let below_file = [vec![file("a", 1), file("a/b", 1)]];
    assert!(matches!(merged(&below_file), Err(MergeError::NotADir { .. })));
}
