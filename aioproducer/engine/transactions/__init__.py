"""The producer's identity at the brokers: id, epoch, sequence numbers (KIP-98); transactions.

A commit takes these steps::

    TransactionApi.commit            calls the manager, wakes the sender, and waits (_until)
    TransactionManager.commit        enters the state COMMITTING
    Sender._round                    calls TransactionDriver.step, which calls _step_transaction
    TransactionManager.next_request  EndTxn, once every record has its outcome; FindCoordinator
                                     before it, if its coordinator is not known
    TransactionDriver._send          sends the request; requests.py writes its fields
    TransactionDriver.completed      gives the response to RequestSource.handle_response
    TransactionManager._succeeded    calls _ended, which enters the state after the end
    TransactionApi.changed           wakes the waiting call
"""
