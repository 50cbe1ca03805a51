//! What ends a test of `every_crash` with an error of its own.

use std::cell::{Cell, RefCell};
use std::future::pending;
use std::process::Command;
use std::time::Duration;

use dynamodb_idempotency::Idempotency;
use dynamodb_idempotency::testing::{EveryCrash, World, every_crash};

use super::{assert_names, finding, report};

#[test]
fn a_call_that_never_answers_is_an_error_after_a_bound() {
    let report = finding(async |world: World| world.call(async |_| pending::<()>().await).await);
    assert!(report.contains("the call has not answered for 3600s"), "{report}");
    let short = EveryCrash::new().longest_call(Duration::from_secs(5));
    let slow = async |world: World| {
        let call = world.call(async |process| {
            process.client().list_tables().send().await.expect("tables");
            tokio::time::sleep(Duration::from_secs(6)).await;
        });
        call.await;
    };
    let report = super::report(|| short.run(slow));
    assert!(report.contains("not answered for 5s"), "{report}");
    every_crash(slow);
}

#[test]
fn a_call_that_spins_is_an_error() {
    let spin = async |world: World| {
        let spins = async |_| loop {
            tokio::task::yield_now().await;
        };
        world.call(spins).await;
    };
    assert!(finding(spin).contains("attempt 1 never waits"));
}

#[test]
fn a_closure_that_does_not_end_is_an_error() {
    let report = finding(async |world: World| {
        let (_sender, receiver) = std::sync::mpsc::channel::<()>();
        let receiver = RefCell::new(Some(receiver));
        let call = world.call(async |_| {
            let receiver = receiver.take().expect("one attempt");
            tokio::task::spawn_blocking(move || receiver.recv().is_ok()).await
        });
        call.await.expect("an end");
    });
    assert!(report.contains("has not ended after 10s of real time"), "{report}");
}

#[test]
fn a_test_that_waits_for_nothing_is_an_error() {
    let report = finding(async |_| pending().await);
    assert!(report.contains("nothing is left that could wake it"), "{report}");
}

#[test]
fn a_panic_of_the_handler_is_a_finding() {
    let report = finding(async |world: World| {
        world.call(async |_| assert_eq!(1, 2, "the handler's own")).await;
    });
    assert!(report.contains("the handler's own"), "{report}");
    assert!(report.contains("in a run that nothing disturbed"), "{report}");
}

#[test]
fn a_handler_that_differs_from_run_to_run_is_reported_with_the_first_difference() {
    let runs = Cell::new(0);
    let report = finding(async |world: World| {
        runs.set(runs.get() + 1);
        let is_odd = runs.get() % 2 == 1;
        let call = async |process: dynamodb_idempotency::testing::Process| {
            let client = process.client();
            client.list_tables().send().await.expect("tables");
            if is_odd {
                client.describe_table().table_name("idempotency").send().await.expect("a table");
            } else {
                client.list_tables().send().await.expect("tables");
            }
        };
        world.call(call).await;
    });
    assert_names(&report, "in a run that did not reach its place: ");
    assert!(!report.contains("DYNAMODB_IDEMPOTENCY_CRASH"), "it cannot be run again: {report}");
    let differs = |line: &str, what: &str| line.contains(what) && line.contains("request 2");
    let earlier = report.lines().find(|line| line.contains("earlier: ")).expect("a line");
    let now = report.lines().find(|line| line.contains("now: ")).expect("a line");
    assert!(differs(earlier, "DescribeTable on `idempotency`"), "{report}");
    assert!(differs(now, "ListTables"), "{report}");
}

#[test]
fn a_run_that_is_shorter_is_reported_with_the_first_missing_place() {
    let runs = Cell::new(0);
    let report = finding(async |world: World| {
        runs.set(runs.get() + 1);
        let requests = if runs.get() == 1 { 3 } else { 1 };
        let call = async |process: dynamodb_idempotency::testing::Process| {
            for _ in 0..requests {
                process.client().list_tables().send().await.expect("tables");
            }
        };
        world.call(call).await;
    });
    let line = |what: &str| report.lines().find(|line| line.contains(what)).expect("a line");
    let missing = "dropped while it waited, after DynamoDB had executed ListTables, await 2";
    assert!(line("earlier: ").contains(missing), "{report}");
    assert!(line("now: ").contains("the end of the test, after"), "{report}");
    assert!(line("where:").contains("did not reach its place"), "{report}");
}

