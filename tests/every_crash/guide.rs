//! The guide's handlers that have an effect, as its pages have them.

use super::create_table;

/// The page has this code, whatever its line breaks. `comments` are those of the page.
fn assert_on_page(page: &str, comments: &[&str], code: &[&str]) {
    let plain = |text: &str| {
        let text: String = text.split_whitespace().collect();
        text.replace(",)", ")").replace(",}", "}")
    };
    let mut page = page.to_owned();
    for comment in comments {
        assert!(page.contains(comment), "{comment}");
        page = page.replace(comment, "");
    }
    for code in code {
        assert!(plain(&page).contains(&plain(code)), "the page has other code than this:\n{code}");
    }
}

/// Defines items, and a constant with their source.
macro_rules! of_page {
    ($source:ident: $($item:item)*) => {
        $($item)*
        const $source: &[&str] = &[$(stringify!($item)),*];
    };
}

#[cfg(feature = "rows")]
mod a_hook_that_commits {
    use std::cell::RefCell;
    use std::collections::{BTreeMap, BTreeSet};

    use dynamodb_idempotency::testing::{World, every_crash};
    use dynamodb_idempotency::{Error, Idempotency, Reconciled, RunError, rows::Table};

    use super::{assert_on_page, create_table};

    thread_local! {
        static CARDS: RefCell<Option<World>> = const { RefCell::new(None) };
        static CHARGES: RefCell<BTreeSet<String>> = const { RefCell::new(BTreeSet::new()) };
    }

    async fn point(name: &str) {
        let world = CARDS.with_borrow(Clone::clone).expect("a world");
        world.point(name).await;
    }

    async fn charge(key: &str) -> Result<String, Error> {
        CHARGES.with_borrow_mut(|charges| charges.insert(key.to_owned()));
        point("charged").await;
        Ok("ch_1".into())
    }

    async fn find(key: &str) -> Result<Option<String>, Error> {
        point("looked up").await;
        Ok(CHARGES.with_borrow(|charges| charges.contains(key)).then(|| "ch_1".into()))
    }

    of_page! { SOURCE:
        async fn pay(
            idempotency: &Idempotency,
            order: &str,
            amount: u64,
        ) -> Result<String, RunError<Error>> {
            let row =
                |charge: &str| Table::new("charges", "id").put_new(&BTreeMap::from([("id", charge)]));
            idempotency
                .operation("pay")
                .key(order)
                .payload(&amount)
                .reconcile(async |abandoned| {
                    Ok(match find(&abandoned.derive_key("card").uuid()).await? {
                    Some(charge) => {
                        let items = vec![row(&charge)?];
                        Reconciled::Commit { answer: charge, items }
                    }
                        None => Reconciled::Execute,
                    })
                })
                .run(async |execution| {
                    let charge = charge(&execution.derive_key("card").uuid()).await?;
                    execution.commit(&charge, [row(&charge)?]).await?;
                    Ok(charge)
                })
                .await
        }
    }

    #[test]
    fn a_charge_and_its_row_are_made_once() {
        assert_on_page(include_str!("../../docs/exactly-once.md"), &[], SOURCE);
        every_crash(async |world: World| {
            CARDS.set(Some(world.clone()));
            CHARGES.take();
            create_table(&world.client(), "charges").await;
            let paid = world.call(async |process| {
                pay(&process.idempotency(), "order-42", 1200).await.expect("an answer")
            });
            assert_eq!(paid.await, "ch_1");
            assert_eq!(CHARGES.with_borrow(BTreeSet::len), 1);
            assert_eq!(crate::rows(&world.client(), "charges").await, 1);
        });
    }
}

#[cfg(feature = "rows")]
mod exactly_once {
    use aws_sdk_dynamodb::types::AttributeValue;
    use dynamodb_idempotency::testing::{World, every_crash};
    use dynamodb_idempotency::{Error, Idempotency, RunError, Transaction, rows::Table};

    use super::{assert_on_page, create_table};

    const PAGE: &str = include_str!("../../docs/exactly-once.md");

    of_page! { SOURCE:
        async fn book(
            idempotency: &Idempotency,
            order: &str,
            show: &str,
        ) -> Result<String, RunError<Error>> {
            let operation = idempotency.operation("book").key(order).payload(&show);
            operation
                .run_transaction(async || {
                    let seat = Table::new("shows", "id").take(show, "seats", 1)?;
                    Ok(Transaction::new("booked".to_owned())
                        .items([seat])
                        .on_condition_failed(|_| Some("sold out".to_owned())))
                })
                .await
        }
    }

