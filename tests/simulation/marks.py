"""What short memory does to a run, by kind: every mark of tiers/pressure.py must have been crossed by some run."""

SLOWED, SHEDS, STANDS = "memory slows a unit", "memory makes a unit shed", "memory makes a unit stand"
MERGER_STANDS, BY_ITSELF = "memory makes a merger stand", "a unit that stood goes on by itself"
FROM_OUTSIDE = "a host sees its memory pressed"
DISPATCHER_WAITS, JOINER_WAITS = "a dispatcher waits for its receivers", "a joiner waits for its receivers"
MARKS = (*(DISPATCHER_WAITS, JOINER_WAITS), SLOWED, SHEDS, STANDS, MERGER_STANDS, BY_ITSELF, FROM_OUTSIDE)
