//! The places, the time and the processes of `every_crash`.

use std::cell::{Cell, RefCell};
use std::convert::Infallible;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, SystemTime};

use aws_sdk_dynamodb::types::AttributeValue;
use dynamodb_idempotency::policy::{InProgress, Lease};
use dynamodb_idempotency::testing::{Process, World, every_crash};
use dynamodb_idempotency::{ErrorKind, LookUp, Outcome, Reconciled, RunError};

use super::{Bank, assert_names, create_table, finding, row, rows};

/// As many handlers have it: three steps, and a commit.
#[test]
fn three_steps_and_a_commit_survive_every_crash() {
    let (began, runs) = (std::time::Instant::now(), Cell::new(0));
    every_crash(async |world: World| {
        runs.set(runs.get() + 1);
        create_table(&world.client(), "orders").await;
        let bank = Bank::new(&world);
        let answer = world
            .call(async |process| {
                let operation = process.idempotency().operation("order").key("42").payload(&1200);
                operation
                    .run(async |execution| {
                        for name in ["reserve", "charge", "mail"] {
                            let key = Some(execution.derive_key(name).uuid());
                            let effect =
                                async { Ok::<_, Infallible>(bank.refund(name, key).await) };
                            execution.step(name, effect).await?;
                        }
                        execution.commit("done", [row("orders", "42")]).await?;
                        Ok::<_, RunError<Infallible>>("done".to_owned())
                    })
                    .await
            })
            .await;
        assert_eq!(bank.refunds(), 3);
        assert_eq!(rows(&world.client(), "orders").await, 1);
        assert_eq!(answer.expect("an answer"), "done");
    });
    println!("{} runs in {:?}", runs.get(), began.elapsed());
}

#[test]
fn all_clocks_are_one_and_take_no_real_time() {
    every_crash(async |world: World| {
        let began = world.now();
        let run = world.call(async |process| {
            let idempotency = process.idempotency();
            let operation = idempotency.operation("slow").key("k").no_payload();
            let ended = operation
                .run(async |_| {
                    let uptime = tokio::time::Instant::now();
                    let wall = world.now();
                    tokio::time::sleep(Duration::from_secs(7)).await;
                    assert_eq!(uptime.elapsed(), Duration::from_secs(7));
                    assert_eq!(world.now().duration_since(wall).unwrap(), Duration::from_secs(7));
                    Ok::<_, Infallible>(())
                })
                .await;
            assert!(ended.is_ok(), "{ended:?}");
        });
        run.await;
        let passed = world.now().duration_since(began).unwrap();
        assert!(passed >= Duration::from_secs(7), "{passed:?}");
        let records = world.client().scan().table_name(world.table()).send().await.unwrap();
        let completed = records.items()[0]["completed_at"].as_n().unwrap().parse().unwrap();
        let completed = SystemTime::UNIX_EPOCH + Duration::from_millis(completed);
        assert!(began <= completed && completed <= world.now() + Duration::from_secs(1));
    });
}

#[test]
fn each_run_begins_with_the_same_random_numbers_and_empty_tables() {
    let owners = RefCell::new(Vec::new());
    for _ in 0..2 {
        every_crash(async |world: World| {
            let scan =
                async || world.client().scan().table_name(world.table()).send().await.unwrap();
            assert!(scan().await.items().is_empty());
            let run = world.call(async |process| {
                let operation = process.idempotency().operation("greet").key("k").no_payload();
                operation.run(async |_| Ok::<_, Infallible>(())).await
            });
            run.await.expect("an answer");
            let owner = scan().await.items()[0]["owner"].as_s().unwrap().clone();
            owners.borrow_mut().push(owner);
        });
    }
    let owners = owners.into_inner();
    let (first, second) = owners.split_at(owners.len() / 2);
    assert_eq!(first, second);
}

/// DynamoDB would take a delayed copy of a transaction for the same one for ten minutes only.
#[test]
fn the_engine_does_not_remember_the_tokens_of_transactions() {
    every_crash(async |world: World| {
        let client = world.client();
        create_table(&client, "rows").await;
        let transact = async || {
            let write = client.transact_write_items().client_request_token("token");
            write.transact_items(row("rows", "a")).send().await.expect("it is applied");
        };
        transact().await;
        let id = AttributeValue::S("a".to_owned());
        client.delete_item().table_name("rows").key("id", id).send().await.expect("deleted");
        transact().await;
        let found = world.call(async |process| rows(&process.client(), "rows").await);
        assert_eq!(found.await, 1);
    });
}

