//! Proves that the search finds the violation that each broken fault point causes. The shortest schedules
//! are listed here to save time. With `FAULT_BOUND=full` they are searched for. `tests/search` breaks the
//! rules of the machines.

use dynamodb_idempotency::internals::{FaultPoint, set_fault_points};

use crate::exhaustive::{any, is_full, shortest};
use crate::guarantee::{Guarantee, Violation};
use crate::scenarios;
use crate::schedule::Schedule;
use crate::simulation::Setup;

struct Broken {
    mutants: &'static [FaultPoint],
    scenario: &'static str,
    guarantee: Guarantee,
    steps: &'static str,
}

impl Broken {
    fn is_found(&self) {
        set_fault_points(self.mutants);
        let found = self.find();
        set_fault_points(&[]);
        let (schedule, violation) = found.unwrap_or_else(|| panic!("{:?} survives", self.mutants));
        println!("{:?}, {} steps: {violation}", self.mutants, schedule.steps.len());
        println!("    {schedule}");
        assert_eq!(violation.guarantee, self.guarantee, "{violation}");
    }

    /// Searches for another schedule if the listed one no longer violates the guarantee.
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
                mutants: &[$(FaultPoint::$mutant),+],
                scenario: stringify!($scenario),
                guarantee: Guarantee::$guarantee,
                steps: $steps,
            };
            broken.is_found();
        })*
    };
}

mutants! {
    release_after_unconfirmed: [ReleaseAfterUnconfirmed] in release breaks OneLiveOwner
        by "A.start A.deliver A.succeed A.hang tick A.wake B.start A.deliver B.deliver";
    complete_before_its_parts: [CompleteBeforeParts] in parts breaks AnswersAreStored
        by "A.start A.deliver A.succeed A.deliver";
    drop_answers_with_unwritten_parts: [LoseUnwrittenAnswers] in parts breaks AnswersAreStored
        by "A.start A.deliver A.succeed pause:33000 A.deliver A.deliver";
    remember_past_the_retention: [CachePastRetention] in shared_retention breaks AnswersAreStored
        by "A.start A.deliver A.succeed A.deliver B.start finish";
    remember_for_any_fingerprint: [CacheAnyFingerprint] in shared_mismatch breaks OutcomeFits
        by "A.start A.deliver A.succeed A.deliver B.start";
    poll_after_the_lease: [PollAfterTheLease] in release breaks NotPastTheLease
        by "A.start A.deliver pause:33000 A.succeed";
}
