//! Calls of one request that are in this process at once: one of them asks the store, and the others
//! are told what it was told.

use std::collections::HashMap;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::watch;

use crate::answer::Answer;
use crate::clock::Uptime;
use crate::engine::acquire::{Acquisition, Call};
use crate::error::{Error, ErrorKind};
use crate::mutant::{Mutant, mutant};
use crate::policy::Policy;
use crate::protocol::ObservedLease;

/// The calls that ask, each for all of its kind.
#[derive(Default)]
pub(crate) struct Flights {
    under_way: Arc<Mutex<UnderWay>>,
}

type UnderWay = HashMap<Route, watch::Receiver<Option<Landing>>>;

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
pub(crate) enum Landing {
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

/// A call's part in a flight.
pub(crate) enum Joined {
    Leader(Flight),
    Follower(Follower),
}

impl Flights {
    /// The first call of its kind asks the store; each other one, until that has been told, follows.
    pub(crate) fn join(&self, call: &Call) -> Joined {
        let fingerprint = if mutant(Mutant::ShareAnyFingerprint) {
            [0; 32]
        } else {
            *call.fingerprint.as_bytes()
        };
        let (pk, policy) = (call.key.as_str().to_owned(), call.policy.clone());
        let route = Route { pk, fingerprint, policy };
        let mut under_way = lock(&self.under_way);
        if let Some(landing) = under_way.get(&route) {
            return Joined::Follower(Follower { landing: landing.clone() });
        }
        let (landing, follower) = watch::channel(None);
        under_way.insert(route.clone(), follower);
        let under_way = Arc::clone(&self.under_way);
        Joined::Leader(Flight { under_way, route, landing, has_landed: false })
    }
}

fn lock(under_way: &Mutex<UnderWay>) -> MutexGuard<'_, UnderWay> {
    // Nothing panics while it is held.
    under_way.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A call that asks for all. Dropped before it was told, it leaves the others to one of them.
pub(crate) struct Flight {
    under_way: Arc<Mutex<UnderWay>>,
    route: Route,
    landing: watch::Sender<Option<Landing>>,
    has_landed: bool,
}

impl Flight {
    /// Tells the others what was seen `at` some time. Whoever comes from now on asks anew.
    pub(crate) fn land(mut self, told: &Result<Acquisition, Error>, at: Uptime) {
        self.end();
        if self.landing.receiver_count() > 0 {
            self.landing.send_replace(Some(Landing::of(told, at)));
        }
    }

    /// Once: after it the route may be another flight's.
    fn end(&mut self) {
        if !std::mem::replace(&mut self.has_landed, true) {
            lock(&self.under_way).remove(&self.route);
        }
    }
}

impl Drop for Flight {
    fn drop(&mut self) {
        self.end();
    }
}

impl Landing {
    fn of(told: &Result<Acquisition, Error>, at: Uptime) -> Self {
        match told {
            Ok(Acquisition::Replay(answer)) => Self::Replay(Arc::clone(answer)),
            Ok(Acquisition::ReplayFailure(failure)) => Self::ReplayFailure(failure.clone()),
            Ok(Acquisition::Mismatch) => Self::Mismatch,
            Ok(Acquisition::Abandoned) => Self::Abandoned,
            Ok(Acquisition::InProgress { retry_after }) => {
                Self::InProgress(ObservedLease { left: *retry_after, at })
            }
            Ok(Acquisition::Acquired(execution)) if execution.is_protected() => {
                Self::InProgress(ObservedLease { left: execution.lease_remaining(), at })
            }
            Ok(Acquisition::Acquired(_) | Acquisition::Reconcile(_) | Acquisition::Reconciled) => {
                Self::Gone
            }
            Err(error) => match error.kind() {
                kind @ (ErrorKind::Unavailable
                | ErrorKind::Configuration
                | ErrorKind::NewerRecord
                | ErrorKind::StepsUnreadable
                | ErrorKind::UnknownRecord) => Self::Failed(kind, error.to_string().into()),
                // The call's own: its deadline, say.
                _ => Self::Gone,
            },
        }
    }
}

/// A call that waits for what another one is told.
pub(crate) struct Follower {
    landing: watch::Receiver<Option<Landing>>,
}

impl Follower {
    pub(crate) async fn landing(mut self) -> Landing {
        let told = self.landing.wait_for(Option::is_some).await;
        told.ok().and_then(|told| told.clone()).unwrap_or(Landing::Gone)
    }
}

/// Keys are secrets of the caller's.
impl fmt::Debug for Flights {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Flights").finish_non_exhaustive()
    }
}