/// A process that crashes takes its tasks with it. A call that is dropped leaves them.
#[test]
fn a_crash_ends_the_tasks_of_its_process_and_a_drop_does_not() {
    let (ended, cut_off) = (Cell::new(0), Cell::new(0));
    every_crash(async |world: World| {
        let (sender, mut beats) = tokio::sync::mpsc::unbounded_channel();
        world
            .call(async |process| {
                let sender = sender.clone();
                tokio::spawn(async move {
                    for beat in 1..=5 {
                        tokio::time::sleep(Duration::from_millis(100)).await;
                        let _ = sender.send(beat);
                    }
                });
                process.client().list_tables().send().await.expect("tables");
                tokio::time::sleep(Duration::from_millis(250)).await;
                process.client().list_tables().send().await.expect("tables");
            })
            .await;
        let mut seen = Vec::new();
        while let Ok(beat) = beats.try_recv() {
            seen.push(beat);
        }
        let whole = seen.iter().filter(|beat| **beat == 5).count();
        let begun = seen.iter().filter(|beat| **beat == 1).count();
        if begun == whole { ended.set(ended.get() + 1) } else { cut_off.set(cut_off.get() + 1) }
    });
    assert!(ended.get() > 0 && cut_off.get() > 0, "{ended:?} {cut_off:?}");
}

#[test]
fn a_repeat_takes_over_after_the_lease_and_the_cache_of_the_crashed_process_is_gone() {
    let attempts = RefCell::new(Vec::new());
    every_crash(async |world: World| {
        let outcome = world
            .call(async |process| {
                let idempotency = process.builder().local_cache(1 << 20).build().unwrap();
                let operation = idempotency.operation("count").key("k").no_payload();
                operation.run_with_outcome(async |run| Ok::<_, Infallible>(run.attempt())).await
            })
            .await
            .expect("never in progress: the lease has ended");
        attempts.borrow_mut().push(match outcome {
            Outcome::Executed(attempt) => attempt,
            _ => 0,
        });
    });
    let attempts = attempts.into_inner();
    assert!(attempts.contains(&1) && attempts.contains(&2) && attempts.contains(&0));
}

#[test]
fn in_a_race_the_second_caller_meets_the_first_one_at_each_of_its_requests() {
    let results = RefCell::new(Vec::new());
    every_crash(async |world: World| {
        let executions = Cell::new(0);
        let call = async |process: Process, name: &'static str| {
            let operation = process.idempotency().operation("refunds").key("k").no_payload();
            let handler = async |_| {
                executions.set(executions.get() + 1);
                Ok::<_, Infallible>(name.to_owned())
            };
            operation.run(handler).await
        };
        let first = async |process| call(process, "first").await;
        let second = async |process| call(process, "second").await;
        let (first, second) = world.race(first, second).await;
        assert_eq!(executions.get(), 1);
        let name = |result: Result<String, RunError<Infallible>>| match result {
            Ok(answer) => answer,
            Err(error) => {
                let kind = error.idempotency().expect("no error of the handler").kind();
                assert!(matches!(kind, ErrorKind::InProgress { .. }), "{kind:?}");
                "in progress".to_owned()
            }
        };
        results.borrow_mut().push((name(first), name(second)));
    });
    let results = results.into_inner();
    let has = |first: &str, second: &str| results.contains(&(first.to_owned(), second.to_owned()));
    assert!(has("first", "first"), "one after the other: {results:?}");
    assert!(has("first", "in progress"), "{results:?}");
    assert!(has("second", "second"), "{results:?}");
}

/// The place of each run, found by a failure in it.
fn places(test: impl AsyncFn(World)) -> Vec<String> {
    let mut places = Vec::new();
    loop {
        let (runs, fails_at) = (Cell::new(0), places.len() + 1);
        let failing = async |world: World| {
            test(world).await;
            runs.set(runs.get() + 1);
            assert!(runs.get() != fails_at, "enough");
        };
        let Err(panic) = catch_unwind(AssertUnwindSafe(|| every_crash(failing))) else {
            return places;
        };
        let report = panic.downcast::<String>().expect("a report");
        let place = report.lines().filter_map(|line| {
            line.strip_prefix("where: ").or_else(|| line.strip_prefix("then:  "))
        });
        let place = place.map(|place| place.split(';').next().unwrap_or(place));
        places.push(place.collect::<Vec<_>>().join("; "));
    }
}

