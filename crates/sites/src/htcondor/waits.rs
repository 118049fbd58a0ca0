//! Why an allocation waits, from what `condor_q -better-analyze` says: one sentence that is true,
//! or none. Its counts are of slots, those cut out for jobs too, so only its nothings are used;
//! the machines it counts in its summary are machines.

use super::words::cut;

/// Its text is some two pages.
const MAX_LINES: usize = 2_000;

pub(super) fn command(id: &str) -> Vec<String> {
    ["condor_q", "-better-analyze", id].map(String::from).to_vec()
}

/// `None`: it says nothing that we understand.
pub(super) fn sentence(stdout: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(stdout);
    let lines: Vec<&str> = text.lines().take(MAX_LINES).map(str::trim).collect();
    // Then it does not wait, and the counts are those of one that would.
    let elsewhere = |line: &&str| line.split_once(": ").is_some_and(|it| is_state(it.1.trim()));
    if lines.iter().any(elsewhere) {
        return None;
    }
    let machines = lines.iter().find_map(|line| {
        let count = line.split_once(" Of ")?.1.split_once(" machines")?.0;
        count.parse::<u64>().ok()
    })?;
    let counted = |what: &str| {
        let line = lines.iter().find(|line| line.ends_with(what))?;
        line.split_whitespace().next()?.parse::<u64>().ok()
    };
    let rejected = counted("are rejected by your job's requirements")?;
    let rejecting = counted("reject your job because of their own requirements")?;
    let ours = counted("match and are already running your jobs")?;
    let others = counted("match but are serving other users")?;
    let able = counted("are able to run your job")?;
    let busy = ours.saturating_add(others);
    let sentence = if able > 0 {
        format!("{able} of {machines} machines can run it, and will be asked soon")
    } else if machines == 0 {
        "the pool has no machines now".into()
    } else if busy > 0 {
        format!(
            "{busy} of {machines} machines would do: {ours} run our own jobs, {others} those of \
             others"
        )
    } else if let Some(condition) = unmet(&lines).filter(|_| rejected == machines) {
        format!("none of {machines} machines has {condition}")
    } else {
        format!(
            "of {machines} machines, {rejected} do not have what it asks for and {rejecting} do \
             not take it"
        )
    };
    Some(cut(&sentence))
}

fn is_state(words: &str) -> bool {
    words.starts_with("Job is ")
}

/// The first condition that nothing meets, with what it is compared to.
fn unmet(lines: &[&str]) -> Option<String> {
    let condition = lines.iter().find_map(|line| {
        let (step, rest) = line.split_once(']')?;
        let (count, condition) = rest.trim_start().split_once(char::is_whitespace)?;
        let unmet = count == "0" || count == "never";
        (step.starts_with('[') && unmet).then(|| condition.trim())
    })?;
    let defined = lines.iter().skip_while(|line| !line.contains("defines the following")).skip(1);
    let defined = defined.take_while(|line| !line.contains("reduces to"));
    let named: Vec<&str> = defined
        .filter(|line| line.split_once(" = ").is_some_and(|(name, _)| has_word(condition, name)))
        .copied()
        .collect();
    let named = if named.is_empty() { String::new() } else { format!(", {}", named.join(", ")) };
    Some(format!("`{condition}`{named}"))
}

fn has_word(text: &str, word: &str) -> bool {
    text.split(|c: char| !c.is_alphanumeric() && c != '_').any(|it| it == word)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn summary(counts: [u32; 5]) -> String {
        let [rejected, rejecting, ours, others, able] = counts;
        format!(
            "[0]   4  A\n[1]  0  B >= RequestB\nJob 1.0 defines the following attributes:\n\
             RequestB = 7 (mb)\nRequest = 9\nreduces to\n\
             001.000:  Run analysis summary ignoring user priority.  Of 5 machines,\n\
             {rejected} are rejected by your job's requirements\n\
             {rejecting} reject your job because of their own requirements\n\
             {ours} match and are already running your jobs\n\
             {others} match but are serving other users\n\
             {able} are able to run your job\n"
        )
    }

    #[test]
    fn one_sentence_says_what_is_missing() {
        let of = |counts| sentence(summary(counts).as_bytes()).expect("understood");
        let none = "none of 5 machines has `B >= RequestB`, RequestB = 7 (mb)";
        assert_eq!(of([5, 0, 0, 0, 0]), none);
        assert!(of([3, 2, 0, 0, 0]).starts_with("of 5 machines, 3 do not have"));
        let busy = "3 of 5 machines would do: 1 run our own jobs, 2 those of others";
        assert_eq!(of([2, 0, 1, 2, 0]), busy);
        assert!(of([0, 0, 0, 0, 5]).starts_with("5 of 5 machines can run it"));
    }

    #[test]
    fn what_is_not_understood_says_nothing() {
        assert_eq!(sentence(b""), None);
        assert_eq!(sentence(b"Of 5 machines,\nfoo are able to run your job"), None);
        assert_eq!(sentence(b"\xff\xfe Of x machines"), None);
    }
}
