//! Whatever is asked and reported, in whatever order: the invariants hold and a replay agrees.

use super::*;
use proptest::prelude::*;
use shipway_model::ConnectionNumber;

#[derive(Debug, Clone)]
enum Move {
    Submit { tasks: u64, after: u64, retries: u64, gpu: bool },
    Place,
    End { nth: usize, code: i32 },
    Start { nth: usize },
    Cancel { job: u64, all: bool },
    Retry { job: u64 },
    Join { pilot: u64, leased: bool, forgets: bool },
    Away { pilot: u64 },
    Dies { pilot: u64 },
    Wait { span: u64 },
    Archive,
    Restart,
}

fn any_move() -> impl Strategy<Value = Move> {
    prop_oneof![
        3 => (1u64..6, 0u64..8, 0u64..3, any::<bool>())
            .prop_map(|(tasks, after, retries, gpu)| Move::Submit { tasks, after, retries, gpu }),
        6 => Just(Move::Place),
        6 => (0usize..20, 0i32..2).prop_map(|(nth, code)| Move::End { nth, code }),
        3 => (0usize..20).prop_map(|nth| Move::Start { nth }),
        1 => (1u64..8, any::<bool>()).prop_map(|(job, all)| Move::Cancel { job, all }),
        1 => (1u64..8).prop_map(|job| Move::Retry { job }),
        3 => (0u64..3, any::<bool>(), any::<bool>())
            .prop_map(|(pilot, leased, forgets)| Move::Join { pilot, leased, forgets }),
        1 => (0u64..3).prop_map(|pilot| Move::Away { pilot }),
        1 => (0u64..3).prop_map(|pilot| Move::Dies { pilot }),
        3 => (0u64..30_000).prop_map(|span| Move::Wait { span }),
        1 => Just(Move::Archive),
        1 => Just(Move::Restart),
    ]
}

fn play(told: &mut Told, connection: ConnectionNumber, step: &Move) {
    let command = match step {
        Move::Submit { tasks, after, retries, gpu } => {
            let after = Some(JobId(*after)).filter(|job| told.state.job(*job).is_some());
            let after: Vec<u64> = after.iter().map(|job| job.0).collect();
            let gpu = if *gpu { r#","resources":{"gpu":1}"# } else { "" };
            let json = format!(
                r#"{{"array":"1-{tasks}","after":{after:?},"retries":{retries},
                    "max_running":3{gpu}}}"#
            );
            submission(told.state.next_job(), ada(), &json, None)
        }
        Move::Place => return drop(told.place()),
        Move::End { nth, code } => {
            let found = told.state.active().iter().nth(*nth).map(|(t, a)| (*t, a.clone()));
            let Some((task, active)) = found else { return };
            let outcome = Outcome::Exit { code: *code };
            return drop(told.ended(active.pilot.as_str(), task, active.attempt.0, outcome));
        }
        Move::Start { nth } => {
            let found = told.state.active().iter().nth(*nth).map(|(t, a)| (*t, a.clone()));
            let Some((task, active)) = found else { return };
            return drop(told.started(active.pilot.as_str(), task, active.attempt.0));
        }
        Move::Cancel { job, all } => {
            let pick = if *all { Pick::All } else { Pick::State(TaskState::Waiting) };
            Command::Cancel(Select { by: ada(), jobs: vec![(JobId(*job), pick)] })
        }
        Move::Retry { job } => {
            let select = Select { by: ada(), jobs: vec![(JobId(*job), Pick::All)] };
            Command::Retry { select, revived: Vec::new() }
        }
        Move::Join { pilot: at, leased, forgets } => join(told, connection, *at, *leased, *forgets),
        Move::Away { pilot } => {
            let pilot = id(&format!("p{pilot}"));
            let connection =
                told.state.pilots().get(&pilot).map(|known| known.connection).unwrap_or_default();
            Command::PilotAway { pilot, connection }
        }
        Move::Dies { pilot } => Command::PilotEnded { pilot: id(&format!("p{pilot}")) },
        Move::Wait { span } => return drop(told.wait(*span)),
        Move::Archive => Command::Archive { jobs: told.state.archivable(2, 5) },
        Move::Restart => Command::ServerStarted,
    };
    // A refusal is an answer too; `try_tell` checks the state after what was accepted.
    drop(told.try_tell(&command));
}

fn join(
    told: &Told,
    connection: ConnectionNumber,
    at: u64,
    leased: bool,
    forgets: bool,
) -> Command {
    let name = format!("p{at}");
    let known = told.state.active().iter().filter(|(_, active)| active.pilot == id(&name));
    let held = |(task, active): (&TaskId, &crate::pilot::Active)| {
        let phase =
            active.started.map_or(HeldPhase::Queued, |started| HeldPhase::Running { started });
        Held::own(task.attempt(active.attempt), phase)
    };
    let held = known.map(held).filter(|_| !forgets).collect();
    let lease = leased.then_some(Millis(20_000));
    Command::PilotJoined(Box::new(PilotJoined { connection, lease, held, ..pilot(&name, 4, 1) }))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]
    #[test]
    fn any_sequence_keeps_the_invariants(moves in prop::collection::vec(any_move(), 0..60)) {
        let mut told = Told::default();
        for (at, step) in moves.iter().enumerate() {
            play(&mut told, ConnectionNumber(at as u64 + 1), step);
        }
    }
}
