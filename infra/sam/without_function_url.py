"""Prints template.yaml without the function URL, for a region of AWS that has none.

usage: python without_function_url.py > regional.yaml

Such a region rejects the template, whatever the parameter `Endpoint` is: it does not know the resource type. The
result has an HTTP API, and no such parameter.
"""

import pathlib
import re

# Text of template.yaml as a pattern, the text that replaces it, and how often it is there.
CHANGES = [
    (r"  \w+:\n    Type: .+\n    Condition: HasFunctionUrl\n(?:(?:    .*)?\n)*", "", 3),
    (r"    Condition: HasHttpApi\n", "", 8),
    (r"  Has(HttpApi|FunctionUrl): .+\n", "", 2),
    (r"  Endpoint:\n(?:    .+\n)+", "", 1),
    (r"  # ---- \.\.\. or a function URL\n\n", "", 1),
    (r"!If \[HasHttpApi, (!\w+ [\w.]+), !\w+ [\w.]+\]", r"\1", 2),
]


def main():
    template = pathlib.Path(__file__).with_name("template.yaml").read_text(encoding="utf-8")
    for pattern, replacement, times in CHANGES:
        template, found = re.subn(pattern, replacement, template)
        if found != times:
            raise SystemExit(f"template.yaml has {pattern!r} {found} times, not {times}")
    print(template, end="")


if __name__ == "__main__":
    main()
