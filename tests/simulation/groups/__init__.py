"""Lives of groups: members that come and go, brokers that fail, and a ledger of records."""
