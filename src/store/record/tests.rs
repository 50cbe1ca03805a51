use proptest::prelude::*;

use super::*;
use crate::answer::Answer;
use crate::protocol::Status;
use crate::store::key::KeyForm;
use crate::store::record::{OwnerId, StoredStep};

fn schema() -> TableSchema {
    TableSchema::default()
}

/// A record without its state.
#[derive(Clone, Debug)]
struct OwnRecord {
    key: RecordKey,
    owner: OwnerId,
    attempt: u32,
    fingerprint: StoredFingerprint,
    created_at: Timestamp,
}

impl OwnRecord {
    /// Returns the complete item of this record in a state.
    fn item(
        &self,
        schema: &TableSchema,
        state: State,
        completed_at: Option<Timestamp>,
        expires_at: i64,
        response: Option<AttributeValue>,
    ) -> Item {
        let meta = completed_meta(self.owner, self.attempt, self.created_at, expires_at);
        let meta = RecordMeta { state, completed_at, ..meta };
        item(schema, (&self.key, &self.fingerprint), &meta, response)
    }
}

fn own_record() -> OwnRecord {
    OwnRecord {
        key: RecordKey::new(&"charge".into(), "k1", KeyForm::Verbatim, 2048).unwrap(),
        owner: OwnerId(0x0123_4567_89ab_cdef_0123_4567_89ab_cdef),
        attempt: 2,
        fingerprint: Fingerprint::builder().bytes(b"x").finish().to_store(),
        created_at: Timestamp::from_millis(1_700_000_000_123),
    }
}

fn pending() -> Item {
    let lease_expires_at = Timestamp::from_millis(1_700_000_030_000);
    own_record().item(&schema(), State::Pending { lease_expires_at }, None, 1_700_086_400, None)
}

fn completed() -> Item {
    let at = Timestamp::from_millis(1_700_000_001_000);
    let answer = Answer::Json("{\"a\":1}".into()).readable();
    own_record().item(&schema(), State::Completed, Some(at), 1_700_086_401, Some(answer))
}

fn s(text: &str) -> AttributeValue {
    AttributeValue::S(text.into())
}

fn n(number: &str) -> AttributeValue {
    AttributeValue::N(number.into())
}

