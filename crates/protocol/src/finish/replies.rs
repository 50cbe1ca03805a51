//! How `Finish` handles responses. The record in a response shows which write was applied. For an
//! acquisition, see `acquisition/replies.rs`.

use super::{Command, Finish, FinishResult, Purpose, Stage};
use crate::condition::Condition;
use crate::fault_point::{FaultPoint, is_broken};
use crate::machine::{Cause, WriteResult};
use crate::record::{Header, State};
use crate::time::Now;
use crate::write::{Kind, Write};

impl Finish {
    pub(super) fn out_of_time(&mut self, now: Now, purpose: Purpose) -> Command {
        match purpose {
            Purpose::Commit { completed_at } => match self.knowledge.no_effect() {
                Some(nothing) => Command::Return(FinishResult::NotCommitted(nothing)),
                None => self.close_off(now, completed_at),
            },
            Purpose::CloseOff { .. } | Purpose::ResolveCommit { .. } => {
                self.over(FinishResult::Unknown)
            }
            Purpose::Complete { .. } | Purpose::Fail { .. } if self.has_commit_in_doubt() => {
                self.concluded(purpose, FinishResult::Unknown)
            }
            Purpose::Complete { .. } | Purpose::Fail { .. } => {
                Command::Return(FinishResult::Unconfirmed)
            }
            Purpose::FindCommit => Command::Return(FinishResult::Unknown),
        }
    }

    pub(super) fn over(&mut self, result: FinishResult) -> Command {
        self.stage = Stage::Over(result);
        Command::Return(result)
    }

    pub(super) fn after_write(
        &mut self,
        now: Now,
        result: &WriteResult<Header>,
        write: Write,
        purpose: Purpose,
    ) -> Command {
        match result {
            WriteResult::Applied => match purpose {
                Purpose::Complete { .. } | Purpose::Commit { .. } => {
                    self.concluded(purpose, FinishResult::Stored)
                }
                Purpose::CloseOff { completed_at } => self.closed_off(now, completed_at),
                Purpose::Fail { .. } | Purpose::ResolveCommit { .. } | Purpose::FindCommit => {
                    self.unheld(purpose)
                }
            },
            WriteResult::Rejected(Some(_)) => self.after_record(now, Some(write), purpose),
            // There is no record, so nothing has to be changed.
            WriteResult::Rejected(None) if matches!(purpose, Purpose::Fail { .. }) => {
                self.unheld(purpose)
            }
            WriteResult::Rejected(None) => self.read(now, Some(write), purpose),
            // If an earlier try may still be applied, it is closed off.
            WriteResult::ItemsRejected(()) if is_broken(FaultPoint::RefusedInDoubt) => {
                Command::Return(FinishResult::NotCommitted(
                    crate::knowledge::NoCompletion::unproved(),
                ))
            }
            WriteResult::ItemsRejected(()) => self.out_of_time(now, purpose),
            WriteResult::NotApplied(Cause::Other)
                if matches!(purpose, Purpose::Commit { .. }) && !self.has_commit_in_doubt() =>
            {
                self.out_of_time(now, purpose)
            }
            WriteResult::Unknown(_) if is_broken(FaultPoint::UnknownIsRefused) => {
                self.lost(now, purpose)
            }
            WriteResult::Unknown(_) => {
                let purpose = match purpose {
                    Purpose::Fail { .. } => Purpose::Fail { is_in_doubt: true },
                    other => other,
                };
                self.retry(now, Some(write), purpose)
            }
            WriteResult::Conflict(_)
            | WriteResult::TokenUsed(_)
            | WriteResult::Invalid(_)
            | WriteResult::NotApplied(_) => self.retry(now, Some(write), purpose),
        }
    }

