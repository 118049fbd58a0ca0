//! What is kept, and what is not believed.

use super::*;

fn digest_of(bytes: &[u8]) -> Digest {
    Digest(Sha256::digest(bytes).into())
}

fn cache(dir: &Path, most: u64) -> Arc<Cache> {
    Arc::new(Cache::open(&dir.join("files"), Bytes(most)))
}

fn claim(cache: &Cache, digest: Digest) -> Claim<'_> {
    match cache.claim(&[digest], 9) {
        Claimed::Mine(mut mine) => mine.pop().expect("one"),
        other => panic!("{other:?}"),
    }
}

fn bring(cache: &Arc<Cache>, bytes: &[u8]) -> Digest {
    let digest = digest_of(bytes);
    let claim = claim(cache, digest);
    let mut coming = claim.begin(0).unwrap();
    coming.write(cache, bytes).unwrap();
    claim.end(coming, bytes.len() as u64).unwrap();
    digest
}

#[test]
fn one_fetches_and_the_others_wait() {
    let dir = tempfile::tempdir().unwrap();
    let cache = cache(dir.path(), 10_000);
    let digest = digest_of(b"abc");
    let mine = claim(&cache, digest);
    assert!(matches!(cache.claim(&[digest], 9), Claimed::OfOthers));
    // Cut off: the next one goes on.
    let mut coming = mine.begin(0).unwrap();
    coming.write(&cache, b"ab").unwrap();
    drop((coming, mine));
    let next = claim(&cache, digest);
    assert_eq!(next.have(), 2);
    let mut coming = next.begin(2).unwrap();
    coming.write(&cache, b"c").unwrap();
    next.end(coming, 3).unwrap();
    assert!(matches!(cache.claim(&[digest], 9), Claimed::AllHere));
    // Another pilot of the folder finds it.
    let again = self::cache(dir.path(), 10_000);
    assert!(matches!(again.claim(&[digest], 9), Claimed::AllHere));
    let mut text = String::new();
    again.pin([digest]).open(&digest).unwrap().read_to_string(&mut text).unwrap();
    assert_eq!(text, "abc");
}

#[test]
fn what_is_not_what_it_should_be_is_not_kept() {
    let dir = tempfile::tempdir().unwrap();
    let cache = cache(dir.path(), 10_000);
    let digest = digest_of(b"abc");
    for (bytes, size) in [(&b"abd"[..], 3), (b"ab", 3), (b"abc", 4)] {
        let claim = claim(&cache, digest);
        let mut coming = claim.begin(0).unwrap();
        coming.write(&cache, bytes).unwrap();
        assert!(matches!(claim.end(coming, size), Err(NotKept::Digest(_))), "{size}");
    }
    assert_eq!(claim(&cache, digest).have(), 0, "nothing of it is left to go on with");
}

#[test]
fn the_longest_unused_go_first_and_nothing_that_is_needed() {
    let dir = tempfile::tempdir().unwrap();
    let cache = cache(dir.path(), 2 * LEAST);
    let [a, b, c] = [b"aaaa", b"bbbb", b"cccc"].map(|bytes| digest_of(bytes));
    bring(&cache, b"aaaa");
    bring(&cache, b"bbbb");
    assert!(matches!(cache.claim(&[a], 9), Claimed::AllHere), "used again");
    bring(&cache, b"cccc");
    let here = |digest: &Digest| cache.content(digest).exists();
    assert_eq!((here(&a), here(&b), here(&c)), (true, false, true));
    let pinned = cache.pin([a, c]);
    bring(&cache, b"dddd");
    assert!(here(&a) && here(&c), "a task is made of them");
    drop(pinned);
    assert!(!here(&a) || !here(&c), "there is room for two");
}

#[test]
fn nothing_is_trusted_after_another_start_of_the_node() {
    let dir = tempfile::tempdir().unwrap();
    let digest = bring(&cache(dir.path(), 10_000), b"abc");
    std::fs::write(dir.path().join("files/boot"), "another").unwrap();
    let again = cache(dir.path(), 10_000);
    assert!(matches!(again.claim(&[digest], 9), Claimed::Mine(_)));
}
