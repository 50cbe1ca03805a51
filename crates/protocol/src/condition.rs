//! Conditions of writes.
//!
//! Every write is conditional: DynamoDB applies it only if the record satisfies the condition at that
//! moment. A condition is plain data with three uses:
//!
//! - [`Condition::holds`] evaluates it against a record. The search models DynamoDB with it.
//! - [`Condition::prospect`] says whether it can still be satisfied later, after a record was seen.
//! - The library renders [`Condition::alternatives`] as the expression that DynamoDB evaluates.
//!
//! All three read the same terms, so the search explores exactly what production sends. A test of the
//! library compares the first and the third on a real table.

use std::sync::Arc;

use crate::fault_point::{FaultPoint, is_broken};
use crate::owner::OwnerId;
use crate::record::{RecordMeta, State, Status, Version};
use crate::time::Timestamp;

/// Alternatives, of which at least one must hold with all of its terms. Clones share the alternatives,
/// because the machine, its knowledge and the request each keep the write.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Condition {
    alternatives: Arc<Vec<Vec<Term>>>,
}

/// A statement about the record. As in DynamoDB, a comparison with an attribute that is missing is
/// false.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Term {
    /// There is no record.
    Absent,
    Owner(OwnerId),
    Status(Status),
    LeaseExpiresAt(Timestamp),
    LeaseExpiresBefore(Timestamp),
    AttemptAtMost(u32),
    NoSteps,
    /// The map of steps has this size.
    Steps(usize),
    /// In epoch seconds, like `ExpiresBefore`.
    ExpiresAt(i64),
    ExpiresBefore(i64),
}

/// Whether a condition can still be satisfied. The best of its alternatives counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Prospect {
    /// It is not satisfied and never will be, because no version of a record repeats.
    Impossible,
    /// It requires a PENDING record of the sender. Another write of the sender must first create that record.
    AfterAcquisition,
    Possible,
}

impl Condition {
    /// All of these terms hold.
    pub fn all(terms: &[Term]) -> Self {
        Self { alternatives: Arc::new(vec![terms.to_vec()]) }
    }

    /// There is no record.
    pub fn absent() -> Self {
        Self::all(&[Term::Absent])
    }

    /// The record has not changed since it was seen.
    pub fn unchanged(seen: &Version) -> Self {
        if is_broken(FaultPoint::CompareOwnerAlone) {
            return Self::all(&[Term::Owner(seen.owner)]);
        }
        let mut terms = vec![Term::Owner(seen.owner), Term::Status(seen.status)];
        // Only a PENDING record gets another end of its lease, or steps.
        if let Some(lease_expires_at) = seen.lease_expires_at {
            let steps = seen.steps.map_or(Term::NoSteps, Term::Steps);
            terms.extend((!is_broken(FaultPoint::CompareNoSteps)).then_some(steps));
            terms.push(Term::LeaseExpiresAt(lease_expires_at));
        }
        Self { alternatives: Arc::new(vec![terms]) }
    }

    /// The owner holds the record. Each write of an owner has this condition or a narrower one. The two
    /// exceptions are an extension of the retention, and a write that also accepts a free key.
    pub fn held_by(owner: OwnerId) -> Self {
        Self::all(&[Term::Owner(owner), Term::Status(Status::Pending)])
    }

    /// The owner holds the record, or there is no record.
    pub fn held_by_or_absent(owner: OwnerId) -> Self {
        Self::held_by(owner).or(&[Term::Absent])
    }

    /// The owner holds the record, or the record is absent, or it was released after this attempt or an
    /// earlier one. In all three cases the answer is stored, because the effect has happened.
    pub fn completable_by(owner: OwnerId, attempt: u32) -> Self {
        let released = [Term::Status(Status::Released), Term::AttemptAtMost(attempt)];
        Self::held_by_or_absent(owner).or(&released)
    }

    /// There is no item, or it expires before `expires_at`, in epoch seconds. For items whose key identifies their
    /// content.
    pub fn absent_or_expires_before(expires_at: i64) -> Self {
        Self::absent().or(&[Term::ExpiresBefore(expires_at)])
    }

    /// The condition, or none if this rule is broken.
    pub(crate) fn unless(self, point: FaultPoint) -> Self {
        if is_broken(point) { Self::all(&[]) } else { self }
    }

