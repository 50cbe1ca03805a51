//! One record, for people and for programs.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use dynamodb_idempotency::admin::{
    Admin, Blocked, Danger, Select, SentNote, StoredAnswer, StoredRecord, StoredState,
};
use dynamodb_idempotency::policy::KeyForm;
use dynamodb_idempotency::{Error, Scope};
use serde_json::{Value, json};

use crate::args::Key;
use crate::failure::Failure;
use crate::hints::Hints;
use crate::words::{plain, plain_lines, span, time, time_and_distance};
use crate::{output, table};

/// Which record a command is about.
#[derive(Debug)]
pub(crate) struct Name {
    pub(crate) scope: Scope,
    pub(crate) key: String,
    form: KeyForm,
}

impl Name {
    pub(crate) fn of(key: Key) -> Result<Self, Error> {
        Ok(Self::new(key.tenant.scope(&key.scope)?, key.text, key.sha256))
    }

    pub(crate) fn new(scope: Scope, key: String, sha256: bool) -> Self {
        let form = if sha256 { KeyForm::Sha256 } else { KeyForm::Verbatim };
        Self { scope, key, form }
    }

    /// Blocks the key; with `force` in place of a record with which a request can run.
    pub(crate) async fn block(
        &self,
        admin: Admin<'_>,
        lasts: Duration,
        force: bool,
    ) -> Result<Blocked, Error> {
        if force {
            admin.force_block(&self.scope, &self.key, self.form, lasts).await
        } else {
            admin.block(&self.scope, &self.key, self.form, lasts).await
        }
    }

    /// The form of the key in log lines.
    pub(crate) fn key_hash(&self, admin: Admin<'_>) -> Result<String, Error> {
        admin.key_hash(&self.scope, &self.key, self.form)
    }

    /// The item of the key for programs, if it exists, whatever it is.
    pub(crate) async fn raw(&self, admin: Admin<'_>) -> Result<Option<Value>, Error> {
        admin.raw(&self.scope, &self.key, self.form).await
    }

    /// The record, if it exists.
    pub(crate) async fn record(&self, admin: Admin<'_>) -> Result<Option<StoredRecord>, Error> {
        admin.record(&self.scope, &self.key, self.form).await
    }
}

/// How many scopes are suggested.
const SUGGESTIONS: usize = 5;

/// The message that a record does not exist.
pub(crate) fn no_record(name: &Name) -> String {
    let mut hints = Vec::new();
    if !name.scope.as_str().contains("/%t/") {
        hints.push("for a tenant add --tenant NAME");
    }
    if name.form != KeyForm::Sha256 {
        hints.push("with KeyForm::Sha256 add --sha256");
    }
    let hints = if hints.is_empty() { String::new() } else { format!(" ({})", hints.join("; ")) };
    format!("there is no record `{}#{}`{hints}", name.scope.as_str(), name.key)
}

/// As [`no_record`], with scopes that exist.
pub(crate) async fn absent(admin: Admin<'_>, name: &Name) -> String {
    let (mut message, scope) = (no_record(name), name.scope.as_str());
    let _ = match scopes(admin).await {
        Ok(scopes) if scopes.is_empty() => write!(message, "; no scope was found in the table"),
        Ok(scopes) if scopes.contains(scope) => write!(message, "; the scope is right"),
        Ok(scopes) => write!(message, "; scopes that exist: {}", nearest(scope, scopes).join(", ")),
        Err(_) => write!(message, "; `idempotency stats --scopes` lists those that exist"),
    };
    message
}

/// Fails if the scope, with those below it, has no record, and other scopes have some.
pub(crate) async fn known_scope(admin: Admin<'_>, scope: &Scope) -> Result<(), Failure> {
    let Some(Others { scopes, are_all }) = others(admin, scope).await else { return Ok(()) };
    if are_all {
        let scope = plain(scope.as_str());
        return Err(Failure::Absent(format!("there is no record of scope `{scope}`; {scopes}")));
    }
    // The scope may be in the rest of the table.
    is_right(scope, &scopes);
    Ok(())
}

