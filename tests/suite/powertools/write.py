"""Writes records with Powertools for AWS Lambda (Python): `write.py ENDPOINT` prints them as DynamoDB JSON.

The migration guide reads such records. `records.json` has the output of this program and of `write.mjs`, with the versions
of `benches/peers/`.
"""

import json
import sys

import boto3
from aws_lambda_powertools.utilities.idempotency import (
    DynamoDBPersistenceLayer,
    IdempotencyConfig,
    idempotent_function,
)

TABLE = "powertools-python"
ANSWERS = {
    "text": "paid",
    "json-in-text": '{"paid": true}',
    "object": {"receipt": "re_1", "amount": 1250, "rate": 0.1, "lines": [1, "two", None]},
    "number": 42,
    "list": ["a", "b"],
    "false": False,
    "nothing": None,
}


class Context:
    """A Lambda context with half a minute left."""

    def get_remaining_time_in_millis(self):
        return 30_000


client = boto3.client(
    "dynamodb",
    endpoint_url=sys.argv[1],
    region_name="us-east-1",
    aws_access_key_id="local",
    aws_secret_access_key="local",
)
client.create_table(
    TableName=TABLE,
    KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
    AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "S"}],
    BillingMode="PAY_PER_REQUEST",
)
layer = DynamoDBPersistenceLayer(table_name=TABLE, boto3_client=client)
config = IdempotencyConfig(event_key_jmespath="order", lambda_context=Context())


@idempotent_function(data_keyword_argument="event", persistence_store=layer, config=config, key_prefix="pay")
def pay(event):
    return ANSWERS[event["order"]]


for order in ANSWERS:
    pay(event={"order": order})
layer.configure(config, key_prefix="pay", function_name="pay")
layer.save_inprogress(data={"order": "running"}, remaining_time_in_millis=30_000)

items = client.scan(TableName=TABLE)["Items"]
print(json.dumps(sorted(items, key=lambda item: item["id"]["S"]), indent=1))
