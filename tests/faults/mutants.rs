//! Proof that the search can fail: each rule of the protocol that is broken is found. The shortest
//! schedules stand here, so that no minutes go into finding them again; with `FAULT_BOUND=full` they are
//! searched for.

use dynamodb_idempotency::fault_injection::{Mutant, set_mutants};

use crate::exhaustive::{any, is_full, shortest};
use crate::guarantee::{Guarantee, Violation};
use crate::scenarios;
use crate::schedule::Schedule;
use crate::simulation::Setup;

struct Broken {
    mutants: &'static [Mutant],
    scenario: &'static str,
    guarantee: Guarantee,
    steps: &'static str,
}

impl Broken {
    fn is_found(&self) {
        set_mutants(self.mutants);
        let found = self.find();
        set_mutants(&[]);
        let (schedule, violation) = found.unwrap_or_else(|| panic!("{:?} survives", self.mutants));
        println!("{:?}, {} steps: {violation}", self.mutants, schedule.steps.len());
        println!("    {schedule}");
        assert_eq!(violation.guarantee, self.guarantee, "{violation}");
    }

    /// Where the known schedule does no harm any more, there may be another one.
    fn find(&self) -> Option<(Schedule, Violation)> {
        let scenario = scenarios::named(self.scenario).expect("the scenario exists");
        let callers = scenario.mismatch.map_or(2, |other| 2.max(other + 1));
        let setup = Setup::of(scenario, callers);
        if is_full() {
            return shortest(&setup, scenario, 2);
        }
        self.known(&setup).or_else(|| any(&setup, scenario, self.guarantee, 2))
    }

    fn known(&self, setup: &Setup) -> Option<(Schedule, Violation)> {
        let steps = self.steps.split_whitespace().map(str::parse).collect::<Result<_, _>>();
        let schedule = Schedule { setup: setup.clone(), steps: steps.expect("they are steps") };
        let violation = schedule.replay(|_, _| {}).violation?;
        (violation.guarantee == self.guarantee).then_some((schedule, violation))
    }
}

macro_rules! mutants {
    ($($name:ident: [$($mutant:ident),+] in $scenario:ident breaks $guarantee:ident
        by $steps:literal;)*) => {
        $(#[test]
        fn $name() {
            let broken = Broken {
                mutants: &[$(Mutant::$mutant),+],
                scenario: stringify!($scenario),
                guarantee: Guarantee::$guarantee,
                steps: $steps,
            };
            broken.is_found();
        })*
    };
}