/// Asks whether the scope is the right one, if it has no record in the first megabyte of the table, and
/// others have some.
pub(crate) async fn question_scope(admin: Admin<'_>, scope: &Scope) {
    if let Some(Others { scopes, .. }) = others(admin, scope).await {
        is_right(scope, &scopes);
    }
}

fn is_right(scope: &Scope, others: &str) {
    let scope = plain(scope.as_str());
    output::remark(format_args!("is `{scope}` the right scope? {others}"));
}

/// The scopes in the first megabyte of a table, of which the requested one is none.
struct Others {
    /// The nearest, in words.
    scopes: String,
    /// Whether there is no more of the table.
    are_all: bool,
}

async fn others(admin: Admin<'_>, scope: &Scope) -> Option<Others> {
    let below = format!("{}/", scope.as_str());
    let page = admin.page(0, 1, Select::All, None).await.ok()?;
    let scopes: BTreeSet<_> = page.records.into_iter().map(|record| record.scope).collect();
    let is_known = |found: &String| found == scope.as_str() || found.starts_with(&below);
    if scopes.is_empty() || scopes.iter().any(is_known) {
        return None;
    }
    let nearest = nearest(&plain(scope.as_str()), scopes).join(", ");
    let scopes = format!("scopes that exist: {nearest}");
    Some(Others { scopes, are_all: page.next.is_none() })
}

/// The scopes in the first megabyte of the table: one request.
async fn scopes(admin: Admin<'_>) -> Result<BTreeSet<String>, Error> {
    let page = admin.page(0, 1, Select::All, None).await?;
    Ok(page.records.into_iter().map(|record| record.scope).collect())
}

/// The scopes that share the longest prefix with the requested one.
fn nearest(asked: &str, scopes: BTreeSet<String>) -> Vec<String> {
    let alike = |scope: &String| {
        let pairs = asked.chars().zip(scope.chars());
        pairs.take_while(|(one, other)| one.eq_ignore_ascii_case(other)).count()
    };
    let mut scopes: Vec<_> = scopes.into_iter().collect();
    scopes.sort_by_key(|scope| std::cmp::Reverse(alike(scope)));
    scopes.truncate(SUGGESTIONS);
    scopes.iter().map(|scope| format!("`{}`", plain(scope))).collect()
}

/// Prints the record as text or as JSON.
pub(crate) fn show(record: &StoredRecord, hints: &Hints, json: bool) {
    if json {
        output::document(document(record));
    } else {
        output::print(text(record) + &next(record, hints));
    }
}

/// What the user can do next.
fn next(record: &StoredRecord, hints: &Hints) -> String {
    let command = |command| hints.command(command, record);
    let release = || {
        let does = again(record).map(|again| format!(" --force ({again})"));
        command("release") + &does.unwrap_or_default()
    };
    let sent = sent_steps(record);
    let what = match &record.state {
        _ if record.is_expired() => "nothing: the next request runs it".to_owned(),
        StoredState::Pending { .. } if record.lease_left().is_some() => {
            format!("wait for it: {}", command("watch"))
        }
        StoredState::Pending { .. } if !sent.is_empty() => format!(
            "{LOOK}; the next request takes it over and asks the look-up of {sent}, and sends nothing \
             while that does not know; if it has not and cannot any more: {}",
            release()
        ),
        StoredState::Pending { .. } => format!(
            "{LOOK}; if it has: {}; the next request takes it over and runs it again; \
             under Takeover::Reject: {}",
            hints.block(record),
            release()
        ),
        StoredState::Completed { answer: StoredAnswer::Unavailable(_), .. } => {
            "answer repeats from your business data: they get `AnswerUnavailable`, and nothing runs"
                .to_owned()
        }
        StoredState::Completed { .. } => "nothing: repeats get the answer".to_owned(),
        StoredState::Failed { .. } if !sent.is_empty() => format!(
            "{LOOK}; the next request asks the look-up of {sent} or gets the failure, by the policy, and \
             sends nothing while the look-up does not know; if it has not and cannot any more: {}",
            release()
        ),
        StoredState::Failed { .. } => format!(
            "the next request runs it again or gets the failure, by the policy; \
             to run it again: {}",
            release()
        ),
        StoredState::Released => "nothing: the next request runs it".to_owned(),
        StoredState::Blocked => format!(
            "nothing: every request is a mismatch until {}; if its effect has not happened: {} --force",
            time(record.expires_at),
            command("release")
        ),
    };
    format!("next: {what}\n")
}