#[test]
fn a_request_and_a_point_have_these_places() {
    let places = places(async |world: World| {
        world
            .call(async |process| {
                let put = process.client().put_item().table_name("idempotency");
                put.item("pk", AttributeValue::S("a".to_owned())).send().await.expect("a row");
                world.point("mailed").await;
                tokio::task::yield_now().await;
            })
            .await;
    });
    let put = "DynamoDB had executed PutItem on `idempotency`";
    let expected = [
        "in a run that nothing disturbed".to_owned(),
        "the future of attempt 1 was dropped while it waited, after its start".to_owned(),
        format!("crash before {put}, request 1 of attempt 1"),
        format!("crash after {put}, request 1 of attempt 1"),
        format!("the response was lost after {put}, request 1 of attempt 1"),
        format!("the future of attempt 1 was dropped while it waited, after {put}"),
        "crash at point `mailed` of attempt 1".to_owned(),
        "the future of attempt 1 was dropped while it waited, after point `mailed`".to_owned(),
        format!(
            "crash after {put}, request 1 of attempt 1; crash before {put}, request 1 of attempt 2"
        ),
        format!("crash after {put}, request 1 of attempt 1; crash at point `mailed` of attempt 2"),
        format!(
            "the response was lost after {put}, request 1 of attempt 1; the future of attempt 1 was \
             dropped while it waited, after {put}, await 2"
        ),
    ];
    assert_eq!(places, expected);
}

/// Closures of `spawn_blocking` and file operations run while no task runs, however fast their thread is.
#[test]
fn threads_have_the_same_places_in_each_run() {
    let path = std::env::temp_dir().join(format!("every_crash-{}", std::process::id()));
    let (begun, runs) = (Arc::new(AtomicU32::new(0)), Cell::new(0));
    every_crash(async |world: World| {
        runs.set(runs.get() + 1);
        let call = world.call(async |process| {
            let operation = process.idempotency().operation("hash").key("k").no_payload();
            let handler = async |_| {
                let pause = |millis| {
                    let pause = Duration::from_millis(millis);
                    tokio::task::spawn_blocking(move || std::thread::sleep(pause))
                };
                let (first, second) = tokio::join!(pause(3), pause(0));
                first.and(second).expect("no panic");
                tokio::fs::write(&path, "text").await?;
                world.point("written").await;
                tokio::fs::read_to_string(&path).await
            };
            let answer = operation.run(handler).await;
            let begun = Arc::clone(&begun);
            drop(tokio::task::spawn_blocking(move || begun.fetch_add(1, Ordering::SeqCst)));
            answer
        });
        assert_eq!(call.await.expect("an answer"), "text");
        assert_eq!(begun.load(Ordering::SeqCst), runs.get(), "what is not awaited runs too");
    });
    std::fs::remove_file(path).expect("a file");
}

#[test]
fn a_caller_waits_for_a_long_handler_with_a_renewed_lease() {
    let waits = InProgress::Wait { timeout: Duration::from_secs(1800) };
    every_crash(async |world: World| {
        let executions = Cell::new(0);
        let call = async |process: Process| {
            let builder = process.builder().policy(|policy| {
                policy.lease(Lease::Renewed(Duration::from_secs(15))).in_progress(waits)
            });
            let operation = builder.build().unwrap().operation("report").key("k").no_payload();
            let handler = async |_| {
                executions.set(executions.get() + 1);
                tokio::time::sleep(Duration::from_secs(120)).await;
                Ok::<_, Infallible>("done".to_owned())
            };
            operation.run(handler).await.expect("an answer")
        };
        let answers = world.race(call, call).await;
        assert_eq!(answers, ("done".to_owned(), "done".to_owned()));
        assert_eq!(executions.get(), 1);
    });
}

