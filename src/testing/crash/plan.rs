//! The places at which a run can be disturbed, and the runs that are left.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::rc::Rc;
use std::sync::Arc;

use super::request::ROUTINE;

/// How often a routine request of one run is disturbed.
const OF_A_ROUTINE: u32 = 3;

/// What happens at a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Kind {
    /// A crash before DynamoDB executes a request.
    Before,
    /// A crash before the response arrives.
    After,
    /// The response is lost.
    Lost,
    /// A crash at a point that the test names.
    Point,
    /// The future of the call is dropped.
    Drop,
    /// A crash after the answer, while spawned tasks still run.
    Answered,
    /// The second caller begins.
    Begin,
}

/// A place that a run has reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// The same for places that are alike, although they have other numbers.
    pub(super) signature: String,
    /// The place in words.
    pub(super) text: String,
}

/// Where one run is disturbed.
#[derive(Clone, Debug, Default)]
pub(super) struct Plan {
    /// The numbers of the places, in the order in which a run reaches them.
    pub(super) places: Vec<usize>,
    /// The places up to the last disturbed one, in the run in which it was found.
    pub(super) expected: Arc<[Place]>,
}

/// The one run to make again.
#[derive(Clone, Debug)]
pub(super) struct Chosen {
    /// The number of the `every_crash` in its thread, counted from 1: a test can have several.
    pub(super) nth: u32,
    pub(super) plan: Plan,
}

impl Chosen {
    /// Reads what `Display` writes: `10+12`, or `2:10+12` of the second `every_crash`.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (nth, places) = text.split_once(':').unwrap_or(("1", text));
        let nth = nth.trim().parse().ok()?;
        let places = places.split('+').map(|place| place.trim().parse());
        let places: Vec<usize> = places.collect::<Result<_, _>>().ok()?;
        Some(Self { nth, plan: Plan { places, expected: Arc::default() } })
    }
}

impl fmt::Display for Chosen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.nth > 1 {
            write!(f, "{}:", self.nth)?;
        }
        let places = self.plan.places.iter().map(ToString::to_string);
        f.write_str(&places.collect::<Vec<_>>().join("+"))
    }
}

/// The plans that are left.
#[derive(Debug)]
pub(super) struct Plans {
    left: VecDeque<Rc<Plan>>,
    seen: BTreeSet<String>,
    most: usize,
}

impl Plans {
    /// Begins with the run that nothing disturbs. A plan has at most `most` places.
    pub(super) fn new(most: usize) -> Self {
        Self { left: VecDeque::from([Rc::default()]), seen: BTreeSet::new(), most }
    }

    pub(super) fn next(&mut self) -> Option<Rc<Plan>> {
        self.left.pop_front()
    }

    /// Adds the places that a run has reached after its last disturbance: all places of the
    /// undisturbed run except those of a long routine, and of other runs those that are unlike every
    /// place seen before.
    pub(super) fn learn(&mut self, plan: &Plan, reached: &[Place]) {
        let is_undisturbed = plan.places.is_empty();
        let from = plan.places.last().map_or(0, |last| last + 1);
        let mut alike = BTreeMap::<&str, u32>::new();
        for (index, place) in reached.iter().enumerate().skip(from) {
            let is_new = self.seen.insert(place.signature.clone());
            let times = alike.entry(&place.signature).or_default();
            *times += 1;
            let is_routine = ROUTINE.iter().any(|request| place.signature.contains(request));
            let is_own = is_undisturbed && (*times <= OF_A_ROUTINE || !is_routine);
            if (is_new || is_own) && plan.places.len() < self.most {
                let mut places = plan.places.clone();
                places.push(index);
                let expected = reached[..=index].into();
                self.left.push_back(Rc::new(Plan { places, expected }));
            }
        }
    }
}