/// The steps whose request may have been sent and whose result is not stored. Empty if there are none.
fn sent_steps(record: &StoredRecord) -> String {
    let sent = record.may_have_sent();
    let names: Vec<_> = sent.iter().map(|note| format!("step `{}`", plain(note.step))).collect();
    names.join(" and ")
}

/// What a release makes the next request do again. `None` if the record has no steps.
fn again(record: &StoredRecord) -> Option<String> {
    let names = record.steps.iter().flatten().map(|(name, _)| name);
    let has_results = names.filter(|name| record.note(name).is_none()).count() > 0;
    let sent = sent_steps(record);
    match (has_results, sent.is_empty()) {
        (false, true) => None,
        (true, true) => Some("its steps run again".to_owned()),
        (false, false) => Some(format!("{sent} may be sent a second time")),
        (true, false) => Some(format!("its steps run again, and {sent} may be sent a second time")),
    }
}

/// What a person has to check after an owner died.
pub(crate) const LOOK: &str =
    "look in the system that it writes to whether its effect has happened";

/// The state of the operation, in words.
pub(crate) fn state(record: &StoredRecord) -> String {
    let words = match (&record.state, record.lease_left(), record.abandoned_for()) {
        _ if record.is_expired() => "its retention is over: it counts as absent".to_owned(),
        (StoredState::Pending { .. }, Some(left), _) => {
            format!("in progress: its owner's lease ends in {}", span(left))
        }
        (StoredState::Pending { .. }, _, over) => {
            format!("abandoned: its owner's lease ended {} ago", span(over.unwrap_or_default()))
        }
        (StoredState::Completed { answer: StoredAnswer::Unavailable(_), .. }, ..) => {
            "done, but its answer is not available: repeats get an error".to_owned()
        }
        (StoredState::Completed { .. }, ..) => "done: repeats get the answer".to_owned(),
        (StoredState::Failed { answer: Some(_), .. }, ..) => {
            "failed, and kept with its answer".to_owned()
        }
        (StoredState::Failed { answer: None, .. }, ..) => "failed, and kept".to_owned(),
        (StoredState::Released, ..) => "free: the next request runs it".to_owned(),
        (StoredState::Blocked, ..) => {
            let until = time(record.expires_at);
            format!("blocked by an operator: every request is a mismatch until {until}")
        }
    };
    format!("{}, {words}", record.status())
}

/// The whole record as text.
pub(crate) fn text(record: &StoredRecord) -> String {
    let now = record.seen_at;
    let mut fields = vec![
        ("scope", plain(&record.scope)),
        ("key", plain(&record.key)),
        ("in logs", record.key_hash()),
        ("state", state(record)),
        ("attempt", record.attempt.to_string()),
        ("owner", plain(&record.owner)),
        ("started", time_and_distance(record.created_at, now)),
    ];
    let answer = match &record.state {
        StoredState::Pending { lease_expires_at } => {
            fields.push(("lease ends", time_and_distance(*lease_expires_at, now)));
            None
        }
        StoredState::Completed { completed_at: at, answer } => {
            fields.extend(at.map(|at| ("completed", time_and_distance(at, now))));
            Some(answer)
        }
        StoredState::Failed { failed_at: at, answer } => {
            fields.extend(at.map(|at| ("failed", time_and_distance(at, now))));
            answer.as_ref()
        }
        StoredState::Released | StoredState::Blocked => None,
    };
    fields.push(("retained", time_and_distance(record.expires_at, now)));
    fields.push(("request", fingerprint(record)));
    for (name, result) in record.steps.iter().flatten() {
        let result = match (record.note(name), result) {
            (Some(SentNote { at: Some(at), .. }), _) => time_and_distance(at, now),
            (Some(SentNote { at: None, .. }), StoredAnswer::Encoded { .. }) => {
                "its time is encoded by a codec".to_owned()
            }
            (Some(SentNote { at: None, .. }), _) => "its time cannot be read".to_owned(),
            (None, StoredAnswer::Json(text)) => plain(text),
            (None, StoredAnswer::Encoded { .. }) => {
                "done; its result is encoded by a codec".to_owned()
            }
            (None, StoredAnswer::InParts { bytes, .. }) => {
                format!("done; its result has an item of its own, {bytes} bytes")
            }
            (None, StoredAnswer::Http { .. } | StoredAnswer::Unavailable(_)) => {
                "done; its result is not available".to_owned()
            }
        };
        fields.push(("step", format!("{}: {result}", plain(name))));
    }
    fields.extend(record.may_have_sent().into_iter().map(|SentNote { step, attempt, .. }| {
        let step = plain(step);
        ("look up", format!("whether the request of step `{step}`, which attempt {attempt} may have sent, took effect"))
    }));
    fields.extend(answer.map(|answer| ("answer", answer_text(answer))));
    table::fields(&fields)
}

