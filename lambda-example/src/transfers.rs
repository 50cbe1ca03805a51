//! Transfers between accounts: debit and credit in one transaction, under a balance condition.

use aws_sdk_dynamodb::types::{AttributeValue, TransactWriteItem, Update};
use dynamodb_idempotency::Transaction;
use lambda_http::http::StatusCode;
use lambda_http::{Body, Error, Request, Response};
use serde_json::{Value, json};

use crate::api::{reply, tenant};
use crate::payments::Payments;

/// The balance of a new account.
const OPENING_BALANCE: u64 = 10_000;

/// A valid request.
#[derive(Debug, PartialEq, Eq)]
struct Transfer {
    from: String,
    to: String,
    amount: u64,
}

impl Transfer {
    fn parse(body: &Body) -> Result<Self, &'static str> {
        let fields: Value = serde_json::from_slice(body).map_err(|_| "body_is_not_json")?;
        let account = |name: &str| {
            let account = fields.get(name).and_then(Value::as_str).unwrap_or_default();
            let is_right = (1..=50).contains(&account.len())
                && account.bytes().all(|b| b.is_ascii_lowercase());
            is_right.then(|| account.to_owned())
        };
        let from = account("from").ok_or("from_must_be_lower_case_letters")?;
        let to = account("to").ok_or("to_must_be_lower_case_letters")?;
        if from == to {
            return Err("from_and_to_must_differ");
        }
        let amount = fields.get("amount").and_then(Value::as_u64);
        // Far below the 38 digits of a number of DynamoDB's, and of what a balance can become.
        let amount = amount.filter(|amount| (1..=1_000_000_000).contains(amount));
        Ok(Self { from, to, amount: amount.ok_or("amount_must_be_a_positive_integer")? })
    }
}

/// Builds the answer and the writes of a transfer. It also runs in a repeat, so it has no effect.
#[expect(clippy::unused_async, reason = "a service's handler is one")]
pub(crate) async fn transfer(
    payments: Payments,
    request: Request,
) -> Result<Transaction<Response<Body>>, Error> {
    let (parts, body) = request.into_parts();
    let transfer = match Transfer::parse(&body) {
        Ok(transfer) => transfer,
        Err(code) => {
            let refusal = json!({"error": {"code": code}});
            let response = reply(StatusCode::UNPROCESSABLE_ENTITY, &refusal)?;
            return Ok(Transaction::discard(response));
        }
    };
    let Transfer { from, to, amount } = &transfer;
    let owner = tenant(&parts);
    let done = json!({"from": from, "to": to, "amount": amount, "status": "succeeded"});
    let poor = json!({"error": {"code": "insufficient_funds"}});
    let poor = reply(StatusCode::PAYMENT_REQUIRED, &poor)?;
    Ok(Transaction::new(reply(StatusCode::CREATED, &done)?)
        .items([payments.debit(&owner, from, *amount)?, payments.credit(&owner, to, *amount)?])
        .on_condition_failed(move |_| Some(poor)))
}

/// What an account holds.
pub(crate) async fn show(
    payments: &Payments,
    tenant: &str,
    account: &str,
) -> Result<Response<Body>, Error> {
    let balance = payments.balance(tenant, account).await?;
    reply(StatusCode::OK, &json!({"account": account, "balance": balance}))
}

impl Payments {
    fn debit(&self, tenant: &str, account: &str, amount: u64) -> Result<TransactWriteItem, Error> {
        let covered = if amount <= OPENING_BALANCE {
            "attribute_not_exists(id) OR balance >= :amount"
        } else {
            "balance >= :amount"
        };
        self.change(tenant, account, "-", amount, Some(covered))
    }

    fn credit(&self, tenant: &str, account: &str, amount: u64) -> Result<TransactWriteItem, Error> {
        self.change(tenant, account, "+", amount, None)
    }

    fn change(
        &self,
        tenant: &str,
        account: &str,
        sign: &str,
        amount: u64,
        condition: Option<&str>,
    ) -> Result<TransactWriteItem, Error> {
        let number = |number: u64| AttributeValue::N(number.to_string());
        let [tenant, account] = account_key(tenant, account);
        let change = Update::builder()
            .table_name(&self.table)
            .key("tenant", tenant)
            .key("id", account)
            .update_expression(format!(
                "SET balance = if_not_exists(balance, :opening) {sign} :amount"
            ))
            .set_condition_expression(condition.map(str::to_owned))
            .expression_attribute_values(":opening", number(OPENING_BALANCE))
            .expression_attribute_values(":amount", number(amount))
            .build()?;
        Ok(TransactWriteItem::builder().update(change).build())
    }

    async fn balance(&self, tenant: &str, account: &str) -> Result<u64, Error> {
        let [tenant, account] = account_key(tenant, account);
        let get = self.client.get_item().table_name(&self.table).consistent_read(true);
        let found = get.key("tenant", tenant).key("id", account).send().await?.item;
        match found.as_ref().and_then(|item| item.get("balance")) {
            Some(AttributeValue::N(balance)) => Ok(balance.parse()?),
            _ => Ok(OPENING_BALANCE),
        }
    }
}

/// A partition separate from the tenant's payments, so that a list of payments has no accounts.
fn account_key(tenant: &str, account: &str) -> [AttributeValue; 2] {
    [format!("{tenant}/accounts"), account.to_owned()].map(AttributeValue::S)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bad_input_is_refused_with_its_reason() {
        for (body, code) in [
            ("", "body_is_not_json"),
            ("{}", "from_must_be_lower_case_letters"),
            (r#"{"from":"a#b"}"#, "from_must_be_lower_case_letters"),
            (r#"{"from":"a"}"#, "to_must_be_lower_case_letters"),
            (r#"{"from":"a","to":"a","amount":1}"#, "from_and_to_must_differ"),
            (r#"{"from":"a","to":"b"}"#, "amount_must_be_a_positive_integer"),
            (r#"{"from":"a","to":"b","amount":0}"#, "amount_must_be_a_positive_integer"),
            (r#"{"from":"a","to":"b","amount":1.5}"#, "amount_must_be_a_positive_integer"),
        ] {
            assert_eq!(Transfer::parse(&Body::from(body)).unwrap_err(), code, "{body}");
        }
    }
}