#[test]
fn no_disturbance_is_refused() {
    let report = report(|| drop(EveryCrash::new().repeats(0)));
    assert!(report.contains("It must be at least 1"), "{report}");
}

#[test]
fn a_call_inside_of_a_call_is_an_error() {
    let report = finding(async |world: World| {
        let inner = async || world.call(async |_| ()).await;
        world.call(async |_| inner().await).await;
    });
    assert!(report.contains("`world.race` was called inside of a call"), "{report}");
}

#[tokio::test]
async fn a_runtime_cannot_run_it() {
    let report = report(|| every_crash(async |_| {}));
    assert!(report.contains("#[test] instead of #[tokio::test]"), "{report}");
}

/// The one line of a report runs the place again, and no other one.
#[test]
fn the_line_of_a_report_runs_only_its_place() {
    let report = finding(found);
    let line = report.lines().last().expect("a line");
    let test = "limits::the_line_of_a_report_runs_only_its_place";
    assert!(line.ends_with(&format!(" -- --exact {test}")), "{line}");
    let (variable, _) = line.split_once(' ').expect("a variable");
    let printed = again(variable, "limits::a_test_that_fails");
    assert!(printed.contains("every_crash found a failure in run 1."), "{printed}");
    let place =
        |report: &str| report.lines().find(|line| line.starts_with("where:")).map(str::to_owned);
    assert_eq!(place(&printed), place(&report));
}

/// What a failing test of this program prints with a variable.
fn again(variable: &str, test: &str) -> String {
    let (name, value) = variable.split_once('=').expect("a value");
    let mut again = Command::new(std::env::current_exe().expect("this program"));
    let again = again.args(["--include-ignored", "--exact", test]).env(name, value);
    let again = again.output().expect("an end");
    let printed =
        [again.stdout, again.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    assert!(!again.status.success(), "{printed:?}");
    printed.concat()
}

#[test]
fn the_line_of_a_report_runs_the_every_crash_that_failed() {
    let report = super::report(two_tests);
    let line = report.lines().last().expect("a line");
    let (variable, _) = line.split_once(' ').expect("a variable");
    assert!(variable.starts_with("DYNAMODB_IDEMPOTENCY_CRASH=2:"), "{variable}");
    let printed = again(variable, "limits::a_second_test_that_fails");
    assert!(printed.contains(&format!("{variable} skips this every_crash, number 1")), "{printed}");
    assert!(printed.contains("mails of the second"), "{printed}");
}

#[test]
#[ignore = "another test runs it in a process of its own"]
fn a_second_test_that_fails() {
    two_tests();
}

/// The first has no place that the second one has.
fn two_tests() {
    every_crash(async |world: World| {
        world.call(async |process| process.client().list_tables().send().await.is_ok()).await;
    });
    every_crash(async |world: World| {
        let mails = Cell::new(0);
        let call = world.call(async |process| {
            for _ in 0..2 {
                process.client().list_tables().send().await.expect("tables");
            }
            mails.set(mails.get() + 1);
            world.point("mailed").await;
        });
        call.await;
        assert_eq!(mails.get(), 1, "mails of the second");
    });
}

#[test]
#[ignore = "another test runs it in a process of its own"]
fn a_test_that_fails() {
    every_crash(found);
}

async fn found(world: World) {
    let runs = Cell::new(0);
    world
        .call(async |process| {
            runs.set(runs.get() + 1);
            process.client().list_tables().send().await.expect("tables");
        })
        .await;
    assert_eq!(runs.get(), 1, "runs");
}

#[test]
fn a_test_whose_calls_send_no_request_is_an_error() {
    let of_the_test = async |world: World| {
        let idempotency = Idempotency::builder(world.client(), world.table()).enabled().build();
        let idempotency = idempotency.expect("a setting");
        let call = world.call(async |_| {
            let operation = idempotency.operation("greet").key("k").no_payload();
            operation.run(async |_| Ok::<_, std::io::Error>(1)).await
        });
        assert_eq!(call.await.expect("an answer"), 1);
    };
    for report in [finding(of_the_test), finding(async |_| {})] {
        assert!(report.contains("in a run that nothing disturbed"), "{report}");
        assert!(report.contains("use `process.idempotency()`"), "{report}");
    }
}
