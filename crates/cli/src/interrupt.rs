//! Ctrl-C and SIGTERM: the work ends where it is and says how to continue. A second one ends the program.

use std::io::IsTerminal;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, Once, PoisonError};

use tokio::sync::Notify;

use crate::output;

/// Printed when the signal comes.
static MESSAGE: Mutex<&str> = Mutex::new("");
static HAS_COME: AtomicBool = AtomicBool::new(false);
static COME: Notify = Notify::const_new();

/// The exit code of a program that SIGINT ends.
const CODE: i32 = 130;

/// Replaces the default, which ends the program at once, from here on. When the signal comes, `message` is
/// printed at once: the work may take a while to stop. A later call replaces the message.
pub(crate) fn listen(message: &'static str) {
    static LISTENING: Once = Once::new();
    *MESSAGE.lock().unwrap_or_else(PoisonError::into_inner) = message;
    LISTENING.call_once(|| {
        drop(tokio::spawn(async {
            // Where signals are not available, the default stays.
            if signal().await.is_ok() {
                if std::io::stderr().is_terminal() {
                    // The cursor is behind `^C`, and may be behind a progress bar.
                    output::note("");
                }
                output::remark(*MESSAGE.lock().unwrap_or_else(PoisonError::into_inner));
                HAS_COME.store(true, Ordering::Relaxed);
                COME.notify_waiters();
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

/// Waits until the signal comes.
pub(crate) async fn come() {
    let mut notified = pin!(COME.notified());
    // From here on, no notification is missed.
    notified.as_mut().enable();
    if !has_come() {
        notified.await;
    }
}
