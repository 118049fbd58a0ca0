//! How long to go on trying while the server is out of touch: long enough for a restart.

use crate::view::talk;
use shipway_api::client::ClientError;
use shipway_api::error::codes;
use std::time::Duration;

/// Tries in a row; with the waits below about a minute and a half.
const MAX_TRIES: u32 = 50;
const FIRST_WAIT: Duration = Duration::from_millis(50);
const LONGEST_WAIT: Duration = Duration::from_secs(2);

#[derive(Debug, Default)]
pub struct Patience {
    tries: u32,
}

impl Patience {
    /// Waits a little after an error that may pass; gives the error back when it will not, or
    /// when it has been going on for too long.
    pub async fn bear(&mut self, error: ClientError) -> Result<(), ClientError> {
        if !may_pass(&error) || self.tries >= MAX_TRIES {
            return Err(error);
        }
        // Not at once: most losses are over with the second try.
        if self.tries == 3 {
            talk::say(format_args!("shipway: {error}; trying again"));
        }
        tokio::time::sleep(wait_before(self.tries)).await;
        self.tries += 1;
        Ok(())
    }

    pub fn renew(&mut self) {
        self.tries = 0;
    }
}

fn wait_before(tries: u32) -> Duration {
    FIRST_WAIT.saturating_mul(1 << tries.min(10)).min(LONGEST_WAIT)
}

/// The server or the way to it may be back soon.
pub fn may_pass(error: &ClientError) -> bool {
    match error {
        ClientError::Unreachable { .. }
        | ClientError::Broken { .. }
        | ClientError::Silent { .. } => true,
        ClientError::Refused { body, .. } => {
            [codes::NODE_AWAY, codes::STOPPING, codes::NOT_DURABLE].contains(&body.code.as_str())
        }
        ClientError::BadUrl(_)
        | ClientError::BadRequest(_)
        | ClientError::BadAnswer { .. }
        | ClientError::NotTheServer { .. }
        | ClientError::Elsewhere { .. } => false,
    }
}
