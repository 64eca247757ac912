"""Speed on this machine, as ratios within one run."""
