//! Who has a place, without any connection.

use super::*;
use shipway_model::Role;
use shipway_model::limits::MAX_PAGE;

const HERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

fn places(limit: usize) -> Arc<Places> {
    Places::new(limit, Arc::default())
}

fn actor(name: &str, role: Role) -> Actor {
    Actor::new(UserName::new(name).expect("a good name"), role)
}

fn user(name: &str) -> Actor {
    actor(name, Role::User)
}

fn arrive(places: &Arc<Places>) -> Guest {
    places.try_arrive(HERE).expect("a place")
}

/// When those who are there have had their time.
fn arrive_late(places: &Arc<Places>) -> Guest {
    let deadline = Instant::now() + Duration::from_mins(1);
    loop {
        if let Some(guest) = places.try_arrive(HERE) {
            return guest;
        }
        assert!(Instant::now() < deadline, "nobody makes way");
        std::thread::yield_now();
    }
}

/// Connects and signs in; the request is under way until the second is dropped.
fn busy(places: &Arc<Places>, who: &Actor) -> Result<(Guest, Request), NoPlace> {
    let guest = arrive(places);
    let request = guest.ask();
    guest.is_person(who)?;
    Ok((guest, request))
}

fn pilot_id(at: u64) -> PilotId {
    PilotId::new(&format!("p{at}")).expect("a good name")
}

/// As `busy`, of a pilot.
fn busy_pilot(places: &Arc<Places>, at: u64) -> Result<(Guest, Request), NoPlace> {
    let guest = arrive(places);
    let request = guest.ask();
    guest.is_pilot(&pilot_id(at))?;
    Ok((guest, request))
}

fn is_going(guest: &Guest) -> bool {
    guest.0.state.is_going()
}

#[test]
fn every_limit_leaves_room_for_everybody() {
    for limit in 16..=8_192 {
        let shares = Shares::of(limit);
        let kept = shares.kept_for_operators + shares.kept_for_pilots;
        assert!(shares.strangers + shares.signed_in <= limit, "{limit}");
        assert!(kept + 2 * shares.one_user <= shares.signed_in, "{limit}: {shares:?}");
    }
}

#[test]
fn the_oldest_stranger_of_the_crowd_goes_first() {
    let places = places(64);
    let elsewhere: IpAddr = "192.0.2.7".parse().expect("an address");
    let alone = places.try_arrive(elsewhere).expect("a place");
    let crowd: Vec<_> = (0..15).map(|_| arrive(&places)).collect();
    assert!(!crowd.iter().any(is_going), "there was room for these");
    assert!(places.try_arrive(HERE).is_none(), "each of them has its time first");
    let _late = arrive_late(&places);
    assert!(is_going(&crowd[0]) && !is_going(&crowd[1]) && !is_going(&alone));
}

/// Only while so many that were told to go have not gone yet.
#[test]
fn those_who_were_told_to_go_are_waited_for() {
    let places = places(64);
    let mut all: Vec<_> = (0..32).map(|_| arrive_late(&places)).collect();
    assert_eq!(all.iter().filter(|guest| is_going(guest)).count(), 16);
    assert!(places.try_arrive(HERE).is_none());
    all.remove(0);
    arrive_late(&places);
}

#[test]
fn operators_and_pilots_have_places_that_users_never_take() {
    let places = places(64);
    let mut in_use = Vec::new();
    let full = (0..MAX_PAGE).find_map(|at| match busy(&places, &user(&format!("u{at}"))) {
        Ok(one) => {
            in_use.push(one);
            None
        }
        Err(none) => Some(none),
    });
    assert_eq!(full, Some(NoPlace::AtAll), "many users together do fill the house");
    for _ in 0..4 {
        in_use.push(busy(&places, &actor("root", Role::Admin)).expect("kept for operators"));
    }
    let pilots: Vec<_> = (0..8).map(|_| arrive(&places)).collect();
    let _calls: Vec<_> = pilots.iter().map(Guest::ask).collect();
    assert!(
        pilots.iter().zip(0..).all(|(pilot, at)| pilot.is_pilot(&pilot_id(at)).is_ok()),
        "kept for pilots"
    );
    // The first who is idle makes way for the next user.
    in_use[3].1 = in_use[3].0.ask();
    assert!(!is_going(&in_use[3].0));
    let (idle, request) = in_use.swap_remove(3);
    drop(request);
    busy(&places, &user("last")).expect("somebody makes way");
    assert!(is_going(&idle));
}

