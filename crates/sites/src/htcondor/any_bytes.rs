//! What every reader of HTCondor's answers keeps: no bytes make it panic, none make it say more
//! than its bounds allow.

use super::{ad, ended, jobs, lines, nodes, queue, quoting, submit, submitted, waits, words};
use crate::batch::{MAX_WORDS, Naming, Seen};
use proptest::prelude::*;

/// Attributes that are looked at, with what real answers and bad ones say of them.
fn attribute() -> impl Strategy<Value = String> {
    let names = prop::sample::select(
        jobs::ATTRIBUTES.iter().chain(&nodes::ATTRIBUTES).copied().collect::<Vec<&str>>(),
    );
    let value = prop_oneof![
        3 => any::<i64>().prop_map(|number| number.to_string()),
        3 => (-9..20_i64).prop_map(|number| number.to_string()),
        1 => prop::sample::select(vec!["1e308", "-1e308", "1e999", "0.05", "18446744073709551616"])
            .prop_map(String::from),
        1 => any::<bool>().prop_map(|flag| flag.to_string()),
        3 => prop::sample::select(vec![
            r#""slot1_2@n1.example""#, r#""shipway-s1-a""#, r#""GPU-1, GPU-2""#, r#""16.0""#,
            r#""\u00e4\u0000@""#, "[1,2]", "null", r#"{"Capability":8.0,"GlobalMemoryMb":-1}"#,
        ]).prop_map(String::from),
        1 => any::<String>().prop_map(|text| serde_json::json!(text).to_string()),
    ];
    (names, value).prop_map(|(name, value)| format!("\"{name}\":{value}"))
}

/// Answers that are nearly good.
fn ads() -> impl Strategy<Value = Vec<u8>> {
    // Most of them are of ours, or nothing behind the first check would be reached.
    let ours = format!(
        r#""{}":"shipway-s1-a","ClusterId":1,"ProcId":0,"Name":"slot1@n","Cpus":4,"Memory":9,"#,
        submit::NAME
    );
    let ad = (prop::bool::weighted(0.9), prop::collection::vec(attribute(), 0..20));
    let ad = ad.prop_map(move |(is_ours, attributes)| {
        let ours = if is_ours { ours.as_str() } else { "" };
        format!("{{{ours}{}}}", attributes.join(",")).replace(",}", "}")
    });
    let answer = prop::collection::vec(ad, 0..6).prop_map(|ads| format!("[{}]", ads.join(",")));
    (answer, any::<prop::sample::Index>(), prop::option::weighted(0.2, any::<u8>())).prop_map(
        |(answer, at, byte)| {
            let mut answer = answer.into_bytes();
            if let Some(byte) = byte {
                let at = at.index(answer.len());
                answer[at] = byte;
            }
            answer
        },
    )
}

fn any_answer() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![4 => ads(), 1 => prop::collection::vec(any::<u8>(), 0..400)]
}

fn bounded(seen: &Seen) -> bool {
    seen.words.chars().count() <= MAX_WORDS
}

proptest! {
    #[test]
    fn no_answer_makes_a_reader_panic(answer in any_answer(), other in any_answer()) {
        let naming = Naming { whose: "s1".into() };
        for ad in ad::read(&answer).unwrap_or_default() {
            words::status(&ad);
            words::end(&ad);
            prop_assert!(words::end_words(&ad).chars().count() <= MAX_WORDS);
            prop_assert!(words::held_words(&ad).chars().count() <= MAX_WORDS);
        }
        let queued = queue::read(&answer, &naming).unwrap_or_default();
        let past = ended::read(&other, &naming).unwrap_or_default();
        prop_assert!(jobs::seen(queued, past).iter().all(bounded));
        let slots = nodes::slots(&answer).unwrap_or_default();
        nodes::any_mixed(&slots);
        let all = nodes::completed(slots, nodes::slots(&other).unwrap_or_default());
        let all = nodes::alike(all);
        prop_assert!(all.iter().all(|nodes| nodes.up <= nodes.count && nodes.idle <= nodes.up));
        waits::sentence(&answer);
        let (out, err) = (String::from_utf8_lossy(&answer), String::from_utf8_lossy(&other));
        words::trouble(Some(1), &err);
        prop_assert!(words::complaint(&out, &err).chars().count() <= MAX_WORDS);
        submitted(&out);
    }

    #[test]
    fn no_analysis_makes_a_sentence_that_panics(
        counts in prop::collection::vec(
            prop_oneof![Just(0), Just(3), any::<u64>(), Just(u64::MAX)], 6,
        ),
        between in prop::option::weighted(0.3, any::<String>()),
    ) {
        let says = [
            "are rejected by your job's requirements",
            "reject your job because of their own requirements",
            "match and are already running your jobs",
            "match but are serving other users",
            "are able to run your job",
        ];
        let head = format!("001.000:  Run analysis summary.  Of {} machines,", counts[5]);
        let counted = counts.iter().zip(says).map(|(count, what)| format!("  {count} {what}"));
        let lines: Vec<String> = [head].into_iter().chain(counted).chain(between).collect();
        if let Some(said) = waits::sentence(lines.join("\n").as_bytes()) {
            prop_assert!(said.chars().count() <= MAX_WORDS);
        }
    }

    #[test]
    fn no_line_of_a_site_becomes_more_than_a_statement(line in any::<String>()) {
        if let Ok(line) = lines::checked(&line) {
            prop_assert!(line.contains('=') && !line.contains(char::is_control));
        }
        if let Some(word) = quoting::shell_word(&line) {
            prop_assert!(word.starts_with('\'') && word.ends_with('\''));
        }
        quoting::string(&line);
        quoting::submit_string(&line);
        lines::requirements(&[line]).ok();
    }
}
