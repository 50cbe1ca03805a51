//! How long a finished record is kept. Both machines verify it, as they verify a lease.

use std::time::Duration;

use crate::condition::Condition;
use crate::machine::{Command, Outcome, Reply};
use crate::record::{Header, State};
use crate::rules::Rules;
use crate::time::{Stamp, StoreTime, Timestamp, Uptime};
use crate::write::{Form, Write};

/// How long a released record is kept at least. AWS rejects a request that arrives more than 15 minutes
/// after the time in its signature, and accepts one that is signed 15 minutes ahead. So a request is
/// delayed by at most 30 minutes, and this is twice as long.
pub(crate) const RELEASED_FOR: Duration = Duration::from_secs(60 * 60);

/// When a record that is released at `now` expires, in epoch seconds: not before its last lease.
pub fn released_until(now: Timestamp, lease_expires_at: Timestamp) -> i64 {
    now.plus(RELEASED_FOR).max(lease_expires_at).seconds_up()
}

/// Extends the retention of a finished record that a machine has stamped too early, because a clock had
/// jumped. The machine returns its result after the extension, which does not change the result.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Retention<T> {
    /// When the last record was stamped.
    stamped_at: Uptime,
    /// The extension that was sent, and the result to return after it.
    extending: Option<(Write, T)>,
}

impl<T: Copy> Retention<T> {
    pub(crate) const fn new(now: Uptime) -> Self {
        Self { stamped_at: now, extending: None }
    }

    pub(crate) const fn stamped(&mut self, stamp: Stamp) {
        self.stamped_at = stamp.made;
    }

    /// The caller no longer waits for the extension.
    pub(crate) fn abandon(&mut self) {
        self.extending = None;
    }

    /// Returns `command`, or an extension that precedes it, if `command` returns a result and the record
    /// that the reply has `shown` expires too early.
    pub(crate) fn verify(
        &mut self,
        rules: &Rules,
        shown: Option<&Header>,
        time: Option<StoreTime>,
        limit: Duration,
        command: Command<T>,
    ) -> Command<T> {
        let Command::Return(result) = command else { return command };
        match shown.and_then(|record| extension(rules, record, self.stamped_at, time)) {
            Some(write) => self.send(write, result, limit),
            None => Command::Return(result),
        }
    }

    /// The command after a reply, if an extension was in flight. `pause`: the bound of a pause before the
    /// next try, if there is time for one.
    pub(crate) fn replied(
        &mut self,
        reply: &Reply,
        pause: impl FnOnce() -> Option<Duration>,
    ) -> Option<Command<T>> {
        let (write, result) = self.extending.take()?;
        let is_final = matches!(&reply.outcome, Outcome::Write(result) if result.is_final());
        Some(match pause() {
            Some(bound) if !is_final => {
                self.extending = Some((write, result));
                Command::Pause { bound, max: bound }
            }
            _ => Command::Return(result),
        })
    }

    /// The command after a pause, if the pause was for another try of an extension.
    pub(crate) fn woke(&mut self, limit: Duration) -> Option<Command<T>> {
        let (write, result) = self.extending.take()?;
        Some(self.send(write, result, limit))
    }

    fn send(&mut self, write: Write, result: T, limit: Duration) -> Command<T> {
        self.extending = Some((write.clone(), result));
        Command::Send { write, limit }
    }
}

/// The write that corrects `expires_at` of a finished record, if the response that has shown the record
/// proves that it expires too early. The record was stamped at `stamped_at`.
///
/// Only the monotonic clock measures the time since then: a wall clock that was corrected meanwhile would
/// hide the error.
fn extension(
    rules: &Rules,
    shown: &Header,
    stamped_at: Uptime,
    time: Option<StoreTime>,
) -> Option<Write> {
    let time = time?;
    let kept_for = match shown.state {
        State::Completed | State::Failed => rules.retention,
        State::Released => RELEASED_FOR,
        State::Pending { .. } => return None,
    };
    let stamped = time.date.minus(time.received.uptime.since(stamped_at));
    let earliest = stamped.plus(kept_for).minus(rules.lease_margin());
    if shown.expires_at >= earliest.seconds_up() {
        return None;
    }
    let expires_at = time.latest().plus(kept_for).seconds_up();
    let record = Header { expires_at, ..shown.clone() };
    let condition = Condition::unchanged(&shown.version());
    Some(Write { form: Form::Stamp, condition, record })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_released_record_is_kept_for_an_hour_and_not_less_than_its_lease() {
        let (now, hour) = (Timestamp::from_millis(10_000), 3_600);
        assert_eq!(released_until(now, now), 10 + hour);
        let lease = now.plus(2 * RELEASED_FOR);
        assert_eq!(released_until(now, lease), 10 + 2 * hour);
    }
}
