//! Devices by the names that batch systems give them: numbers, UUIDs and their beginnings, `CUDA0`.
//! Pure.

use shipway_model::DeviceId;

/// One that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Device {
    pub id: DeviceId,
    /// The number of its file, where it is NVIDIA's and whole.
    pub minor: Option<u32>,
    pub is_amd: bool,
    pub declared: bool,
}

/// Which devices were given, and what is odd about it.
#[derive(Debug, Default)]
pub(super) struct Resolved {
    pub(super) given: Vec<DeviceId>,
    pub(super) from: &'static str,
    pub(super) notes: Vec<String>,
    /// Everything that was named is there.
    pub(super) all_found: bool,
    /// Declared devices by what they are called from now on.
    pub(super) renamed: Vec<(DeviceId, DeviceId)>,
}

/// A device as it was named.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Word {
    /// The device of this number.
    Number(u32),
    /// The one whose id begins like this.
    Id(String),
}

/// Names in one list: no node has more devices, slices included.
const MAX_WORDS: usize = 4_096;
/// What HTCondor says where no device is to be seen.
const NOBODYS_NUMBER: &str = "10000";
/// What Slurm says for the same.
const NO_FILES: &str = "NoDevFiles";
/// What is quoted of a text from outside.
const MAX_QUOTED: usize = 80;
/// An id that says less could be anybody's.
const LEAST_ID: usize = 8;

/// Reads `0,2`, `0-3`, `GPU-a0223334, GPU-b…`, `CUDA0`, `MIG-…`; the text itself where it is none
/// of these.
pub(super) fn words(text: &str) -> Result<Vec<Word>, String> {
    let text = text.trim();
    if text.is_empty() || text == NO_FILES || text == NOBODYS_NUMBER || text == "-1" {
        return Ok(Vec::new());
    }
    let mut words = Vec::new();
    for word in text.split(',').map(str::trim) {
        words.extend(read(word).ok_or_else(|| quoted(text))?);
        if words.len() > MAX_WORDS {
            return Err(quoted(text));
        }
    }
    words.dedup();
    Ok(words)
}

fn read(word: &str) -> Option<Vec<Word>> {
    let number = |text: &str| {
        let plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        plain.then(|| text.parse::<u32>().ok()).flatten()
    };
    let after = ["CUDA", "OCL"].iter().find_map(|prefix| number(word.strip_prefix(prefix)?));
    if let Some(one) = number(word).or(after) {
        return Some(vec![Word::Number(one)]);
    }
    if let Some((Some(from), Some(to))) =
        word.split_once('-').map(|(from, to)| (number(from), number(to)))
    {
        let span = to.checked_sub(from)?;
        let fits = usize::try_from(span).is_ok_and(|span| span < MAX_WORDS);
        return fits.then(|| (from..=to).map(Word::Number).collect());
    }
    let is_id = word.len() >= LEAST_ID && (word.starts_with("GPU-") || word.starts_with("MIG-"));
    is_id.then(|| vec![Word::Id(word.to_owned())])
}

/// A text from outside as it can be shown.
pub(super) fn quoted(text: &str) -> String {
    let plain = |c: char| if c.is_control() { ' ' } else { c };
    let short: String = text.chars().map(plain).take(MAX_QUOTED).collect();
    format!("`{short}`")
}

impl Resolved {
    /// All there are.
    pub(super) fn all(found: &[Device]) -> Self {
        let given = found.iter().map(|device| device.id.clone()).collect();
        Resolved { given, from: "what was found", ..Resolved::default() }
    }

    pub(super) fn none(from: &'static str) -> Self {
        Resolved { from, all_found: true, ..Resolved::default() }
    }

    /// Those among `found` that the words name. Numbers are of files where `by_file` says so and
    /// all of them are there; otherwise they count what is found.
    pub(super) fn of(
        words: &[Word],
        from: &'static str,
        found: &[&Device],
        by_file: Option<&[u32]>,
    ) -> Self {
        let mut resolved = Resolved { from, all_found: true, ..Resolved::default() };
        if let Some(devices) = by_file.and_then(|minors| files(minors, found)) {
            resolved.given = devices;
            return resolved;
        }
        let mut missing = Vec::new();
        for word in words {
            match one(word, found) {
                Ok(device) if resolved.given.contains(&device.id) => {}
                Ok(device) => resolved.given.push(device.id.clone()),
                Err(what) => missing.extend((!resolved.declare(word, found)).then_some(what)),
            }
        }
        resolved.all_found = missing.is_empty();
        resolved.notes.extend(missing);
        resolved
    }
}

impl Resolved {
    /// Where nobody looks for devices, one that was declared is the one that was named: so two
    /// pilots of a node never have the same, and what one has is called as others call it.
    fn declare(&mut self, word: &Word, found: &[&Device]) -> bool {
        let Word::Id(name) = word else { return false };
        if !found.iter().all(|device| device.declared) || is_of_any(name, found) {
            return false;
        }
        let is_free = |device: &&&Device| {
            let was_renamed = self.renamed.iter().any(|(before, _)| *before == device.id);
            !was_renamed && !self.given.contains(&device.id)
        };
        let Some(device) = found.iter().find(is_free) else { return false };
        let Ok(id) = DeviceId::new(name) else { return false };
        if !self.given.contains(&id) {
            self.renamed.push((device.id.clone(), id.clone()));
            self.given.push(id);
        }
        true
    }
}

fn is_of_any(name: &str, found: &[&Device]) -> bool {
    found.iter().any(|device| device.id.as_str().starts_with(name))
}

/// The devices of these files, if all are there. A slice has no file of its own: where there are
/// some, numbers count slices too, and would name other GPUs than were given.
fn files(minors: &[u32], found: &[&Device]) -> Option<Vec<DeviceId>> {
    if found.iter().any(|device| device.minor.is_none() && !device.declared) {
        return None;
    }
    let of = |minor: &u32| found.iter().find(|device| device.minor == Some(*minor));
    minors.iter().map(|minor| of(minor).map(|device| device.id.clone())).collect()
}

fn one<'a>(word: &Word, found: &[&'a Device]) -> Result<&'a Device, String> {
    match word {
        Word::Number(number) => {
            let at = usize::try_from(*number).unwrap_or(usize::MAX);
            found.get(at).copied().ok_or_else(|| {
                format!("the batch system gave device {number}, and {} found", shown(found))
            })
        }
        Word::Id(start) => {
            let mut alike = found.iter().filter(|device| device.id.as_str().starts_with(start));
            match (alike.next(), alike.next()) {
                (Some(device), None) => Ok(device),
                (Some(_), Some(_)) => Err(format!(
                    "the batch system gave device {}, and several are called so",
                    quoted(start)
                )),
                (None, _) => Err(format!(
                    "the batch system gave device {}, and {} found, none so called",
                    quoted(start),
                    shown(found)
                )),
            }
        }
    }
}

fn shown(found: &[&Device]) -> String {
    match found.len() {
        0 => "none was".into(),
        1 => "only 0 was".into(),
        count => format!("only 0..{} were", count - 1),
    }
}
