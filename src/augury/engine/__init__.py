"""One tick: read → derive → decide → publish, over small ports that engines implement."""
