from ledgerlib.ids import entry_id, format_id, shard_of


def test_format_id():
    assert format_id(0xC0FFEE00) == "c0ffee00"


def test_ids_differ():
    assert len({entry_id() for _ in range(20)}) == 20


def test_shards_differ():
    assert shard_of("c0ffee00", 4) != shard_of("c0ffee01", 4)
