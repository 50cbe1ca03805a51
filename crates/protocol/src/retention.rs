//! How long a finished or released record is kept. Both machines verify this time, as they verify a lease.

use std::time::Duration;

use crate::condition::Condition;
use crate::fault_point::{FaultPoint, is_broken};
use crate::machine::{Command, Outcome, Reply};
use crate::record::{RecordMeta, State};
use crate::rules::Rules;
use crate::time::{Stamp, StoreTime, Timestamp, Uptime};
use crate::write::{Kind, Write};

/// How long a released record is kept at least. This is twice the longest delay of a request, which is
/// 30 minutes.
pub(crate) const RELEASED_FOR: Duration = Duration::from_secs(60 * 60);

/// When a record that is released at `now` expires: never before `lease_expires_at`. In epoch seconds.
pub fn released_until(now: Timestamp, lease_expires_at: Timestamp) -> i64 {
    now.plus(RELEASED_FOR).max(lease_expires_at).seconds_up()
}

/// Extends the retention of a record whose `expires_at` is too early, because a clock has jumped. The
/// machine returns its result after the extension, and the extension does not change the result.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Retention<T> {
    /// When the latest write was stamped.
    stamped_at: Uptime,
    /// The extension that was sent, and the result to return after it. Boxed, because few records need one.
    extending: Option<Box<(Write, T)>>,
}

impl<T: Copy> Retention<T> {
    pub(crate) const fn new(now: Uptime) -> Self {
        Self { stamped_at: now, extending: None }
    }

    pub(crate) const fn stamped(&mut self, stamp: Stamp) {
        self.stamped_at = stamp.made;
    }

    /// Forgets the extension, because the caller no longer waits for it.
    pub(crate) fn abandon(&mut self) {
        self.extending = None;
    }

    /// Returns `command`. But if `command` is a [`Command::Return`], and the record that the reply has
    /// `shown` expires too early, the extension is sent first.
    pub(crate) fn verify(
        &mut self,
        rules: &Rules,
        shown: Option<&RecordMeta>,
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

    /// The command after the reply to an extension. `None` if no extension was in flight. `pause` returns the
    /// bound of the pause before the next try, if there is time.
    pub(crate) fn replied(
        &mut self,
        reply: &Reply,
        pause: impl FnOnce() -> Option<Duration>,
    ) -> Option<Command<T>> {
        let (write, result) = *self.extending.take()?;
        let is_final = matches!(&reply.outcome, Outcome::Write(result) if result.is_final());
        Some(match pause() {
            Some(bound) if !is_final => {
                self.extending = Some(Box::new((write, result)));
                Command::Pause { bound, max: bound }
            }
            _ => Command::Return(result),
        })
    }

    /// The command after a pause, if the pause was for another try of an extension.
    pub(crate) fn woke(&mut self, limit: Duration) -> Option<Command<T>> {
        let (write, result) = *self.extending.take()?;
        Some(self.send(write, result, limit))
    }

    fn send(&mut self, write: Write, result: T, limit: Duration) -> Command<T> {
        self.extending = Some(Box::new((write.clone(), result)));
        Command::Send { write, limit }
    }
}

/// The write that corrects `expires_at` of a record, if the response that has shown the record
/// proves that it expires too early. The record was stamped at `stamped_at`.
///
/// Only the monotonic clock measures the time since `stamped_at`. If the wall clock was corrected
/// meanwhile, it would hide the error.
fn extension(
    rules: &Rules,
    shown: &RecordMeta,
    stamped_at: Uptime,
    time: Option<StoreTime>,
) -> Option<Write> {
    let time = time.filter(|_| !is_broken(FaultPoint::RetentionUnverified))?;
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
    let record = RecordMeta { expires_at, ..shown.clone() };
    let condition = Condition::unchanged(&shown.version());
    Some(Write { kind: Kind::Extend, condition, record })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::{Cause, WriteResult};
    use crate::tests::{ME, after, now, record, rules};

    #[test]
    fn a_released_record_is_kept_for_an_hour_and_not_less_than_its_lease() {
        let (now, hour) = (Timestamp::from_millis(10_000), 3_600);
        assert_eq!(released_until(now, now), 10 + hour);
        let lease = now.plus(2 * RELEASED_FOR);
        assert_eq!(released_until(now, lease), 10 + 2 * hour);
    }

    /// The command of a machine whose record was stamped at `stamped_at` and expires at `expires_at`. Ten
    /// seconds after the start, the response shows store time 2,000,000 ms.
    fn verified(stamped_at: i64, expires_at: i64) -> (Retention<()>, Command<()>) {
        let received = after(Duration::from_secs(10)).local;
        let date = Timestamp::from_millis(2_000_000);
        let time = Some(StoreTime { date, sent: received, received });
        let shown = RecordMeta { expires_at, ..record(ME, State::Completed) };
        let mut retention = Retention::new(Uptime(0));
        let made = Uptime(stamped_at);
        retention.stamped(Stamp { made, ..now().stamp().unwrap() });
        let limit = Duration::from_secs(1);
        let command = retention.verify(&rules(), Some(&shown), time, limit, Command::Return(()));
        (retention, command)
    }

    fn reply(result: WriteResult<RecordMeta>) -> Reply {
        Reply { outcome: Outcome::Write(result), is_in_doubt: false, time: None }
    }

    #[test]
    fn a_record_that_expires_too_early_is_kept_for_longer() {
        let day = 24 * 3600;
        // Stamped at 1,990 s or at 2,000 s. An error of two seconds is not corrected.
        for (stamped_at, enough) in [(0, 1_988 + day), (10_000, 1_998 + day)] {
            assert_eq!(verified(stamped_at, enough).1, Command::Return(()));
            let (_, command) = verified(stamped_at, enough - 1);
            let Command::Send { write, .. } = command else { panic!("{command:?}") };
            assert_eq!(write.record.expires_at, 2_001 + day);
        }
    }

    #[test]
    fn an_extension_is_tried_again_until_it_is_answered() {
        let pause = || Some(Duration::from_millis(50));
        let unknown = reply(WriteResult::Unknown(Cause::Outage));
        let (mut retention, sent) = verified(0, 0);
        let paused = retention.replied(&unknown, pause);
        assert!(matches!(paused, Some(Command::Pause { .. })), "{paused:?}");
        assert_eq!(retention.woke(Duration::from_secs(1)), Some(sent));
        let done = retention.replied(&reply(WriteResult::Applied), pause);
        assert_eq!(done, Some(Command::Return(())));
        assert_eq!(retention.replied(&unknown, pause), None);
        let (mut retention, _) = verified(0, 0);
        assert_eq!(retention.replied(&unknown, || None), Some(Command::Return(())));
        let (mut retention, _) = verified(0, 0);
        retention.abandon();
        assert_eq!(retention.replied(&unknown, pause), None);
        assert_eq!(retention.woke(Duration::from_secs(1)), None);
    }
}