/// Every layout ever released stays readable: this one is written out by hand and never changes.
fn format_1() -> Item {
    [
        ("pk", s("charge#k1")),
        ("status", s("PENDING")),
        ("owner", s("0000000000000000000000000000005f")),
        ("attempt", n("3")),
        ("fingerprint", AttributeValue::B(Blob::new([[1].as_slice(), &[7; 32]].concat()))),
        ("lease_expires_at", n("1700000030000")),
        ("expires_at", n("1700086400")),
        ("created_at", n("1700000000000")),
        ("format", n("1")),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into()
}

#[test]
fn a_record_of_format_1_still_decodes() {
    let mut item = format_1();
    let record = Record::decode(&schema(), item.clone()).unwrap();
    assert_eq!(
        (record.meta.attempt, record.meta.owner, record.meta.expires_at),
        (3, OwnerId(0x5f), 1_700_086_400)
    );
    assert!(matches!(record.meta.state, State::Pending { lease_expires_at }
        if lease_expires_at.millis() == 1_700_000_030_000));

    let steps = [("reserve", s("{\"seat\":1}")), ("mail", AttributeValue::Null(true))];
    let steps = steps.map(|(name, step)| (name.to_owned(), step)).into();
    item.insert("steps".into(), AttributeValue::M(steps));
    let record = Record::decode(&schema(), item.clone()).unwrap();
    assert_eq!(record.meta.version().steps, Some(2));
    let steps = record.steps.unwrap();
    let reserved = StoredStep::Inline(StepValue::Json("{\"seat\":1}".into()));
    assert_eq!(steps.get("reserve"), Some(&reserved));
    assert_eq!(steps.get("mail"), Some(&StoredStep::Unavailable));
}

#[test]
fn an_ended_record_of_format_1_still_decodes() {
    let mut item = format_1();
    item.remove("lease_expires_at");
    item.insert("status".into(), s("COMPLETED"));
    item.insert("completed_at".into(), n("1700000002000"));
    for (response, expected) in [
        (("json", s("[1.0]")), Answer::Json("[1.0]".into())),
        (("unavailable", s("why")), Answer::Unavailable("why".into())),
    ] {
        let response = HashMap::from([(response.0.to_owned(), response.1)]);
        item.insert("response".into(), AttributeValue::M(response));
        let Some(answer) = Record::decode(&schema(), item.clone()).unwrap().answer else {
            panic!("not completed");
        };
        assert_eq!(answer, Stored::Readable(expected));
    }
    item.insert("status".into(), s("FAILED"));
    item.remove("response");
    let failed = Record::decode(&schema(), item.clone()).unwrap();
    assert!(failed.meta.state == State::Failed && failed.answer.is_none());
    assert_eq!(failed.meta.released_attempts, 0);
    item.insert("released_attempts".into(), n("2"));
    let failed = Record::decode(&schema(), item.clone()).unwrap();
    assert_eq!(failed.meta.released_attempts, 2);
    item.remove("completed_at");
    item.insert("status".into(), s("RELEASED"));
    let released = Record::decode(&schema(), item).unwrap();
    assert!(matches!(released.meta.state, State::Released));
    let version = released.meta.version();
    assert_eq!((version.status.as_str(), version.lease_expires_at), ("RELEASED", None));
}

#[test]
fn records_round_trip() {
    let record = Record::decode(&schema(), pending()).unwrap();
    let own_record = own_record();
    assert_eq!(record.meta.owner, own_record.owner);
    assert_eq!(record.meta.attempt, own_record.attempt);
    assert_eq!(record.fingerprint, own_record.fingerprint);
    assert_eq!(record.meta.created_at, own_record.created_at);
    let lease_expires_at = Timestamp::from_millis(1_700_000_030_000);
    let version = Version {
        owner: own_record.owner,
        status: Status::Pending,
        lease_expires_at: Some(lease_expires_at),
        steps: None,
    };
    assert_eq!(record.meta.version(), version);
    let Some(answer) = Record::decode(&schema(), completed()).unwrap().answer else {
        panic!("not completed");
    };
    assert_eq!(answer, Stored::Readable(Answer::Json("{\"a\":1}".into())));
}

#[test]
fn the_key_and_the_ttl_attribute_are_configurable() {
    let schema =
        TableSchema::default().composite_key("PK", "IDEMPOTENCY", "SK").ttl_attribute("ttl");
    let state = State::Pending { lease_expires_at: Timestamp::from_millis(5) };
    let item = own_record().item(&schema, state, None, 7, None);
    assert_eq!(item["PK"], AttributeValue::S("IDEMPOTENCY".into()));
    assert_eq!(item["SK"], AttributeValue::S("charge#k1".into()));
    assert!(!item.contains_key("expires_at"));
    assert_eq!(item["ttl"], AttributeValue::N("7".into()));
    assert!(Record::decode(&schema, item.clone()).is_ok());
    let error = Record::decode(&schema.ttl_attribute("expires"), item).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::UnknownRecord);
    assert!(error.to_string().contains("`expires`"), "{error}");
}

fn one_step(value: AttributeValue) -> Option<StoredStep> {
    decode_steps(AttributeValue::M(Item::from([("a".to_owned(), value)])))?.remove("a")
}

#[test]
fn a_note_has_the_digest_of_a_result_and_its_length() {
    for length in [0, 1, 255, 256, 1024, 65_535, 65_536, 400 * 1024] {
        let values = [StepValue::Json("x".repeat(length)), StepValue::Encoded(vec![b'x'; length])];
        for value in values {
            let note = StoredStep::InItem(value.note(), ItemValue::Unread);
            assert_eq!(one_step(note.encode()), Some(note.clone()), "{length}");
            assert_eq!(note.item_bytes(), value.len());
            let AttributeValue::B(bytes) = note.encode() else { panic!("{note:?}") };
            assert_eq!(note.bytes("name"), 4 + bytes.as_ref().len() + 1);
            assert_eq!(one_step(value.encode()), Some(StoredStep::Inline(value)));
        }
    }
    let json = |text: &str| StepValue::Json(text.to_owned()).note();
    assert_ne!(json("a"), json("b"));
    // "abc", and the digest of FIPS 180-2.
    let note = StoredStep::InItem(json("abc"), ItemValue::Unread).encode();
    let expected = [3, 0xba, 0x78, 0x16, 0xbf, 0x8f, 0x01, 0xcf, 0xea, 3];
    assert_eq!(note, AttributeValue::B(Blob::new(expected)));
}

