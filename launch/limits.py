"""Engineering limits: no configuration has a reason to change them."""

LINK_S = 900
"""A link to the console that nobody has followed signs nobody in after this."""
CONSOLE_PAUSE_S = 2.0
"""After a cluster's console has ended, before the next who opens a page begins another."""
FORK_TIMEOUT_MS = 5000
"""Milliseconds: a zygote that is silent for so long, with an order to answer, is replaced."""
FORK_POLL_MS = 2
"""Milliseconds between two looks whether the last zygote's processes have ended."""
SESSIONS_LISTED_MAX = 50
"""Sessions of one list that names no number, and the most over HTTP: each is read from its journal."""
STANDINGS_MAX = 2000
"""Sessions of which a process keeps where they stood, for its next list."""
STARTING_MAX = 16
"""Processes that are starting at once: so many take the machine from nobody."""
DRAIN_SHARE = 0.8
"""Of the time to stop: the rest is for what a process does after its drain."""
START_CRASHES = 3
"""Crashes in a row before its first readiness after which `hobus up` says so."""
LOG_TAIL_LINES = 20
"""Last lines of a log that a failure shows: a traceback and what led to it."""
WATCH_INTERVAL_MS = 1000
"""Milliseconds between two questions to the broker how everybody is."""
IMPORT_MAX_S = 30
"""Seconds that the import of a program's file may take."""
IMPORT_LONG_S = 3
"""Seconds of such an import after which people are told what they wait for."""
READY_POLL_MS = 25
"""The same, as long as something is starting or draining."""
RETURN_MEMORY_S = 30
"""Seconds between two times that a process returns free memory: each takes a few milliseconds."""
ORPHAN_POLL_MS = 20
"""Milliseconds between two questions of a process without a launcher who still needs it."""
JOURNAL_POLL_MS = 300
"""Milliseconds between two looks of a command that waits for a turn."""
TAP_POLL_MS = 200
"""Milliseconds between two looks of `hobus tap` whether the cluster is still there."""
SOURCE_POLL_MS = 500
"""Milliseconds between two looks of `hobus dev` at a program's files."""
COMMAND_POLL_MS = 20
"""Milliseconds between two looks of a command that waits for processes."""
IMAGE_NAME_CHARS = 12
"""Of an image's digest: its name in a message, so that two of one name are the same."""
BUNDLE_MAX_BYTES = 4 * 1024 * 1024
"""One bundle, and all files of one package together: text that people wrote."""
PACKAGE_FILE_MAX_BYTES = 1024 * 1024
"""One file of a package."""
FILES_MAX = 256
"""Files of one package."""
PACKAGES_MAX = 64
"""Packages installed at once: each start looks at all of them."""
TRUSTED_MAX = 64
"""Keys trusted at once."""
SCRIPTED_REQUEST_MAX_BYTES = 64 * 1024 * 1024
"""Of one request to a model that a test scripts: a long conversation with images, in one line."""
SCRIPTED_TURN_S = 60.0
"""Of a turn that a test asks for, where its model needs no time: one that waits for a person fails its test then."""
SIGNALS_MAX = 2000
"""Signals that an account of a turn reads, the newest ones up to it, to say how often each of its own was given."""
OVERLAYS_MAX = 2000
"""Changes of memory that an account of a turn reads, the newest ones until its end, besides those of lines it names."""
JOIN_ANSWER_S = 120.0
"""A worker that has reached its cluster waits so long to be let in: a thousand that join at once take a minute."""
