//! Calls of one request that are in this process at once: one of them asks the store, and the others
//! are told what it was told.

use std::collections::HashMap;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::watch;

use crate::answer::Answer;
use crate::error::ErrorKind;
use crate::fingerprint::Fingerprint;
use crate::key::RecordKey;
use crate::mutant::{Mutant, mutant};
use crate::policy::Policy;
use crate::protocol::ObservedLease;

/// The calls that ask, each for all of its kind.
#[derive(Default)]
pub(crate) struct SharedCalls {
    under_way: Arc<Mutex<UnderWay>>,
}

type UnderWay = HashMap<Route, watch::Receiver<Option<SharedOutcome>>>;

/// What calls must have in common: what the store tells one of them is then right for all. Their policy
/// too, since it has its say in what a record means, and in how long a call is ready to wait.
#[derive(Clone, PartialEq, Eq)]
struct Route {
    pk: String,
    fingerprint: [u8; 32],
    policy: Policy,
}

/// Calls of one key hardly ever differ in their policies.
impl Hash for Route {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.pk.hash(state);
        self.fingerprint.hash(state);
    }
}

/// What a call was told, as far as it holds for others.
#[derive(Clone, Debug)]
pub(crate) enum SharedOutcome {
    Replay(Arc<Answer>),
    ReplayFailure(Option<Answer>),
    Mismatch,
    Abandoned,
    /// Somebody runs it: another owner, or the call itself.
    InProgress(ObservedLease),
    /// The store gave it an error, with this text.
    Failed(ErrorKind, Arc<str>),
    /// It was dropped, or what it came to is its own.
    Gone,
}

/// A call's part among those of its kind.
pub(crate) enum Role {
    Leader(Leader),
    Follower(Follower),
}

impl SharedCalls {
    /// The first call of its kind asks the store; each other one, until that has been told, follows.
    pub(crate) fn join(&self, key: &RecordKey, fingerprint: &Fingerprint, policy: &Policy) -> Role {
        let fingerprint =
            if mutant(Mutant::ShareAnyFingerprint) { [0; 32] } else { *fingerprint.as_bytes() };
        let (pk, policy) = (key.as_str().to_owned(), policy.clone());
        let route = Route { pk, fingerprint, policy };
        let mut under_way = lock(&self.under_way);
        if let Some(outcome) = under_way.get(&route) {
            return Role::Follower(Follower { outcome: outcome.clone() });
        }
        let (outcome, follower) = watch::channel(None);
        under_way.insert(route.clone(), follower);
        let under_way = Arc::clone(&self.under_way);
        Role::Leader(Leader { under_way, route, outcome, has_told: false })
    }
}

fn lock(under_way: &Mutex<UnderWay>) -> MutexGuard<'_, UnderWay> {
    // Nothing panics while it is held.
    under_way.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A call that asks for all. Dropped before it was told, it leaves the others to one of them.
pub(crate) struct Leader {
    under_way: Arc<Mutex<UnderWay>>,
    route: Route,
    outcome: watch::Sender<Option<SharedOutcome>>,
    has_told: bool,
}

impl Leader {
    /// Tells the others. Whoever comes from now on asks anew.
    pub(crate) fn tell(mut self, told: impl FnOnce() -> SharedOutcome) {
        self.end();
        if self.outcome.receiver_count() > 0 {
            self.outcome.send_replace(Some(told()));
        }
    }

    /// Once: after it the route may be another leader's.
    fn end(&mut self) {
        if !std::mem::replace(&mut self.has_told, true) {
            lock(&self.under_way).remove(&self.route);
        }
    }
}

impl Drop for Leader {
    fn drop(&mut self) {
        self.end();
    }
}

/// A call that waits for what another one is told.
pub(crate) struct Follower {
    outcome: watch::Receiver<Option<SharedOutcome>>,
}

impl Follower {
    pub(crate) async fn outcome(mut self) -> SharedOutcome {
        let told = self.outcome.wait_for(Option::is_some).await;
        told.ok().and_then(|told| told.clone()).unwrap_or(SharedOutcome::Gone)
    }
}

/// Keys are secrets of the caller's.
impl fmt::Debug for SharedCalls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedCalls").finish_non_exhaustive()
    }
}
