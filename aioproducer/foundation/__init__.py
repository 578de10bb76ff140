"""The small parts that all packages use.

::

    runtime      the owner of every task, the producer's own threads, forks and exits
    codecs       the libraries of the codecs, imported when a codec is used
    backoff      the growing delays before a retry
    version      the version
    compiled     the interpreter; the choice between compiled modules and their Python source
    logs         log lines with a client's id and fields; durations and counts in texts
    tuning       the numbers that only tune, which simulated lives draw anew
    varint       variable-length integers
    secret       texts that are never shown, and texts of peers
"""
