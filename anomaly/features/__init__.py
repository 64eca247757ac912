"""From samples to panels: rings of recent samples, counters as rates, load gates, job membership. No I/O, no clock."""
