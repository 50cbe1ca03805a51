use proptest::prelude::*;

use super::*;

fn fingerprint(of: u8) -> Fingerprint {
    Fingerprint::builder().bytes(&[of]).finish()
}

fn plain() -> Constraints {
    Constraints { group: None, identity: None }
}

fn of(group: &str) -> Constraints {
    Constraints { group: Some(group.to_owned()), identity: None }
}

fn keyed(key: &str, payload: u8) -> Constraints {
    Constraints { group: None, identity: Some((key.to_owned(), fingerprint(payload))) }
}

fn all(schedule: &mut Schedule) -> Vec<usize> {
    std::iter::from_fn(|| schedule.next()).collect()
}

fn verdicts(schedule: &Schedule) -> Vec<Verdict> {
    schedule.verdicts().collect()
}

use Verdict::{CutOff, Done, Failed, Held, NoTurn};

#[test]
fn messages_without_order_may_all_start_the_first_one_first() {
    let mut schedule = Schedule::new(vec![plain(); 4]);
    assert_eq!(all(&mut schedule), [0, 1, 2, 3]);
    schedule.ended(2, false);
    for done in [0, 1, 3] {
        schedule.ended(done, true);
    }
    assert_eq!(verdicts(&schedule), [Done, Done, Failed, Done]);
}

#[test]
fn a_group_runs_in_order_and_stops_at_its_first_failure() {
    let mut schedule = Schedule::new(["a", "b", "a", "b", "a"].map(of));
    assert_eq!(all(&mut schedule), [0, 1]);
    schedule.ended(0, false);
    assert_eq!(all(&mut schedule), [0; 0]);
    schedule.ended(1, true);
    assert_eq!(all(&mut schedule), [3]);
    schedule.ended(3, true);
    assert_eq!(verdicts(&schedule), [Failed, Done, Held, Done, Held]);
}

#[test]
fn a_duplicate_waits_and_counts_as_the_one_that_ran() {
    for is_done in [true, false] {
        let mut schedule = Schedule::new([keyed("k", 1), keyed("k", 1), keyed("l", 1)]);
        assert_eq!(all(&mut schedule), [0, 2]);
        schedule.ended(0, is_done);
        assert_eq!(all(&mut schedule), [0; 0]);
        schedule.ended(2, true);
        let same = if is_done { Done } else { Failed };
        assert_eq!(verdicts(&schedule), [same, same, Done]);
    }
}

#[test]
fn one_key_with_another_payload_waits_and_then_runs_to_its_own_end() {
    let mut schedule = Schedule::new([keyed("k", 1), keyed("k", 2), keyed("k", 2)]);
    assert_eq!(all(&mut schedule), [0]);
    schedule.ended(0, true);
    assert_eq!(all(&mut schedule), [1]);
    schedule.ended(1, false);
    assert_eq!(all(&mut schedule), [0; 0]);
    assert_eq!(verdicts(&schedule), [Done, Failed, Failed]);
}

#[test]
fn a_failed_duplicate_holds_its_own_group() {
    let message =
        |group: &str, key: &str| Constraints { group: Some(group.into()), ..keyed(key, 1) };
    let mut schedule = Schedule::new([message("a", "k"), message("b", "k"), message("b", "l")]);
    assert_eq!(all(&mut schedule), [0]);
    schedule.ended(0, false);
    assert_eq!(all(&mut schedule), [0; 0]);
    assert_eq!(verdicts(&schedule), [Failed, Failed, Held]);
}

#[test]
fn the_duplicate_of_a_held_message_runs_itself() {
    let message =
        |group: &str, key: &str| Constraints { group: Some(group.into()), ..keyed(key, 1) };
    let mut schedule =
        Schedule::new([message("a", "j"), message("a", "k"), message("b", "l"), message("b", "k")]);
    assert_eq!(all(&mut schedule), [0, 2]);
    schedule.ended(0, false);
    schedule.ended(2, true);
    assert_eq!(all(&mut schedule), [3]);
    schedule.ended(3, true);
    assert_eq!(verdicts(&schedule), [Failed, Held, Done, Done]);
}

#[test]
fn after_a_stop_what_runs_may_end_and_nothing_starts() {
    let mut schedule = Schedule::new([of("a"), of("a"), keyed("k", 1), keyed("k", 1)]);
    assert_eq!(all(&mut schedule), [0, 2]);
    schedule.stop();
    schedule.ended(0, true);
    schedule.ended(2, true);
    assert_eq!(all(&mut schedule), [0; 0]);
    assert_eq!(verdicts(&schedule), [Done, NoTurn, Done, NoTurn]);
}