mutants! {
    create_without_condition: [CreateUnfenced] in release breaks OneLiveOwner
        by "A.start B.start B.deliver A.deliver";
    complete_without_owner: [CompleteUnfenced] in release breaks ForeignRecordStays
        by "A.start A.deliver A.succeed pause:33000 B.start B.deliver B.deliver A.deliver";
    release_without_owner: [ReleaseUnfenced] in release breaks ForeignRecordStays
        by "A.start B.start A.deliver A.fail A.twice B.deliver arrive:0";
    take_a_released_record_without_compare_and_set: [TakeReleasedUnfenced] in release breaks AttemptsAreCounted
        by "A.start A.deliver A.fail A.deliver B.start B.deliver";
    turn_a_slow_owner_away_from_a_released_record: [ReleasedRefuses] in release breaks OutcomeFits
        by "A.start A.deliver A.succeed pause:33000 B.start B.deliver B.deliver B.fail B.deliver A.deliver";
    delete_what_is_released: [ReleaseDeletes, RetentionUnverified] in commit breaks EffectsOnce
        by "A.start A.twice A.succeed A.hang tick A.wake A.deliver expire arrive:0 arrive:0";
    let_the_attempt_fall: [AttemptMayFall] in release breaks AttemptsAreCounted
        by "A.start A.deliver A.succeed pause:33000 B.start B.deliver B.deliver B.fail B.deliver A.deliver";
    believe_every_renewal: [RenewalUnverified] in clocks_go_on breaks KeyComesFree
        by "A.start A.deliver A.jump:300000 tick A.wake A.deliver A.jump:-300000 A.die";
    keep_failure_without_owner: [KeepFailureUnfenced] in retain breaks ForeignRecordStays
        by "A.start A.deliver A.fail pause:33000 B.start B.deliver B.deliver A.deliver";
    renew_without_owner: [RenewUnfenced] in renewed_goes_on breaks ForeignRecordStays
        by "A.start A.deliver pause:9000 A.wake A.throttle B.start B.deliver B.deliver tick A.wake A.deliver";
    take_over_without_compare_and_set: [TakeOverUnfenced] in release breaks OneLiveOwner
        by "A.start pause:33000 B.start A.deliver B.deliver A.deliver B.deliver";
    take_over_comparing_the_owner_alone: [CompareOwnerAlone] in release breaks OneLiveOwner
        by "A.start pause:33000 B.start A.deliver B.deliver A.deliver B.deliver";
    take_over_a_renewed_lease: [CompareOwnerAlone] in renewed breaks OneLiveOwner
        by "A.start pause:9000 B.start A.deliver B.deliver A.deliver B.deliver";
    take_over_without_counting: [AttemptStays] in release breaks AttemptsAreCounted
        by "A.start A.deliver pause:33000 B.start B.deliver B.deliver";
    forget_what_was_taken_over: [ForgetWhatWasTaken] in decline_retain breaks AttemptsAreCounted
        by "A.start A.deliver A.fail A.deliver B.start B.deliver B.deliver B.decline B.deliver";
    judge_leases_by_the_takers_clock: [TakersClock] in taker_fast breaks OneLiveOwner
        by "A.start B.start A.deliver B.deliver B.deliver B.deliver";
    trust_the_owners_clock: [StampUnlearned, OwnersClock] in owner_slow breaks LeaseHoldsAtStart
        by "A.start A.deliver";
    forget_the_own_owner: [ForgetOwnOwner] in release breaks NotRejectedByItself
        by "A.start A.lose-reply A.deliver";
    expire_before_the_lease_ends: [ExpireBeforeLease] in short_retention breaks OneLiveOwner
        by "A.start A.deliver pause:2500 B.start expire B.deliver";
    renewal_may_shorten: [RenewalMayShorten] in renewed_late breaks OneLiveOwner
        by "A.start A.deliver tick A.wake A.twice tick A.wake A.deliver arrive:0 pause:5000 B.start B.deliver B.deliver";
    restamp_may_shorten: [StampUnlearned, RestampMayShorten] in owner_slow_renewed breaks OneLiveOwner
        by "A.start A.deliver A.twice tick A.wake A.deliver arrive:0 pause:5000 B.start B.deliver B.deliver";
    transact_without_a_condition: [TransactUnfenced] in commit breaks EffectsOnce
        by "A.start A.deliver A.succeed A.lose-reply tick A.wake A.deliver";
    run_a_transaction_without_a_condition: [TransactUnfenced] in transaction breaks CompletedAnswerStays
        by "A.start B.start A.deliver B.deliver";
    commit_in_any_status: [CommitAnyStatus] in commit breaks EffectsOnce
        by "A.start A.deliver A.succeed A.lose-reply tick A.wake A.deliver";
    leave_a_commit_in_doubt: [DoubtLeftOpen] in commit breaks EffectsOnce
        by "A.start A.deliver A.succeed A.hang tick A.wake arrive:0";
    leave_a_transaction_in_doubt: [DoubtLeftOpen] in transaction breaks EffectsOnce
        by "A.start A.late tick A.wake A.throttle tick A.wake A.throttle tick A.wake A.throttle arrive:0";
    forget_that_a_transaction_is_in_doubt: [ForgetDoubt] in transaction breaks EffectsOnce
        by "A.start A.late tick A.wake A.throttle tick A.wake A.throttle tick A.wake A.throttle arrive:0";
    settle_without_compare_and_set: [SettleUnfenced] in reconcile breaks OneLiveOwner
        by "A.start pause:33000 B.start A.deliver B.deliver A.deliver B.deliver";
    release_after_unconfirmed: [ReleaseAfterUnconfirmed] in release breaks OneLiveOwner
        by "A.start A.deliver A.succeed A.hang tick A.wake B.start A.deliver B.deliver";
    store_steps_without_owner: [StepUnfenced] in steps breaks ForeignRecordStays
        by "A.start A.deliver pause:33000 B.start B.deliver B.deliver A.deliver";
    take_over_without_comparing_steps: [CompareNoSteps] in steps breaks StoredStepsStay
        by "A.start A.deliver pause:33000 B.start B.deliver A.deliver B.deliver";
    complete_before_its_parts: [CompleteBeforeParts] in parts breaks AnswersAreStored
        by "A.start A.deliver A.succeed A.deliver";
    trust_a_stale_read: [TrustStaleReads] in read_first breaks OutcomeFits
        by "A.start B.start A.deliver A.deliver A.succeed A.deliver B.stale";
    forget_what_a_stale_read_has_shown: [ForgetStaleReads] in read_first_open breaks OneLiveOwner
        by "A.start B.start A.deliver A.deliver B.deliver B.throttle";
    give_an_answer_up_with_its_parts: [LoseUnwrittenAnswers] in parts breaks AnswersAreStored
        by "A.start A.deliver A.succeed pause:33000 A.deliver A.deliver";
    remember_past_the_retention: [CachePastRetention] in shared_retention breaks AnswersAreStored
        by "A.start A.deliver A.succeed A.deliver B.start finish";
    remember_for_any_fingerprint: [CacheAnyFingerprint] in shared_mismatch breaks OutcomeFits
        by "A.start A.deliver A.succeed A.deliver B.start";
    poll_after_the_lease: [PollAfterTheLease] in release breaks NotPastTheLease
        by "A.start A.deliver pause:33000 A.succeed";
    end_leases_by_the_wall_clock_alone: [TrustTheWallClock] in clocks breaks NotPastTheLease
        by "A.start A.deliver A.jump:-300000 pause:33000 A.succeed";
    end_leases_by_the_monotonic_clock_alone: [TrustTheMonotonicClock] in clocks breaks NotPastTheLease
        by "A.start A.deliver A.freeze:33000 A.succeed";
    // The condition on PENDING is the second line behind "an unconfirmed completion is never
    // released": without the first it keeps the answer, without both the answer is lost.
    release_in_any_status: [ReleaseAfterUnconfirmed, ReleaseAnyStatus] in release breaks CompletedAnswerStays
        by "A.start A.deliver A.succeed A.hang tick A.wake arrive:0 A.deliver";
    take_unknown_for_refused: [UnknownIsRefused] in release breaks NotRejectedByItself
        by "A.start A.lose-reply A.deliver A.succeed A.5xx";
}