fn answer_text(answer: &StoredAnswer) -> String {
    match answer {
        StoredAnswer::Json(text) => plain_lines(text),
        StoredAnswer::Http { status, headers, body } => {
            let mut lines = vec![status.to_string()];
            lines.extend(headers.iter().map(|(name, value)| {
                format!("{}: {}", plain(name), plain(&String::from_utf8_lossy(value)))
            }));
            lines.push(match std::str::from_utf8(body) {
                Ok("") => "(no body)".to_owned(),
                Ok(text) => plain_lines(text),
                Err(_) => format!("({} bytes)", body.len()),
            });
            lines.join("\n")
        }
        StoredAnswer::Unavailable(reason) => format!("not stored: {}", plain(reason)),
        StoredAnswer::InParts { parts, bytes } => format!("{bytes} bytes in {parts} items"),
        StoredAnswer::Encoded { bytes } => {
            format!(
                "{bytes} bytes, encoded by a codec (AnswerCodec): only its programs can read them"
            )
        }
    }
}

/// How long ago a kept failure happened; of a record without its time, since the operation began.
pub(crate) fn failed_for(record: &StoredRecord) -> Option<Duration> {
    match record.state {
        StoredState::Failed { failed_at, .. } => {
            let at = failed_at.unwrap_or(record.created_at);
            Some(record.seen_at.duration_since(at).unwrap_or_default())
        }
        StoredState::Pending { .. }
        | StoredState::Completed { .. }
        | StoredState::Released
        | StoredState::Blocked => None,
    }
}

/// The record without its answer's and steps' contents, for lists.
pub(crate) fn summary(record: &StoredRecord) -> Value {
    json!({
        "scope": record.scope,
        "key": record.key,
        "key_hash": record.key_hash(),
        "status": record.status(),
        "attempt": record.attempt,
        "owner": record.owner,
        "created_at": time(record.created_at),
        "expires_at": time(record.expires_at),
        "lease_expires_at": match record.state {
            StoredState::Pending { lease_expires_at } => Some(time(lease_expires_at)),
            StoredState::Completed { .. }
            | StoredState::Failed { .. }
            | StoredState::Released
            | StoredState::Blocked => None,
        },
        "is_blocked": record.state == StoredState::Blocked,
        "failed_for_s": failed_for(record).map(|over| over.as_secs()),
        "lease_left_s": record.lease_left().map(|left| left.as_secs()),
        "abandoned_for_s": record.abandoned_for().map(|over| over.as_secs()),
        "is_expired": record.is_expired(),
        "steps": record.steps.as_ref().map(BTreeMap::len),
        "seen_at": time(record.seen_at),
    })
}

