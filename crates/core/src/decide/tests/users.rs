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
fn a_name_may_come_again_and_a_number_never_does() {
    let mut told = Told::default();
    let root = || actor("root", Role::Admin);
    let user = |name: &str| UserName::new(name).expect("good");
    let add = |name| Command::AddUser { by: root(), user: user(name), role: Role::User };
    let number = |told: &Told, name| told.state.users().get(&user(name)).expect("known").number.0;
    told.tell(add("ada"));
    told.tell(add("bob"));
    assert_eq!((number(&told, "ada"), number(&told, "bob")), (1, 2));
    told.tell(Command::RemoveUser { by: root(), user: user("bob") });
    told.tell(add("bob"));
    assert_eq!(number(&told, "bob"), 3);
    told.tell(Command::RemoveUser { by: root(), user: user("bob") });
    // What was given is known after a restart from a snapshot too, though nobody has it now.
    let kept = crate::snapshot::write(&told.state);
    told.state = crate::snapshot::read(&kept).expect("as written");
    told.tell(add("eve"));
    assert_eq!(number(&told, "eve"), 4);
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
