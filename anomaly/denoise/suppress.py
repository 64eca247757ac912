"""Rule 2: what is expected is not a fault."""

from anomaly.denoise.world import BOOT_GRACE, World
from anomaly.records import Dropped, Finding


def suppress_expected(world: World, findings: tuple[Finding, ...]) -> tuple[tuple[Finding, ...], tuple[Dropped, ...]]:
    """Soft findings of nodes in maintenance or freshly booted are set aside. Hard facts pass."""
    kept, dropped = [], []
    for finding in findings:
        node = finding.entity.name if finding.entity.kind == "node" else None
        if node is None or (finding.hard and node not in world.maintenance):
            kept.append(finding)
        elif node in world.maintenance:
            dropped.append(Dropped(finding, "maintenance"))
        elif 0 <= world.now - world.booted.get(node, -BOOT_GRACE) < BOOT_GRACE:
            dropped.append(Dropped(finding, "boot_grace"))
        else:
            kept.append(finding)
    return tuple(kept), tuple(dropped)
