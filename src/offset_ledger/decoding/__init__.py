"""Decoding: the bytes of a record become a row or a refusal, to the last digit; a decoder for each source format.

A format is a :class:`~offset_ledger.decoding.decoder.Decoder`, found by ``source.format`` in
:mod:`~offset_ledger.decoding.formats`. Its ``decode`` is pure and defines what is right. Its ``prove`` may read a
whole Arrow column at once, as long as it takes no record that ``decode`` would refuse or read otherwise: what it cannot
prove goes to ``decode``. What formats share stands in this folder, what is one format's own in a folder of its name.
"""