#[test]
fn a_note_of_another_shape_is_no_step() {
    let note = |length: &[u8]| AttributeValue::B(Blob::new([&[3; 9], length].concat()));
    assert!(one_step(note(&[1])).is_some());
    for wrong in [note(&[0]), note(&[0, 1]), note(&[1; 5]), AttributeValue::B(Blob::new([3; 8]))] {
        assert_eq!(one_step(wrong.clone()), None, "{wrong:?}");
    }
}

#[test]
fn steps_of_another_shape_are_an_error_that_names_them() {
    let member = |value| AttributeValue::M([("a".to_owned(), value)].into());
    for steps in [
        AttributeValue::S("{}".into()),
        AttributeValue::L(Vec::new()),
        member(AttributeValue::N("1".into())),
        member(AttributeValue::Null(false)),
        member(AttributeValue::M(HashMap::new())),
    ] {
        let mut item = pending();
        item.insert("steps".into(), steps);
        let error = Record::decode(&schema(), item).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::UnknownRecord);
        assert!(error.to_string().contains("`steps`"), "{error}");
    }
}

#[test]
fn an_item_without_format_is_not_a_record() {
    let item = Item::from([("pk".to_owned(), AttributeValue::S("charge#k1".into()))]);
    let error = Record::decode(&schema(), item).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::UnknownRecord);
    assert!(error.to_string().contains("not a record"), "{error}");
}

#[test]
fn a_newer_format_is_an_error_that_names_both() {
    let mut item = pending();
    item.insert("format".into(), number(2));
    let error = Record::decode(&schema(), item).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NewerRecord);
    assert!(error.to_string().contains("format 2"), "{error}");
}

#[test]
fn a_newer_recipe_of_the_fingerprint_is_an_error_that_names_it() {
    let mut item = pending();
    item.insert("fingerprint".into(), AttributeValue::B(Blob::new([2; 33])));
    let error = Record::decode(&schema(), item).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NewerRecord);
    assert!(error.to_string().contains("recipe 2"), "{error}");
}

fn is_rejection(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::UnknownRecord | ErrorKind::NewerRecord)
}

#[test]
fn every_missing_or_mistyped_attribute_is_named() {
    for whole in [pending(), completed()] {
        for name in whole.keys().filter(|name| !["pk", "completed_at"].contains(&name.as_str())) {
            let mut missing = whole.clone();
            missing.remove(name);
            let mut mistyped = whole.clone();
            mistyped.insert(name.clone(), AttributeValue::Bool(true));
            for item in [missing, mistyped] {
                let error = Record::decode(&schema(), item).unwrap_err();
                assert_eq!(error.kind(), ErrorKind::UnknownRecord);
                assert!(error.to_string().contains(&format!("`{name}`")), "{name}: {error}");
            }
        }
    }
}

#[test]
fn the_size_without_an_answer_is_that_of_the_item() {
    let now = Timestamp::from_millis(1_700_000_000_123);
    for (attempt, expires_at) in [(1, 1_700_086_400), (10, 0), (99, -1), (u32::MAX, i64::MIN)] {
        for schema in [schema(), TableSchema::default().composite_key("PK", "I", "SK")] {
            let meta = completed_meta(OwnerId(7), attempt, now, expires_at);
            let record = own_record();
            let of = (&record.key, &record.fingerprint);
            let item = item(&schema, of, &meta, Some(AttributeValue::Null(true)));
            let bytes = bytes_without_answer(&schema, of, &meta);
            assert_eq!(bytes, item_bytes(&item, Bound::Upper), "{attempt} {expires_at}");
            let lease_expires_at = Timestamp::from_seconds(expires_at);
            let state = State::Pending { lease_expires_at };
            let pending =
                RecordMeta { state, completed_at: None, released_attempts: 1, ..meta.clone() };
            let mut item = super::item(&schema, of, &pending, None);
            item.insert("steps".to_owned(), AttributeValue::M(Item::new()));
            let bytes = pending_bytes(&schema, of, &meta);
            assert_eq!(bytes, item_bytes(&item, Bound::Upper), "{attempt} {expires_at}");
        }
    }
}

