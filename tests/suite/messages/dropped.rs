//! A batch whose invocation ends at any of its pauses, without a word.

use std::time::Duration;

use super::function::{Ran, context_in, failures, invoke, invoke_in, noting};
use super::queue::{fifo, sqs};
use crate::loss::dropped::dropped_at;
use crate::support::{Link, Store};

const AN_HOUR: i64 = 3600;

#[tokio::test]
async fn the_next_delivery_runs_what_is_left_in_order_and_nothing_that_is_done() {
    for pauses in 0.. {
        let (store, ran) = (Store::open().await, Ran::default());
        let service = |link: &Link| store.over(link).sqs("book").handler(noting(&ran)).unwrap();
        let batch = sqs(["a1", "b1", "a2", "b2"].map(|id| fifo(&id[..1], id, id)));
        let first = service(&Link::default());
        let ended = dropped_at(pauses, invoke(&first, &batch)).await.is_some();
        let mut done = Vec::new();
        for id in ["a1", "b1", "a2", "b2"] {
            if store.status(&format!("book#{id}")).await.as_deref() == Some("COMPLETED") {
                done.push(id.to_owned());
            }
        }
        let before = ran.count();
        let in_time = context_in(Duration::from_secs(7200));
        let answer = invoke_in(&service(&Link::later(AN_HOUR)), &batch, in_time).await.unwrap();
        assert_eq!(failures(&answer), [""; 0], "{pauses}");
        let again = &ran.all()[before..];
        assert!(!again.iter().any(|id| done.contains(id)), "{pauses}: {done:?} {again:?}");
        for group in ["a", "b"] {
            let of_group = again.iter().filter(|id| id.starts_with(group));
            assert!(of_group.is_sorted(), "{pauses}: {again:?}");
        }
        if ended {
            assert!(pauses > 0);
            break;
        }
    }
}