    /// Continues after a read or a rejected write has shown the record, or its absence.
    pub(super) fn after_record(
        &mut self,
        now: Now,
        write: Option<Write>,
        purpose: Purpose,
    ) -> Command {
        if let Some(write) = self.completion_over_released(write.as_ref()) {
            return self.send(now, write, purpose);
        }
        let own = self.knowledge.own().map(|own| (own.state, own.completed_at));
        match own {
            // This execution has sent no completion, so other software has written the answer. It stays.
            Some((State::Completed, _))
                if matches!(purpose, Purpose::Fail { .. }) && self.completed_at.is_none() =>
            {
                Command::Return(FinishResult::FailureWritten)
            }
            Some((State::Completed, completed_at)) => {
                let is_this = completed_at.is_some() && completed_at == purpose.completed_at();
                let result = if is_this { FinishResult::Stored } else { FinishResult::Committed };
                self.concluded(purpose, result)
            }
            Some((State::Pending { .. }, _)) => match purpose {
                Purpose::CloseOff { completed_at } => self.closed_off(now, completed_at),
                _ => self.retry(now, write, purpose),
            },
            Some((State::Failed | State::Released, _)) => match purpose {
                Purpose::Commit { .. }
                | Purpose::CloseOff { .. }
                | Purpose::ResolveCommit { .. }
                | Purpose::Fail { .. } => self.unheld(purpose),
                Purpose::Complete { .. } => self.lost(now, purpose),
                Purpose::FindCommit => Command::Return(FinishResult::Unknown),
            },
            None if self.knowledge.seen().record().is_some() => self.lost(now, purpose),
            // There is no record: it was deleted.
            None => match purpose {
                Purpose::Fail { .. } | Purpose::CloseOff { .. } | Purpose::ResolveCommit { .. } => {
                    self.unheld(purpose)
                }
                Purpose::Commit { .. } if self.is_protected => self.lost(now, purpose),
                Purpose::Commit { .. } | Purpose::Complete { .. } => {
                    self.retry(now, write, purpose)
                }
                Purpose::FindCommit => Command::Return(FinishResult::Unknown),
            },
        }
    }

    /// The same completion over a record that was released after a later attempt. The record keeps that
    /// attempt's number, because a handler has seen it. It also keeps `created_at`, by which another call
    /// recognizes that its record was released by hand.
    pub(super) fn completion_over_released(&self, write: Option<&Write>) -> Option<Write> {
        let (write, seen) = (write?, self.knowledge.seen().record()?);
        let accepts_released =
            write.kind == Kind::Complete || (write.kind == Kind::Commit && !self.is_protected);
        let is_later = seen.state == State::Released && seen.attempt > write.record.attempt;
        let condition = Condition::completable_by(*self.knowledge.me(), seen.attempt);
        let record =
            Header { attempt: seen.attempt, created_at: seen.created_at, ..write.record.clone() };
        (accepts_released && is_later).then_some(Write { condition, record, ..*write })
    }

    /// Ends a request after which the record is released, failed or absent.
    pub(super) fn unheld(&mut self, purpose: Purpose) -> Command {
        match (purpose, self.knowledge.no_effect()) {
            (Purpose::Fail { .. }, _) if !self.has_commit_in_doubt() => {
                Command::Return(FinishResult::FailureWritten)
            }
            (Purpose::Fail { .. }, _) | (_, None) => self.over(FinishResult::Unknown),
            (_, Some(nothing)) => self.over(FinishResult::NothingWritten(nothing)),
        }
    }

    /// Ends a request of an owner that no longer holds the record.
    pub(super) fn lost(&mut self, now: Now, purpose: Purpose) -> Command {
        let has_no_effect = self.knowledge.no_effect().is_some();
        match purpose {
            // The lease has not expired, so no call has taken over. An earlier try has freed the key.
            Purpose::Fail { is_in_doubt: true }
                if self.window.is_some_and(|held| !now.is_over(held.end)) =>
            {
                self.unheld(purpose)
            }
            Purpose::Fail { .. } | Purpose::Complete { .. } if !self.has_commit_in_doubt() => {
                Command::Return(FinishResult::LeaseLost)
            }
            Purpose::Commit { .. }
            | Purpose::CloseOff { .. }
            | Purpose::ResolveCommit { .. }
            | Purpose::FindCommit
                if has_no_effect =>
            {
                self.is_lost = true;
                self.over(FinishResult::LeaseLost)
            }
            Purpose::Fail { .. }
            | Purpose::Complete { .. }
            | Purpose::Commit { .. }
            | Purpose::CloseOff { .. }
            | Purpose::ResolveCommit { .. }
            | Purpose::FindCommit => self.concluded(purpose, FinishResult::Unknown),
        }
    }

    /// Returns the result. Except after a completion, it is also kept as the result of the operation.
    pub(super) fn concluded(&mut self, purpose: Purpose, result: FinishResult) -> Command {
        match purpose {
            Purpose::Complete { .. } => Command::Return(result),
            Purpose::Commit { .. }
            | Purpose::CloseOff { .. }
            | Purpose::Fail { .. }
            | Purpose::ResolveCommit { .. }
            | Purpose::FindCommit => self.over(result),
        }
    }
}
