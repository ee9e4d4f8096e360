"""Engineering limits of the bus, which no configuration has a reason to change; each says what it protects."""

from __future__ import annotations

BODY_MAX_BYTES = 8 * 1024 * 1024
"""A larger body is refused where it is made: one message must not stand in the way of others for long."""
TAP_HWM = 1000
"""Batches queued for a reader of the tap; a slower one misses the next ones."""
DRAIN_MS = 1000
"""Bound of an endpoint's orderly stop."""
JOIN_TTL_MAX_S = 30 * 86_400
"""Longest life of a join token: one that lies about longer is found by somebody else."""
JOIN_USES_MAX = 1000
"""Workers that may join with one token: more than a broker has connections for."""
LEDGER_REQUEST_TIMEOUT_MS = 10_000
"""A read or write that the ledger leaves unanswered so long is sent again: many of its restarts."""
OPEN_MAX = 2048
"""Requests of one principal open at one server: memory, against a program in a loop. Shares are by fair turns."""
LAGGING_MS = 250
"""A worker's loop that is so far behind gets no more: what it had could wait there only for itself."""
LAG_MIN_S = 0.02
"""Less is what a timer is off by: a beat that says nothing new stays the same bytes."""
AT_WORK = "at_work"
"""The counter of a beat that says how many requests a peer has."""
LANE_FRAMES_MAX = 64
"""Frames of a lane that the broker is told at once, for its tap; it is told at the latest"""
LANE_FRAMES_MS = 50
"""after so long: each telling costs both ends as much as a frame."""
LAG = "lag_ms"
"""The counter of a beat that says by how much a peer's loop is behind."""
TOOL_FILES_MAX = 16
"""Files of one call: one entry of the record names them all."""
FILE_NAME_CHARS = 100
"""Of a file's name, and of its media type: they stand in that entry, and in what a model is told."""
TOOLS_KEPT_MAX_BYTES = 64 * 1024
"""Of the tools of a prompt: the gateway keeps them for the prompts that name them; more travel with each prompt."""
TEMPERATURE_MAX = 2
"""Of an answer's draw, as the providers' APIs bound it."""
IMAGES_TURNS = 8
"""Earlier messages of a person whose images a model is shown again: each of them costs tokens in each turn."""
STOPS_MAX = 4
"""Texts before which an answer ends, as the providers' APIs bound them."""
CLIENT_WEIGHT = 1
"""What a client's process gets of each round of a fair queue."""
SERVICE_WEIGHT = 8
"""The same for a service that asks for itself: it acts for many."""
FAIR_UNIT_BYTES = 64 * 1024
"""Bytes of a body that cost one more part of a round."""
BUSY_RETRY_MS = 250
"""When who is told `busy` may ask again (retry_after_ms)."""
UNSENT_MAX_BYTES = 32 * 1024 * 1024
"""Answers of a lane that one principal has not taken yet; beyond, what it asks waits until it has."""
ALL_UNSENT_MAX_BYTES = 128 * 1024 * 1024
"""The same of all together; beyond, whatever somebody asks who has any to take."""
RECONNECT_MIN_MS = 20
"""Pause before the first reconnect; grows, with jitter."""
RECONNECT_MAX_MS = 500
"""Cap of that pause."""
LOCAL_RECONNECT_MIN_MS = 5
"""The same for a local socket, where a try costs little; doubles."""
LOCAL_RECONNECT_MAX_MS = 10
"""Cap of that pause: a restart is noticed that much later at most."""
STICKY_IDLE_S = 3600
"""A routing key without traffic this long is forgotten."""
STICKY_KEYS_MAX = 64 * 1024
"""Routing keys of one service whose worker is known; beyond, the one unused longest is forgotten."""
DEDUPE_WINDOW_MAX_BYTES = 64 * 1024 * 1024
"""Recorded replies kept for duplicates, in bytes."""
TAP_RING = 4096
"""Recent frames kept for --since."""
TAP_RING_MAX_BYTES = 32 * 1024 * 1024
"""The same ring, bounded in bytes."""
HIGH_WATER_MARK = 100_000
"""ZeroMQ high-water mark of what is sent; credit stays far below."""
LEASED_TOOLS_MAX = 256
"""Tools of one executor whose calls go by its lane; those of any other go by the broker."""
RECEIVE_MAX = 256
"""Messages of one connection that a server's socket holds; beyond that, the sender waits."""
STRANGERS_MAX = 2048
"""Connections from elsewhere that have said nothing yet, if the process may open four times as many files; beyond that,
the oldest of them ends. Workers that join at once are so many, and a handshake costs milliseconds."""
CONNECTIONS_PER_CALLER_MAX = 1024
"""Connections of one key that have spoken: by a token's come as many as may join with it."""
MALFORMED_MAX = 100
"""Malformed frames of a connection from elsewhere; at the last of them it is cut off."""
BAN_MS = 10_000
"""A worker's key that was cut off is not heard for so long."""
RECORDS_MAX = 256
"""Distinct denials and dead letters kept for one record interval."""
BATCH_MAX = 64
"""Frames that a server or peer handles per wake-up before timers and others have a turn."""
BATCH_MAX_BYTES = 8 * 1024 * 1024
"""The same in bytes of bodies; the message that reaches it is the last."""
REMOTE_PASS_S = 0.02
"""After so long this machine's processes come again: a worker that joins costs a synced write, and many may at once."""
HANDSHAKE_TIMEOUT_MS = 5000
"""A connection from elsewhere that has not proved its key by then ends."""
REFUSED_KEYS_WINDOW_MS = 60_000
"""A refused key is recorded once per so long."""
OUTPUT_ERRORS_MAX = 5
"""Faults named of an answer that breaks its schema."""
CONTEXT_LINE_MAX_CHARS = 240
"""Of a learned line: one sentence of a prompt."""
SOURCE_EVENTS_MAX = 200
"""Newest events that a signal or artifact names as its source: an answer that holds artifacts stays bounded."""
READ_FILE_MAX_BYTES = 256 * 1024
"""Read of a file for a context, from its beginning: it stands in the record of the turn that it is shown in."""
HITS_MAX = 50
"""Texts of a search's answer, and texts whose scores are compared."""
REASON_MAX_CHARS = 200
"""Of a person's reason for a change of memory, and shown of one for a cancel: a sentence or two."""
POST_HOLD_MS = 5000
"""Milliseconds that a post waits for its service."""
INDEX_INTERVAL_MS = 200
"""Milliseconds by which the ledger's index may trail its record."""
SPOOL_RETRY_MS = 1000
"""Milliseconds between two tries of what was spooled while the ledger was away."""
RESUBMIT_PAUSE_MS = 100
"""Milliseconds before what a ledger that went away had not acknowledged is submitted again."""
CLIENT_OPEN_MAX_BYTES = 32 * 1024 * 1024
"""Bodies of one principal's open requests: four of the largest at once; more are `busy`."""
CLIENTS_OPEN_MAX_BYTES = 128 * 1024 * 1024
"""The same of all together: four such principals; each may have one of 64 KiB beside."""
PROBE_INTERVAL_MS = 40
"""Between two probes of peers with work: a peer that died is found some ten probes before it would be by its beats."""
HEARTBEAT_INTERVAL_MS = 200
"""Between two of ZMTP's own heartbeats: a third of their time-out as shipped."""
HEARTBEAT_TIMEOUT_SHARE = 3 / 4
"""Of bus.peer_timeout_ms: after this silence ZeroMQ gives a connection up, before the broker gives up its peer."""
DEDUPE_WINDOW = 8192
"""Message ids remembered per receiver: twice what may be at work."""
DEDUPE_WINDOW_S = 120.0
"""And for so long, many of a broker's restarts: what a busy receiver holds after minutes it holds after days. Who asks
again later is answered from the record, by the ids of turns and work orders."""
ORDERED_POSTS_MAX = 16
"""Posts that wait behind each other under one routing key; a further one is lost, as any post may be."""
UNBOUND_MAX_BYTES = 32 * 1024 * 1024
"""A connection from elsewhere is heard for so long without a hello: what one principal may have open."""
RECORD_INTERVAL_MS = 500
"""Denials and dead letters are recorded in batches, so that a flood of them is a few entries."""
PAGE_MAX_BYTES = 1024 * 1024
"""Rows of a page, tools of a part of an announcement: a small part of the largest body."""
TOOLS_MAX = 2048
"""Tools of one worker: far more than any model is told of."""
TOOL_MAX_BYTES = 64 * 1024
"""Description and schema of one of them."""
ANNOUNCEMENT_MAX_BYTES = 32 * 1024 * 1024
"""All parts of one worker's announcement: the broker keeps it."""
COUNTERS_MAX = 128
"""Counters of one beat: some ten times what a service has."""
HELLO_IDS_MAX = 16_384
"""Keys, and request ids of either kind, in one hello: more than a receiver remembers."""
REFUSED_KEYS_MAX = 16
"""Refused keys named in records and listings: what a person reads."""
QUEUE_MAX = 10_000
"""Requests queued per service: memory; runs wait before they become orders."""
MAILBOX_MAX = 4096
"""Immediate requests at once per instance: memory, against a burst of any size."""
FRAME_ENTRIES_MAX = 512
"""Entries of one sync of the record, or of one frame: beyond, batching wins nothing more."""
FRAME_BYTES_MAX = 1024 * 1024
"""The same in bytes; an entry that is larger goes alone."""
UNACKNOWLEDGED_MAX = 4096
"""Writes that a client of the ledger keeps until they are acknowledged: memory while it is away."""
URGENT_FRAMES_MAX = 1
"""Frames of urgent writes on their way: what comes meanwhile shares the next sync."""
PAGE_ENTRIES_MAX = 64
"""Entries of a page of the record, whatever was asked for: a reader's turn stays short."""
SEARCH_WORDS_MAX = 32
"""Words of a search, and streams and types that it names: a sentence, not a page."""
RETRY_INTERVAL_MS = 200
"""Between two tries of a request that may be retried: half of a restart."""