    /// Adds a term to each alternative.
    #[must_use]
    pub fn and(mut self, term: Term) -> Self {
        for alternative in Arc::make_mut(&mut self.alternatives) {
            alternative.push(term);
        }
        self
    }

    /// Adds an alternative.
    #[must_use]
    pub fn or(mut self, terms: &[Term]) -> Self {
        Arc::make_mut(&mut self.alternatives).push(terms.to_vec());
        self
    }

    pub fn alternatives(&self) -> impl Iterator<Item = &[Term]> {
        self.alternatives.iter().map(Vec::as_slice)
    }

    pub fn terms(&self) -> impl Iterator<Item = &Term> {
        self.alternatives.iter().flatten()
    }

    /// Evaluates the condition as DynamoDB does.
    pub fn holds(&self, record: Option<&RecordMeta>) -> bool {
        self.alternatives().any(|terms| all_hold(terms, record))
    }

    /// Whether this owner's PENDING record can satisfy the condition.
    pub fn accepts_holder(&self, owner: &OwnerId) -> bool {
        self.alternatives().any(|terms| requires_holder(terms, owner))
    }

    /// Whether only this owner's PENDING record can satisfy the condition.
    pub fn requires_holder(&self, owner: &OwnerId) -> bool {
        self.alternatives().all(|terms| requires_holder(terms, owner))
    }

    /// Whether a write of `sender` with this condition can still be applied, now that DynamoDB has returned
    /// `record`.
    pub(crate) fn prospect(&self, sender: &OwnerId, record: Option<&RecordMeta>) -> Prospect {
        let is_holder = record.is_some_and(|record| record.is_pending_of(sender));
        let prospects = self.alternatives().map(|terms| {
            if terms.is_empty() {
                // Only a broken rule sends a write without a condition. The machine does not know it.
                Prospect::Impossible
            } else if all_hold(terms, record) {
                Prospect::Possible
            } else if requires_holder(terms, sender) && !is_holder {
                Prospect::AfterAcquisition
            } else if terms.iter().all(|term| term.may_hold_later(record)) {
                Prospect::Possible
            } else {
                Prospect::Impossible
            }
        });
        prospects.max().unwrap_or(Prospect::Impossible)
    }

    /// Like [`prospect`](Self::prospect), before DynamoDB has returned anything.
    pub(crate) fn prospect_unseen(&self, sender: &OwnerId) -> Prospect {
        if self.requires_holder(sender) { Prospect::AfterAcquisition } else { Prospect::Possible }
    }
}

fn all_hold(terms: &[Term], record: Option<&RecordMeta>) -> bool {
    terms.iter().all(|term| term.holds(record))
}

fn requires_holder(terms: &[Term], owner: &OwnerId) -> bool {
    terms.contains(&Term::Owner(*owner)) && terms.contains(&Term::Status(Status::Pending))
}

impl Term {
    fn holds(&self, record: Option<&RecordMeta>) -> bool {
        let Some(record) = record else { return matches!(self, Self::Absent | Self::NoSteps) };
        let lease = record.state.lease_expires_at();
        match self {
            Self::Absent if is_broken(FaultPoint::TakeReleasedUnfenced) => {
                record.state == State::Released
            }
            Self::Absent => false,
            Self::Owner(owner) => record.owner == *owner,
            Self::Status(status) => record.state.status() == *status,
            Self::LeaseExpiresAt(at) => lease == Some(*at),
            Self::LeaseExpiresBefore(at) => lease.is_some_and(|lease| lease < *at),
            Self::AttemptAtMost(_) if is_broken(FaultPoint::ReleasedRefuses) => false,
            Self::AttemptAtMost(attempt) => record.attempt <= *attempt,
            Self::NoSteps => record.steps.is_none(),
            Self::Steps(count) => record.steps == Some(*count),
            Self::ExpiresAt(at) => record.expires_at == *at,
            Self::ExpiresBefore(at) => record.expires_at < *at,
        }
    }