/// Each call of a test can crash.
#[test]
fn each_call_of_a_test_can_crash() {
    let most = [Cell::new(0), Cell::new(0)];
    every_crash(async |world: World| {
        let charges = Cell::new(0);
        for most in &most {
            let attempts = Cell::new(0);
            let charge = async |process: Process| {
                attempts.set(attempts.get() + 1);
                let operation = process.idempotency().operation("charge").key("k").no_payload();
                let handler = async |_| Ok::<_, Infallible>(charges.replace(1));
                operation.run(handler).await.expect("an answer")
            };
            world.call(charge).await;
            most.set(attempts.get().max(most.get()));
        }
        assert_eq!(charges.get(), 1);
    });
    assert!(most.iter().all(|attempts| attempts.get() >= 2), "{most:?}");
}

/// A request without a key at a service that answers nothing: it may have arrived.
async fn sent_at_most_once(process: &Process, key: &str, found: LookUp<u32>) -> Option<u32> {
    let operation = process.idempotency().operation("send").key(key).no_payload();
    let call = operation.run(async |execution| {
        let send = async { Err(std::io::Error::other("no response")) };
        execution.step_at_most_once("post", send, async |_| Ok(found)).await
    });
    call.await.ok()
}

fn incompressible(length: usize) -> String {
    let mut state = 1_u64;
    let letters = std::iter::repeat_with(|| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        char::from(b'A' + (state >> 58) as u8 % 58)
    });
    letters.take(length).collect()
}

#[test]
fn the_trace_names_each_write_by_what_it_is() {
    let report = finding(async |world: World| {
        for (found, answer) in
            [(LookUp::Unknown, None), (LookUp::Unknown, None), (LookUp::Found(7), Some(7))]
        {
            let call = world.call(async |process| sent_at_most_once(&process, "k", found).await);
            assert_eq!(call.await, answer);
        }
        let large = incompressible(700_000);
        let call = world.call(async |process| {
            let operation = process.idempotency().operation("large").key("k").no_payload();
            let call = operation.run(async |execution| {
                let step = async { Ok::<_, Infallible>(large[..20_000].to_owned()) };
                execution.step("report", step).await?;
                Ok::<_, RunError<Infallible>>(large.clone())
            });
            call.await.is_ok()
        });
        assert!(call.await);
        panic!("the trace is complete");
    });
    let written =
        report.lines().filter_map(|line| line.split_once(": DynamoDB ").map(|(_, it)| it));
    let written = written.map(|it| it.split(" (key ").next().unwrap_or(it));
    let mut written: Vec<_> = written.filter(|it| *it != "read the record").collect();
    // The answer has several parts.
    written.dedup();
    let words = [
        "stored the acquisition of the key",
        "stored the note that step `post` is about to send",
        "stored the failure",
        "stored the acquisition of the key after a failure",
        "stored the undo of the acquisition",
        "stored the acquisition of the key after a failure",
        "stored step `post`",
        "stored the answer",
        "stored the acquisition of the key",
        "stored the item of a step",
        "stored step `report`",
        "stored a part of the answer",
        "stored the answer",
    ];
    assert_eq!(written, words, "{report}");
    assert!(report.contains("call 2: the look-up of step `post` answered Unknown"), "{report}");
}

#[test]
fn the_trace_names_the_undo_of_a_takeover() {
    let report = finding(async |world: World| {
        let call =
            world.call(async |process| sent_at_most_once(&process, "k", LookUp::Unknown).await);
        call.await;
        let records = world.client().scan().table_name(world.table()).send().await.unwrap();
        assert_eq!(records.items()[0]["status"].as_s().unwrap(), "FAILED");
    });
    assert_names(
        &report,
        "crash after DynamoDB had stored the note that step `post` is about to send",
    );
    for line in [
        "attempt 2: request 2: DynamoDB stored the takeover of the key",
        "attempt 2: the look-up of step `post` answered Unknown",
        "DynamoDB stored the undo of the acquisition",
    ] {
        assert!(report.contains(line), "{line}: {report}");
    }
}

#[test]
fn the_trace_has_what_a_hook_answers() {
    let report = finding(async |world: World| {
        let call = world.call(async |process| {
            let operation = process.idempotency().operation("charge").key("k").no_payload();
            let hook = async |_| Ok::<_, Infallible>(Reconciled::Execute);
            operation.reconcile(hook).run(async |execution| Ok(execution.attempt())).await.unwrap()
        });
        assert_eq!(call.await, 1);
    });
    let mut lines = report.lines();
    let hook = lines.find(|line| line.contains("attempt 2: the hook answered Execute"));
    assert!(hook.is_some(), "{report}");
    assert!(lines.next().unwrap().contains("stored the takeover of the key"), "{report}");
}
