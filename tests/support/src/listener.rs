//! Collects the spans, events and metrics of the test's thread.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::{Arc, Mutex, MutexGuard, Once};

use metrics::LocalRecorderGuard;
use metrics_util::debugging::{DebugValue, DebuggingRecorder, Snapshotter};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::DefaultGuard;
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::layer::{Context, SubscriberExt};
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::{Layer, Registry};

/// Field names and values, as text.
pub type Fields = BTreeMap<String, String>;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Heard {
    /// The module that emitted the event.
    pub target: &'static str,
    pub level: Level,
    pub fields: Fields,
    /// The ids of the spans around it, the innermost first.
    pub inside: Vec<u64>,
}

impl Heard {
    pub fn message(&self) -> &str {
        self.fields.get("message").map_or("", String::as_str)
    }

    pub fn get(&self, field: &str) -> &str {
        self.fields.get(field).map_or("", String::as_str)
    }
}

#[derive(Debug, Default)]
struct State {
    spans: Vec<(u64, &'static str, Fields)>,
    events: Vec<Heard>,
}

/// Listens on the thread that created it, until it is dropped.
#[allow(missing_debug_implementations, reason = "`LocalRecorderGuard` has no Debug")]
pub struct Listener {
    state: Arc<Mutex<State>>,
    metrics: Snapshotter,
    _tracing: DefaultGuard,
    _recorder: LocalRecorderGuard<'static>,
}

impl Listener {
    pub fn start() -> Self {
        keep_interested();
        let state = Arc::<Mutex<State>>::default();
        let subscriber = Registry::default().with(Ears(Arc::clone(&state)));
        // The guard borrows the recorder, so each test leaks one: a few bytes.
        let recorder: &'static DebuggingRecorder = Box::leak(Box::default());
        Self {
            state,
            metrics: recorder.snapshotter(),
            _tracing: tracing::subscriber::set_default(subscriber),
            _recorder: metrics::set_default_local_recorder(recorder),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no thread panics while it holds the lock")
    }

    /// The ids and fields of the crate's spans, in the order in which the spans began.
    pub fn spans(&self) -> Vec<(u64, Fields)> {
        let state = self.state();
        let ours = state.spans.iter().filter(|(_, name, _)| *name == "idempotency");
        ours.map(|(id, _, fields)| (*id, fields.clone())).collect()
    }

    pub fn events(&self) -> Vec<Heard> {
        self.state().events.clone()
    }

    pub fn logged(&self, message: &str) -> Vec<Heard> {
        self.events().into_iter().filter(|event| event.message() == message).collect()
    }

    /// All events, spans and metrics that the crate has emitted since the last call of this method.
    pub fn words(&self) -> String {
        let metrics = self.metrics();
        let mut state = self.state();
        let is_ours = |target: &str| target.starts_with("dynamodb_idempotency");
        let events: Vec<_> = state.events.drain(..).filter(|event| is_ours(event.target)).collect();
        let spans: Vec<_> =
            state.spans.drain(..).filter(|(_, name, _)| *name == "idempotency").collect();
        format!("{events:?}\n{spans:?}\n{metrics:?}")
    }

    /// The metrics since the last call of this method.
    pub fn metrics(&self) -> Metrics {
        let mut metrics = Metrics::default();
        for (key, _, _, value) in self.metrics.snapshot().into_vec() {
            let (_, key) = key.into_parts();
            let labels: Vec<_> =
                key.labels().map(|label| format!("{}={}", label.key(), label.value())).collect();
            let name = format!("{}{{{}}}", key.name(), labels.join(","));
            match value {
                DebugValue::Counter(count) => drop(metrics.counts.insert(name, count)),
                DebugValue::Gauge(gauge) => panic!("{name} is no kind of ours: {gauge}"),
                DebugValue::Histogram(all) => {
                    let sum = all.iter().map(|value| value.into_inner()).sum();
                    metrics.sums.insert(name, sum);
                }
            }
        }
        metrics
    }
}

/// tracing caches for all threads which events no subscriber wants. A subscriber that wants all
/// events keeps that cache from disabling any, whatever the listeners of other tests do.
fn keep_interested() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        tracing::subscriber::set_global_default(Registry::default()).expect("it is the only one");
    });
}

/// Metrics by name and labels: `name{label=value}`.
#[derive(Debug, Default)]
pub struct Metrics {
    pub counts: BTreeMap<String, u64>,
    /// Histograms.
    pub sums: BTreeMap<String, f64>,
}

struct Ears(Arc<Mutex<State>>);

impl Ears {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().expect("no thread panics while it holds the lock")
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Ears {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, _: Context<'_, S>) {
        let mut fields = Visitor::default();
        attributes.record(&mut fields);
        self.state().spans.push((id.into_u64(), attributes.metadata().name(), fields.0));
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, _: Context<'_, S>) {
        let mut fields = Visitor::default();
        values.record(&mut fields);
        let mut state = self.state();
        // The registry reuses the ids of closed spans, so the last span with this id is the open one.
        let span = state.spans.iter_mut().rev().find(|(span, ..)| *span == id.into_u64());
        span.expect("it has begun").2.extend(fields.0);
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let mut fields = Visitor::default();
        event.record(&mut fields);
        let scope = context.event_scope(event).into_iter().flatten();
        let inside = scope.map(|span| span.id().into_u64()).collect();
        let level = *event.metadata().level();
        let target = event.metadata().target();
        self.state().events.push(Heard { target, level, fields: fields.0, inside });
    }
}

#[derive(Default)]
struct Visitor(Fields);

impl Visit for Visitor {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name().to_owned(), value.to_owned());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0.insert(field.name().to_owned(), format!("{value:?}"));
    }
}
