//! One step of a schedule, and its text.

use std::fmt;
use std::str::FromStr;

use crate::ledger::caller_name;
use crate::world::HandlerEnd;

/// What happens to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Fate {
    /// Executed; the response arrives.
    Deliver,
    /// Executed; the response arrives; a copy of the request is delayed.
    Twice,
    /// Executed; the response is lost.
    LoseReply,
    /// Not executed; the connection breaks.
    Lose,
    /// The caller gets a timeout error; the request is delayed.
    Late,
    /// The caller never gets a response; the request is delayed.
    Hang,
    Throttle,
    ServerError,
    Conflict,
    /// An eventually consistent read returns the item before its last write.
    Stale,
}

/// What the crate can observe of the fate of a request. It cannot distinguish fates with the same
/// observation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Observed {
    Response,
    /// The request may have been executed. `true` if the error response had the store's `Date`.
    InDoubt(bool),
    NotExecuted,
    Nothing,
}

impl Fate {
    pub(crate) const fn observed(self) -> Observed {
        match self {
            Self::Deliver | Self::Twice | Self::Stale => Observed::Response,
            Self::LoseReply | Self::Lose | Self::Late => Observed::InDoubt(false),
            Self::ServerError => Observed::InDoubt(true),
            Self::Throttle | Self::Conflict => Observed::NotExecuted,
            Self::Hang => Observed::Nothing,
        }
    }

    /// Whether a read behaves differently under this fate than under every other one.
    pub(crate) const fn concerns_reads(self) -> bool {
        !matches!(self, Self::Twice | Self::LoseReply | Self::Late)
    }

    pub(crate) const FAULTS: &[Self] = &[
        Self::Twice,
        Self::LoseReply,
        Self::Lose,
        Self::Late,
        Self::Hang,
        Self::Throttle,
        Self::ServerError,
        Self::Conflict,
        Self::Stale,
    ];

    /// The fates that are not equivalent. A lost or hanging request equals a delayed one that never
    /// arrives. A lost reply equals a delayed request that arrives at once. The crate treats a server error
    /// as a broken connection, and a conflict as a throttled request.
    pub(crate) const DISTINCT: &[Self] = &[Self::Twice, Self::Late, Self::Throttle, Self::Stale];
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Step {
    Start(usize),
    /// The fate of the caller's request (slot 0) or of its renewal (slot 1).
    Request(usize, usize, Fate),
    Handler(usize, HandlerEnd),
    /// The caller is polled because its timer fired.
    Wake(usize),
    Die(usize),
    /// Time passes to the next timer.
    Tick,
    /// All callers are paused for so many milliseconds.
    Pause(i64),
    /// A caller's wall clock is set forward by so many milliseconds, or back.
    Jump(usize, i64),
    /// A pause during which this caller's monotonic clock is frozen.
    Freeze(usize, i64),
    /// A delayed request reaches the store.
    Arrive(usize),
    /// TTL deletes the items whose retention is over.
    Expire,
    /// No delayed request arrives after this step.
    Finish,
}

type OfCaller = fn(usize) -> Step;

const WORDS: [(&str, OfCaller); 16] = [
    ("start", Step::Start),
    ("deliver", |caller| Step::Request(caller, 0, Fate::Deliver)),
    ("twice", |caller| Step::Request(caller, 0, Fate::Twice)),
    ("lose-reply", |caller| Step::Request(caller, 0, Fate::LoseReply)),
    ("lose", |caller| Step::Request(caller, 0, Fate::Lose)),
    ("late", |caller| Step::Request(caller, 0, Fate::Late)),
    ("hang", |caller| Step::Request(caller, 0, Fate::Hang)),
    ("throttle", |caller| Step::Request(caller, 0, Fate::Throttle)),
    ("5xx", |caller| Step::Request(caller, 0, Fate::ServerError)),
    ("conflict", |caller| Step::Request(caller, 0, Fate::Conflict)),
    ("stale", |caller| Step::Request(caller, 0, Fate::Stale)),
    ("succeed", |caller| Step::Handler(caller, HandlerEnd::Succeed)),
    ("fail", |caller| Step::Handler(caller, HandlerEnd::Fail)),
    ("decline", |caller| Step::Handler(caller, HandlerEnd::Decline)),
    ("wake", Step::Wake),
    ("die", Step::Die),
];

impl Step {
    pub(crate) const fn caller(self) -> Option<usize> {
        match self {
            Self::Start(caller)
            | Self::Request(caller, ..)
            | Self::Handler(caller, _)
            | Self::Wake(caller)
            | Self::Die(caller)
            | Self::Jump(caller, _) => Some(caller),
            Self::Tick
            | Self::Pause(_)
            | Self::Freeze(..)
            | Self::Arrive(_)
            | Self::Expire
            | Self::Finish => None,
        }
    }

    /// Whether the step affects only its caller.
    pub(crate) const fn is_local(self) -> bool {
        match self {
            Self::Request(_, _, fate) => {
                !matches!(fate, Fate::Deliver | Fate::Twice | Fate::LoseReply | Fate::Stale)
            }
            step => step.caller().is_some(),
        }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Self::Request(caller, 1, fate) = *self {
            return write!(f, "{}+", Self::Request(caller, 0, fate));
        }
        if let Self::Jump(caller, millis) = *self {
            return write!(f, "{}.jump:{millis}", caller_name(caller));
        }
        if let Self::Freeze(caller, millis) = *self {
            return write!(f, "{}.freeze:{millis}", caller_name(caller));
        }
        if let Some(caller) = self.caller() {
            let word = WORDS.iter().find(|(_, make)| make(caller) == *self).map(|(word, _)| *word);
            return write!(f, "{}.{}", caller_name(caller), word.unwrap_or("?"));
        }
        match self {
            Self::Tick => f.write_str("tick"),
            Self::Pause(millis) => write!(f, "pause:{millis}"),
            Self::Arrive(index) => write!(f, "arrive:{index}"),
            Self::Expire => f.write_str("expire"),
            _ => f.write_str("finish"),
        }
    }
}

impl FromStr for Step {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("`{text}` is not a step");
        if let Some((caller, word)) = text.split_once('.') {
            let letter = caller.bytes().next().ok_or_else(wrong)?;
            let caller = usize::from(letter.checked_sub(b'A').ok_or_else(wrong)?);
            if let Some((word, millis)) = word.split_once(':') {
                let millis = millis.parse().map_err(|_| wrong())?;
                return match word {
                    "jump" => Ok(Self::Jump(caller, millis)),
                    "freeze" => Ok(Self::Freeze(caller, millis)),
                    _ => Err(wrong()),
                };
            }
            let (word, slot) = word.strip_suffix('+').map_or((word, 0), |word| (word, 1));
            let (_, make) = WORDS.iter().find(|(known, _)| *known == word).ok_or_else(wrong)?;
            return Ok(match make(caller) {
                Self::Request(caller, _, fate) => Self::Request(caller, slot, fate),
                step => step,
            });
        }
        match text.split_once(':') {
            Some(("pause", millis)) => millis.parse().map(Self::Pause).map_err(|_| wrong()),
            Some(("arrive", index)) => index.parse().map(Self::Arrive).map_err(|_| wrong()),
            Some(_) => Err(wrong()),
            None => [Self::Tick, Self::Expire, Self::Finish]
                .into_iter()
                .find(|step| step.to_string() == text)
                .ok_or_else(wrong),
        }
    }
}
