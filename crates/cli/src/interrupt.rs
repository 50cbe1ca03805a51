//! Ctrl-C and SIGTERM: a scan ends where it is and says how to continue. A second one ends the program.

use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};

static HAS_COME: AtomicBool = AtomicBool::new(false);

/// The exit code of a program that SIGINT ends.
const CODE: i32 = 130;

/// Replaces the default, which ends the program at once, from here on.
pub(crate) fn listen() {
    static LISTENING: Once = Once::new();
    LISTENING.call_once(|| {
        drop(tokio::spawn(async {
            // Where signals are not available, the default stays.
            if signal().await.is_ok() {
                HAS_COME.store(true, Ordering::Relaxed);
                if signal().await.is_ok() {
                    std::process::exit(CODE);
                }
            }
        }));
    });
}

#[cfg(unix)]
async fn signal() -> std::io::Result<()> {
    use tokio::signal::unix::{SignalKind, signal};

    let mut terminated = signal(SignalKind::terminate())?;
    tokio::select! {
        interrupted = tokio::signal::ctrl_c() => interrupted,
        _ = terminated.recv() => Ok(()),
    }
}

#[cfg(not(unix))]
async fn signal() -> std::io::Result<()> {
    tokio::signal::ctrl_c().await
}

pub(crate) fn has_come() -> bool {
    HAS_COME.load(Ordering::Relaxed)
}
