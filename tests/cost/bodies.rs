//! What answers are made of.

use std::fmt::Write as _;

/// A kind of answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A list of payments, as APIs give them.
    Json,
    Html,
    /// A document in base64, which compresses to three quarters.
    Base64,
    /// What does not compress.
    Random,
}

impl Kind {
    /// Those of the tables in `tests/cost/figures.md`.
    pub(crate) const ALL: [Self; 3] = [Self::Json, Self::Html, Self::Random];

    pub(crate) const fn media_type(self) -> &'static str {
        match self {
            Self::Json => "application/json",
            Self::Html => "text/html",
            Self::Base64 => "text/plain",
            Self::Random => "application/octet-stream",
        }
    }

    /// Exactly so many bytes of it.
    pub(crate) fn bytes(self, length: usize) -> Vec<u8> {
        let mut dice = Dice(0x9e37_79b9_7f4a_7c15);
        let mut text = String::new();
        while text.len() < length {
            match self {
                Self::Json => payment(&mut text, &mut dice),
                Self::Html => row(&mut text, &mut dice),
                Self::Base64 => text
                    .push(char::from(BASE64[usize::try_from(dice.next() >> 58).expect("6 bits")])),
                Self::Random => break,
            }
        }
        let mut bytes = text.into_bytes();
        while bytes.len() < length {
            bytes.extend(dice.next().to_le_bytes());
        }
        bytes.truncate(length);
        bytes
    }
}

/// xorshift: the same on every machine.
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn pick<'a>(&mut self, words: &[&'a str]) -> &'a str {
        words[usize::try_from(self.next() >> 33).expect("31 bits") % words.len()]
    }
}

const BASE64: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const NAMES: [&str; 8] = [
    "Ada Lovelace",
    "Alan Turing",
    "Grace Hopper",
    "Edsger Dijkstra",
    "Barbara Liskov",
    "Donald Knuth",
    "Radia Perlman",
    "Leslie Lamport",
];
const STATES: [&str; 4] = ["succeeded", "pending", "refunded", "disputed"];

fn payment(text: &mut String, dice: &mut Dice) {
    let (id, amount, created) = (dice.next(), dice.next() % 1_000_000, dice.next() % 100_000_000);
    let (name, state) = (dice.pick(&NAMES), dice.pick(&STATES));
    write!(
        text,
        r#"{{"id":"pay_{id:016x}","object":"payment","amount":{amount},"currency":"eur","created":{},"status":"{state}","customer":{{"name":"{name}","email":"{:08x}@example.com"}},"metadata":{{"order":"{}","channel":"web"}}}},"#,
        1_700_000_000 + created, dice.next() >> 32, dice.next() % 10_000_000,
    )
    .expect("a string can be written");
}

fn row(text: &mut String, dice: &mut Dice) {
    let (name, state) = (dice.pick(&NAMES), dice.pick(&STATES));
    writeln!(
        text,
        "<tr class=\"payment payment--{state}\"><td class=\"id\"><a href=\"/payments/{:016x}\">\
         {name}</a></td><td class=\"amount\">{} EUR</td><td>{state}</td></tr>",
        dice.next(),
        dice.next() % 1_000_000,
    )
    .expect("a string can be written");
}
