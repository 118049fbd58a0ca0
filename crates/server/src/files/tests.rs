//! What is taken, what is refused, and what is removed. Whoever uploads means harm here.

use super::*;
use sha2::{Digest as _, Sha256};
use shipway_api::pack::Heading;
use shipway_model::manifest::TravellingFile;
use shipway_model::{Attempt, JobId, TaskIndex, Timestamp};
use std::io::Read;
use std::time::{Duration, SystemTime};

const DAY: Duration = Duration::from_hours(24);

fn store(dir: &tempfile::TempDir, quota: u64) -> FileStore {
    let limits = Limits { quota: Bytes(quota), ..Limits::default() };
    FileStore::new(dir.path().join("files"), limits)
}

fn whose(name: &str) -> Whose {
    Whose::new(&UserName::new(name).unwrap(), None)
}

fn digest_of(bytes: &[u8]) -> Digest {
    Digest(Sha256::digest(bytes).into())
}

/// A piece of a content, from an offset on.
fn piece(content: &[u8], offset: usize, end: usize) -> Vec<u8> {
    said(digest_of(content), content.len(), (offset, end - offset), &content[offset..end])
}

fn said(digest: Digest, size: usize, (offset, length): (usize, usize), bytes: &[u8]) -> Vec<u8> {
    let [size, offset, length] = [size, offset, length].map(|it| it as u64);
    [&Heading { digest, size, offset, length }.write()[..], bytes].concat()
}

fn whole(content: &[u8]) -> Vec<u8> {
    piece(content, 0, content.len())
}

fn put(store: &FileStore, user: &Whose, bytes: &[u8]) -> Result<Taken, FilesError> {
    store.take_pack(user, &mut &bytes[..])
}

fn text(store: &FileStore, user: &Whose, digest: &Digest) -> Vec<u8> {
    let mut text = Vec::new();
    store.open(user, digest).expect("it is here").0.read_to_end(&mut text).unwrap();
    text
}

/// A list of files, uploaded with them.
fn listed(store: &FileStore, user: &Whose, contents: &[&[u8]]) -> Digest {
    let file = |content: &&[u8]| TravellingFile {
        path: digest_of(content).hex(),
        size: content.len() as u64,
        sha256: digest_of(content),
        executable: false,
    };
    let files = contents.iter().map(file).collect();
    let manifest = Manifest { files, ..Manifest::default() };
    let manifest = serde_json::to_vec(&manifest).unwrap();
    let all: Vec<u8> = contents.iter().flat_map(|content| whole(content)).collect();
    put(store, user, &[all, whole(&manifest)].concat()).unwrap();
    digest_of(&manifest)
}

#[test]
fn many_contents_come_in_one_request_and_nobody_elses_are_there() {
    let dir = tempfile::tempdir().unwrap();
    let (store, ada, eve) = (store(&dir, 1 << 24), whose("ada"), whose("eve"));
    let contents: Vec<Vec<u8>> = (0..600_u32).map(|at| at.to_be_bytes().to_vec()).collect();
    let all: Vec<u8> = contents.iter().flat_map(|content| whole(content)).collect();
    let taken = put(&store, &ada, &[all, whole(b"")].concat()).unwrap();
    assert_eq!(taken, Taken { files: 601, bytes: 2_400 });
    assert_eq!(store.used(&ada), 2_400 + 601 * LEAST, "each file takes room of its own");
    let wanted: Vec<_> = contents.iter().map(|it| (digest_of(it), 4)).collect();
    assert_eq!(store.missing(&ada, &wanted), []);
    assert_eq!(text(&store, &ada, &digest_of(&contents[7])), contents[7]);
    // Who knows a digest has no right to it, and does not even learn that it is there.
    assert_eq!(store.missing(&eve, &wanted).len(), 600);
    assert!(matches!(store.open(&eve, &wanted[0].0), Err(FilesError::Missing(_))));
    let mode = std::fs::metadata(store.content(&ada, &wanted[0].0)).unwrap().permissions();
    assert_eq!(std::os::unix::fs::PermissionsExt::mode(&mode) & 0o777, 0o600);
}

