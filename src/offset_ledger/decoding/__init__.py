"""Bytes of a record -> row or refusal, to the last digit.

A format is a :class:`~offset_ledger.decoding.outcome.Decoder`. Its ``decode`` is pure and says what is right.
Its ``prove`` may read a whole Arrow column at once, as long as it takes no record that ``decode`` would refuse or
read otherwise: what it cannot prove goes to ``decode``.
"""
