"""What a watch tells Prometheus: over HTTP, as it is at that moment."""

from __future__ import annotations

from urllib.request import urlopen

from augury.spark.metrics import MetricsServer
from augury.spark.watch import Progress


def scraped(server: MetricsServer) -> dict[str, float]:
    with urlopen(f"http://127.0.0.1:{server.port}/metrics", timeout=10) as answer:
        lines = answer.read().decode().splitlines()
    return {name: float(value) for name, value in (line.split() for line in lines if not line.startswith("#"))}


def test_what_is_scraped_is_what_the_watch_knows_now() -> None:
    now = [Progress(3, 1_770_000_000_000_000, 40, {"read": 40, "rejected": 2, "live": 7}, 1.5, 0.25, 1024)]
    server = MetricsServer(lambda: now[0], 0)
    try:
        found = scraped(server)
        assert found["augury_commit"] == 3
        assert found["augury_lag_seconds"] == 1.5
        assert found["augury_last_tick_timestamp_seconds"] == 1_770_000_000
        assert found["augury_commit_seconds"] == 0.25
        assert found["augury_state_bytes"] == 1024
        assert (found["augury_read_total"], found["augury_rejected_total"]) == (40, 2)
        assert found["augury_live_events"] == 7
        now[0] = Progress(4, None, 41, {"read": 41}, None, 0.5, 2048)
        later = scraped(server)
        assert later["augury_read_total"] == 41
        assert "augury_lag_seconds" not in later, "a replay has no clock to lag behind"
    finally:
        server.close()
