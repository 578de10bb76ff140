"""Values in JSON, by jsonschema-rs: ``serializer.py``, ``deserializer.py``, and the
validation in ``schema.py``."""
