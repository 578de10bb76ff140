"""Batches per partition that wait to be sent, in bounded memory."""
