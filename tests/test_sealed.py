"""Bytes of a state that are damaged anywhere are refused, and never break whoever reads them."""

from __future__ import annotations

import pytest

from augury.kernels.sealed import UnfitState, sealed, unsealed


def test_every_damaged_byte_is_noticed() -> None:
    data = sealed("MATCH", 3, "fingerprint", b"the content")
    assert unsealed("MATCH", 3, "fingerprint", data) == b"the content"
    for place in range(len(data)):
        for changed in (0, 34, 125, data[place] ^ 1):
            damaged = data[:place] + bytes([changed]) + data[place + 1 :]
            if damaged != data:
                with pytest.raises(UnfitState):
                    unsealed("MATCH", 3, "fingerprint", damaged)
        with pytest.raises(UnfitState):
            unsealed("MATCH", 3, "fingerprint", data[:place])