#[test]
fn one_user_has_half_at_most_and_their_idle_ones_make_way() {
    let places = places(64);
    let ada = user("ada");
    let mut in_use = Vec::new();
    while let Ok(one) = busy(&places, &ada) {
        in_use.push(one);
    }
    assert_eq!(busy(&places, &ada).err(), Some(NoPlace::OfThisUser));
    assert_eq!(in_use.len(), Shares::of(64).one_user);
    busy(&places, &user("bob")).expect("room for others");
    let (idle, request) = in_use.pop().expect("some");
    drop(request);
    busy(&places, &ada).expect("her idle one makes way");
    assert!(is_going(&idle));
}

#[test]
fn an_answer_that_nobody_takes_is_told_from_one_that_is_awaited() {
    let places = places(64);
    let (guest, mut request) = busy(&places, &user("ada")).expect("a place");
    let later = places.now() + millis(TAKES_NOTHING) + 1;
    assert!(!guest.0.state.is_idle(later), "it waits for us");
    request.offer();
    assert!(guest.0.state.is_idle(later) && !guest.0.state.is_idle(places.now()));
    request.taken();
    assert!(!guest.0.state.is_idle(later));
    drop((request, guest));
    assert!(places.rooms().guests.is_empty() && places.rooms().of_one.is_empty());
}

#[test]
fn one_pilot_has_a_handful_and_its_idle_ones_make_way() {
    let places = places(64);
    let mut in_use: Vec<_> =
        (0..ONE_PILOT).map(|_| busy_pilot(&places, 1).expect("a handful")).collect();
    assert_eq!(busy_pilot(&places, 1).err(), Some(NoPlace::OfThisPilot));
    busy_pilot(&places, 2).expect("room for others");
    let (idle, request) = in_use.remove(1);
    drop(request);
    let _next = busy_pilot(&places, 1).expect("its idle one makes way");
    assert!(is_going(&idle) && !in_use.iter().any(|(guest, _)| is_going(guest)));
    // However often it comes, no more of them stay.
    let idle: Vec<_> = std::iter::repeat_with(|| busy_pilot(&places, 3))
        .take(100)
        .map(|one| one.expect("idle ones make way").0)
        .collect();
    assert_eq!(idle.iter().filter(|guest| !is_going(guest)).count(), ONE_PILOT);
}

#[test]
fn idle_pilots_make_way_for_everybody() {
    for limit in [16, 64, 200] {
        let places = places(limit);
        let idle: Vec<_> = (0..)
            .map_while(|at| busy_pilot(&places, at / 4).ok())
            .take(limit)
            .map(|(guest, _)| guest)
            .collect();
        assert_eq!(idle.len(), limit, "one makes way for the next");
        let shares = Shares::of(limit);
        let open = shares.signed_in - shares.kept_for_operators - shares.kept_for_pilots;
        let users: Vec<_> = (0..open)
            .map(|at| busy(&places, &user(&format!("u{at}"))).expect("an idle pilot makes way"))
            .collect();
        let working: Vec<_> = (0..shares.kept_for_pilots as u64)
            .map(|at| busy_pilot(&places, 1_000 + at).expect("an idle pilot makes way"))
            .collect();
        let mut stay = users.iter().chain(&working);
        assert!(!stay.any(|(guest, _)| is_going(guest)), "whoever works stays");
    }
}
