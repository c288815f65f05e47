from ledgerlib.ids import entry_id, format_id, shard_of


def test_format_id():
    assert format_id(0xC0FFEE00) == "c0ffee00"


def test_format_id_has_eight_digits():
    assert format_id(10) == "0000000a"


def test_ids_differ():
    assert len({entry_id() for _ in range(20)}) == 20


def test_shards_are_in_range():
    assert {shard_of(entry_id(), 4) for _ in range(50)} <= {0, 1, 2, 3}