#[test]
fn a_message_that_was_cut_off_differs_from_one_that_never_ran() {
    let mut schedule = Schedule::new([of("a"), of("a"), plain()]);
    assert_eq!(all(&mut schedule), [0, 2]);
    schedule.ended(2, true);
    schedule.stop();
    assert_eq!(verdicts(&schedule), [CutOff, NoTurn, Done]);
}

/// Runs a batch of `count` messages, some at once, all of them done. Returns how many times a
/// message was examined.
fn looks(count: usize, message: impl Fn(usize) -> Constraints) -> usize {
    let mut schedule = Schedule::new((0..count).map(message));
    let mut running = VecDeque::new();
    loop {
        while running.len() < 10 {
            let Some(index) = schedule.next() else { break };
            running.push_back(index);
        }
        let Some(index) = running.pop_front() else { break };
        schedule.ended(index, true);
    }
    assert!(schedule.verdicts().all(|verdict| verdict == Done));
    schedule.looks
}

/// SQS delivers up to 10,000 messages at once, and a producer may give all of them one key.
#[test]
fn a_message_costs_the_same_in_a_large_batch() {
    type Kind<'a> = (&'a str, &'a dyn Fn(usize) -> Constraints);
    let request = |of: usize| {
        let fingerprint = Fingerprint::builder().bytes(&of.to_be_bytes()).finish();
        Constraints { group: None, identity: Some(("k".to_owned(), fingerprint)) }
    };
    let kinds: [Kind<'_>; 5] = [
        ("no key", &|_| plain()),
        ("one group", &|_| of("g")),
        ("one key, one request", &|_| request(0)),
        ("one key, other requests", &|index| request(index)),
        ("one key, three of each request", &|index| request(index / 3)),
    ];
    for (kind, message) in kinds {
        for count in [100, 10_000] {
            let looks = looks(count, message);
            assert!(looks <= 4 * count, "{kind}: {looks} looks at {count} messages");
        }
    }
}

fn messages() -> impl Strategy<Value = Vec<Constraints>> {
    let message = (prop::option::of(0u8..4), prop::option::of((0u8..5, 0u8..2)));
    let message = message.prop_map(|(group, identity)| Constraints {
        group: group.map(|group| group.to_string()),
        identity: identity.map(|(key, payload)| (key.to_string(), fingerprint(payload))),
    });
    prop::collection::vec(message, 0..24)
}

proptest! {
    /// The driver has any width, and messages end in any order with any result.
    #[test]
    fn every_message_gets_one_verdict_by_the_rules(
        messages in messages(),
        limit in 1usize..6,
        ends in prop::collection::vec((any::<prop::sample::Index>(), any::<bool>()), 24),
        stop_after in 0usize..40,
    ) {
        let mut schedule = Schedule::new(messages.clone());
        let (mut running, mut ran, mut over) = (Vec::new(), Vec::new(), Vec::new());
        let mut ends = ends.into_iter();
        loop {
            if over.len() == stop_after {
                schedule.stop();
            }
            while running.len() < limit {
                let Some(index) = schedule.next() else { break };
                prop_assert!(!ran.contains(&index), "{index} ran twice");
                for other in &running {
                    let (a, b): (&Constraints, &Constraints) = (&messages[index], &messages[*other]);
                    prop_assert!(a.group.is_none() || a.group != b.group);
                    let keys = [a, b].map(|message| message.identity.as_ref().map(|(key, _)| key));
                    prop_assert!(keys[0].is_none() || keys[0] != keys[1]);
                }
                ran.push(index);
                running.push(index);
            }
            if running.is_empty() {
                break;
            }
            let (which, is_done) = ends.next().expect("no more ends than messages");
            let index = running.swap_remove(which.index(running.len()));
            schedule.ended(index, is_done);
            over.push((index, is_done));
        }
        let verdicts = verdicts(&schedule);
        for (index, is_done) in &over {
            prop_assert_eq!(verdicts[*index], if *is_done { Done } else { Failed });
        }
        for (index, message) in messages.iter().enumerate() {
            let verdict = verdicts[index];
            prop_assert!(verdict != CutOff);
            let stopped = over.len() >= stop_after;
            prop_assert!(verdict != NoTurn || stopped, "{} had no turn", index);
            // A message that did not run has the verdict of a twin that did.
            if matches!(verdict, Done | Failed) && !ran.contains(&index) {
                let twin = over.iter().any(|(other, is_done)| {
                    messages[*other].identity == message.identity && *is_done == (verdict == Done)
                });
                prop_assert!(message.identity.is_some() && twin);
            }
            // In a group, nothing is done after something that is not.
            let before = (0..index).filter(|before| {
                message.group.is_some() && messages[*before].group == message.group
            });
            for before in before {
                if verdicts[before] != Done {
                    prop_assert!(matches!(verdict, Held | NoTurn), "{index} after {before}");
                }
            }
        }
    }
}
