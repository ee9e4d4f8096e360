"""The broker's rules without any input or output: `core.BrokerCore.step(event, now) -> actions`.

`bus/zeromq/broker_loop.py` drives it with sockets, `bus/sim` with virtual time; nothing in here knows either.

events.py       what goes in (FrameReceived, FrameGarbage, ConnectionLost, Tick) and comes out (Send, Tap)
core.py         BrokerCore: one event in, actions out; the timers, silence and probes
delivery.py     requests, replies, posts, cancels: placing, forwarding, failing, redelivering
membership.py   hello, readiness, credit, leaving; who is lost
enrolment.py    who a hello is from, who may join; refused keys
admission.py    which hello and which frame is allowed, how much it may say (plain functions)
paced.py        at which rate clients' requests come in
operations.py   what the broker answers itself (service `broker`)
records.py      denials and dead letters on their way into the ledger
waiting.py      bounded fair queues; sticky.py: key -> owner
peers.py        peers, services, pending requests: on whose behalf, of whose share
state.py        all of them, and the list of actions of the running step
tap_record.py   what is said about every frame; tap_wire.py: batches, losses
ring.py         recent frames, and answers from them piece by piece
"""