    #[test]
    fn a_transaction_takes_one_seat() {
        assert_on_page(PAGE, &["// if there is one left"], SOURCE);
        every_crash(async |world: World| {
            create_table(&world.client(), "shows").await;
            let put = world.client().put_item().table_name("shows");
            let put = put.item("id", AttributeValue::S("hamlet".to_owned()));
            put.item("seats", AttributeValue::N("5".to_owned())).send().await.expect("a show");
            let booked = world.call(async |process| {
                book(&process.idempotency(), "order-42", "hamlet").await.expect("an answer")
            });
            assert_eq!(booked.await, "booked");
            let shows = world.client().scan().table_name("shows").send().await.expect("a table");
            assert_eq!(shows.items()[0]["seats"], AttributeValue::N("4".to_owned()));
        });
    }
}

#[expect(clippy::unused_async, reason = "the page has an asynchronous double")]
mod at_most_once {
    use std::{cell::RefCell, io, time::Duration, time::SystemTime};

    use dynamodb_idempotency::testing::{Process, World, every_crash};
    use dynamodb_idempotency::{ErrorKind, Execution, LookUp, RunError};

    use super::super::{assert_names, finding};
    use super::assert_on_page;

    of_page! { SOURCE:
        struct Bank {
            sent: RefCell<Vec<SystemTime>>,
            world: World,
        }

        impl Bank {
            async fn refund(&self) -> io::Result<String> {
                self.sent.borrow_mut().push(self.world.now());
                self.world.point("sent").await;
                Ok("re_1".into())
            }

            async fn statement(&self) -> io::Result<Option<String>> {
                let arrived = self.world.now() - Duration::from_secs(3600);
                Ok(self.sent.borrow().iter().any(|sent| *sent <= arrived).then(|| "re_1".into()))
            }
        }
    }

    /// The test of the page, with its handler.
    macro_rules! test_of_page {
        ($source:ident: $not_found:expr) => {
            of_page! { $source:
                async fn refund(execution: &Execution, bank: &Bank) -> Result<String, RunError<io::Error>> {
                    let look_up = async |_| {
                        Ok(match bank.statement().await? {
                            Some(id) => LookUp::Found(id),
                            None => $not_found,
                        })
                    };
                    execution.step_at_most_once("refund", bank.refund(), look_up).await
                }

                async fn refunds_at_most_once(world: World) {
                    let bank = Bank { sent: RefCell::default(), world: world.clone() };
                    let call = async |process: Process| {
                        let operation = process.idempotency().operation("refunds").key("order-42").no_payload();
                        operation.run(async |execution| refund(&execution, &bank).await).await.map_err(RunError::flatten)
                    };
                    if world.call(call).await.is_err() {
                        tokio::time::sleep(Duration::from_secs(3600)).await;
                    }
                    let answer = world.call(call).await.map_err(|error| error.idempotency().map(|error| error.kind()));
                    match bank.sent.borrow().len() {
                        0 => assert_eq!(answer, Err(Some(ErrorKind::OutcomeUnknown))),
                        sent => assert_eq!((answer, sent), (Ok("re_1".into()), 1)),
                    }
                }
            }
        };
    }

    mod page {
        use super::*;

        test_of_page! { SOURCE_OF_TEST: LookUp::Unknown }

        #[test]
        fn a_bank_without_keys_refunds_once_or_the_call_says_that_it_does_not_know() {
            let page = include_str!("../../docs/guide/third-parties.md");
            let comments = [
                "/// A double. A refund is on the statement an hour after it was sent.",
                "// the first request may still arrive",
                "// what was sent arrives",
                "// it crashed after the note",
            ];
            assert_on_page(page, &comments, &[SOURCE, SOURCE_OF_TEST].concat());
            every_crash(refunds_at_most_once);
        }
    }

    mod defect {
        use super::*;

        test_of_page! { _SOURCE_OF_TEST: LookUp::Impossible }

        #[test]
        fn a_look_up_that_takes_a_late_request_for_a_lost_one_is_found() {
            let report = finding(refunds_at_most_once);
            assert_names(&report, "crash at point `sent` of attempt 1");
            assert!(
                report.contains("the look-up of step `refund` answered Impossible"),
                "{report}"
            );
            assert!(report.contains("left: (Ok(\"re_1\"), 2)"), "{report}");
        }
    }
}

mod third_parties {
    use std::cell::RefCell;
    use std::collections::BTreeMap;

    use dynamodb_idempotency::testing::{World, every_crash};
    use dynamodb_idempotency::{Idempotency, Reconciled, RunError};

    use super::assert_on_page;

    #[derive(Debug)]
    struct CardsDown;

    /// The charges by their keys.
    struct Cards {
        world: World,
        charges: RefCell<BTreeMap<String, u64>>,
    }

