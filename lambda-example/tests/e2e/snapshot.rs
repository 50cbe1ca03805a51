//! `SnapStart`: a function that is initialized once and started from its snapshot.

use std::time::Duration;

use crate::deployment::Deployment;
use crate::dynamodb::unique;
use crate::event::{Kind, Order};
use crate::runtime_api::Environment;

const KIND: Kind = Kind::HttpApi;
const TIMEOUT: Duration = Duration::from_secs(29);

#[tokio::test]
#[ignore = "needs a deployment: cargo xtask e2e"]
async fn a_function_that_was_restored_pays_once() {
    let deployment = Deployment::load();
    let environment = Environment::snapshot(&deployment, &deployment.payments()).await;
    environment.restore().await;
    let key = unique("order");
    let order = Order { amount: 1200, source: "tok_visa", note: key.clone() };
    let event = KIND.payment(Some(&key), &order);
    for replayed in [false, true] {
        let answer = KIND.response(&environment.invoke(event.clone(), TIMEOUT).await);
        assert_eq!((answer.status, answer.is_replayed()), (201, replayed), "{answer:?}");
    }
    assert_eq!(deployment.payments_noted(&key).await.len(), 1);
}
