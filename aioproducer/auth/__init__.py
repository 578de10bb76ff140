"""Logins: each mechanism's options, their reading and its exchange; tokens, and the TLS context.

::

    passwords.py      PLAIN, SCRAM                jaas.py            keyword or JAAS line
    gssapi.py         Kerberos                    mechanism.py       the protocols of a login
    aws_msk_iam.py    AWS IAM                     providers.py       the application's own providers
    oauthbearer.py    OAUTHBEARER, a token        oauth_login.py     its options
    tokens.py         one token for all           token_endpoint.py  the grants of OAuth
    azure.py, gcp.py, aws_web_identity.py         http_exchange.py   one request for a token
    tls.py            options to a context        keystores.py, tls_errors.py

Nothing here opens a connection to a broker; ``engine/network/`` carries the bytes.
"""
