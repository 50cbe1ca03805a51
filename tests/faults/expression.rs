//! The part of DynamoDB's condition and update expressions that the crate uses. Any other expression stops
//! the test, so that the model never guesses.

use serde_json::{Map, Value, json};

use crate::store::Item;

/// The placeholders of one request.
pub(crate) struct Placeholders<'a> {
    names: Option<&'a Map<String, Value>>,
    values: Option<&'a Map<String, Value>>,
}

impl<'a> Placeholders<'a> {
    pub(crate) fn of(body: &'a Value) -> Self {
        let map = |name: &str| body.get(name).and_then(Value::as_object);
        Self { names: map("ExpressionAttributeNames"), values: map("ExpressionAttributeValues") }
    }

    fn name(&self, token: &str) -> &'a str {
        let name = self.names.and_then(|names| names.get(token)).and_then(Value::as_str);
        name.unwrap_or_else(|| panic!("no attribute is named {token}"))
    }

    fn value(&self, token: &str) -> &'a Value {
        let value = self.values.and_then(|values| values.get(token));
        value.unwrap_or_else(|| panic!("no value is named {token}"))
    }
}

/// Whether `condition` holds for `item`.
pub(crate) fn holds(condition: &str, placeholders: &Placeholders<'_>, item: Option<&Item>) -> bool {
    let mut parser = Parser { rest: condition, placeholders, item };
    let holds = parser.any();
    assert!(parser.rest.trim().is_empty(), "the model cannot parse `{}`", parser.rest);
    holds
}

struct Parser<'a> {
    rest: &'a str,
    placeholders: &'a Placeholders<'a>,
    item: Option<&'a Item>,
}

impl<'a> Parser<'a> {
    fn eat(&mut self, token: &str) -> bool {
        let rest = self.rest.trim_start().strip_prefix(token);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    fn expect(&mut self, token: &str) {
        assert!(self.eat(token), "`{token}` is missing before `{}`", self.rest);
    }

    fn word(&mut self) -> &'a str {
        let rest = self.rest.trim_start();
        let end = rest.find([' ', ',', '(', ')']).unwrap_or(rest.len());
        let (word, rest) = rest.split_at(end);
        self.rest = rest;
        word
    }

    fn attribute(&mut self) -> Option<&'a Value> {
        let name = self.placeholders.name(self.word());
        self.item.and_then(|item| item.get(name))
    }

    fn any(&mut self) -> bool {
        let mut holds = self.all();
        while self.eat("OR ") {
            holds |= self.all();
        }
        holds
    }

    fn all(&mut self) -> bool {
        let mut holds = self.term();
        while self.eat("AND ") {
            holds &= self.term();
        }
        holds
    }

    fn term(&mut self) -> bool {
        if self.eat("(") {
            let holds = self.any();
            self.expect(")");
            return holds;
        }
        if self.eat("attribute_not_exists(") {
            let absent = self.attribute().is_none();
            self.expect(")");
            return absent;
        }
        let size;
        let attribute = if self.eat("size(") {
            size = self.attribute().map(members);
            self.expect(")");
            size.as_ref()
        } else {
            self.attribute()
        };
        let operator = self.word();
        let value = self.placeholders.value(self.word());
        match operator {
            "=" => attribute == Some(value),
            "<" => attribute.is_some_and(|attribute| number(attribute) < number(value)),
            "<=" => attribute.is_some_and(|attribute| number(attribute) <= number(value)),
            other => panic!("the model does not implement the operator `{other}`"),
        }
    }
}

/// The size of a map, as an attribute of type N.
fn members(value: &Value) -> Value {
    let map = value.get("M").and_then(Value::as_object).expect("the crate asks for a map's size");
    json!({ "N": map.len().to_string() })
}

/// The whole number in an attribute of type N.
pub(crate) fn number(value: &Value) -> i64 {
    let digits = value.get("N").and_then(Value::as_str);
    digits.and_then(|digits| digits.parse().ok()).unwrap_or_else(|| panic!("{value} is not an N"))
}

/// Applies `SET #a = :a, #b.#c = :c, … REMOVE #d, …` to `item`.
pub(crate) fn update(expression: &str, placeholders: &Placeholders<'_>, item: &mut Item) {
    let (set, remove) = expression.split_once("REMOVE ").unwrap_or((expression, ""));
    let set = set.trim().strip_prefix("SET ").expect("the crate sets something");
    for assignment in set.split(", ") {
        let (name, value) = assignment.split_once(" = ").expect("it is an assignment");
        let value = placeholders.value(value.trim()).clone();
        if let Some((map, member)) = name.trim().split_once('.') {
            let map = item.get_mut(placeholders.name(map)).map(|map| &mut map["M"]);
            let map = map
                .and_then(Value::as_object_mut)
                .expect("the crate only sets members of a map that exists");
            map.insert(placeholders.name(member).to_owned(), value);
        } else {
            item.insert(placeholders.name(name.trim()).to_owned(), value);
        }
    }
    for name in remove.split(", ").filter(|name| !name.is_empty()) {
        item.remove(placeholders.name(name.trim()));
    }
}
