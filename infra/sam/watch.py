"""Prints a template with the alarms of functions of your own, from the section of template.yaml about one function.

usage: python watch.py FUNCTION… > watch.yaml

Their logs are in /aws/lambda/FUNCTION, as JSON. A stack holds 500 resources: for more than 20 functions, deploy
several of these templates.
"""

import pathlib
import re
import sys

MOST = 20
# The function of template.yaml whose section is copied: its name, and what its resources begin with.
NAME, PREFIX = "payment-events", "PaymentEvents"

HEAD = """\
AWSTemplateFormatVersion: "2010-09-09"
Description: Alarms on functions that use dynamodb-idempotency.

Parameters:
"""


def section(template, heading):
    """The text from a heading on, to the next one."""
    found = re.search(rf"(?m)^  # ---- {re.escape(heading)}.*\n(?:(?!  # ----).*\n)*", template)
    if found is None:
        raise SystemExit(f"template.yaml has no section {heading!r}")
    return found.group()


def entry(template, name):
    """A parameter or condition."""
    return re.search(rf"(?m)^  {name}:.*\n(?:    .*\n)*", template).group()


def prefix_of(name):
    return "".join(word.capitalize() for word in re.split(r"[^A-Za-z0-9]+", name))


def of_function(text, name):
    for before, after in [
        (f"!Ref {PREFIX}Function", name),
        (f"!Ref {PREFIX}LogGroup", f"/aws/lambda/{name}"),
        (PREFIX, prefix_of(name)),
        (NAME, name),
    ]:
        text = text.replace(before, after)
    return text


def main():
    names = sys.argv[1:]
    if not names:
        sys.exit(__doc__)
    if len(names) > MOST:
        sys.exit(f"{len(names)} functions: a stack holds the alarms of {MOST}, so make several templates")
    if len({prefix_of(name) for name in names}) < len(names):
        sys.exit("two of the names differ in nothing but case and punctuation: their resources would be the same")
    template = pathlib.Path(__file__).with_name("template.yaml").read_text(encoding="utf-8")
    parameters = ["AlarmTopicArn", "TicketTopicArn"]
    conditions = ["HasAlarmTopic", "HasTicketTopic"]
    watched = section(template, f"What is watched of {NAME}.")
    print(
        HEAD
        + "".join(entry(template, name) for name in parameters)
        + "\nConditions:\n"
        + "".join(entry(template, name) for name in conditions)
        + "\nResources:\n"
        + section(template, "What is watched (docs")
        + "".join(of_function(watched, name) for name in names),
        end="",
    )


if __name__ == "__main__":
    main()
