//! Ctrl-C and SIGTERM, for all commands: a command ends at once, unless it has to finish something first.
//! A second signal ends the program.

use std::io::IsTerminal;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::{Notify, oneshot};

use crate::failure::Failure;
use crate::output;

/// Printed when the signal comes. Without it, the command ends at once.
static MESSAGE: Mutex<Option<&str>> = Mutex::new(None);
static HAS_COME: AtomicBool = AtomicBool::new(false);
static COME: Notify = Notify::const_new();
static ENDS: Notify = Notify::const_new();

/// The exit code of a program that SIGINT ends.
const CODE: i32 = 130;

/// Runs a command. A signal ends it as [`Failure::Interrupted`]: at once, or after what is to be
/// [finished first](finish_first).
pub(crate) async fn stoppable<T>(
    command: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Failure> {
    drop(tokio::spawn(listen()));
    tokio::select! {
        ended = command => ended,
        () = ENDS.notified() => Err(Failure::Interrupted),
    }
}

/// Replaces the default, which ends the program without a word.
async fn listen() {
    // Where signals are not available, the default stays.
    if signal().await.is_err() {
        return;
    }
    if std::io::stderr().is_terminal() {
        // The cursor is behind `^C`, and may be behind a progress bar.
        output::note("");
    }
    match *message() {
        Some(message) => {
            output::remark(message);
            HAS_COME.store(true, Ordering::Relaxed);
            COME.notify_waiters();
        }
        None => ENDS.notify_one(),
    }
    if signal().await.is_ok() {
        std::process::exit(CODE);
    }
}

fn message() -> MutexGuard<'static, Option<&'static str>> {
    MESSAGE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// From here on the command finishes its requests in flight when the signal comes, and asks
/// [`has_come`]. `message` is printed at once, because that may take a while.
pub(crate) fn finish_first(text: &'static str) {
    *message() = Some(text);
}

/// From here on a signal ends the command at once. Fails if it has come before.
pub(crate) fn end_at_once() -> Result<(), Failure> {
    *message() = None;
    if has_come() { Err(Failure::Interrupted) } else { Ok(()) }
}

/// Awaits a read that blocks its thread. A signal does not wait for it.
pub(crate) async fn blocking<T: Send + 'static>(
    read: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Failure> {
    let (sender, receiver) = oneshot::channel();
    std::thread::spawn(move || drop(sender.send(read())));
    let failed = |_| Failure::Other("a defect of this program: a thread has failed".to_owned());
    receiver.await.map_err(failed)
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