#[test]
fn an_upload_that_is_cut_off_goes_on_where_it_stopped() {
    let dir = tempfile::tempdir().unwrap();
    let (store, ada) = (store(&dir, 1 << 20), whose("ada"));
    let content = vec![7; 100_000];
    let digest = digest_of(&content);
    let cut = put(&store, &ada, &whole(&content)[..40_056]);
    assert!(matches!(cut, Err(FilesError::Pack(_))), "{cut:?}");
    let wanted = [(digest, 100_000)];
    assert_eq!(store.missing(&ada, &wanted), [(digest, 40_000)]);
    // From elsewhere is refused, and changes nothing.
    let wrong = put(&store, &ada, &piece(&content, 50_000, 100_000));
    assert!(matches!(wrong, Err(FilesError::Offset { have: 40_000, .. })), "{wrong:?}");
    put(&store, &ada, &piece(&content, 40_000, 70_000)).unwrap();
    // Killed: the next server reads what is there again.
    let again = self::store(&dir, 1 << 20);
    assert_eq!(again.missing(&ada, &wanted), [(digest, 70_000)]);
    assert!(matches!(again.open(&ada, &digest), Err(FilesError::Missing(_))), "not a part of it");
    put(&again, &ada, &piece(&content, 70_000, 100_000)).unwrap();
    assert_eq!(text(&again, &ada, &digest), content);
    assert_eq!(again.used(&ada), 100_000 + LEAST);
}

#[test]
fn what_is_not_what_it_says_is_not_kept() {
    let dir = tempfile::tempdir().unwrap();
    let (store, ada) = (store(&dir, 1 << 20), whose("ada"));
    let digest = digest_of(b"abc");
    let other = put(&store, &ada, &said(digest, 3, (0, 3), b"abd"));
    assert!(matches!(other, Err(FilesError::Digest(_))), "{other:?}");
    // Larger than the content is: read as the next heading, which it is not.
    let longer = put(&store, &ada, &said(digest, 3, (0, 3), b"abcd"));
    assert!(matches!(longer, Err(FilesError::Pack(_))), "{longer:?}");
    let dir = tempfile::tempdir().unwrap();
    let store = self::store(&dir, 1 << 20);
    let longer = put(&store, &ada, &said(digest, 4, (0, 4), b"abcd"));
    assert!(matches!(longer, Err(FilesError::Digest(_))), "{longer:?}");
    let beyond = put(&store, &ada, &said(digest, 3, (2, 5), b"abcde"));
    assert!(matches!(beyond, Err(FilesError::Pack(_))), "{beyond:?}");
    assert_eq!(store.missing(&ada, &[(digest, 3)]), [(digest, 0)]);
    assert_eq!(store.used(&ada), 0, "nothing of it counts");
}

#[test]
fn a_quota_is_kept_and_what_was_cut_off_counts() {
    let dir = tempfile::tempdir().unwrap();
    let quota = 100 + 2 * LEAST;
    let (store, ada, eve) = (store(&dir, quota), whose("ada"), whose("eve"));
    put(&store, &ada, &whole(&[1; 60])).unwrap();
    let refused = put(&store, &ada, &whole(&[2; 60])).unwrap_err();
    let (wanted, all) = (Bytes(quota + 20), Bytes(quota));
    let said_so =
        format!("your files here would take {wanted} of the {all} that one user may have");
    assert_eq!(refused.to_string(), said_so);
    // It says that it is small, and goes on and on.
    let refused = put(&store, &ada, &said(digest_of(b"x"), 1, (0, 1), &[3; 90]));
    assert!(refused.is_err());
    assert!(store.used(&ada) <= 61 + 2 * LEAST, "{}", store.used(&ada));
    put(&store, &eve, &whole(&[2; 60])).unwrap();
    let cut = put(&store, &eve, &whole(&[4; 40])[..76]);
    assert!(cut.is_err());
    assert_eq!(store.used(&eve), 80 + 2 * LEAST, "a part of one is there");
    assert!(matches!(put(&store, &eve, &whole(&[5; 30])), Err(FilesError::Quota { .. })));
    // The same is found by whoever counts anew.
    assert_eq!(self::store(&dir, quota).used(&eve), 80 + 2 * LEAST);
}