    /// Whether a later record under the key can satisfy this term, now that `record` was seen.
    ///
    /// - `Status(Released)`: yes, unless `record` is COMPLETED, because no call replaces a COMPLETED record
    ///   before its retention is over. (An operator can release it, with the attempt that it has.)
    /// - `AttemptAtMost`: yes, because an undo lowers `attempt`.
    /// - `Absent`: no. With a retention of at least half an hour, a record is deleted only when no request that was
    ///   sent before the record was written can still arrive. One that was sent later belongs to the next life of the
    ///   key.
    /// - The other terms: no. They occur only next to an `Owner` term, and no version repeats. (Renewals and
    ///   the writes of parts are not judged here.)
    fn may_hold_later(&self, record: Option<&RecordMeta>) -> bool {
        match self {
            Self::Status(Status::Released) => {
                record.is_none_or(|record| record.state != State::Completed)
            }
            Self::AttemptAtMost(_) => true,
            Self::Absent
            | Self::Owner(_)
            | Self::Status(_)
            | Self::LeaseExpiresAt(_)
            | Self::LeaseExpiresBefore(_)
            | Self::NoSteps
            | Self::Steps(_)
            | Self::ExpiresAt(_)
            | Self::ExpiresBefore(_) => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Attempts;

    const ME: OwnerId = OwnerId(1);
    const OTHER: OwnerId = OwnerId(2);

    fn record(owner: OwnerId, state: State, attempt: u32) -> RecordMeta {
        let attempts = Attempts { number: attempt, ..Attempts::FIRST };
        attempts.meta(&owner, Timestamp::from_millis(0), state, None, 0)
    }

    fn pending(owner: OwnerId, lease_expires_at: i64) -> RecordMeta {
        let lease_expires_at = Timestamp::from_millis(lease_expires_at);
        record(owner, State::Pending { lease_expires_at }, 1)
    }

    #[test]
    fn a_slow_owner_does_not_complete_over_the_release_of_a_later_attempt_with_its_own_number() {
        let condition = Condition::completable_by(ME, 3);
        assert!(condition.holds(Some(&record(OTHER, State::Released, 3))));
        assert!(!condition.holds(Some(&record(OTHER, State::Released, 4))));
    }

    #[test]
    fn a_delayed_renewal_does_not_shorten_a_lease() {
        let until = |millis| Term::LeaseExpiresBefore(Timestamp::from_millis(millis));
        let renewal = |millis| Condition::held_by(ME).and(until(millis));
        assert!(renewal(6_000).holds(Some(&pending(ME, 5_000))));
        assert!(!renewal(4_000).holds(Some(&pending(ME, 5_000))));
    }

    #[test]
    fn a_version_that_was_replaced_never_returns() {
        let condition = Condition::unchanged(&pending(OTHER, 5_000).version());
        let prospect = |record: Option<&RecordMeta>| condition.prospect(&ME, record);
        assert_eq!(condition.prospect_unseen(&ME), Prospect::Possible);
        assert_eq!(prospect(Some(&pending(OTHER, 5_000))), Prospect::Possible);
        assert_eq!(prospect(Some(&pending(OTHER, 6_000))), Prospect::Impossible);
        assert_eq!(prospect(None), Prospect::Impossible);
    }

    #[test]
    fn a_write_of_an_owner_waits_for_its_acquisition() {
        let condition = Condition::held_by(ME).and(Term::NoSteps);
        let stepped = RecordMeta { steps: Some(1), ..pending(ME, 5_000) };
        let prospect = |record: Option<&RecordMeta>| condition.prospect(&ME, record);
        assert_eq!(condition.prospect_unseen(&ME), Prospect::AfterAcquisition);
        assert_eq!(prospect(Some(&pending(OTHER, 5_000))), Prospect::AfterAcquisition);
        assert_eq!(prospect(Some(&pending(ME, 5_000))), Prospect::Possible);
        assert_eq!(prospect(Some(&stepped)), Prospect::Impossible);
    }

    #[test]
    fn a_completion_is_possible_until_another_is_seen() {
        let condition = Condition::completable_by(ME, 1);
        let prospect = |record: &RecordMeta| condition.prospect(&ME, Some(record));
        assert_eq!(prospect(&pending(OTHER, 5_000)), Prospect::Possible);
        assert_eq!(prospect(&record(OTHER, State::Failed, 2)), Prospect::Possible);
        assert_ne!(prospect(&record(OTHER, State::Completed, 2)), Prospect::Possible);
    }
}
