"""Prints template.yaml with one more parameter: the capacity provider that the functions run on.

usage: python managed_instances.py > managed-instances.yaml

SAM's transform does not allow a condition around `CapacityProviderConfig`: a function either has one
or has none. So there are two templates, and this program makes the second one from the first.
"""

import pathlib

# Text of template.yaml, and the text that replaces it.
CHANGES = {
    "Parameters:\n": """\
Parameters:
  CapacityProviderArn:
    Type: String
    AllowedPattern: "^arn:[^:]+:lambda:[^:]+:[0-9]{12}:capacity-provider:.+$"
    Description: The capacity provider of Lambda Managed Instances that both functions run on.
""",
    "    MemorySize: 512\n": """\
    # No less on Managed Instances.
    MemorySize: 2048
    CapacityProviderConfig:
      Arn: !Ref CapacityProviderArn
""",
}


def main():
    template = pathlib.Path(__file__).with_name("template.yaml").read_text(encoding="utf-8")
    for before, after in CHANGES.items():
        if template.count(before) != 1:
            raise SystemExit(f"template.yaml has no single line {before.strip()!r}")
        template = template.replace(before, after)
    print(template, end="")


if __name__ == "__main__":
    main()
