//! The batch protocol against a model of its sources: random batches, failures, crashes, lost
//! answers and lost responses, redelivered by each source's rules until nothing is left.
//!
//! Then each key's effect has happened once, and those of a group in the order of their first
//! sending.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex};

use dynamodb_idempotency::Execution;
use dynamodb_idempotency::event::JsonEvent;
use dynamodb_idempotency::messages::{Message, Order};
use lambda_runtime::LambdaEvent;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use serde_json::{Value, json};
use tokio::sync::Notify;
use tower::Service;

use super::function::{Handled, context_until, failures, invoke_in};
use super::queue::{fifo, kinesis_record, message, sqs};
use crate::support::{Act, Link, Store};

/// A message as it was sent. The same key again is a producer that sends twice.
#[derive(Clone, Debug)]
struct Sent {
    group: u8,
    key: u8,
}

#[derive(Clone, Debug)]
struct Plan {
    sent: Vec<Sent>,
    /// How many are in flight at once. Only one at a time can a function die without the others'
    /// effects hanging in the air.
    limit: usize,
    dice: Vec<u8>,
}

fn plans() -> impl Strategy<Value = Plan> {
    // A key is of one group.
    let sent = (0u8..12).prop_map(|key| Sent { group: key % 3, key });
    let sent = prop::collection::vec(sent, 1..16);
    let dice = prop::collection::vec(any::<u8>(), 0..120);
    (sent, prop_oneof![Just(1), Just(4)], dice).prop_map(|(sent, limit, dice)| Plan {
        sent,
        limit,
        dice,
    })
}

/// What goes wrong. When it is used up, nothing does.
#[derive(Clone)]
struct Dice(Arc<Mutex<VecDeque<u8>>>);

impl Dice {
    /// A number below `sides`; 0 means well.
    fn roll(&self, sides: u8) -> u8 {
        self.0.lock().unwrap().pop_front().map_or(0, |die| die % sides)
    }
}

/// What all invocations of one plan share.
struct World {
    store: Store,
    link: Link,
    dice: Dice,
    limit: usize,
    effects: Arc<Mutex<Vec<u8>>>,
    /// The function dies.
    crash: Arc<Notify>,
}

impl World {
    async fn new(plan: &Plan) -> Self {
        Self {
            store: Store::open().await,
            link: Link::default(),
            dice: Dice(Arc::new(Mutex::new(plan.dice.clone().into()))),
            limit: plan.limit,
            effects: Arc::default(),
            crash: Arc::default(),
        }
    }

    /// A handler that fails, panics or dies before its effect, or has it.
    fn handler<R: Send + 'static>(
        &self,
    ) -> impl Fn(Message<R>, Execution) -> Handled + Send + Sync + 'static {
        let (dice, effects, crash) =
            (self.dice.clone(), Arc::clone(&self.effects), Arc::clone(&self.crash));
        let may_die = self.limit == 1;
        move |message: Message<R>, _| {
            let (dice, effects, crash) = (dice.clone(), Arc::clone(&effects), Arc::clone(&crash));
            Box::pin(async move {
                let key = std::str::from_utf8(message.payload()).unwrap().parse().unwrap();
                match dice.roll(9) {
                    1 | 2 => return Err("declined".to_owned()),
                    3 => panic!("as the dice fell"),
                    4 if may_die => {
                        crash.notify_one();
                        std::future::pending::<()>().await;
                    }
                    _ => effects.lock().unwrap().push(key),
                }
                Ok(())
            })
        }
    }

    /// One invocation; `None` if its answer does not arrive: it died, or the answer was lost.
    async fn deliver<S>(&self, service: &S, event: &Value) -> Option<Value>
    where
        S: Service<LambdaEvent<JsonEvent>, Response: serde::Serialize, Error: std::fmt::Debug>
            + Clone,
    {
        for _ in 0..3 {
            match self.dice.roll(8) {
                1 => self.link.wire.next("PutItem", Act::LoseResponse),
                2 => self.link.wire.next("PutItem", Act::LoseRequest),
                3 => self.link.wire.next("UpdateItem", Act::LoseResponse),
                4 => self.link.wire.next("PutItem", Act::THROTTLE),
                _ => {}
            }
        }
        let context = context_until(self.link.clock.in_secs(30));
        let answer = tokio::select! {
            biased;
            answer = invoke_in(service, event, context) => Some(answer.expect("a partial response")),
            () = self.crash.notified() => None,
        };
        if answer.is_none() {
            // The visibility time-out, which is never shorter than the function's.
            self.link.let_pass(60);
        }
        answer.filter(|_| self.dice.roll(10) != 1)
    }

    /// Each key's effect once; in a group, by the order of first sending.
    fn check(&self, sent: &[Sent], ordered: bool) {
        let effects = self.effects.lock().unwrap();
        let mut seen = BTreeSet::new();
        let keys = sent.iter().map(|sent| sent.key).filter(|key| seen.insert(*key));
        let keys: Vec<u8> = keys.collect();
        let mut once = effects.clone();
        once.sort_unstable();
        assert_eq!(once, seen.iter().copied().collect::<Vec<_>>(), "each key once");
        if ordered {
            for group in 0..3 {
                let of = |keys: &[u8]| -> Vec<u8> {
                    keys.iter().copied().filter(|key| key % 3 == group).collect()
                };
                assert_eq!(of(&effects), of(&keys), "the order of group {group}");
            }
        }
    }
}

