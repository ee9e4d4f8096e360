"""Engineering limits of a supervisor, which no configuration has a reason to change; each says what it protects."""

from __future__ import annotations

SNAPSHOT_ENTRIES = 400
"""Entries after which an idle session's state is recorded anew: what a loading reads at most, some milliseconds."""
MISTAKES_MAX = 3
"""Rounds in a row in which a model gets every call wrong: what three results have not helped, more will not."""
QUEUE_STANDING_S = 10.0
"""A queue that was not empty for so long is no burst, but more than the cluster can do; so is one that soon follows."""
QUEUE_STANDING_WAIT_MAX_S = 3.0
"""Behind such a queue a new run waits no longer: five seconds after the load is normal again, so are the answers."""
UNWRITTEN_MAX = 32
"""Entries on their way to the ledger with which no run begins: it has enough to do for the time of some looks."""
BEGINNING_MAX = 8
"""Runs between beginning and first order, with which no other begins: else an idle loop begins all while others lag."""
BEGUN_FOR_ENDED = 1 / 2
"""Meanwhile one begins for two that end: of another person, too, and what is at work shrinks."""
LOOK_S = 0.01
"""Between two looks whether it is so still."""
STEPS_BEFORE_NEW = 8
"""Where steps wait all the time, one run begins for so many: fewer than it ends with, so what is at work shrinks."""
RATE_WINDOW_S = 5.0
"""Over which is counted how fast new runs begin, and so how long one waits."""
RATE_KNOWN_AFTER_S = 1.0
"""A queue that stands for less says nothing about that."""
RATE_MIN = 0.1
"""Runs a second; where fewer begin, the estimate is some hours at most."""
RETRY_MIN_MS = 1000
"""Who is refused asks again no sooner: being refused costs processor time, too."""
TURN_TOLD_S = 1.0
"""A turn that waits so long to begin says so to whoever watches it."""
LEFT_OUT_MAX = 20
"""Lines of memory that a turn's record names as not shown: what a person reads, in a few hundred bytes."""
CANCEL_POLL_MS = 25
"""How often it asks the record for that meanwhile."""
STANDSTILL_POLL_MS = 2000
"""Who waits for a run that stands still asks again after this, and finds its owner if that changed."""
TAKEOVER_ATTEMPTS_MAX = 5
"""Readings of a journal whose head moves meanwhile."""
ORDER_RETRY_INTERVAL_MS = 100
"""Between two sends of one order, so that `busy` can pass."""
CACHE_MAX = 64
"""Assembled contexts that a supervisor keeps, with their texts; then the oldest goes."""
REQUIRED_FILE_MAX_BYTES = 64 * 1024
"""Of a file that a contract requires, so much is read."""
REQUIRED_QUERIES_MAX = 16
"""Questions of an assembly where no template applies: for what the contract requires."""
REQUIRED_TIMEOUT_MS = 1000
"""Wall time of such an assembly."""
HISTORY_RESULT_CHARS = 2000
"""Of a tool's result in later turns' prompts; a longer one stands there by its beginning, in its own turn whole."""
CANCEL_GRACE_MS = 250
"""Milliseconds that a cancelled run waits for what its open calls became."""
CALLED_TIME_SHARE = 0.8
"""Of what its caller has left, for a called agent: the rest is for what its caller makes of that."""
ORDER_ATTEMPTS_MAX = 4
"""Sends of one order by a run."""
LATE_LOG_TIMEOUT_MS = 60_000
"""What a turn taught is logged once more for so long where HO3 did not acknowledge it before the answer."""
LATE_LOG_INTERVAL_MS = 1000
"""Between two tries: whoever refuses for good is asked some sixty times, not hundreds."""
LATE_LOGS_MAX = 256
"""So many turns at once: memory, while HO3 is away."""
RESULT_MIN_CHARS = 500
"""A tool's result is not cut below this for a model whose window is too small: it would say nothing."""
HISTORY_OF_WINDOW = 1 / 2
"""Of a model's window, at most so much goes to earlier turns."""
CONTEXT_OF_WINDOW = 3 / 4
"""Of it, so much to all that is shown beside instructions and message; the rest is theirs, and the answer's."""
HISTORY_DIGEST_CHARS = 120
"""Of one line for a turn that is no longer shown word for word."""
RECENT_EVENTS_MAX = 8
"""Excerpts that a consolidation is shown, newest first."""
EXCERPT_MAX_CHARS = 400
"""Of one excerpt."""
COMMAND_MAX_BYTES = 4096
"""Of a command without a text: its reason and the ids that it names."""
PAGES_MAX = 16
"""Pages of the record that one ledger_query looks through in a turn."""
APPLIED_COMMANDS_MAX = 256
"""Command ids that a session remembers against repeats: far more than wait at once."""
JOURNAL_PAGE = 500
"""Entries per read of a journal."""
KNOWN_MAX = 64
"""Inputs and commands of a session kept in memory; older ones are in the record."""
CALLER_TOOLS_MAX = 128
"""Tools of the caller that a turn may bring along, as the providers' APIs bound them."""
CALLER_TOOLS_MAX_BYTES = 64 * 1024
"""Their names, descriptions and schemas together: every round of the turn pays for them."""
OWNERS_INTERVAL_MS = 2000
"""Between two looks whether a supervisor is missing."""
OWNERS_ENTRIES = 40
"""Newest entries of a session that then say whether something is open; at most a page of the record."""
HISTORY_DIGEST_SHARE = 1 / 8
"""Of a history's budget, so much is kept for lines of turns that are not shown whole: some thirty as shipped."""
HISTORY_BESIDE_SHARE = 1 / 16
"""Of a history's budget, so much at most stays beside one earlier message: more would crowd out what was said."""
FRAME_CHARS = 200
"""What stands around memory or context in a prompt; shipped 150. Around what takes more, neither stays."""
STATED_IN_MAX_CHARS = 50_000
"""A longer message states nothing: nearly all of it is pasted."""
LABELS_SHARE = 0.25
"""Of the time of who asks next, so much is waited for labels of the message before; then it goes on without them."""
REPLY_RESERVE_MS = 300
"""Kept of a turn's deadline for recording and replying."""
