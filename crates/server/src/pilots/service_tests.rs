//! What is heard of a pilot that takes no answers.

use super::*;
use crate::up::{Inside, inside};
use futures_util::{FutureExt, StreamExt};

struct World {
    inside: Inside,
    connection: Connection,
    ordered: mpsc::UnboundedReceiver<PilotOrder>,
    _home: tempfile::TempDir,
}

async fn world() -> World {
    let home = tempfile::tempdir().expect("a folder");
    let inside = inside(home.path()).await.expect("a new home");
    let (orders, ordered) = mpsc::unbounded_channel();
    let connection = Connection {
        service: PilotService::of(&inside.site),
        pilot: PilotId::new("p").expect("good"),
        number: ConnectionNumber(1),
        orders,
        answers: Arc::new(Semaphore::new(ANSWERS_WAITING)),
    };
    World { inside, connection, ordered, _home: home }
}

#[tokio::test]
async fn a_pilot_that_takes_no_answers_is_owed_a_thousand_at_most() {
    let World { inside, connection, ordered, _home } = world().await;
    let (to_write, mut written) = mpsc::channel(REPORTS_WAITING);
    let ping = |number| connection.hear(FromPilot::Ping { number }.into(), &to_write);
    for number in 0..2 * ANSWERS_WAITING as u64 {
        ping(number).now_or_never().expect("at once").expect("understood");
    }
    assert_eq!(ordered.len(), ANSWERS_WAITING, "pings beyond those are dropped");

    let report = FromPilot::Report(Report { number: 7, held: Vec::new() });
    let mut heard = std::pin::pin!(connection.hear(report.into(), &to_write));
    assert!(heard.as_mut().now_or_never().is_none(), "a report is read when there is a place");
    assert!(written.try_recv().is_err(), "and written down then");
    let mut says = super::outbound(ordered, connection.service.describe.clone());
    for said in ["the welcome", "the first answer"] {
        assert!(says.next().now_or_never().flatten().is_some_and(|it| it.is_ok()), "{said}");
    }
    heard.now_or_never().expect("there is a place").expect("understood");
    let (_, acknowledges) = written.try_recv().expect("it is to be written down");
    assert_eq!(acknowledges.map(|(number, _)| number), Some(7));
    inside.stop().await;
}
