//! Proof that the search can fail: each rule of the protocol that is broken is found.

use dynamodb_idempotency::fault_injection::{Mutant, set_mutants};

use crate::exhaustive::shortest;
use crate::guarantee::Guarantee;
use crate::scenarios;
use crate::simulation::Setup;

fn is_found(mutants: &'static [Mutant], scenario: &str, guarantee: Guarantee) {
    set_mutants(mutants);
    let scenario = scenarios::named(scenario).expect("the scenario exists");
    let callers = scenario.mismatch.map_or(2, |other| 2.max(other + 1));
    let found = shortest(&Setup::of(scenario, callers), scenario, 2);
    set_mutants(&[]);
    let (schedule, violation) = found.unwrap_or_else(|| panic!("{mutants:?} survives"));
    println!("{mutants:?}, {} steps: {violation}\n    {schedule}", schedule.steps.len());
    assert_eq!(violation.guarantee, guarantee, "{violation}");
}

macro_rules! mutants {
    ($($name:ident: [$($mutant:ident),+] in $scenario:ident breaks $guarantee:ident;)*) => {
        $(#[test]
        fn $name() {
            is_found(&[$(Mutant::$mutant),+], stringify!($scenario), Guarantee::$guarantee);
        })*
    };
}

mutants! {
    create_without_condition: [CreateUnfenced] in release breaks OneLiveOwner;
    complete_without_owner: [CompleteUnfenced] in release breaks ForeignRecordStays;
    release_without_owner: [ReleaseUnfenced] in release breaks ForeignRecordStays;
    keep_failure_without_owner: [KeepFailureUnfenced] in retain breaks ForeignRecordStays;
    renew_without_owner: [RenewUnfenced] in renewed breaks ForeignRecordStays;
    take_over_without_compare_and_set: [TakeOverUnfenced] in release breaks OneLiveOwner;
    take_over_comparing_the_owner_alone: [CompareOwnerAlone] in release breaks OneLiveOwner;
    take_over_a_renewed_lease: [CompareOwnerAlone] in renewed breaks OneLiveOwner;
    take_over_without_counting: [AttemptStays] in release breaks AttemptsAreCounted;
    judge_leases_by_the_takers_clock: [TakersClock] in taker_fast breaks OneLiveOwner;
    trust_the_owners_clock: [OwnersClock] in owner_slow breaks LeaseHoldsAtStart;
    forget_the_own_owner: [ForgetOwnOwner] in release breaks NotRejectedByItself;
    expire_before_the_lease_ends: [ExpireBeforeLease] in short_retention breaks OneLiveOwner;
    renewal_may_shorten: [RenewalMayShorten] in renewed_late breaks OneLiveOwner;
    restamp_may_shorten: [RestampMayShorten] in owner_slow breaks OneLiveOwner;
    transact_without_a_condition: [TransactUnfenced] in commit breaks EffectsOnce;
    run_a_transaction_without_a_condition: [TransactUnfenced] in transaction breaks CompletedAnswerStays;
    commit_in_any_status: [CommitAnyStatus] in commit breaks EffectsOnce;
    leave_a_commit_in_doubt: [DoubtLeftOpen] in commit breaks EffectsOnce;
    settle_without_compare_and_set: [SettleUnfenced] in reconcile breaks OneLiveOwner;
    release_after_unconfirmed: [ReleaseAfterUnconfirmed] in release breaks OneLiveOwner;
    store_steps_without_owner: [StepUnfenced] in steps breaks ForeignRecordStays;
    take_over_without_comparing_steps: [CompareNoSteps] in steps breaks StoredStepsStay;
    complete_before_its_parts: [CompleteBeforeParts] in parts breaks AnswersAreStored;
    trust_a_stale_read: [TrustStaleReads] in read_first breaks OutcomeFits;
    forget_what_a_stale_read_has_shown: [ForgetGlimpses] in read_first_open breaks OneLiveOwner;
    give_an_answer_up_with_its_parts: [LoseUnwrittenAnswers] in parts breaks AnswersAreStored;
    remember_past_the_retention: [CachePastRetention] in shared_retention breaks AnswersAreStored;
    refuse_unasked: [RefuseUnasked] in shared_wait breaks OutcomeFits;
    remember_for_any_fingerprint: [CacheAnyFingerprint] in shared_mismatch breaks OutcomeFits;
    share_with_any_fingerprint: [ShareAnyFingerprint] in shared_in_flight breaks OutcomeFits;
    // The condition on PENDING is the second line behind "an unconfirmed completion is never
    // released": without the first it keeps the answer, without both the answer is lost.
    release_in_any_status: [ReleaseAfterUnconfirmed, ReleaseAnyStatus] in release breaks CompletedAnswerStays;
    take_unknown_for_refused: [UnknownIsRefused] in release breaks NotRejectedByItself;
}
