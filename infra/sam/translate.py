"""Prints what CloudFormation gets of a SAM template, as JSON.

usage: python translate.py TEMPLATE

`sam validate` and cfn-lint check only the source template; this program transforms it, so that the
result can be checked too. It sends nothing and needs no credentials.
"""

import json
import os
import sys

from samcli.yamlhelper import yaml_parse
from samtranslator.public.exceptions import InvalidDocumentException
from samtranslator.translator.transform import transform

LANGUAGE_EXTENSIONS = "AWS::LanguageExtensions"


class NoManagedPolicies:
    """The template names none; the translator's own loader would ask IAM for them."""

    def load(self):
        return {}


def translated(template):
    # The translator wants to know one; nothing in the template depends on it.
    os.environ["AWS_DEFAULT_REGION"] = "us-east-1"
    transforms = template["Transform"]
    # In a deployment, `sam build` and `sam deploy` have put the code there.
    template["Globals"]["Function"]["CodeUri"] = "s3://bucket/code"
    result = transform(template, {}, NoManagedPolicies())
    # The translator drops the list of transforms; the other one is still to come.
    if LANGUAGE_EXTENSIONS in transforms:
        result["Transform"] = LANGUAGE_EXTENSIONS
    return result


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    with open(sys.argv[1], encoding="utf-8") as file:
        template = yaml_parse(file.read())
    try:
        result = translated(template)
    except InvalidDocumentException as error:
        sys.exit(f"{sys.argv[1]}: {error.message}")
    json.dump(result, sys.stdout, indent=2)
    print()


if __name__ == "__main__":
    main()
