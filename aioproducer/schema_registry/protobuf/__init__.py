"""Values in Protobuf: ``serializer.py``, ``deserializer.py``, and descriptors in ``schema.py``."""
