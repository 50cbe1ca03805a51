//! Events as the services send them, and the answers that they take back.

use serde_json::{Value, json};

/// A service that brings HTTP requests to Lambda.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// A REST API: payload format 1.0, every header twice.
    Rest,
    /// An HTTP API: payload format 2.0.
    HttpApi,
    /// A function URL: as an HTTP API.
    FunctionUrl,
    /// An Application Load Balancer.
    Alb,
    /// An Application Load Balancer with multi-value headers.
    AlbMultiValue,
}

/// A payment to make. The tests find it by its note.
#[derive(Clone, Debug)]
pub struct Order {
    pub amount: u64,
    pub source: &'static str,
    pub note: String,
}

impl Order {
    pub fn body(&self) -> String {
        let Self { amount, source, note } = self;
        json!({"amount": amount, "currency": "eur", "source": source, "note": note}).to_string()
    }
}

impl Kind {
    /// `POST /payments` with the key `order-7`: the fixtures of the crate's own suite.
    fn example(self) -> Value {
        let text = match self {
            Self::Rest => include_str!("../../../tests/suite/http/events/rest.json"),
            Self::HttpApi => include_str!("../../../tests/suite/http/events/http_api.json"),
            Self::FunctionUrl => include_str!("../../../tests/suite/http/events/function_url.json"),
            Self::Alb => include_str!("../../../tests/suite/http/events/alb.json"),
            Self::AlbMultiValue => {
                include_str!("../../../tests/suite/http/events/alb_multi_value.json")
            }
        };
        serde_json::from_str(text).expect("a JSON fixture")
    }

    /// `POST /payments` of an order, with a key or without.
    pub fn payment(self, key: Option<&str>, order: &Order) -> Value {
        let mut event = self.example();
        for headers in ["headers", "multiValueHeaders"] {
            let Some(headers) = event.get_mut(headers).and_then(Value::as_object_mut) else {
                continue;
            };
            let name = headers.keys().find(|name| name.eq_ignore_ascii_case("idempotency-key"));
            let name = name.expect("a fixture with a key").clone();
            match (key, headers.remove(&name)) {
                (Some(key), Some(Value::Array(_))) => headers.insert(name, json!([key])),
                (Some(key), _) => headers.insert(name, json!(key)),
                (None, _) => None,
            };
        }
        event["body"] = order.body().into();
        event
    }

    /// The response that the service makes of an answer: it reads the headers that its payload format
    /// has, and no others.
    pub fn response(self, answer: &Value) -> Response {
        let single = answer["headers"].as_object().into_iter().flatten();
        let multiple = answer["multiValueHeaders"].as_object().into_iter().flatten();
        let multiple = multiple.flat_map(|(name, values)| {
            values.as_array().into_iter().flatten().map(move |value| (name, value))
        });
        let headers: Vec<(&String, &Value)> = match self {
            Self::Rest => single.chain(multiple).collect(),
            Self::HttpApi | Self::FunctionUrl | Self::Alb => single.collect(),
            Self::AlbMultiValue => multiple.collect(),
        };
        let headers = headers.into_iter().map(|(name, value)| {
            (name.to_ascii_lowercase(), value.as_str().expect("a text header").to_owned())
        });
        Response {
            status: answer["statusCode"]
                .as_u64()
                .unwrap_or_else(|| panic!("no response: {answer}")),
            headers: headers.collect(),
            body: answer["body"].as_str().unwrap_or_default().to_owned(),
        }
    }
}

#[derive(Clone, Debug)]
pub struct Response {
    pub status: u64,
    headers: Vec<(String, String)>,
    pub body: String,
}

impl Response {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(other, _)| other == name).map(|(_, value)| value.as_str())
    }

    pub fn is_replayed(&self) -> bool {
        self.header("idempotency-replayed") == Some("true")
    }

    /// Asserts that it is a problem of this status.
    pub fn assert_problem(&self, status: u64) {
        assert_eq!(self.status, status, "{self:?}");
        assert_eq!(self.header("content-type"), Some("application/problem+json"), "{self:?}");
        let problem: Value = serde_json::from_str(&self.body).expect("a JSON problem");
        assert_eq!(problem["status"], status, "{self:?}");
    }

    /// Asserts that it is the replay of another one.
    pub fn assert_replay_of(&self, first: &Self) {
        assert!(self.is_replayed(), "{self:?}");
        assert_eq!((self.status, &self.body), (first.status, &first.body));
        for name in ["content-type", "location"] {
            assert!(first.header(name).is_some(), "{first:?}");
            assert_eq!(self.header(name), first.header(name), "{self:?}");
        }
    }
}
