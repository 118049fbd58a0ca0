//! What every reader of Slurm's answers keeps: no bytes make it panic, none make it say more than
//! its bounds allow.

use super::{ended, gres, hosts, nodes, options, queue, states, words};
use crate::batch::{MAX_WORDS, Naming, Seen};
use proptest::prelude::*;

/// Texts of what real answers are made of, so that more than the first check is reached.
fn answers() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        4 => Just("\u{1f}".to_string()),
        2 => Just("\n".to_string()),
        2 => Just("shipway-s1-a".to_string()),
        1 => prop::sample::select(vec![
            "PENDING", "RUNNING", "idle*", "gpu:a100:4(S:0-1)", "n[1-3]", "n[0-999999999]", "16",
            "18446744073709551615", "up", "1-00:00:00", "NodeName=n1 CPUEfctv=", "12_[7-9%2]",
        ]).prop_map(String::from),
        1 => "[\\[\\](),:%*_+0-9-]{0,12}",
        1 => any::<String>(),
    ];
    prop::collection::vec(piece, 0..60).prop_map(|pieces| pieces.concat())
}

fn bounded(seen: &Seen) -> bool {
    seen.words.chars().count() <= MAX_WORDS && seen.nodes.len() <= hosts::MAX_HOSTS
}

proptest! {
    #[test]
    fn no_answer_makes_a_reader_panic(answer in answers(), other in answers()) {
        let naming = Naming { whose: "s1".into() };
        if let Ok(all) = queue::parse(&answer, &naming) {
            prop_assert!(all.iter().all(bounded));
        }
        if let Ok(all) = nodes::parse(&answer, &other) {
            prop_assert!(all.iter().all(|nodes| nodes.up <= nodes.count && nodes.idle <= nodes.up));
        }
        let mut past = ended::Past::default();
        past.answered(&answer, &naming);
        prop_assert!(past.besides(&[]).iter().all(bounded));
        gres::gpus(&answer);
        prop_assert!(hosts::expand(&answer).len() <= hosts::MAX_HOSTS);
        states::phase(&answer, &other);
        prop_assert!(words::cut(&answer).chars().count() <= MAX_WORDS);
        words::trouble(&answer);
    }

    #[test]
    fn no_answer_of_slurmrestd_makes_a_reader_panic(body in answers(), status in any::<u16>()) {
        super::rest::read_anything(&body, status);
    }

    #[test]
    fn no_line_of_a_site_becomes_more_than_an_option(line in any::<String>()) {
        if let Some(word) = options::words(&line).unwrap_or_default().first() {
            prop_assert!(word.starts_with('-') && !word.contains(['\n', '\0']));
        }
    }
}
