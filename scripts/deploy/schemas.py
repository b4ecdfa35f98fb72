"""Holds objects against the schemas of Kubernetes, strictly: an unknown field is an error."""

import ast
import json
import re

import jsonschema
from trial import TOOLS, check

FETCHED = TOOLS / "deploy"
# The oldest version that is promised, and the newest that is known.
VERSIONS = ["1.29", "1.37"]


def validate(objects):
    """Checks all objects; returns a few words about it."""
    monitors = [item for item in objects if item["kind"] == "ServiceMonitor"]
    for version in VERSIONS:
        folder = FETCHED / f"kubernetes_validate/kubernetes-json-schema/v{version}.0-local-strict"
        for item in objects:
            if item not in monitors:
                validate_one(item, folder, version)
    for item in monitors:
        check_fields(item)
    return f"{len(objects)} objects fit the schemas of {' and '.join(VERSIONS)} and of Prometheus's operator"


def validate_one(item, folder, version):
    name = f"{item['kind']} {item['metadata']['name']}"
    group = re.sub(r"^([^./]*)(?:\.[^/]*)?/", r"\1-", item["apiVersion"])
    file = folder / f"{item['kind'].lower()}-{group}.json"
    check(file.exists(), f"{name}: Kubernetes {version} has no {item['apiVersion']}")
    schema = json.loads(file.read_text())
    definitions = json.loads((folder / "_definitions.json").read_text())
    resolver = jsonschema.RefResolver.from_schema(schema, store={definitions["$id"]: definitions})
    validator = jsonschema.Draft202012Validator(schema, resolver=resolver)
    for error in validator.iter_errors(item):
        place = ".".join(map(str, error.absolute_path))
        check(False, f"{name}, Kubernetes {version}: {place}: {error.message}")


def check_fields(monitor):
    """The operator's types are there as source of Python alone: it names every field and its type."""
    file = FETCHED / "cloudcoil/models/prometheus_operator/v1.py"
    classes = {node.name: node for node in ast.parse(file.read_text()).body if isinstance(node, ast.ClassDef)}
    check_object("ServiceMonitor", monitor, classes, known={"apiVersion", "kind", "metadata"})


def check_object(name, value, classes, known=frozenset()):
    fields = {}
    for node in classes[name].body:
        if isinstance(node, ast.AnnAssign):
            text = ast.unparse(node.annotation)
            alias = re.search(r"alias='(\w+)'", text)
            fields[alias[1] if alias else node.target.id] = (text, "Optional" in text or node.value is not None)
    for field in value.keys() - known:
        check(field in fields, f"{name} has no field {field}")
        types = [word for word in re.findall(r"\w+", fields[field][0]) if word in classes]
        values = value[field] if isinstance(value[field], list) else [value[field]]
        for each in values:
            if types and isinstance(each, dict):
                check_object(types[0], each, classes)
    for field, (_, is_optional) in fields.items():
        check(is_optional or field in value or field in known, f"{name} needs the field {field}")
