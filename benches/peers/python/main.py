"""Powertools for Python at the work of `benches/src/bin/end-to-end.rs`: same arguments, same line.

`main.py SIDE ENDPOINT cold|starts|first|replay|in-progress|cached CALLERS WARM_UP CALLS`
"""

import json
import logging
import os
import sys
import time
import warnings
from concurrent.futures import ThreadPoolExecutor

import boto3
from aws_lambda_powertools.utilities.idempotency import (
    DynamoDBPersistenceLayer,
    IdempotencyConfig,
    idempotent_function,
)
from aws_lambda_powertools.utilities.idempotency.exceptions import (
    IdempotencyAlreadyInProgressError,
)
from botocore.config import Config

TABLE = "powertools"
KEYS = 16
LATER = 9
HOUR_MS = 3_600_000
ANSWER = "an answer of some forty bytes, no more, ok"


class Context:
    """A Lambda context with half a minute left."""

    def get_remaining_time_in_millis(self):
        return 30_000


side, endpoint, case = sys.argv[1:4]
callers, warm_up, calls = (int(number) for number in sys.argv[4:7])
run = f"{side}-{os.getpid()}"
client = boto3.client(
    "dynamodb",
    endpoint_url=endpoint,
    region_name="us-east-1",
    aws_access_key_id="local",
    aws_secret_access_key="local",
    config=Config(max_pool_connections=max(10, callers)),
)
layer = DynamoDBPersistenceLayer(table_name=TABLE, boto3_client=client)
config = IdempotencyConfig(
    event_key_jmespath="id", lambda_context=Context(), use_local_cache=case == "cached"
)


@idempotent_function(data_keyword_argument="order", persistence_store=layer, config=config)
def pay(order):
    order["ran"] = True
    return ANSWER


def key(n):
    return f"{run}-{n}" if case in ("cold", "starts", "first") else f"{run}-{n % KEYS}"


def call(n, expected=case):
    order = {"id": key(n)}
    start = time.perf_counter_ns()
    try:
        came_to = "first" if pay(order=order) == ANSWER and "ran" in order else "replay"
    except IdempotencyAlreadyInProgressError:
        came_to = "in-progress"
    took = time.perf_counter_ns() - start
    expected = {"cold": "first", "cached": "replay"}.get(expected, expected)
    if came_to != expected:
        sys.exit(f"{came_to} and not {expected}")
    return took


def prepare():
    try:
        client.create_table(
            TableName=TABLE,
            KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
            AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "S"}],
            BillingMode="PAY_PER_REQUEST",
        )
    except client.exceptions.ResourceInUseException:
        pass
    for n in range(KEYS):
        if case in ("replay", "cached"):
            pay(order={"id": key(n)})
        elif case == "in-progress":
            layer.configure(config, function_name=f"{pay.__module__}.{pay.__qualname__}")
            layer.save_inprogress(data={"id": key(n)}, remaining_time_in_millis=HOUR_MS)


def work(first, calls):
    """Each caller makes its calls one after the other."""

    def caller(number):
        return [call(first + number * calls + n) for n in range(calls)]

    if callers == 1:
        return caller(0)
    with ThreadPoolExecutor(callers) as pool:
        return [took for all_of_one in pool.map(caller, range(callers)) for took in all_of_one]


def starts():
    """When the process is ready, by the system's clock, and its first requests."""
    ready = time.time_ns()
    first = call(0, "first")
    later, replays = [], []
    for n in range(1, LATER + 1):
        later.append(call(n, "first"))
        replays.append(call(n, "replay"))
    print(
        json.dumps(
            {
                "ready_at_us": ready // 1000,
                "first_us": first / 1000,
                "later_us": sorted(later)[LATER // 2] / 1000,
                "replay_us": sorted(replays)[LATER // 2] / 1000,
            }
        )
    )


def rss_kb():
    with open("/proc/self/status", encoding="ascii") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmRSS:"))


def main():
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    if case == "cold":
        call(0)
        return
    if case == "starts":
        starts()
        return
    prepare()
    work(0, warm_up)
    cpu, start = time.process_time_ns(), time.perf_counter_ns()
    latencies = sorted(work(callers * warm_up, calls))
    cpu, took = time.process_time_ns() - cpu, time.perf_counter_ns() - start
    made = len(latencies)
    print(
        json.dumps(
            {
                "p50_us": latencies[(made - 1) // 2] / 1000,
                "p99_us": latencies[(made - 1) * 99 // 100] / 1000,
                "per_second": made / took * 1e9,
                "cpu_us": cpu / made / 1000,
                "rss_kb": rss_kb(),
            }
        )
    )


main()
