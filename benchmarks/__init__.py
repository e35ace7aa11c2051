"""How fast abeyance is, and how small: ``python -m benchmarks`` measures it on this machine.

Everything is real and on its defaults: the server is `abeyance serve` in processes of its own, durability
is the store's own (fsync on), every event is signed, answers come over HTTP from another process. The one
thing that is turned off is the limit of requests to links (``ABEYANCE_LINK_RATE=0``), and each run says
so. Beside every throughput stands the floor: what plain SQL reaches with the same rows in four commits,
in the same minutes.
"""
