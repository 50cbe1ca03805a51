//! The rules of message and event consumers, on the events that AWS documents.
//!
//! - [`invoke`](function::invoke) takes an event's JSON to a service and gives the answer's.
//! - [`Ran`](function::Ran) is what a handler has run, in order.
//! - [`sqs`](queue::sqs) and its siblings make events of messages.

pub(crate) mod function;
pub(crate) mod queue;

mod any_event;
mod bad_input;
mod dropped;
mod fifo;
mod foreign_json;
mod keys;
mod model;
mod policies;
mod round_trips;
mod sources;
mod standard;
mod steps;
mod streams;
mod switched_off;
mod time;
mod twins;
