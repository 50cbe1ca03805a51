//! One choice of the scheduler, and how it is written in a trace.

use std::fmt;
use std::str::FromStr;

use crate::ledger::name;
use crate::world::End;

/// What becomes of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Fate {
    /// Executed; the answer arrives.
    Deliver,
    /// Executed; the answer arrives; a copy is on its way still.
    Twice,
    /// Executed; the answer is lost.
    LoseReply,
    /// Not executed; the connection breaks.
    Lose,
    /// The caller hears of a time-out; the request is on its way still.
    Late,
    /// The caller hears nothing, ever; the request is on its way still.
    Hang,
    Throttle,
    ServerError,
    Conflict,
    /// A read that need not be consistent shows what was there before.
    Stale,
}

/// What a caller can know of an unanswered request. The crate sees no more than this, so schedules
/// that differ in nothing else are equivalent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Heard {
    Answer,
    /// It may have been executed; `true` if the store's clock was shown.
    Doubt(bool),
    NotExecuted,
    Nothing,
}

impl Fate {
    pub(crate) const fn heard(self) -> Heard {
        match self {
            Self::Deliver | Self::Twice | Self::Stale => Heard::Answer,
            Self::LoseReply | Self::Lose | Self::Late => Heard::Doubt(false),
            Self::ServerError => Heard::Doubt(true),
            Self::Throttle | Self::Conflict => Heard::NotExecuted,
            Self::Hang => Heard::Nothing,
        }
    }

    /// Whether this differs, for a read, from what other fates do to it.
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

    /// Those that differ in what they do: a lost request is a late one that never arrives, a lost reply
    /// that of one that arrives at once, and the crate takes a server error for a broken connection and
    /// a conflict for a throttled request.
    pub(crate) const DISTINCT: &[Self] = &[Self::Twice, Self::Late, Self::Throttle, Self::Stale];
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Step {
    Start(usize),
    /// The caller's own request, or the one that it has beside it.
    Request(usize, usize, Fate),
    Handler(usize, End),
    /// The caller's timer has gone off, and it goes on.
    Wake(usize),
    Die(usize),
    /// Time passes to the next timer.
    Tick,
    /// Everybody is stopped for so many milliseconds.
    Pause(i64),
    /// A caller's wall clock is set forward by so many milliseconds, or back.
    Jump(usize, i64),
    /// As a pause, in which this caller's monotonic clock stands still.
    Freeze(usize, i64),
    /// This one of the late requests reaches the store.
    Arrive(usize),
    /// TTL deletes what is past its retention.
    Expire,
    /// No late request arrives any more.
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
    ("succeed", |caller| Step::Handler(caller, End::Succeed)),
    ("fail", |caller| Step::Handler(caller, End::Fail)),
    ("decline", |caller| Step::Handler(caller, End::Decline)),
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

    /// Whether it touches nothing but its caller.
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
            return write!(f, "{}.jump:{millis}", name(caller));
        }
        if let Self::Freeze(caller, millis) = *self {
            return write!(f, "{}.freeze:{millis}", name(caller));
        }
        if let Some(caller) = self.caller() {
            let word = WORDS.iter().find(|(_, make)| make(caller) == *self).map(|(word, _)| *word);
            return write!(f, "{}.{}", name(caller), word.unwrap_or("?"));
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
        let wrong = || format!("`{text}` is no step");
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