#[test]
fn size_is_never_underestimated() {
    // By the developer guide: S and B their bytes, names their UTF-8, numbers up to 21 bytes, maps
    // and lists 3 bytes and 1 for each element.
    let item = Item::from([("ab".to_owned(), Answer::Unavailable("12345".into()).readable())]);
    assert_eq!(item_bytes(&item, Bound::Upper), 2 + 3 + 1 + "unavailable".len() + 5);
}

fn mutated() -> impl Strategy<Value = AttributeValue> {
    prop_oneof![
        "[A-Z0-9.-]{0,9}".prop_map(AttributeValue::S),
        "[0-9.e-]{0,30}".prop_map(AttributeValue::N),
        prop::collection::vec(any::<u8>(), 0..40).prop_map(|b| AttributeValue::B(Blob::new(b))),
        Just(AttributeValue::Null(true)),
        Just(AttributeValue::M(HashMap::new())),
    ]
}

proptest! {
    #[test]
    fn a_corrupted_item_is_an_error_or_the_same_kind_of_record(
        at in 0usize..9, value in mutated(), done in any::<bool>(),
    ) {
        let mut item = if done { completed() } else { pending() };
        let mut names: Vec<String> = item.keys().cloned().collect();
        names.sort();
        item.insert(names[at % names.len()].clone(), value);
        if let Err(error) = Record::decode(&schema(), item) {
            prop_assert!(is_rejection(&error), "{:?}", error);
        }
    }

    #[test]
    fn any_record_comes_back(
        steps in prop::option::of(any::<HashMap<String, Option<String>>>()), owner in any::<u128>(), attempt in 1u32.., request in any::<Vec<u8>>(),
        times in any::<[i64; 2]>(), expires_at in any::<i64>(), answer in prop::option::of(any::<String>()),
    ) {
        let [created_at, at] = times.map(Timestamp::from_millis);
        let fingerprint = Fingerprint::builder().bytes(&request).finish().to_store();
        let own_record = OwnRecord { owner: OwnerId(owner), attempt, fingerprint, created_at, ..own_record() };
        let mut item = match &answer {
            None => own_record.item(&schema(), State::Pending { lease_expires_at: at }, None, expires_at, None),
            Some(text) => {
                let answer = Answer::Json(text.clone().into()).readable();
                own_record.item(&schema(), State::Completed, Some(at), expires_at, Some(answer))
            }
        };
        let steps = steps.map(|steps| {
            let written = |step: Option<String>| {
                let result = |json| StoredStep::Inline(StepValue::Json(json));
                step.map_or(StoredStep::Unavailable, result)
            };
            AttributeValue::M(steps.into_iter().map(|(k, v)| (k, written(v).encode())).collect())
        });
        item.extend(steps.clone().map(|steps| ("steps".to_owned(), steps)));
        let record = Record::decode(&schema(), item).unwrap();
        prop_assert_eq!(record.steps.as_ref().map(encode_steps), steps);
        prop_assert_eq!(
            (record.meta.attempt, record.fingerprint, record.meta.created_at, record.meta.expires_at),
            (attempt, fingerprint, created_at, expires_at)
        );
        prop_assert_eq!(&record.meta.owner, &own_record.owner);
        match (record.meta.state, answer) {
            (State::Pending { lease_expires_at }, None) => prop_assert_eq!(lease_expires_at, at),
            (State::Completed, Some(text)) => {
                let answer = Stored::Readable(Answer::Json(text.into()));
                prop_assert_eq!(record.answer, Some(answer));
            }
            (state, _) => prop_assert!(false, "{:?}", state),
        }
    }

    #[test]
    fn an_item_that_is_corrupt_in_many_places_is_an_error_or_a_record(
        changes in prop::collection::vec((0usize..10, prop::option::of(mutated())), 1..5),
        done in any::<bool>(),
    ) {
        let mut item = if done { completed() } else { pending() };
        let mut names: Vec<String> = item.keys().cloned().collect();
        names.sort();
        for (at, value) in changes {
            let name = &names[at % names.len()];
            match value {
                Some(value) => drop(item.insert(name.clone(), value)),
                None => drop(item.remove(name)),
            }
        }
        if let Err(error) = Record::decode(&schema(), item) {
            prop_assert!(is_rejection(&error), "{:?}", error);
        }
    }
}