    impl Cards {
        async fn charge(&self, key: &str, amount: u64) -> Result<String, CardsDown> {
            self.charges.borrow_mut().insert(key.to_owned(), amount);
            self.world.point("charged").await;
            Ok("ch_1".to_owned())
        }

        async fn find(&self, key: &str) -> Result<Option<String>, CardsDown> {
            self.world.point("looked up").await;
            Ok(self.charges.borrow().contains_key(key).then(|| "ch_1".to_owned()))
        }
    }

    of_page! { SOURCE:
        async fn pay(
            idempotency: &Idempotency,
            cards: &Cards,
            order: &str,
            amount: u64,
        ) -> Result<String, RunError<CardsDown>> {
            idempotency
                .operation("charge")
                .key(order)
                .payload(&amount)
                .reconcile(|abandoned| async move {
                    let key = abandoned.derive_key("card").uuid();
                    Ok::<_, RunError<CardsDown>>(match cards.find(&key).await.map_err(RunError::Handler)? {
                        Some(charge) => Reconciled::Completed(charge),
                        None => Reconciled::Execute,
                    })
                })
                .run(|execution| async move {
                    let key = execution.derive_key("card").uuid();
                    execution.step("charge", cards.charge(&key, amount)).await
                })
                .await
                .map_err(RunError::flatten)
        }
    }

    #[test]
    fn a_card_is_charged_once() {
        let page = include_str!("../../docs/guide/third-parties.md");
        let comment =
            "// A hook has the handler's type of error. Here that is the error of `step`.";
        assert_on_page(page, &[comment], SOURCE);
        every_crash(async |world: World| {
            let cards = Cards { world: world.clone(), charges: RefCell::default() };
            let paid = world.call(async |process| {
                pay(&process.idempotency(), &cards, "order-42", 1200).await.expect("an answer")
            });
            assert_eq!(paid.await, "ch_1");
            assert_eq!(cards.charges.borrow().values().collect::<Vec<_>>(), [&1200]);
        });
    }
}

#[cfg(all(feature = "axum", feature = "webhook"))]
mod webhooks {
    use std::collections::BTreeSet;
    use std::sync::{Arc, Mutex};
    use std::time::SystemTime;

    use axum::body::Body;
    use axum::extract::State;
    use axum::http::{Request, StatusCode};
    use axum::{Json, Router, routing::post};
    use dynamodb_idempotency::http::Webhook;
    use dynamodb_idempotency::testing::{World, every_crash};
    use dynamodb_idempotency::{Error, Idempotency};
    use hmac::{Hmac, KeyInit, Mac};
    use serde_json::Value;
    use tower::ServiceExt;

    use super::assert_on_page;

    of_page! { SOURCE:
        type Ledger = Arc<Mutex<BTreeSet<String>>>;

        async fn on_stripe(State(ledger): State<Ledger>, Json(event): Json<Value>) -> StatusCode {
            if event["type"] == "invoice.paid" {
                ledger.lock().unwrap().insert(event["data"]["object"]["id"].to_string());
            }
            StatusCode::NO_CONTENT
        }

        fn inbox(idempotency: &Idempotency, ledger: Ledger, secret: &str) -> Result<Router, Error> {
            let stripe = idempotency.http("stripe").webhook(Webhook::stripe([secret])).layer()?;
            Ok(Router::new().route("/stripe", post(on_stripe).route_layer(stripe)).with_state(ledger))
        }
    }

    const A_SET: &str = "// a set: after a crash the handler runs again";

    /// Signed by the world's clock.
    fn delivery(world: &World) -> Request<Body> {
        let body = r#"{"id":"evt_1","type":"invoice.paid","data":{"object":{"id":"in_1"}}}"#;
        let now = world.now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs();
        let mac = Hmac::<sha2::Sha256>::new_from_slice(b"whsec_1").unwrap();
        let mac = mac.chain_update(format!("{now}.{body}")).finalize().into_bytes();
        let hex = hex::encode(mac);
        let request =
            Request::post("/stripe").header("stripe-signature", format!("t={now},v1={hex}"));
        request.header("content-type", "application/json").body(body.into()).unwrap()
    }

    #[test]
    fn an_event_is_booked_once() {
        let page = include_str!("../../docs/guide/webhooks.md");
        assert_on_page(page, &["// also for events that are not ours", A_SET], SOURCE);
        every_crash(async |world: World| {
            let ledger = Ledger::default();
            let status = world.call(async |process| {
                let inbox = inbox(&process.idempotency(), Arc::clone(&ledger), "whsec_1").unwrap();
                inbox.oneshot(delivery(&world)).await.unwrap().status()
            });
            assert_eq!(status.await, StatusCode::NO_CONTENT);
            assert_eq!(ledger.lock().unwrap().len(), 1);
        });
    }
}
