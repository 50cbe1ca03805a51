//! Events as the services send them, and the answers that they take back.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response};
use serde_json::{Map, Value, json};

/// A service that brings HTTP requests to Lambda.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A REST API: every header twice, with its last value and with all.
    Rest,
    /// An HTTP API with payloads of version 2.0: repeated headers joined by a comma.
    HttpApi,
    /// A function URL: as an HTTP API.
    FunctionUrl,
    /// An Application Load Balancer: the last value of each header.
    Alb,
    /// An Application Load Balancer with multi-value headers: all values, and no single ones.
    AlbMultiValue,
    /// VPC Lattice, version 2.0.
    Lattice,
}

impl Kind {
    pub(crate) const ALL: [Self; 6] = [
        Self::Rest,
        Self::HttpApi,
        Self::FunctionUrl,
        Self::Alb,
        Self::AlbMultiValue,
        Self::Lattice,
    ];

    /// `POST /payments` with the key `order-7`.
    pub(crate) fn example(self) -> Value {
        let text = match self {
            Self::Rest => include_str!("events/rest.json"),
            Self::HttpApi => include_str!("events/http_api.json"),
            Self::FunctionUrl => include_str!("events/function_url.json"),
            Self::Alb => include_str!("events/alb.json"),
            Self::AlbMultiValue => include_str!("events/alb_multi_value.json"),
            Self::Lattice => include_str!("events/lattice.json"),
        };
        serde_json::from_str(text).expect("the fixture is JSON")
    }

    /// The event that this service makes of a request.
    pub(crate) fn event(self, request: &Request<Bytes>) -> Value {
        let mut event = self.example();
        self.set_target(&mut event, request);
        self.set_headers(&mut event, request.headers());
        match std::str::from_utf8(request.body()) {
            Ok("") => event["body"] = Value::Null,
            Ok(text) => event["body"] = text.into(),
            Err(_) => {
                event["body"] = BASE64_STANDARD.encode(request.body()).into();
                event["isBase64Encoded"] = true.into();
            }
        }
        event
    }

    fn set_target(self, event: &mut Value, request: &Request<Bytes>) {
        let method = Value::from(request.method().as_str());
        let query = request.uri().query().unwrap_or_default();
        self.set_path(event, request.uri().path());
        match self {
            Self::Rest => {
                event["requestContext"]["httpMethod"] = method.clone();
                event["httpMethod"] = method;
                event["queryStringParameters"] = last_of_each(parameters(query));
                event["multiValueQueryStringParameters"] = all_of_each(parameters(query));
            }
            Self::HttpApi | Self::FunctionUrl => {
                event["requestContext"]["http"]["method"] = method;
                event["rawQueryString"] = query.into();
            }
            Self::Alb => {
                event["httpMethod"] = method;
                event["queryStringParameters"] = last_of_each(parameters(query));
            }
            Self::AlbMultiValue => {
                event["httpMethod"] = method;
                event["multiValueQueryStringParameters"] = all_of_each(parameters(query));
            }
            Self::Lattice => {
                event["method"] = method;
                event["queryStringParameters"] = all_of_each(parameters(query));
            }
        }
    }

    /// Sets the path of the event, in the form of this kind of event.
    pub(crate) fn set_path(self, event: &mut Value, path: &str) {
        match self {
            Self::HttpApi | Self::FunctionUrl => {
                event["requestContext"]["http"]["path"] = path.into();
                event["rawPath"] = path.into();
            }
            Self::Rest | Self::Alb | Self::AlbMultiValue | Self::Lattice => {
                event["path"] = path.into();
            }
        }
    }

    /// The request's headers, behind those that the service itself adds.
    fn set_headers(self, event: &mut Value, headers: &HeaderMap) {
        let client = ["accept", "content-type", "idempotency-key"];
        let mut pairs = pairs(event);
        pairs.retain(|(name, _)| !client.contains(&name.to_ascii_lowercase().as_str()));
        pairs.extend(headers.iter().map(|(name, value)| {
            let value = std::str::from_utf8(value.as_bytes()).expect("events are text");
            (name.to_string(), value.to_owned())
        }));
        match self {
            Self::Rest => {
                event["headers"] = last_of_each(pairs.clone());
                event["multiValueHeaders"] = all_of_each(pairs);
            }
            Self::HttpApi | Self::FunctionUrl => event["headers"] = joined(pairs),
            Self::Alb => event["headers"] = last_of_each(pairs),
            Self::AlbMultiValue => event["multiValueHeaders"] = all_of_each(pairs),
            Self::Lattice => event["headers"] = all_of_each(pairs),
        }
    }
}

type Pairs = Vec<(String, String)>;

fn parameters(query: &str) -> Pairs {
    let parameters = query.split('&').filter(|parameter| !parameter.is_empty());
    let pairs = parameters.map(|parameter| parameter.split_once('=').unwrap_or((parameter, "")));
    pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

fn last_of_each(pairs: Pairs) -> Value {
    pairs.into_iter().map(|(name, value)| (name, value.into())).collect::<Map<_, _>>().into()
}

fn all_of_each(pairs: Pairs) -> Value {
    let mut map = Map::new();
    for (name, value) in pairs {
        let values = map.entry(name).or_insert_with(|| json!([]));
        values.as_array_mut().expect("it was made above").push(value.into());
    }
    map.into()
}

fn joined(pairs: Pairs) -> Value {
    let mut map: Map<String, Value> = Map::new();
    for (name, value) in pairs {
        let joined = match map.get(&name).and_then(Value::as_str) {
            Some(before) => format!("{before},{value}"),
            None => value,
        };
        map.insert(name, joined.into());
    }
    map.into()
}

/// The headers of an event or an answer, whichever of the two maps they are in.
fn pairs(message: &Value) -> Pairs {
    let map = |name: &str| message[name].as_object().filter(|map| !map.is_empty());
    let Some(map) = map("multiValueHeaders").or_else(|| map("headers")) else {
        return Pairs::new();
    };
    let text = |value: &Value| value.as_str().expect("a header is text").to_owned();
    let values = |value: &Value| match value {
        Value::Array(values) => values.iter().map(text).collect(),
        single => vec![text(single)],
    };
    let pairs = map.iter().flat_map(|(name, value)| {
        values(value).into_iter().map(|value| (name.clone(), value)).collect::<Pairs>()
    });
    pairs.collect()
}

/// What the client gets of a function's answer.
pub(crate) fn response(answer: &Value) -> Response<Bytes> {
    let body = answer["body"].as_str().unwrap_or_default();
    let body = if answer["isBase64Encoded"] == true {
        BASE64_STANDARD.decode(body).expect("the body is base64").into()
    } else {
        Bytes::from(body.to_owned())
    };
    let mut response = Response::new(body);
    let status = answer["statusCode"].as_u64().and_then(|status| u16::try_from(status).ok());
    *response.status_mut() = status.expect("a status code").try_into().expect("one that HTTP has");
    let cookies = answer["cookies"].as_array().into_iter().flatten();
    let cookies = cookies.filter_map(Value::as_str).map(|cookie| ("set-cookie", cookie));
    let pairs = pairs(answer);
    let headers = pairs.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    for (name, value) in headers.chain(cookies) {
        let name = HeaderName::try_from(name).expect("a header's name");
        response.headers_mut().append(name, HeaderValue::from_str(value).expect("a value"));
    }
    response
}
