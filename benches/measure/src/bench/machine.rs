//! Where and when the figures were taken, in general words: no name of a host, and no path.

use std::{fs, process::Command};

use anyhow::{Context, Result};

use xtask::command::output;

pub(super) fn described(rounds: u32) -> Result<String> {
    let processors = fs::read_to_string("/proc/cpuinfo")?;
    let count = processors.lines().filter(|line| line.starts_with("processor")).count();
    let model = processors.lines().find_map(|line| line.strip_prefix("model name"));
    let model = model.and_then(|line| line.split_once(':')).map_or("unknown", |(_, model)| model);
    let memory = fs::read_to_string("/proc/meminfo")?;
    let memory = memory.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    let kilobytes = memory.and_then(|line| line.trim().split(' ').next()?.parse::<u64>().ok());
    let gigabytes = kilobytes.context("no MemTotal")?.div_ceil(1024 * 1024);
    let date = output(Command::new("date").args(["--utc", "+%Y-%m-%d"]))?;
    let rustc = output(Command::new("rustc").arg("--version"))?;
    let rustc = rustc.split(' ').nth(1).unwrap_or_default();
    let load = fs::read_to_string("/proc/loadavg")?;
    let load = load.split(' ').next().unwrap_or_default();
    let model = model.trim();
    let machine = std::env::consts::ARCH;
    Ok(format!(
        "Taken on {}, Linux on {machine}, {count} processors ({model}), {gigabytes} GB; Rust {rustc}; \
         {rounds} rounds. The load average was {load} when it began. If that is not near zero, other \
         programs used the machine: times are longer than on an idle one, and ratios scatter more.\n",
        date.trim()
    ))
}
