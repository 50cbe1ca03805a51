//! What messages carry.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| dynamodb_idempotency_fuzz::message(input));
