//! One case, over and over, for `valgrind --tool=callgrind --toggle-collect=*measured*`, or for the CPU time of a call.
//!
//! `calls` alone lists the cases; `calls CASE ours|bare TIMES` runs one; `calls CASE ours|bare TIMES cpu` prints the
//! nanoseconds of a call. (The clock cannot be read under valgrind.)

use std::time::Duration;

use anyhow::{Context, Result, bail};
use benches::cases::{self, Work};
use benches::cpu;
use tokio::runtime::{Builder, Runtime};

fn main() -> Result<()> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let cases = runtime.block_on(cases::all())?;
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [name, side, times, clock @ ..] = args.as_slice() else {
        for case in cases {
            println!("{}", case.name);
        }
        return Ok(());
    };
    let case = cases.into_iter().find(|case| &case.name == name).context("no such case")?;
    let prepare = match side.as_str() {
        "ours" => case.ours,
        "bare" => case.bare,
        other => bail!("`ours` or `bare`, not `{other}`"),
    };
    // The first ones fill what the SDK keeps: its cache of identities, its partitions of retries.
    for _ in 0..3 {
        runtime.block_on(prepare())?;
    }
    let times = times.parse::<u32>()?;
    match clock {
        [] => (0..times).try_for_each(|_| measured(&runtime, prepare())),
        [clock] if clock == "cpu" => {
            // All the work is done by this thread.
            let taken = (0..times).try_fold(Duration::ZERO, |taken, _| {
                let work = prepare();
                let start = cpu::of_thread();
                measured(&runtime, work)?;
                anyhow::Ok(taken + cpu::of_thread().saturating_sub(start))
            })?;
            println!("{}", (taken / times.max(1)).as_nanos());
            Ok(())
        }
        other => bail!("`cpu` or nothing, not {other:?}"),
    }
}

#[inline(never)]
fn measured(runtime: &Runtime, work: Work) -> Result<()> {
    runtime.block_on(work)
}
