"""Ids of entries, for exporters that need one."""

import os


def entry_id():
    """A new, random id of eight hexadecimal digits."""
    return format_id(int.from_bytes(os.urandom(4), "big"))


def format_id(number):
    """The id for a number."""
    return f"{number:08x}"


def shard_of(identifier, shards):
    """Which of several files an entry belongs in."""
    return int(identifier[-1], 16) % shards
