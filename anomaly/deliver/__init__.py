"""Alert delivery: incidents become alerts in Alertmanager, JSON lines in a file, or calls of a webhook.

The way out, in order: `entries.outbox_entries` says what one change of an incident adds to the outbox (in the tick's
transaction), `drain.drain` sends what waits and renews leases, `sinks` are the receivers, `wire` is Alertmanager's
JSON. Nothing here knows the clock or the store: both are passed in.
"""
