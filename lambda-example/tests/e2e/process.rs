//! Processes by their program, and signals to them. Of Linux, as the emulator is.

use std::path::Path;
use std::process::Command;

/// The processes that run this file. Each emulator has a separate copy.
pub fn running(program: &Path) -> Vec<u32> {
    let processes = std::fs::read_dir("/proc").expect("/proc");
    let numbers = processes.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    // A process may have ended meanwhile, or be another user's.
    let runs = |id: &u32| {
        std::fs::read_link(format!("/proc/{id}/exe")).is_ok_and(|running| running == program)
    };
    numbers.filter(runs).collect()
}

/// `STOP`, `CONT` or `KILL`. `false` if there is no such process.
pub fn signal(process: u32, signal: &str) -> bool {
    let kill = ["-c", r#"kill -s "$0" "$1""#, signal];
    let status = Command::new("sh").args(kill).arg(process.to_string()).status();
    status.expect("a shell").success()
}
