//! One case, over and over, for `valgrind --tool=callgrind --toggle-collect=*measured*`.
//!
//! `instructions` alone lists the cases; `instructions CASE ours|bare TIMES` runs one.

use anyhow::{Context, Result, bail};
use benches::cases::{self, Work};
use tokio::runtime::{Builder, Runtime};

fn main() -> Result<()> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let cases = runtime.block_on(cases::all())?;
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [name, side, times] = args.as_slice() else {
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
    for _ in 0..times.parse()? {
        measured(&runtime, prepare())?;
    }
    Ok(())
}

#[inline(never)]
fn measured(runtime: &Runtime, work: Work) -> Result<()> {
    runtime.block_on(work)
}