#[test]
fn names_of_contents_that_never_come_take_no_room() {
    let dir = tempfile::tempdir().unwrap();
    let (store, ada) = (store(&dir, 1 << 20), whose("ada"));
    let nothing = |at: u8, offset| said(digest_of(&[at]), 9, (offset, 0), b"");
    let many: Vec<u8> = (0..100).flat_map(|at| nothing(at, 0)).collect();
    let _refused_or_not = put(&store, &ada, &many);
    let _refused = put(&store, &ada, &nothing(200, 5));
    let parts = std::fs::read_dir(store.folder(&ada).join("part")).map_or(0, Iterator::count);
    assert_eq!((parts, store.used(&ada)), (0, 0));
}

#[test]
fn a_content_that_comes_twice_in_a_request_is_one() {
    let dir = tempfile::tempdir().unwrap();
    let (store, ada) = (store(&dir, 1 << 20), whose("ada"));
    let taken = put(&store, &ada, &[whole(b"abc"), whole(b"abc"), whole(b"d")].concat());
    assert_eq!(taken.unwrap(), Taken { files: 2, bytes: 4 });
}

#[test]
fn whoever_records_a_job_at_the_same_time_as_others_does_so() {
    let dir = tempfile::tempdir().unwrap();
    let (store, ada) = (store(&dir, 1 << 20), whose("ada"));
    let list = listed(&store, &ada, &[b"x"]);
    for job in 1..50 {
        std::thread::scope(|scope| {
            let record = || store.record(&ada, JobId(job), &list);
            let both = [scope.spawn(record), scope.spawn(record)];
            for one in both {
                one.join().unwrap().expect("it is recorded");
            }
        });
    }
    assert_eq!(store.jobs().len(), 49);
}

#[test]
fn whoever_begins_anew_does_not_change_what_was_verified() {
    let dir = tempfile::tempdir().unwrap();
    let (store, ada) = (store(&dir, 1 << 20), whose("ada"));
    let digest = digest_of(b"abc");
    let mut first = store.begin(&ada, (digest, 3), 0).unwrap();
    first.write(b"abc").unwrap();
    let whole = first.end().unwrap().expect("all of it came");
    assert!(matches!(store.begin(&ada, (digest, 3), 0), Err(FilesError::Busy(_))));
    store.drop_unnamed(&ada, std::slice::from_ref(&whole));
    let mut other = store.begin(&ada, (digest, 2), 0).unwrap();
    other.write(b"{}").unwrap();
    let mut kept = String::new();
    std::io::Seek::rewind(&mut &whole.file).unwrap();
    (&whole.file).read_to_string(&mut kept).unwrap();
    assert_eq!(kept, "abc");
}

