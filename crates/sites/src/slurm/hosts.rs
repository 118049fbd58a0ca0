//! Slurm's short form of many hosts: `n[1-3,07],login`. Bounded: an answer of a few letters may
//! stand for more names than there is memory.

/// More nodes than one allocation of ours has.
pub(super) const MAX_HOSTS: usize = 4096;
/// Of one host, or what stands between two brackets of it.
const MAX_NAME: usize = 255;
/// As many dimensions as a name of Slurm's has at most. Each more would multiply the work.
const MAX_BRACKETS: usize = 4;
/// A longer number in a host's name is no number.
const MAX_DIGITS: usize = 9;

/// All names, or as many as [`MAX_HOSTS`]. What is not a host list gives what could be read of it.
pub(super) fn expand(list: &str) -> Vec<String> {
    let mut hosts = Vec::new();
    for part in split_outside(list.trim()) {
        // What Slurm writes where there is none.
        let room = MAX_HOSTS - hosts.len();
        if room > 0 && !matches!(part, "" | "(null)" | "N/A") {
            hosts.extend(one(part, room));
        }
    }
    hosts
}

/// At commas that are not within brackets.
pub(super) fn split_outside(list: &str) -> impl Iterator<Item = &str> {
    let mut depth = 0_usize;
    list.split(move |c| {
        match c {
            '[' | '(' => depth += 1,
            ']' | ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        c == ',' && depth == 0
    })
}

/// `rack[1-2]n[1-4]`: each bracket multiplies what stood before it.
fn one(part: &str, room: usize) -> Vec<String> {
    let mut names = vec![String::new()];
    let mut rest = part;
    for _ in 0..MAX_BRACKETS {
        let bracket = rest.split_once('[');
        let bracket = bracket.and_then(|(before, rest)| Some((before, rest.split_once(']')?)));
        let Some((before, (inside, after))) = bracket.filter(|(it, _)| it.len() <= MAX_NAME) else {
            break;
        };
        let numbers = numbers(inside, room);
        let ways = names
            .iter()
            .flat_map(|name| numbers.iter().map(move |number| format!("{name}{before}{number}")));
        names = ways.take(room).collect();
        rest = after;
    }
    // What is left of a text that is no list of hosts may be long.
    if rest.len() > MAX_NAME {
        return Vec::new();
    }
    for name in &mut names {
        name.push_str(rest);
    }
    names.truncate(room);
    names
}

/// `1-3,07`, with the zeros that stand before.
fn numbers(inside: &str, room: usize) -> Vec<String> {
    let mut all = Vec::new();
    for range in inside.split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let width = first.len();
        let digits = |text: &str| -> Option<u32> {
            let good = text.len() <= MAX_DIGITS && text.bytes().all(|byte| byte.is_ascii_digit());
            good.then(|| text.parse().ok())?
        };
        match (digits(first), digits(last)) {
            (Some(first), Some(last)) => {
                let numbers = (first..=last).map(|number| format!("{number:0width$}"));
                all.extend(numbers.take(room.saturating_sub(all.len())));
            }
            _ if range.len() <= MAX_NAME => all.push(range.to_string()),
            _ => {}
        }
    }
    all.truncate(room);
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_forms_are_written_out() {
        let table: [(&str, &[&str]); 8] = [
            ("n1", &["n1"]),
            ("", &[]),
            ("(null)", &[]),
            ("n[1-3,7],login", &["n1", "n2", "n3", "n7", "login"]),
            ("gpu[08-10]", &["gpu08", "gpu09", "gpu10"]),
            ("r[1-2]n[1-2]", &["r1n1", "r1n2", "r2n1", "r2n2"]),
            ("a[1].site,b", &["a1.site", "b"]),
            ("n[3-1]", &[]),
        ];
        for (list, names) in table {
            assert_eq!(expand(list), names, "{list}");
        }
    }

    #[test]
    fn no_list_is_more_than_the_bound() {
        for list in ["n[0-999999999]", "n[0-9999]m[0-9999]k[0-9999]"] {
            assert_eq!(expand(list).len(), MAX_HOSTS, "{list}");
        }
        assert_eq!(expand(&"n[0-4000],".repeat(50)).len(), MAX_HOSTS);
        let deep = "[0-9]".repeat(3000);
        assert!(expand(&deep).is_empty(), "nor is it more work than that");
        for odd in ["n[", "n]1[", "[[1-2]]", "n[1-99999999999]", "n[-]", "n[,]"] {
            assert!(expand(odd).len() <= 2, "{odd}");
        }
    }
}
