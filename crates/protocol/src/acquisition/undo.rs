//! Undoing an acquisition that has executed nothing: the previous record is restored, or the key is
//! released.

use super::{Acquisition, Command, Reason, Step};
use crate::condition::Condition;
use crate::knowledge::Seen;
use crate::machine::WriteResult;
use crate::record::{Header, State, restored};
use crate::retention::released_until;
use crate::rules::MIN_LIMIT;
use crate::time::{Now, Stamp};
use crate::write::{Kind, Write};

const MAX_UNDO_TRIES: u32 = 3;

impl Acquisition {
    /// Undoes an acquisition that was applied, or may still be applied. The undo sends one request even if a
    /// freeze has used up the time. If the request fails, the key is free when the lease expires.
    pub(super) fn undo(&mut self, now: Now, reason: Reason) -> Command {
        // A process that does not know store time has written nothing, unless a restored snapshot has
        // made it forget the time.
        let Some(stamp) = now.stamp() else { return self.report(reason) };
        self.retention.stamped(stamp);
        let retained = stamp.at.plus(self.rules.retention).seconds_up();
        // No handler has seen the attempt, so its number is used again.
        let attempt = self.attempts.number.saturating_sub(1);
        let failed = self.header(stamp, State::Failed, Some(stamp.at), retained);
        let restored = restored(self.taken_over.as_ref(), &Header { attempt, ..failed });
        let record = restored.unwrap_or_else(|| self.released(stamp));
        let condition = match self.knowledge.seen() {
            Seen::Record(_) => self.held(),
            Seen::Nothing | Seen::Absent => Condition::held_by_or_absent(*self.knowledge.me()),
        };
        self.undo_by(now, reason, Write { kind: Kind::Undo, condition, record })
    }

    fn undo_by(&mut self, now: Now, reason: Reason, write: Write) -> Command {
        self.undo_tries += 1;
        self.knowledge.send(&write);
        self.step = Step::Undoing(write.clone(), reason);
        Command::Send { write, limit: self.limit(now).max(MIN_LIMIT) }
    }

    /// A rejected undo has shown the record. If this call owns it, the call undoes again. If an acquisition
    /// may still be applied to the record, the call replaces its version.
    pub(super) fn after_undo(
        &mut self,
        now: Now,
        result: &WriteResult<Header>,
        reason: Reason,
    ) -> Command {
        let has_seen = matches!(result, WriteResult::Rejected(Some(_)));
        let is_last = self.undo_tries == MAX_UNDO_TRIES;
        if !has_seen || is_last || !self.knowledge.may_hold_key() {
            return self.report(reason);
        }
        if self.knowledge.holds_key() {
            return self.undo(now, reason);
        }
        match self.superseding_write(now) {
            Some(write) => self.undo_by(now, reason, write),
            None => self.report(reason),
        }
    }

    /// A record that no call owns. The attempt does not count, because no handler has seen it.
    pub(super) fn released(&self, stamp: Stamp) -> Header {
        let attempt = self.attempts.number.saturating_sub(1);
        let expires_at = released_until(stamp.at, stamp.at);
        Header { attempt, ..self.header(stamp, State::Released, None, expires_at) }
    }
}