#[test]
fn a_job_comes_with_what_its_owner_has() {
    let dir = tempfile::tempdir().unwrap();
    let (store, ada, eve) = (store(&dir, 1 << 20), whose("ada"), whose("eve"));
    let list = listed(&store, &ada, &[b"a", b"b"]);
    store.check(&ada, &list).unwrap();
    assert!(matches!(store.check(&eve, &list), Err(FilesError::Missing(_))));
    // Eve has the list, and nothing that it names.
    let mut manifest = Vec::new();
    store.open(&ada, &list).unwrap().0.read_to_end(&mut manifest).unwrap();
    put(&store, &eve, &whole(&manifest)).unwrap();
    assert!(matches!(store.check(&eve, &list), Err(FilesError::Missing(_))));
    for wrong in [&b"{"[..], br#"{"files":[{"path":"../x","size":0,"sha256":"sha256:"}]}"#] {
        put(&store, &eve, &whole(wrong)).unwrap();
        let refused = store.check(&eve, &digest_of(wrong));
        assert!(matches!(refused, Err(FilesError::Unreadable(_))), "{refused:?}");
    }
    let out = format!(r#"{{"files":[{{"path":"../x","size":1,"sha256":"{}"}}]}}"#, digest_of(b"a"));
    put(&store, &ada, &whole(out.as_bytes())).unwrap();
    let refused = store.check(&ada, &digest_of(out.as_bytes()));
    assert!(matches!(refused, Err(FilesError::Manifest { .. })), "{refused:?}");
}

#[test]
fn outputs_are_there_whole_or_not_at_all() {
    let dir = tempfile::tempdir().unwrap();
    let (store, ada) = (store(&dir, 1 << 20), whose("ada"));
    let list = listed(&store, &ada, &[b"a", b"b"]);
    let task = JobId(3).task(TaskIndex(5));
    std::fs::remove_file(store.content(&ada, &digest_of(b"b"))).unwrap();
    let wanted = store.offer(&ada, (task, Attempt(2)), &list).unwrap();
    assert_eq!(wanted, [(digest_of(b"b"), 0)]);
    assert!(store.outputs(&ada, task).unwrap().is_none());
    put(&store, &ada, &whole(b"b")).unwrap();
    assert_eq!(store.offer(&ada, (task, Attempt(2)), &list).unwrap(), []);
    let (kept, manifest) = store.outputs(&ada, task).unwrap().expect("they are there");
    assert_eq!((kept.attempt, manifest.files.len()), (Attempt(2), 2));
    assert_eq!(store.tasks_with_outputs(&ada, JobId(3), TaskIndex(0), 9), [TaskIndex(5)]);
    assert_eq!(store.tasks_with_outputs(&ada, JobId(3), TaskIndex(6), 9), []);
    assert!(store.outputs(&whose("eve"), task).unwrap().is_none());
}

#[test]
fn what_no_job_needs_is_removed_after_a_time() {
    let dir = tempfile::tempdir().unwrap();
    let (store, ada) = (store(&dir, 1 << 20), whose("ada"));
    let open = listed(&store, &ada, &[b"open"]);
    let over = listed(&store, &ada, &[b"over"]);
    let made = listed(&store, &ada, &[b"made"]);
    put(&store, &ada, &whole(b"nobody's")).unwrap();
    put(&store, &ada, &whole(b"a part")[..58]).unwrap_err();
    store.record(&ada, JobId(1), &open).unwrap();
    store.record(&ada, JobId(2), &over).unwrap();
    store.offer(&ada, (JobId(2).task(TaskIndex(0)), Attempt(1)), &made).unwrap();
    assert_eq!(store.jobs(), [JobId(1), JobId(2)].into());
    let now = SystemTime::now();
    let millis = now.duration_since(std::time::UNIX_EPOCH).unwrap().as_millis();
    let ended = Standing::OverSince(Timestamp(u64::try_from(millis).unwrap()));
    let standing = [(JobId(1), Standing::Open), (JobId(2), ended)].into();
    assert_eq!(store.sweep(now + DAY / 2, &standing).unwrap(), 0, "all of it is new");
    let has = |content: &[u8]| store.open(&ada, &digest_of(content)).is_ok();
    let later = now + 13 * DAY;
    assert_eq!(store.sweep(later, &standing).unwrap(), 2, "the part alone");
    assert!(has(b"nobody's") && has(b"over"));
    let later = now + 15 * DAY;
    let before = store.used(&ada);
    store.sweep(later, &standing).unwrap();
    assert!(has(b"open") && !has(b"over") && !has(b"made") && !has(b"nobody's"));
    assert!(store.used(&ada) < before);
    assert_eq!(store.used(&ada), self::store(&dir, 1 << 20).used(&ada));
    assert_eq!(store.jobs(), [JobId(1)].into());
    store.check(&ada, &open).unwrap();
}

#[test]
fn whoever_uploads_much_at_once_waits() {
    let dir = tempfile::tempdir().unwrap();
    let (store, ada) = (store(&dir, 1 << 20), whose("ada"));
    let mut all: Vec<_> =
        (0..UPLOADS_OF_ONE).map(|_| store.upload(&ada).expect("a place")).collect();
    assert!(store.upload(&ada).is_none());
    assert!(store.upload(&whose("eve")).is_some());
    all.pop();
    assert!(store.upload(&ada).is_some());
}
