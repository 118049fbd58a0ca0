//! Users and their tokens: who may keep whose.

use super::*;
use crate::command::Token;

fn token(id: &str, user: &str) -> Token {
    Token {
        id: id.into(),
        user: UserName::new(user).expect("good"),
        hash: "h".into(),
        expires: Timestamp(9),
        note: String::new(),
    }
}

#[test]
fn admins_keep_users_and_users_keep_their_own_tokens() {
    let mut told = Told::default();
    let root = || actor("root", Role::Admin);
    let user = |name: &str| UserName::new(name).expect("good");
    let add = |by, name, role| Command::AddUser { by, user: user(name), role };
    assert_eq!(told.refused(add(ada(), "bob", Role::User)), "not_allowed");
    for name in ["ada", "bob"] {
        told.tell(add(root(), name, Role::User));
    }
    assert_eq!(told.tell(add(root(), "ada", Role::User)), [], "a repeat");
    assert_eq!(told.refused(add(root(), "ada", Role::Admin)), "user_exists");
    let issue = |by, token| Command::IssueToken { by, token };
    told.tell(issue(ada(), token("1", "ada")));
    assert_eq!(told.refused(issue(ada(), token("2", "bob"))), "not_allowed");
    assert_eq!(told.refused(issue(root(), token("2", "eve"))), "no_such_user");
    told.tell(issue(root(), token("2", "bob")));
    let revoke = |by, id: &str| Command::RevokeToken { by, id: id.into() };
    assert_eq!(told.refused(revoke(ada(), "2")), "no_such_token", "not hers, so not there");
    told.tell(revoke(ada(), "1"));
    told.tell(Command::RemoveUser { by: root(), user: user("bob") });
    assert!(told.state.tokens().is_empty(), "they went with him");
    let gone = Command::RemoveUser { by: root(), user: user("bob") };
    assert_eq!(told.refused(gone), "no_such_user");
    told.tell(Command::IssuePilotToken { pilot: id("p"), hash: "h".into() });
    told.join("p", 1, 0);
    told.tell(Command::PilotEnded { pilot: id("p") });
    assert!(told.state.pilot_tokens().is_empty(), "good for one pilot's life");
}
