//! Liveness: if nothing fails after a state and time passes, every call ends and the key is free again.

use crate::model::{Move, SEATS, State};
use crate::process::{Acquiring, Does, Phase, Process, Slot, Task};
use crate::rows::{Role, Row, Work};
use dynamodb_idempotency_protocol::policy::FirstRequest;

/// How many rounds all calls together may take to end.
const ROUNDS: u8 = 60;

/// How long a lease locks the key at most, in ticks.
const LEASE_TICKS: u8 = 4;

/// What fails after this state: a call does not end, or the key stays locked. `note` gets each step.
pub(crate) fn fails(
    state: &State,
    row: &Row,
    note: &mut dyn FnMut(Move, &State),
) -> Option<&'static str> {
    let mut row = *row;
    row.ticks = u8::MAX;
    let mut state = match settle(state.clone(), &row, note) {
        Ok(state) => state,
        Err(what) => return Some(what),
    };
    state.tick += LEASE_TICKS;
    let last = SEATS - 1;
    let role = Role {
        first: FirstRequest::Write,
        work: Work::Run,
        skew: 0,
        is_new: false,
        ..row.roles[0]
    };
    row.roles[row.roles.len() - 1] = role;
    state.slots[last] = Slot::of(Process::new(&row, &role));
    match settle(state, &row, note) {
        Ok(state) if is_locked_out(&state) => Some("the key does not come free"),
        Ok(_) => None,
        Err(what) => Some(what),
    }
}

/// Lets every call that has begun continue to its end, and the last caller begin.
fn settle(
    mut state: State,
    row: &Row,
    note: &mut dyn FnMut(Move, &State),
) -> Result<State, &'static str> {
    state.faults = 0;
    for _ in 0..ROUNDS {
        let is_active = |state: &State, seat| {
            let process = state.process(seat);
            let begins = seat == SEATS - 1;
            !process.is_over() && (process.phase != Phase::Ready || begins)
        };
        let waiting: Vec<_> = (0..SEATS)
            .filter(|seat| is_active(&state, *seat))
            .map(|seat| waits(state.process(seat)))
            .collect();
        if waiting.is_empty() {
            return Ok(state);
        }
        // Time passes once all calls wait for it. Until then, a call that waits takes no step.
        let all_wait = waiting.into_iter().all(|waits| waits);
        if all_wait {
            state = state.later();
            note(Move::PAUSE, &state);
        }
        for seat in 0..SEATS {
            if !is_active(&state, seat) || (!all_wait && waits(state.process(seat))) {
                continue;
            }
            let mut next = None;
            state.moves_of(seat, row, &mut |step, after| {
                next.get_or_insert((step, after));
            });
            let (step, after) = next.ok_or("a call has nothing to do, and has not ended")?;
            state = after;
            state.check(row);
            note(step, &state);
            if let Some(what) = state.violation {
                return Err(what);
            }
        }
    }
    Err("a call does not end")
}

fn is_locked_out(state: &State) -> bool {
    state.process(SEATS - 1).fate().is_some_and(|fate| fate.is_locked_out)
}

/// Whether the process waits for time to pass.
fn waits(process: &Process) -> bool {
    match &process.phase {
        Phase::Acquiring(Acquiring { task, .. }) => *task == Task::Pause,
        Phase::Executing(execution) => {
            matches!(execution.does, Does::Commit(Task::Pause) | Does::Finish(Task::Pause))
        }
        Phase::Ready | Phase::Finished(_) => false,
    }
}
