# SPDX-License-Identifier: MIT
"""Schemas under which models are let to write, small enough to come to an end."""
DRAFT = "http://json-schema.org/draft-07/schema#"
SCHEMAS = [
    {"type": "object", "properties": {
        "name": {"type": "string", "minLength": 1, "maxLength": 20},
        "age": {"type": "integer", "minimum": 0, "maximum": 120},
        "tags": {"type": "array", "items": {"enum": ["kind", "tall", "loud"]}, "maxItems": 3}},
     "required": ["name", "age"], "additionalProperties": False},
    {"type": "array", "minItems": 1, "maxItems": 4, "items": {"oneOf": [
        {"type": "integer", "multipleOf": 5, "minimum": -30, "maximum": 95},
        {"type": "string", "pattern": "^[A-Z][a-z]{1,6}( [a-z]{2,5})?$"}, {"type": "null"}]}},
    {"type": "object", "properties": {"kind": {"enum": ["cat", "dog"]},
                                      "lives": {"type": "integer", "minimum": 1, "maximum": 9},
                                      "note": {"type": "string", "maxLength": 12}},
     "required": ["kind"], "additionalProperties": False,
     "if": {"properties": {"kind": {"const": "cat"}}}, "then": {"required": ["lives"]},
     "else": {"not": {"required": ["lives"]}}},
]
