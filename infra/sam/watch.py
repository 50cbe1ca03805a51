"""Prints a template with the alarms and saved queries of functions of your own, from the section of template.yaml about one function.

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
Description: Alarms on functions that use dynamodb-idempotency, and queries of their logs.

Parameters:
"""


def section(template, heading):
    """The text from a heading on, to the next one."""
    found = re.search(rf"(?m)^  # ---- {re.escape(heading)}.*\n(?:(?!  # ----).*\n)*", template)
    if found is None:
        raise SystemExit(f"template.yaml has no section {heading!r}")
    return found.group()


def entry(template, name):
    """A parameter, condition or mapping."""
    return re.search(rf"(?m)^  {name}:.*\n(?:    .*\n)*", template).group()


def prefix_of(name):
    return "".join(word.capitalize() for word in re.split(r"[^A-Za-z0-9]+", name))


def of_function(text, name):
    replacements = {
        f"!Ref {PREFIX}Function": name,
        f"!Ref {PREFIX}LogGroup": f"/aws/lambda/{name}",
        PREFIX: prefix_of(name),
        NAME: name,
    }
    # In one pass: the name itself may contain one of these texts.
    return re.sub("|".join(replacements), lambda found: replacements[found.group()], text)


def main():
    names = sys.argv[1:]
    if not names:
        sys.exit(__doc__)
    if len(names) > MOST:
        sys.exit(f"{len(names)} functions: a stack holds the alarms of {MOST}, so make several templates")
    for name in names:
        # Metrics and queries are named STACK/FUNCTION/…: no part contains the separator.
        if re.fullmatch(r"[A-Za-z0-9_-]{1,64}", name) is None:
            sys.exit(f"{name!r} is not the name of a function")
    template = pathlib.Path(__file__).with_name("template.yaml").read_text(encoding="utf-8")
    parameters = ["AlarmTopicArn", "TicketTopicArn"]
    conditions = ["HasAlarmTopic", "HasTicketTopic"]
    watched = section(template, f"What is watched of {NAME}.")
    parts = [of_function(watched, name) for name in names]
    owners = {}
    for name, part in zip(names, parts):
        for resource in re.findall(r"(?m)^  (\w+):$", part):
            if owners.setdefault(resource, name) != name or names.count(name) > 1:
                sys.exit(f"{owners[resource]} and {name} would both have the resource {resource}: use two templates")
    print(
        HEAD
        + "".join(entry(template, name) for name in parameters)
        + "\nConditions:\n"
        + "".join(entry(template, name) for name in conditions)
        + "\nMappings:\n"
        + entry(template, "Queries")
        + "\nResources:\n"
        + section(template, "What is watched (docs")
        + "".join(parts),
        end="",
    )


if __name__ == "__main__":
    main()