/// Runs a model until its source is empty.
fn model<F: Future<Output = ()>>(run: impl Fn(Plan) -> F) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let config =
        Config { cases: 24, max_shrink_iters: 300, failure_persistence: None, ..Config::default() };
    let result = TestRunner::new(config).run(&plans(), |plan| {
        let running = std::panic::AssertUnwindSafe(|| runtime.block_on(run(plan)));
        std::panic::catch_unwind(running).map_err(|_| TestCaseError::fail("see the panic above"))
    });
    result.unwrap();
}

/// More rounds than any dice can spoil.
const ROUNDS: usize = 300;

#[test]
fn a_standard_queue_runs_empty() {
    model(async |plan: Plan| {
        let world = World::new(&plan).await;
        let service = world.store.over(&world.link).sqs("m").concurrency(world.limit);
        let service = service.handler(world.handler()).unwrap();
        let mut queue: VecDeque<(usize, Sent)> = plan.sent.iter().cloned().enumerate().collect();
        for _ in 0..ROUNDS {
            if queue.is_empty() {
                break;
            }
            // Any order, any number.
            queue.rotate_left(usize::from(world.dice.roll(4)) % queue.len());
            let size = queue.len().min(10 - usize::from(world.dice.roll(9)));
            let batch: Vec<_> = queue.iter().take(size).cloned().collect();
            let event = sqs(batch.iter().map(|(id, Sent { key, .. })| {
                message(&id.to_string(), &format!("k{key}"), &key.to_string())
            }));
            let Some(answer) = world.deliver(&service, &event).await else { continue };
            let failed: BTreeSet<_> = failures(&answer).into_iter().collect();
            let delivered: BTreeSet<_> = batch.iter().map(|(id, _)| id.to_string()).collect();
            assert!(failed.is_subset(&delivered), "{failed:?} of {delivered:?}");
            // Some messages are redelivered although they are done.
            let lingers = world.dice.roll(6) == 1;
            queue.retain(|(id, _)| {
                let id = id.to_string();
                !delivered.contains(&id) || failed.contains(&id) || lingers
            });
        }
        assert_eq!(queue.len(), 0, "left in the queue");
        world.check(&plan.sent, false);
    });
}

#[test]
fn a_fifo_queue_runs_empty_in_order() {
    model(async |plan: Plan| {
        let world = World::new(&plan).await;
        let service = world.store.over(&world.link).sqs("m").concurrency(world.limit);
        let service = service.handler(world.handler()).unwrap();
        let mut queue: Vec<(usize, Sent)> = plan.sent.iter().cloned().enumerate().collect();
        for _ in 0..ROUNDS {
            if queue.is_empty() {
                break;
            }
            // The head of the queue, perhaps without one of the groups.
            let left_out = world.dice.roll(4);
            let size = 10 - usize::from(world.dice.roll(9));
            let batch: Vec<_> = queue
                .iter()
                .filter(|(_, sent)| left_out == 0 || sent.group + 1 != left_out)
                .take(size)
                .cloned()
                .collect();
            let event = sqs(batch.iter().map(|(id, Sent { group, key })| {
                let mut message = fifo(&group.to_string(), &id.to_string(), &key.to_string());
                let key = format!("k{key}");
                message["messageAttributes"]["Idempotency-Key"]["stringValue"] = key.into();
                message
            }));
            let Some(answer) = world.deliver(&service, &event).await else { continue };
            let failed: BTreeSet<_> = failures(&answer).into_iter().collect();
            let mut broken = BTreeMap::new();
            for (id, Sent { group, .. }) in &batch {
                let is_failed = failed.contains(&id.to_string());
                let is_broken = broken.entry(group).or_insert(false);
                assert!(is_failed || !*is_broken, "{id} is done behind a failure of its group");
                *is_broken |= is_failed;
            }
            let delivered: BTreeSet<_> = batch.iter().map(|(id, _)| *id).collect();
            queue.retain(|(id, _)| !delivered.contains(id) || failed.contains(&id.to_string()));
        }
        assert_eq!(queue.len(), 0, "left in the queue");
        world.check(&plan.sent, true);
    });
}

async fn shard(plan: Plan, order: Order) {
    let world = World::new(&plan).await;
    let consumer = world.store.over(&world.link).kinesis("m").order(order);
    let consumer = consumer.concurrency(world.limit);
    let key = dynamodb_idempotency::messages::MessageKey::json("");
    let service = consumer.key(key).handler(world.handler()).unwrap();
    let mut checkpoint = 0;
    for _ in 0..ROUNDS {
        let rest = &plan.sent[checkpoint..];
        if rest.is_empty() {
            break;
        }
        let size = rest.len().min(10 - usize::from(world.dice.roll(9)));
        let records = rest[..size].iter().enumerate().map(|(n, Sent { group, key })| {
            kinesis_record(&group.to_string(), checkpoint + n, &key.to_string())
        });
        let event = json!({"Records": records.collect::<Vec<_>>()});
        let Some(answer) = world.deliver(&service, &event).await else { continue };
        checkpoint = match failures(&answer).as_slice() {
            [] => checkpoint + size,
            // All messages from there on are redelivered.
            [lowest] => {
                let lowest: usize = lowest.parse().unwrap();
                assert!((checkpoint..checkpoint + size).contains(&lowest), "{lowest}");
                lowest
            }
            more => panic!("a stream reports at most one failure: {more:?}"),
        };
    }
    assert_eq!(checkpoint, plan.sent.len(), "left in the shard");
    world.check(&plan.sent, true);
}

#[test]
fn a_shard_runs_empty_in_order() {
    model(|plan| shard(plan, Order::Source));
}

#[test]
fn a_shard_runs_empty_in_order_of_each_partition_key() {
    model(|plan| shard(plan, Order::Key));
}
