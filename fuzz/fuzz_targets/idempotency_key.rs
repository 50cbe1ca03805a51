//! Header values as `Idempotency-Key`.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| dynamodb_idempotency::fuzzing::idempotency_key(input));
