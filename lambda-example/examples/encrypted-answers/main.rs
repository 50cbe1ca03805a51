//! Encrypts the answers in the table. Prints what a call stores and what its repeat gets.
//!
//! ```text
//! cargo run -p lambda-example --example encrypted-answers
//! ```

mod codec;

use codec::AesGcm;
use dynamodb_idempotency::policy::KeyForm;
use dynamodb_idempotency::testing::Sandbox;
use lambda_http::Error;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let sandbox = Sandbox::start().await?;
    // In a function: a data key that AWS KMS has decrypted, fetched once, when the function starts.
    let mut key = [0; 32];
    getrandom::fill(&mut key)?;
    let codec = AesGcm::new(1, [(1, key)])?;
    let idempotency = sandbox.builder().answer_codec(codec).reject_plain_answers().build()?;

    for call in ["first", "second"] {
        let operation = idempotency.operation("charge").key("order-42").payload(&1200);
        let outcome = operation
            .run_with_outcome(async |_| Ok::<_, std::io::Error>(format!("the {call} call's IBAN")))
            .await?;
        println!("the {call} call: {outcome:?}");
    }

    // A program without the codec, such as the command line, sees only that an answer exists.
    let admin = sandbox.idempotency();
    let record = admin.admin().record(&"charge".into(), "order-42", KeyForm::Verbatim).await?;
    println!("in the table: {:?}", record.map(|record| record.state));
    Ok(())
}
