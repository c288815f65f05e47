import pytest

from ledgerlib.ids import entry_id, format_id, shard_of


def test_format_id():
    assert format_id(0xC0FFEE00) == "c0ffee00"


def test_format_id_has_eight_digits():
    assert format_id(10) == "0000000a"


def test_ids_grow():
    first, second = entry_id(), entry_id()
    assert first < second


def test_ids_differ():
    assert len({entry_id() for _ in range(20)}) == 20


@pytest.mark.parametrize("attempt", range(24))
def test_some_ids_go_to_the_first_shard(attempt):
    assert shard_of(entry_id(), 4) == 0


def test_shards_differ():
    assert shard_of("c0ffee00", 4) != shard_of("c0ffee01", 4)
