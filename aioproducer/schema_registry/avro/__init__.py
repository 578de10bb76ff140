"""Values in Avro, by fastavro.

::

    serializer.py, deserializer.py  the format's part of both
    schema.py                       parsed schemas
    guard.py, scan.py               values and data that fastavro takes although they do harm
    diagnosis.py                    the field that does not fit, and the reason
"""
