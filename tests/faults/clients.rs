//! SDK clients are expensive to create and hold no state of a simulation, so each thread reuses its own.

use std::cell::RefCell;
use std::collections::BTreeMap;

use aws_sdk_dynamodb::Client;

use crate::network;

thread_local! {
    static CLIENTS: RefCell<BTreeMap<(Option<usize>, u32), Client>> = const { RefCell::new(BTreeMap::new()) };
}

/// The client of one caller, or of a shared process (`None`), which sends each request up to `tries` times.
pub(crate) fn of(caller: Option<usize>, tries: u32) -> Client {
    CLIENTS.with_borrow_mut(|clients| {
        clients.entry((caller, tries)).or_insert_with(|| network::client(caller, tries)).clone()
    })
}
