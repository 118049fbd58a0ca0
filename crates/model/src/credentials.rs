//! Names with their secrets: data where they are kept or sent, and never in what is printed.

use crate::PilotId;
use serde::{Deserialize, Serialize};
use std::fmt;

/// A login for a registry, for the images of one's own jobs.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema), schema(as = NewRegistryLogin))]
#[serde(deny_unknown_fields)]
pub struct Login {
    pub user: String,
    /// Or a token. It is in no answer.
    pub password: String,
}

/// What a pilot is let in with: all that its file must hold.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PilotCredentials {
    pub pilot: PilotId,
    pub token: String,
}

impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Login").field("user", &self.user).finish_non_exhaustive()
    }
}

impl fmt::Debug for PilotCredentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PilotCredentials").field("pilot", &self.pilot).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_not_printed() {
        let login = Login { user: "ada".into(), password: "secret".into() };
        let pilot = PilotId::new("plt-1").expect("a good id");
        let credentials = PilotCredentials { pilot, token: "secret".into() };
        let shown = format!("{login:?} {credentials:?}");
        assert!(shown.contains("ada") && shown.contains("plt-1"), "{shown}");
        assert!(!shown.contains("secret"), "{shown}");
    }

    #[test]
    fn what_an_admin_was_given_for_a_pilot_is_its_file() {
        let given = r#"{"pilot":"plt-1","token":"t","expires":7}"#;
        let read: PilotCredentials = serde_json::from_str(given).expect("more than is needed");
        assert_eq!(read.token, "t");
    }
}
