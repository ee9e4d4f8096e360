"""Engineering limits of the console, which no configuration has a reason to change."""

from __future__ import annotations

SIGNED_IN_S = 12 * 3600
"""A working day: after it a browser needs another link."""
LOOKS_MAX = 1000
"""Of one browser, each of which is recorded once."""
SIGNED_IN_MAX = 256
"""Browsers at once; the one that came first makes room."""
STREAMS_MAX = 64
"""Streams of changes at once, of all browsers."""
SHARED_S = 1.0
"""One read answers all browsers that ask the same so soon after another."""
SHARED_MAX = 256
"""Reads kept for that."""
TICK_S = 1.0
"""Browsers are told of changes at most so often: each page is a read. The record's index follows sooner."""
SHARE = 0.01
"""Of one processor that pages made anew may take: where they take more, browsers are told less often."""
PAUSE_MAX_S = 30.0
"""But so often in any case."""
HURRY_S = 10.0
"""After what somebody did from a page there are no such pauses."""
TAIL_WAIT_MS = 1000
"""One long poll of the record."""
TAIL_MAX = 64
"""Entries of it that are told apart by session; where more came, every page is made anew."""
PAGE = 50
"""Rows of one page."""
SESSIONS = 20
"""Of one page of their list."""
LOOKED_AT_MAX = 40
"""Sessions that one page of a filtered list looks at."""
ACTIVE_LOOKED_AT_MAX = 2000
"""The same, where only those are wanted whose run is not over."""
WORDS_CHARS = 400
"""Of what is searched for."""
TURNS = 10
"""Turns of a session that its page begins with."""
TURNS_MAX = 200
"""Of them on one page: the twin and the record have all."""
TEXT_CHARS = 20_000
"""Of one text as a page shows it; its JSON twin has all of it."""
SAID_MAX = 8
"""Sentences kept for a browser's next page."""
TALKS_MAX = 256
"""Turns whose pieces are kept for who watches them, the newest ones."""
FRAMES_MAX = 400
"""Frames of the bus that a page keeps."""
DIAGRAM_MAX = 200
"""Frames of one sequence diagram."""
FORM_MAX_BYTES = 1024 * 1024
"""Of one form; a message has its own limit (host.prompt_max_bytes)."""
NICE = 10
"""Where processor time is scarce, turns come before pages."""
FORM_FIELDS_MAX = 32
"""Of one form."""
PING_S = 15.0
"""Silence of a stream after which a comment says that it lives."""
DIGITS_MAX = 18
"""Of a number in an address."""
MOMENTS = 12
"""Of a run, shown beside its call that waits."""
ENTRIES_LOOKED_AT = 2560
"""By one page of a filtered list."""
CALLS = 300
"""Calls of models in one picture, the newest ones."""
SIGNALS = 40
"""Of one memory, on a page, each with the question how far its gate is."""
CURVE_POINTS = 24
"""Of one curve."""
RING = "600s"
"""What a sequence diagram looks back by, unless it is said."""
ROWS_AT_ONCE = 200
"""Frames of one batch that a browser is sent; the rest is counted as lost."""
SUMMED = 4000
"""Entries of calls, two of most, whose sums a page shows, the newest ones; `hobus cost` adds up all."""