/// The whole record as JSON, with the raw item.
pub(crate) fn document(record: &StoredRecord) -> Value {
    let (finished_at, answer) = match &record.state {
        StoredState::Completed { completed_at, answer } => (*completed_at, Some(answer)),
        StoredState::Failed { failed_at, answer } => (*failed_at, answer.as_ref()),
        StoredState::Pending { .. } | StoredState::Released | StoredState::Blocked => (None, None),
    };
    let steps = record.steps.iter().flatten();
    let steps: Vec<_> = steps.map(step_document).collect();
    let dangers: Vec<_> = record.dangers().into_iter().map(danger).collect();
    let mut document = summary(record);
    document["completed_at"] = json!(finished_at.map(time));
    document["fingerprint"] = json!(fingerprint(record));
    document["steps"] = json!(record.steps.is_some().then_some(steps));
    document["answer"] = answer.map_or(Value::Null, answer_document);
    document["dangers"] = json!(dangers);
    document["item"] = record.raw();
    document
}

fn step_document((name, result): (&String, &StoredAnswer)) -> Value {
    match result {
        StoredAnswer::Json(text) => json!({"name": name, "result": text}),
        StoredAnswer::Encoded { .. } => json!({"name": name, "result": null, "encoded": true}),
        StoredAnswer::Http { .. } | StoredAnswer::InParts { .. } | StoredAnswer::Unavailable(_) => {
            json!({"name": name, "result": null})
        }
    }
}

fn answer_document(answer: &StoredAnswer) -> Value {
    match answer {
        StoredAnswer::Json(text) => json!({"json": text}),
        StoredAnswer::Http { status, headers, body } => {
            let headers: Vec<_> =
                headers.iter().map(|(name, value)| json!([name, text_or_base64(value)])).collect();
            let body = match std::str::from_utf8(body) {
                Ok("") => Value::Null,
                Ok(text) => json!({"text": text}),
                Err(_) => json!({"base64": STANDARD.encode(body)}),
            };
            json!({"status": status, "headers": headers, "body": body})
        }
        StoredAnswer::Unavailable(reason) => json!({"unavailable": reason}),
        StoredAnswer::InParts { parts, bytes } => json!({"parts": parts, "bytes": bytes}),
        StoredAnswer::Encoded { bytes } => json!({"encoded": true, "bytes": bytes}),
    }
}

fn text_or_base64(bytes: &[u8]) -> Value {
    match std::str::from_utf8(bytes) {
        Ok(text) => json!(text),
        Err(_) => json!({"base64": STANDARD.encode(bytes)}),
    }
}

fn fingerprint(record: &StoredRecord) -> String {
    record.fingerprint.iter().fold(String::with_capacity(66), |mut hex, byte| {
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}

/// The name of a danger in JSON.
fn danger(danger: Danger) -> &'static str {
    match danger {
        Danger::LiveLease => "live_lease",
        Danger::Completed => "completed",
        Danger::Steps => "steps",
        Danger::Blocked => "blocked",
    }
}

/// What a release would cause, as text.
pub(crate) fn warnings(record: &StoredRecord) -> Vec<String> {
    record.dangers().into_iter().map(|danger| warning(record, danger)).collect()
}

fn warning(record: &StoredRecord, danger: Danger) -> String {
    let sent = sent_steps(record);
    let text = match danger {
        Danger::LiveLease => "its owner's lease is live: the operation may run twice at once",
        Danger::Completed => "the operation is done: the next request does it again",
        Danger::Steps if !sent.is_empty() => {
            let again = again(record).unwrap_or_default();
            return format!(
                "the request of {sent} may have been sent: {LOOK}. Without a release the next request asks its \
                 look-up; after a release {again}"
            );
        }
        Danger::Steps => "steps of it are done: the next request does them again",
        Danger::Blocked => {
            "the key is blocked because its effect has happened: the next request does it again"
        }
    };
    text.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scopes_that_begin_alike_come_first() {
        let scopes = ["charge", "payments", "payouts", "refunds", "a", "b", "c"].map(str::to_owned);
        let nearest = nearest("paymnets", scopes.into());
        assert_eq!(nearest[..2], ["`payments`", "`payouts`"]);
        assert_eq!(nearest.len(), SUGGESTIONS);
    }
}
